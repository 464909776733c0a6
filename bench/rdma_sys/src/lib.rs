// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of the helpers in rdma-sys, under the helpers' names, for C.
#![allow(clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

// By name: a glob would also bring in the functions of libibverbs and librdmacm.
use rdma_sys::{ibv_ah, ibv_mr, ibv_sge, ibv_wc, rdma_cm_id};

macro_rules! export {
    ($($name:ident($($argument:ident: $type:ty),*) -> $returns:ty;)*) => {$(
        /// The port of that name.
        ///
        /// # Safety
        /// As in rdma-sys: the pointers are valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $returns {
            // SAFETY: as the caller promises.
            unsafe { rdma_sys::$name($($argument),*) }
        }
    )*};
}

export! {
    rdma_reg_msgs(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr;
    rdma_reg_read(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr;
    rdma_reg_write(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr;
    rdma_dereg_mr(mr: *mut ibv_mr) -> c_int;
    rdma_post_recvv(id: *mut rdma_cm_id, context: *mut c_void, sgl: *mut ibv_sge,
        nsge: c_int) -> c_int;
    rdma_post_sendv(id: *mut rdma_cm_id, context: *mut c_void, sgl: *mut ibv_sge,
        nsge: c_int, flags: c_int) -> c_int;
    rdma_post_readv(id: *mut rdma_cm_id, context: *mut c_void, sgl: *mut ibv_sge,
        nsge: c_int, flags: c_int, remote_addr: u64, rkey: u32) -> c_int;
    rdma_post_writev(id: *mut rdma_cm_id, context: *mut c_void, sgl: *mut ibv_sge,
        nsge: c_int, flags: c_int, remote_addr: u64, rkey: u32) -> c_int;
    rdma_post_recv(id: *mut rdma_cm_id, context: *mut c_void, addr: *mut c_void,
        length: usize, mr: *mut ibv_mr) -> c_int;
    rdma_post_send(id: *mut rdma_cm_id, context: *mut c_void, addr: *mut c_void,
        length: usize, mr: *mut ibv_mr, flags: c_int) -> c_int;
    rdma_post_read(id: *mut rdma_cm_id, context: *mut c_void, addr: *mut c_void,
        length: usize, mr: *mut ibv_mr, flags: c_int, remote_addr: u64, rkey: u32) -> c_int;
    rdma_post_write(id: *mut rdma_cm_id, context: *mut c_void, addr: *mut c_void,
        length: usize, mr: *mut ibv_mr, flags: c_int, remote_addr: u64, rkey: u32) -> c_int;
    rdma_post_ud_send(id: *mut rdma_cm_id, context: *mut c_void, addr: *mut c_void,
        length: usize, mr: *mut ibv_mr, flags: c_int, ah: *mut ibv_ah,
        remote_qpn: u32) -> c_int;
    rdma_get_send_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int;
    rdma_get_recv_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int;
}
