// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that are hooked: name, version, type. What is exported stands in
//! `preload.map`, too; a test compares the two.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;

use rdma_verbs_bindings::{
    ibv_ah, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex,
    ibv_device, ibv_mr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_srq, ibv_srq_init_attr, rdma_addrinfo, rdma_cm_event, rdma_cm_id, rdma_conn_param,
    rdma_event_channel, sockaddr,
};

use crate::dynamic::Original;
use crate::errno::Errno;
use crate::hooks::{cm, vendor, verbs};

/// What a hook answers where the original is missing; it cannot be, as somebody has
/// linked with it.
trait Missing {
    fn missing() -> Self;
}

impl Missing for () {
    fn missing() {}
}

impl Missing for c_int {
    fn missing() -> Self {
        Errno(libc::ENOSYS).restore();
        -1
    }
}

impl<T> Missing for *mut T {
    fn missing() -> Self {
        Errno(libc::ENOSYS).restore();
        ptr::null_mut()
    }
}

/// The address of a hook.
pub struct Hook(*const ());

// SAFETY: the address of a function.
unsafe impl Sync for Hook {}

impl Hook {
    pub fn address(&self) -> *mut c_void {
        self.0.cast_mut().cast()
    }
}

/// The prefixes of all names below.
pub fn has_prefix(name: &[u8]) -> bool {
    [
        &b"ibv_"[..],
        b"rdma_",
        b"verbs_",
        b"mlx5dv_",
        b"mlx4dv_",
        b"efadv_",
        b"hnsdv_",
    ]
    .iter()
    .any(|prefix| name.starts_with(prefix))
}

