// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting of one work request.
//!
//! The path of a post that succeeds is what a program pays for each request: checks,
//! a work request on the stack, one call of the provider.
//!
//! # Safety
//!
//! The functions named like a helper take its arguments and have its safety section in
//! [`crate::ffi`].
// The arguments are the helpers'. The rest of the library is optimised for size, this for
// speed.
#![allow(clippy::too_many_arguments, clippy::inline_always)]

use core::ffi::{c_int, c_uint, c_void};
use core::mem::{self, MaybeUninit};
use core::ptr;

use rdma_verbs_bindings::{
    IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_SEND, RDMA_UDP_QKEY, ibv_ah, ibv_mr, ibv_recv_wr,
    ibv_send_wr, ibv_sge, ibv_wr_opcode, rdma_cm_id,
};

use crate::errno::{Failure, Outside, accepted, not_null};
use crate::logger::Name;

/// Posts one receive, to the shared receive queue of `id` where it has one.
///
/// # Safety
/// As in the module's.
#[inline(always)]
pub unsafe fn recvv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    let mut request = ibv_recv_wr {
        wr_id: context as u64,
        next: ptr::null_mut(),
        sg_list: sgl,
        num_sge: nsge,
    };
    let mut bad = MaybeUninit::uninit();
    // SAFETY: as the caller promises; the request is valid.
    unsafe { submit_recv(id, &raw mut request, bad.as_mut_ptr()) }
}

/// Hands a list of receives to the shared receive queue of `id` where it has one, else
/// to its queue pair. Where one is refused, the provider stores its address.
///
/// # Safety
/// `id` points to an `rdma_cm_id`; the requests, their elements and `bad` are valid.
#[inline(always)]
pub unsafe fn submit_recv(
    id: *mut rdma_cm_id,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> Result<c_int, Failure> {
    // SAFETY: a valid id has a valid queue or none, and a queue's context is valid.
    // Providers copy the requests.
    unsafe {
        let srq = (*id).srq;
        if !srq.is_null() {
            let Some(post) = (*(*srq).context).ops.post_srq_recv else {
                return Err(Failure::NoOperation(Name::new(c"post_srq_recv")));
            };
            return accepted(c"post_srq_recv", post(srq, first, bad));
        }
        let qp = not_null((*id).qp, c"id->qp (and id->srq)")?;
        let Some(post) = (*(*qp).context).ops.post_recv else {
            return Err(Failure::NoOperation(Name::new(c"post_recv")));
        };
        accepted(c"post_recv", post(qp, first, bad))
    }
}

/// Posts one receive into a buffer of a memory region. `outside` is for the details of a
/// buffer that is not inside.
///
/// # Safety
/// As in the module's.
#[inline(always)]
pub unsafe fn recv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    outside: &mut MaybeUninit<Outside>,
) -> Result<c_int, Failure> {
    // SAFETY: `mr` is valid once its element is there; the element outlives the call.
    unsafe {
        let mut element = recv_element(addr, length, mr, outside)?;
        recvv(id, context, &raw mut element, 1)
    }
}

/// The scatter/gather element of a receive, whose buffer must be inside the region.
///
/// # Safety
/// `mr` is NULL or points to a memory region.
#[inline(always)]
pub unsafe fn recv_element(
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    outside: &mut MaybeUninit<Outside>,
) -> Result<ibv_sge, Failure> {
    // SAFETY: `mr` is valid once `lkey` has returned.
    unsafe {
        let element = element(addr, length, lkey(mr)?)?;
        inside(mr, addr, length, outside)?;
        Ok(element)
    }
}

/// Posts a send of some buffers.
///
/// # Safety
/// As in the module's.
#[inline(always)]
pub unsafe fn sendv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
) -> Result<c_int, Failure> {
    let mut request = request(IBV_WR_SEND, context, sgl, nsge, flags);
    // SAFETY: as the caller promises.
    unsafe { post(id, &raw mut request) }
}

/// Posts an RDMA read of some buffers.
///
/// # Safety
/// As in the module's.
#[inline(always)]
pub unsafe fn readv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> Result<c_int, Failure> {
    let mut request = request(IBV_WR_RDMA_READ, context, sgl, nsge, flags);
    request.wr.rdma.remote_addr = remote_addr;
    request.wr.rdma.rkey = rkey;
    // SAFETY: as the caller promises.
    unsafe { post(id, &raw mut request) }
}

/// Posts an RDMA write of some buffers.
///
/// # Safety
/// As in the module's.
#[inline(always)]
pub unsafe fn writev(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> Result<c_int, Failure> {
    let mut request = request(IBV_WR_RDMA_WRITE, context, sgl, nsge, flags);
    request.wr.rdma.remote_addr = remote_addr;
    request.wr.rdma.rkey = rkey;
    // SAFETY: as the caller promises.
    unsafe { post(id, &raw mut request) }
}

/// Posts a send of one buffer.
///
/// # Safety
/// As in the module's.
pub unsafe fn send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, length, lkey_or_none(mr))?;
        sendv(id, context, &raw mut element, 1, flags)
    }
}

/// Posts an RDMA read of one buffer.
///
/// # Safety
/// As in the module's.
pub unsafe fn read(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, length, lkey(mr)?)?;
        readv(id, context, &raw mut element, 1, flags, remote_addr, rkey)
    }
}

