// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ports of rdma-sys as functions that C can call.
// They have the helpers' signatures, and every caller is the differential test.
#![allow(clippy::too_many_arguments)]

use std::error::Error;
use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

// By name: a glob would also bring in the functions of libibverbs and librdmacm.
use rdma_sys::{ibv_ah, ibv_mr, ibv_sge, ibv_wc, rdma_cm_id};

unsafe extern "C" {
    /// Ends the call that the differential test makes, as abort would end a program.
    fn attempt_aborted() -> !;
}

/// Calls a port; a panic is what an assertion that fails is in C.
fn called<T>(port: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(port)) {
        Ok(returned) => returned,
        Err(message) => {
            drop(message);
            // SAFETY: only called by the differential test, and no frame between here
            // and there has anything to drop.
            unsafe { attempt_aborted() }
        }
    }
}

/// The port of the helper of that name.
pub fn find(name: &CStr) -> Result<*const c_void, Box<dyn Error>> {
    let port = match name.to_bytes() {
        b"rdma_reg_msgs" => reg_msgs as *const c_void,
        b"rdma_reg_read" => reg_read as *const c_void,
        b"rdma_reg_write" => reg_write as *const c_void,
        b"rdma_dereg_mr" => dereg_mr as *const c_void,
        b"rdma_post_recvv" => post_recvv as *const c_void,
        b"rdma_post_sendv" => post_sendv as *const c_void,
        b"rdma_post_readv" => post_readv as *const c_void,
        b"rdma_post_writev" => post_writev as *const c_void,
        b"rdma_post_recv" => post_recv as *const c_void,
        b"rdma_post_send" => post_send as *const c_void,
        b"rdma_post_read" => post_read as *const c_void,
        b"rdma_post_write" => post_write as *const c_void,
        b"rdma_post_ud_send" => post_ud_send as *const c_void,
        b"rdma_get_send_comp" => get_send_comp as *const c_void,
        b"rdma_get_recv_comp" => get_recv_comp as *const c_void,
        _ => return Err(format!("no port of {}", name.to_string_lossy()).into()),
    };
    Ok(port)
}

extern "C" fn reg_msgs(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_reg_msgs(id, addr, length) })
}

extern "C" fn reg_read(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_reg_read(id, addr, length) })
}

extern "C" fn reg_write(id: *mut rdma_cm_id, addr: *mut c_void, length: usize) -> *mut ibv_mr {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_reg_write(id, addr, length) })
}

extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_dereg_mr(mr) })
}

extern "C" fn post_recvv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_post_recvv(id, context, sgl, nsge) })
}

extern "C" fn post_sendv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_post_sendv(id, context, sgl, nsge, flags) })
}

extern "C" fn post_readv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe {
        rdma_sys::rdma_post_readv(id, context, sgl, nsge, flags, remote_addr, rkey)
    })
}

extern "C" fn post_writev(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe {
        rdma_sys::rdma_post_writev(id, context, sgl, nsge, flags, remote_addr, rkey)
    })
}

extern "C" fn post_recv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_post_recv(id, context, addr, length, mr) })
}

extern "C" fn post_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_post_send(id, context, addr, length, mr, flags) })
}

extern "C" fn post_read(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe {
        rdma_sys::rdma_post_read(id, context, addr, length, mr, flags, remote_addr, rkey)
    })
}

extern "C" fn post_write(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe {
        rdma_sys::rdma_post_write(id, context, addr, length, mr, flags, remote_addr, rkey)
    })
}

extern "C" fn post_ud_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    ah: *mut ibv_ah,
    remote_qpn: u32,
) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe {
        rdma_sys::rdma_post_ud_send(id, context, addr, length, mr, flags, ah, remote_qpn)
    })
}

extern "C" fn get_send_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_get_send_comp(id, wc) })
}

extern "C" fn get_recv_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the pointers are the differential test's, which survives a crash.
    called(|| unsafe { rdma_sys::rdma_get_recv_comp(id, wc) })
}
