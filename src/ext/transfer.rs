// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole RDMA reads and writes: posted, waited for, and judged.

use core::ffi::{c_int, c_void};
use core::mem;

use libc::ENOMEM;
use rdma_verbs_bindings::{
    IBV_WC_SUCCESS, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, ibv_mr, ibv_qp, ibv_send_wr, ibv_sge,
    ibv_wc, rdma_cm_id,
};

use super::deadline::Deadline;
use super::limits::max_message;
use super::own_request::{is_own, new_wr_id, own_request, post_one};
use super::waiting::Queue;
use crate::completion::Side;
use crate::errno::{Failure, not_null, undisturbed};
use crate::post::{lkey, lkey_or_none};

#[derive(Clone, Copy)]
pub enum Direction {
    Read,
    Write,
}

/// Memory here and at the peer.
pub struct Buffers {
    pub addr: *mut c_void,
    pub length: usize,
    pub mr: *mut ibv_mr,
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Reads or writes, and waits until it is done.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`, `mr` to a memory region; the buffer stays
/// until no request for it is in flight.
pub unsafe fn transfer(
    direction: Direction,
    id: *mut rdma_cm_id,
    buffers: &Buffers,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    unsafe {
        let queue = Queue::of(Side::Send, id)?;
        queue.channel()?;
        let qp = not_null((*id).qp, c"id->qp")?;
        let (opcode, lkey) = match direction {
            Direction::Read => (IBV_WR_RDMA_READ, lkey(buffers.mr)?),
            Direction::Write => (IBV_WR_RDMA_WRITE, lkey_or_none(buffers.mr)),
        };
        let mut request = own_request(opcode, new_wr_id());
        request.wr.rdma.remote_addr = buffers.remote_addr;
        request.wr.rdma.rkey = buffers.rkey;
        let element = ibv_sge {
            addr: buffers.addr as u64,
            length: longest_piece(id, qp, buffers.length)?,
            lkey,
        };
        let mut transfer = Transfer {
            id,
            qp,
            queue,
            request,
            element,
            rest: buffers.length,
        };
        undisturbed(|| transfer.run(&mut Deadline::after(timeout_ms)))
    }
}

/// The length of the pieces, of which only the last may be shorter: what the port can
/// carry, in whole pages.
///
/// # Safety
/// `id` and `qp` are valid.
unsafe fn longest_piece(
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    length: usize,
) -> Result<u32, Failure> {
    // Less than any device's limit, so that small transfers need not ask for it.
    const CERTAIN: u32 = 1 << 20;
    const PAGE: u32 = 4096;
    if length <= CERTAIN as usize {
        return Ok(CERTAIN);
    }
    // SAFETY: as the caller promises.
    let longest = unsafe { max_message(id, qp)? };
    Ok((longest & PAGE.wrapping_neg()).max(PAGE))
}

struct Transfer {
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    queue: Queue,
    /// The next piece.
    request: ibv_send_wr,
    element: ibv_sge,
    /// The bytes that are not posted yet.
    rest: usize,
}

impl Transfer {
    /// # Safety
    /// The pointers are valid.
    unsafe fn run(&mut self, deadline: &mut Deadline) -> Result<c_int, Failure> {
        // The device has the next piece while it finishes one.
        const PIPELINE: c_int = 2;
        // SAFETY: as the caller promises.
        let most_in_flight = unsafe { self.queue.capacity() }.min(PIPELINE);
        let mut in_flight: c_int = 0;
        let mut more = true;
        let mut result = Ok(0);
        // However short the time is, the first pieces are posted.
        deadline.start();
        loop {
            while more && in_flight < most_in_flight {
                // SAFETY: as the caller promises.
                match unsafe { self.post_piece() } {
                    Ok(_) => {
                        in_flight = in_flight.wrapping_add(1);
                        more = self.rest != 0;
                    }
                    // The queue has no room for two.
                    Err(failure) if failure.errno() == ENOMEM && in_flight != 0 => break,
                    refused => {
                        result = result.and(refused);
                        more = false;
                    }
                }
            }
            if in_flight == 0 {
                return result;
            }
            // SAFETY: as the caller promises.
            let wc = unsafe { self.take_completion(deadline)? };
            if wc.wr_id == self.request.wr_id {
                in_flight = in_flight.wrapping_sub(1);
            }
            // SAFETY: as the caller promises.
            result = result.and(unsafe { self.judge(&wc) });
            if more && deadline.has_passed() {
                result = result.and(Err(Failure::TimedOut));
            }
            more &= result.is_ok();
        }
    }

    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn post_piece(&mut self) -> Result<c_int, Failure> {
        let longest = self.element.length;
        let length = u32::try_from(self.rest).unwrap_or(longest).min(longest);
        self.element.length = length;
        self.request.sg_list = &raw mut self.element;
        self.request.num_sge = 1;
        // SAFETY: as the caller promises; providers copy the request and its element.
        let result = unsafe { post_one(self.id, &raw mut self.request) };
        self.element.length = longest;
        if result.is_ok() {
            let offset = u64::from(length);
            self.rest = self.rest.wrapping_sub(length as usize);
            self.element.addr = self.element.addr.wrapping_add(offset);
            // SAFETY: an RDMA request.
            let remote = unsafe { &mut self.request.wr.rdma };
            remote.remote_addr = remote.remote_addr.wrapping_add(offset);
        }
        result
    }

    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn take_completion(&mut self, deadline: &mut Deadline) -> Result<ibv_wc, Failure> {
        // SAFETY: integers only, for which zeros are valid.
        let mut wc: ibv_wc = unsafe { mem::zeroed() };
        // SAFETY: as the caller promises.
        if unsafe { self.queue.wait_patiently(&raw mut wc, deadline)? } {
            return Ok(wc);
        }
        Err(Failure::TimedOut)
    }

    /// What a completion says of this transfer.
    ///
    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn judge(&self, wc: &ibv_wc) -> Result<c_int, Failure> {
        // SAFETY: as the caller promises.
        let qp_num = unsafe { (*self.qp).qp_num };
        // An earlier request that failed takes those behind it with it.
        if wc.status != IBV_WC_SUCCESS && wc.qp_num == qp_num {
            return Err(Failure::Completed(wc.status));
        }
        // What is not of this transfer was given up by an earlier call, and comes late.
        if is_own(wc.wr_id) {
            return Ok(0);
        }
        Err(Failure::ForeignCompletion { wr_id: wc.wr_id })
    }
}
