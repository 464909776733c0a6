// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that the family has no helper for: immediate data, and atomics.
//!
//! # Safety
//!
//! The functions take the arguments of the helpers of the same name, and have their
//! safety section in [`super::ffi`].
// The arguments are the helpers'.
#![allow(clippy::too_many_arguments)]

use core::ffi::{CStr, c_int, c_void};

use rdma_verbs_bindings::{
    __be32, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM,
    IBV_WR_SEND_WITH_IMM, ibv_mr, ibv_wr_opcode, rdma_cm_id,
};

use crate::errno::Failure;
use crate::logger::Name;
use crate::post::{element, lkey, lkey_or_none, post, request};

/// Posts a send of one buffer and immediate data.
///
/// # Safety
/// As in the module's.
pub unsafe fn send_imm(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    imm_data: __be32,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, length, lkey_or_none(mr))?;
        let mut request = request(IBV_WR_SEND_WITH_IMM, context, &raw mut element, 1, flags);
        request.__bindgen_anon_1.imm_data = imm_data;
        post(id, &raw mut request)
    }
}

/// Posts an RDMA write of one buffer, with immediate data that takes a receive there.
///
/// # Safety
/// As in the module's.
pub unsafe fn write_imm(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
    imm_data: __be32,
) -> Result<c_int, Failure> {
    const OPCODE: ibv_wr_opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, length, lkey_or_none(mr))?;
        let mut request = request(OPCODE, context, &raw mut element, 1, flags);
        request.__bindgen_anon_1.imm_data = imm_data;
        request.wr.rdma.remote_addr = remote_addr;
        request.wr.rdma.rkey = rkey;
        post(id, &raw mut request)
    }
}

/// What an atomic operation does to the 8 bytes at the peer.
#[derive(Clone, Copy)]
pub enum Atomic {
    CompareAndSwap { compare: u64, swap: u64 },
    FetchAndAdd { add: u64 },
}

/// Posts an atomic operation; the value from before it comes to `addr`.
///
/// # Safety
/// As in the module's.
pub unsafe fn atomic(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
    operation: Atomic,
) -> Result<c_int, Failure> {
    const LENGTH: usize = size_of::<u64>();
    aligned(c"addr", addr as u64)?;
    aligned(c"remote_addr", remote_addr)?;
    let (opcode, compare_add, swap) = match operation {
        Atomic::CompareAndSwap { compare, swap } => (IBV_WR_ATOMIC_CMP_AND_SWP, compare, swap),
        Atomic::FetchAndAdd { add } => (IBV_WR_ATOMIC_FETCH_AND_ADD, add, 0),
    };
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, LENGTH, lkey(mr)?)?;
        let mut request = request(opcode, context, &raw mut element, 1, flags);
        request.wr.atomic.remote_addr = remote_addr;
        request.wr.atomic.compare_add = compare_add;
        request.wr.atomic.swap = swap;
        request.wr.atomic.rkey = rkey;
        post(id, &raw mut request)
    }
}

fn aligned(name: &'static CStr, addr: u64) -> Result<(), Failure> {
    if addr.trailing_zeros() < size_of::<u64>().trailing_zeros() {
        return Err(Failure::Misaligned(Name::new(name)));
    }
    Ok(())
}