/// Posts an RDMA write of one buffer.
///
/// # Safety
/// As in the module's.
pub unsafe fn write(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, length, lkey_or_none(mr))?;
        writev(id, context, &raw mut element, 1, flags, remote_addr, rkey)
    }
}

/// Posts one datagram.
///
/// # Safety
/// As in the module's.
pub unsafe fn ud_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    ah: *mut ibv_ah,
    remote_qpn: u32,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the element outlives the call.
    unsafe {
        let mut element = element(addr, length, lkey_or_none(mr))?;
        let mut request = request(IBV_WR_SEND, context, &raw mut element, 1, flags);
        request.wr.ud.ah = ah;
        request.wr.ud.remote_qpn = remote_qpn;
        request.wr.ud.remote_qkey = RDMA_UDP_QKEY;
        post(id, &raw mut request)
    }
}

/// A send-side work request; all that is not named is 0.
#[allow(clippy::cast_sign_loss)] // The flags are passed on as they are.
pub fn request(
    opcode: ibv_wr_opcode,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
) -> ibv_send_wr {
    // In the order of the fields, so that what is named is not zeroed first.
    const UNNAMED: usize = mem::offset_of!(ibv_send_wr, wr);
    let mut request = MaybeUninit::<ibv_send_wr>::uninit();
    let to = request.as_mut_ptr();
    // SAFETY: all of the request is written, its integers and pointers, for which zeros
    // are valid.
    unsafe {
        (&raw mut (*to).wr_id).write(context as u64);
        (&raw mut (*to).next).write(ptr::null_mut());
        (&raw mut (*to).sg_list).write(sgl);
        (&raw mut (*to).num_sge).write(nsge);
        (&raw mut (*to).opcode).write(opcode);
        (&raw mut (*to).send_flags).write(flags as c_uint);
        (&raw mut (*to).__bindgen_anon_1.imm_data).write(0);
        to.byte_add(UNNAMED)
            .cast::<u8>()
            .write_bytes(0, mem::size_of::<ibv_send_wr>().wrapping_sub(UNNAMED));
        request.assume_init()
    }
}

/// Posts one send-side request.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; the request and its elements are valid.
#[inline(always)]
pub unsafe fn post(id: *mut rdma_cm_id, request: *mut ibv_send_wr) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    let mut bad = MaybeUninit::uninit();
    // SAFETY: `id` is not NULL, so it is valid; the rest is as the caller promises.
    unsafe { submit(id, request, bad.as_mut_ptr()) }
}

/// Hands a list of requests to the queue pair of `id`. Where one is refused, the
/// provider stores its address.
///
/// # Safety
/// `id` points to an `rdma_cm_id`; the requests, their elements and `bad` are valid.
#[inline(always)]
pub unsafe fn submit(
    id: *mut rdma_cm_id,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> Result<c_int, Failure> {
    // SAFETY: a valid id has a valid queue pair or none, whose context is valid.
    // Providers copy the requests.
    unsafe {
        let qp = not_null((*id).qp, c"id->qp")?;
        let Some(post) = (*(*qp).context).ops.post_send else {
            return Err(Failure::NoOperation(Name::new(c"post_send")));
        };
        accepted(c"post_send", post(qp, first, bad))
    }
}

/// The one scatter/gather element of a one-buffer helper.
#[inline(always)]
pub fn element(addr: *mut c_void, length: usize, lkey: u32) -> Result<ibv_sge, Failure> {
    let Ok(length_32) = u32::try_from(length) else {
        return Err(Failure::TooLong(length));
    };
    Ok(ibv_sge {
        addr: addr as u64,
        length: length_32,
        lkey,
    })
}

/// The local key of a region that the request cannot do without.
///
/// # Safety
/// `mr` is NULL or points to a memory region.
#[inline(always)]
pub unsafe fn lkey(mr: *mut ibv_mr) -> Result<u32, Failure> {
    // SAFETY: `mr` is not NULL, so it is valid.
    Ok(unsafe { (*not_null(mr, c"mr")?).lkey })
}

/// The local key of a region, or 0 where there is none: inline data needs no region.
///
/// # Safety
/// As for [`lkey`].
#[inline(always)]
pub unsafe fn lkey_or_none(mr: *mut ibv_mr) -> u32 {
    if mr.is_null() {
        return 0;
    }
    // SAFETY: `mr` is not NULL, so it is valid.
    unsafe { (*mr).lkey }
}

/// Fails if the buffer is not inside the memory region.
///
/// # Safety
/// `mr` points to a memory region.
#[inline(always)]
unsafe fn inside(
    mr: *mut ibv_mr,
    addr: *mut c_void,
    length: usize,
    outside: &mut MaybeUninit<Outside>,
) -> Result<(), Failure> {
    // SAFETY: `mr` is valid.
    let (region_addr, region_length) = unsafe { ((*mr).addr, (*mr).length) };
    // In offsets from the start of the region, nothing can overflow.
    let fits = addr
        .addr()
        .checked_sub(region_addr.addr())
        .and_then(|offset| region_length.checked_sub(offset))
        .is_some_and(|room| length <= room);
    if !fits {
        return Err(Failure::OutsideRegion(outside.write(Outside {
            addr,
            length,
            region_addr,
            region_length,
        })));
    }
    Ok(())
}
