// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions that are hooked: name, version, type. This list is the only one: the
//! callers of the originals (`original`) and what is exported and found by `dlsym`
//! (`hooks::table`) are made from it.

use std::ffi::c_void;

use libc::c_int;

/// `struct ibv_mr_init_attr`, newer than the headers that the bindings are made from.
#[repr(C)]
pub struct RegionAttributes {
    pub length: usize,
    pub access: c_int,
    pub mask: u64,
    pub iova: u64,
    pub addr: *mut c_void,
    pub fd: c_int,
    pub fd_offset: u64,
}

/// The types that the list names.
pub mod types {
    pub use std::ffi::{c_int, c_uint};

    pub use rdma_verbs_bindings::{
        ibv_ah, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex,
        ibv_cq_init_attr_ex, ibv_device, ibv_mr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr,
        ibv_qp_init_attr_ex, ibv_srq, ibv_srq_init_attr, rdma_addrinfo, rdma_cm_event, rdma_cm_id,
        rdma_conn_param, rdma_event_channel, sockaddr,
    };

    pub use super::RegionAttributes;
}

/// Hands the list to a macro: functions by the version that a reference to them names, as it
/// stands behind the name of a symbol.
macro_rules! functions {
    ($each:ident) => {
        $each! {
            "@IBVERBS_1.0" {
                fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
                fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
            }
            "@IBVERBS_1.1" {
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
            "@IBVERBS_1.7" {
                fn ibv_reg_mr_iova(
                    pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_int,
                ) -> *mut ibv_mr;
            }
            "@IBVERBS_1.8" {
                fn ibv_reg_mr_iova2(
                    pd: *mut ibv_pd, addr: *mut c_void, length: usize, iova: u64, access: c_uint,
                ) -> *mut ibv_mr;
            }
            "@IBVERBS_1.10" {
                fn ibv_import_device(fd: c_int) -> *mut ibv_context;
                fn ibv_import_pd(context: *mut ibv_context, handle: u32) -> *mut ibv_pd;
                fn ibv_import_mr(pd: *mut ibv_pd, handle: u32) -> *mut ibv_mr;
                fn ibv_unimport_mr(mr: *mut ibv_mr);
            }
            "@IBVERBS_1.12" {
                fn ibv_reg_dmabuf_mr(
                    pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int,
                ) -> *mut ibv_mr;
            }
            "@IBVERBS_1.15" {
                fn ibv_reg_mr_ex(pd: *mut ibv_pd, attributes: *mut RegionAttributes) -> *mut ibv_mr;
            }
            // Private to rdma-core, with another version in each release: providers' own
            // functions that open a device come to it.
            "" {
                fn verbs_open_device(device: *mut ibv_device, private: *mut c_void) -> *mut ibv_context;
            }
            "@RDMACM_1.0" {
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
            "@RDMACM_1.2" {
                fn rdma_establish(id: *mut rdma_cm_id) -> c_int;
            }
            "@MLX5_1.1" {
                fn mlx5dv_create_cq(
                    context: *mut ibv_context, attributes: *mut ibv_cq_init_attr_ex, more: *mut c_void,
                ) -> *mut ibv_cq_ex;
            }
            "@MLX5_1.2" {
                fn mlx5dv_init_obj(object: *mut c_void, kind: u64) -> c_int;
            }
            "@MLX5_1.3" {
                fn mlx5dv_create_qp(
                    context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex, more: *mut c_void,
                ) -> *mut ibv_qp;
            }
            "@MLX5_1.7" {
                fn mlx5dv_devx_obj_create(
                    context: *mut ibv_context, input: *const c_void, input_length: usize,
                    output: *mut c_void, output_length: usize,
                ) -> *mut c_void;
            }
            "@MLX5_1.10" {
                fn mlx5dv_create_mkey(attributes: *mut c_void) -> *mut c_void;
            }
            "@MLX5_1.25" {
                fn mlx5dv_reg_dmabuf_mr(
                    pd: *mut ibv_pd, offset: u64, length: usize, iova: u64, fd: c_int, access: c_int,
                    more: c_int,
                ) -> *mut ibv_mr;
            }
            "@MLX4_1.0" {
                fn mlx4dv_init_obj(object: *mut c_void, kind: u64) -> c_int;
            }
            "@EFA_1.0" {
                fn efadv_create_driver_qp(
                    pd: *mut ibv_pd, attributes: *mut ibv_qp_init_attr, kind: u32,
                ) -> *mut ibv_qp;
            }
            "@EFA_1.1" {
                fn efadv_create_qp_ex(
                    context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex, more: *mut c_void,
                    length: u32,
                ) -> *mut ibv_qp;
            }
            "@EFA_1.2" {
                fn efadv_create_cq(
                    context: *mut ibv_context, attributes: *mut ibv_cq_init_attr_ex, more: *mut c_void,
                    length: u32,
                ) -> *mut ibv_cq_ex;
            }
            "@HNS_1.0" {
                fn hnsdv_create_qp(
                    context: *mut ibv_context, attributes: *mut ibv_qp_init_attr_ex, more: *mut c_void,
                ) -> *mut ibv_qp;
            }
        }
    };
}
pub(crate) use functions;
