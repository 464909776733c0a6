// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registration of memory regions.
// The access flags are small; C passes them as int. The rest of the library is optimised
// for size, this for speed.
#![allow(clippy::cast_possible_wrap, clippy::inline_always)]

use core::ffi::{c_int, c_uint, c_void};

use rdma_verbs_bindings::{
    IB_UVERBS_ACCESS_OPTIONAL_RANGE, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, ibv_dereg_mr, ibv_mr, ibv_reg_mr, ibv_reg_mr_iova2, rdma_cm_id,
};

use crate::errno::{Failure, accepted, not_null};
use crate::logger::Name;

/// For sends and receives.
pub const MESSAGES: c_int = IBV_ACCESS_LOCAL_WRITE as c_int;
/// For RDMA reads by the peer.
pub const REMOTE_READ: c_int = MESSAGES | IBV_ACCESS_REMOTE_READ as c_int;
/// For RDMA writes by the peer.
pub const REMOTE_WRITE: c_int = MESSAGES | IBV_ACCESS_REMOTE_WRITE as c_int;

/// Registers a buffer in the protection domain of `id`.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`.
#[inline(always)]
pub unsafe fn register(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> Result<*mut ibv_mr, Failure> {
    not_null(id, c"id")?;
    // SAFETY: `id` is not NULL, so it is valid.
    let pd = not_null(unsafe { (*id).pd }, c"id->pd")?;
    // SAFETY: the protection domain of a valid id is valid; the provider judges the buffer.
    let mr = unsafe { ibv_reg_mr(pd, addr, length, access) };
    if mr.is_null() {
        return Err(Failure::failed(Name::new(c"ibv_reg_mr")));
    }
    Ok(mr)
}

/// Registers a buffer with any access.
///
/// Of the flags some are only wishes, which a kernel need not know. Only the newer function
/// takes those, as in the macro `ibv_reg_mr` of the C header.
///
/// # Safety
/// As for [`register`].
#[allow(clippy::cast_sign_loss)] // A set of flags.
pub unsafe fn register_with(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> Result<*mut ibv_mr, Failure> {
    let flags = access as c_uint;
    if flags & IB_UVERBS_ACCESS_OPTIONAL_RANGE == 0 {
        // SAFETY: as the caller promises.
        return unsafe { register(id, addr, length, access) };
    }
    not_null(id, c"id")?;
    // SAFETY: as in `register`. The peer knows the buffer by its address.
    let mr = unsafe {
        let pd = not_null((*id).pd, c"id->pd")?;
        ibv_reg_mr_iova2(pd, addr, length, addr as u64, flags)
    };
    if mr.is_null() {
        return Err(Failure::failed(Name::new(c"ibv_reg_mr_iova2")));
    }
    Ok(mr)
}

/// Deregisters a memory region.
///
/// # Safety
/// `mr` is NULL or points to a memory region.
pub unsafe fn deregister(mr: *mut ibv_mr) -> Result<c_int, Failure> {
    not_null(mr, c"mr")?;
    // SAFETY: `mr` is not NULL, so it is valid.
    accepted(c"dereg_mr", unsafe { ibv_dereg_mr(mr) })
}