macro_rules! originals {
    ($($module:ident $version:literal {$(
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*})*) => {
        mod statics {
            #![allow(non_upper_case_globals)]
            use super::Original;
            use std::ffi::CStr;

            /// A name as a C string.
            const fn c(text: &'static str) -> &'static CStr {
                match CStr::from_bytes_with_nul(text.as_bytes()) {
                    Ok(text) => text,
                    Err(_) => c"",
                }
            }
            $($(
                pub static $name: Original =
                    Original::new(c(concat!(stringify!($name), "\0")), c(concat!($version, "\0")));
            )*)*
        }

        /// All of them, with their hooks.
        pub static TABLE: &[(&Original, Hook)] = &[$($(
            (&statics::$name, Hook($module::$name as *const ())),
        )*)*];

        $($(
            pub unsafe fn $name($($argument: $type),*) $(-> $result)? {
                let address = statics::$name.address();
                if address.is_null() {
                    return Missing::missing();
                }
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                // SAFETY: the function of that name and version has this type.
                let function: Function = unsafe { std::mem::transmute(address) };
                function($($argument),*)
            }
        )*)*
    };
}

originals! {
    verbs "IBVERBS_1.0" {
        fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
        fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    }
    verbs "IBVERBS_1.1" {
        fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
        fn ibv_close_device(context: *mut ibv_context) -> c_int;
        fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
        fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
        fn ibv_reg_mr(pd: *mut ibv_pd, addr: *mut c_void, length: usize, access: c_int) -> *mut ibv_mr;
        fn ibv_rereg_mr(
            mr: *mut ibv_mr, flags: c_int, pd: *mut ibv_pd, addr: *mut c_void, length: usize,
            access: c_int,
        ) -> c_int;
        fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
        fn ibv_create_cq(
            context: *mut ibv_context, cqe: c_int, cq_context: *mut c_void,
            channel: *mut ibv_comp_channel, vector: c_int,
        ) -> *mut ibv_cq;
        fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int;
        fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
        fn ibv_get_cq_event(
            channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq, context: *mut *mut c_void,
        ) -> c_int;
        fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint);
        fn ibv_create_srq(pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq;
        fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int;
        fn ibv_create_qp(pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp;
        fn ibv_modify_qp(qp: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int;
        fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
        fn ibv_create_ah(pd: *mut ibv_pd, attributes: *mut c_void) -> *mut ibv_ah;
        fn ibv_create_ah_from_wc(
            pd: *mut ibv_pd, wc: *mut c_void, grh: *mut c_void, port: u8,
        ) -> *mut ibv_ah;
        fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int;
        fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    }
    verbs "IBVERBS_1.7" {
        fn ibv_reg_mr_iova(
            pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int,
        ) -> *mut ibv_mr;
    }
    verbs "IBVERBS_1.8" {
        fn ibv_reg_mr_iova2(
            pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint,
        ) -> *mut ibv_mr;
    }
    verbs "IBVERBS_1.10" {
        fn ibv_import_device(fd: c_int) -> *mut ibv_context;
        fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd;
        fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr;
        fn ibv_unimport_mr(mr: *mut ibv_mr);
    }
    verbs "IBVERBS_1.12" {
        fn ibv_reg_dmabuf_mr(
            pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int,
        ) -> *mut ibv_mr;
    }
    verbs "IBVERBS_1.15" {
        fn ibv_reg_mr_ex(pd: *mut ibv_pd, attributes: *mut verbs::RegionAttributes) -> *mut ibv_mr;
    }
    // Private to rdma-core, with another version in each release: providers' own
    // functions that open a device come to it.
    verbs "" {
        fn verbs_open_device(device: *mut ibv_device, private: *mut c_void) -> *mut ibv_context;
    }
    cm "RDMACM_1.0" {
        fn rdma_create_id(
            channel: *mut rdma_event_channel, id: *mut *mut rdma_cm_id, context: *mut c_void,
            space: c_int,
        ) -> c_int;
        fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int;
        fn rdma_create_ep(
            id: *mut *mut rdma_cm_id, info: *mut rdma_addrinfo, pd: *mut ibv_pd,
            attributes: *mut ibv_qp_init_attr,
        ) -> c_int;
        fn rdma_destroy_ep(id: *mut rdma_cm_id);
        fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int;
        fn rdma_resolve_addr(
            id: *mut rdma_cm_id, from: *mut sockaddr, to: *mut sockaddr, timeout: c_int,
        ) -> c_int;
        fn rdma_resolve_route(id: *mut rdma_cm_id, timeout: c_int) -> c_int;
        fn rdma_listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int;
        fn rdma_get_request(listen: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int;
        fn rdma_connect(id: *mut rdma_cm_id, parameters: *mut rdma_conn_param) -> c_int;
        fn rdma_accept(id: *mut rdma_cm_id, parameters: *mut rdma_conn_param) -> c_int;
        fn rdma_reject(id: *mut rdma_cm_id, data: *const c_void, length: u8) -> c_int;
        fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int;
        fn rdma_create_qp(
            id: *mut rdma_cm_id, pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr,
        ) -> c_int;
        fn rdma_create_qp_ex(id: *mut rdma_cm_id, attributes: *mut ibv_qp_init_attr_ex) -> c_int;
        fn rdma_destroy_qp(id: *mut rdma_cm_id);
        fn rdma_create_srq(
            id: *mut rdma_cm_id, pd: *mut ibv_pd, attributes: *mut ibv_srq_init_attr,
        ) -> c_int;
        fn rdma_destroy_srq(id: *mut rdma_cm_id);
        fn rdma_get_cm_event(
            channel: *mut rdma_event_channel, event: *mut *mut rdma_cm_event,
        ) -> c_int;
        fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int;
        fn rdma_join_multicast(
            id: *mut rdma_cm_id, address: *mut sockaddr, context: *mut c_void,
        ) -> c_int;
        fn rdma_leave_multicast(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int;
        fn rdma_migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int;
    }
    cm "RDMACM_1.2" {
        fn rdma_establish(id: *mut rdma_cm_id) -> c_int;
    }
    // The versions of the providers' libraries are the default ones.
    vendor "" {
        fn mlx5dv_init_obj(object: *mut c_void, kind: u64) -> c_int;
        fn mlx4dv_init_obj(object: *mut c_void, kind: u64) -> c_int;
        fn mlx5dv_devx_obj_create(
            context: *mut ibv_context, input: *const c_void, input_length: usize,
            output: *mut c_void, output_length: usize,
        ) -> *mut c_void;
        fn mlx5dv_create_qp(
            context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex, more: *mut c_void,
        ) -> *mut ibv_qp;
        fn mlx5dv_create_cq(
            context: *mut ibv_context, attributes: *mut ibv_cq_init_attr_ex, more: *mut c_void,
        ) -> *mut ibv_cq_ex;
        fn mlx5dv_reg_dmabuf_mr(
            pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int,
            more: c_int,
        ) -> *mut ibv_mr;
        fn mlx5dv_create_mkey(attributes: *mut c_void) -> *mut c_void;
        fn hnsdv_create_qp(
            context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex, more: *mut c_void,
        ) -> *mut ibv_qp;
        fn efadv_create_cq(
            context: *mut ibv_context, attributes: *mut ibv_cq_init_attr_ex, more: *mut c_void,
            length: u32,
        ) -> *mut ibv_cq_ex;
        fn efadv_create_qp_ex(
            context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex, more: *mut c_void,
            length: u32,
        ) -> *mut ibv_qp;
        fn efadv_create_driver_qp(
            pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr, kind: u32,
        ) -> *mut ibv_qp;
    }
}

// Looks a function up that is called, not hooked.
static TO_EX: Original = Original::new(c"ibv_qp_to_qp_ex", c"IBVERBS_1.6");

/// The extended object of a queue pair, or NULL where it has none.
pub unsafe fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut rdma_verbs_bindings::ibv_qp_ex {
    let address = TO_EX.address();
    if address.is_null() {
        return ptr::null_mut();
    }
    type Function = unsafe extern "C" fn(*mut ibv_qp) -> *mut rdma_verbs_bindings::ibv_qp_ex;
    // SAFETY: the function of that name and version has this type.
    let function: Function = unsafe { std::mem::transmute(address) };
    function(qp)
}

#[cfg(test)]
mod tests {
    use super::{TABLE, has_prefix};

    #[test]
    fn what_is_exported_is_what_is_hooked() {
        let mut exported: Vec<&str> = include_str!("../preload.map")
            .lines()
            .filter_map(|line| line.trim().strip_suffix(';'))
            .filter(|name| !name.contains(['*', '}']))
            .collect();
        let of_the_c_library = [
            "dlsym",
            "dlvsym",
            "_exit",
            "_Exit",
            "close",
            "close_range",
            "closefrom",
            "dup2",
            "dup3",
        ];
        exported.retain(|name| !of_the_c_library.contains(name));
        let mut hooked: Vec<&str> = TABLE.iter().map(|(original, _)| original.name()).collect();
        exported.sort_unstable();
        hooked.sort_unstable();
        assert_eq!(exported, hooked);
        assert!(hooked.iter().all(|name| has_prefix(name.as_bytes())));
    }
}
