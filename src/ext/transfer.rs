// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole RDMA reads and writes: posted, waited for, and judged.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;

use libc::ENOMEM;
use rdma_verbs_bindings::{
    IBV_WC_SUCCESS, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, ibv_mr, ibv_qp, ibv_send_wr, ibv_sge,
    ibv_wc, rdma_cm_id,
};

use super::deadline::Deadline;
use super::handler::Handler;
use super::limits::max_message;
use super::own_request::{Posted, new_wr_id, own_request, post_one};
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
    handler: Handler,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    undisturbed(|| unsafe {
        let mut transfer = Transfer::new(direction, id, buffers, handler)?;
        transfer.run(&mut Deadline::after(timeout_ms))
    })
}

/// Waits until no request that earlier calls have left in flight is outstanding: queue pairs
/// complete requests in order, so one without data is posted behind them.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`.
pub unsafe fn wait_for_earlier(
    id: *mut rdma_cm_id,
    timeout_ms: c_int,
    handler: Handler,
) -> Result<c_int, Failure> {
    const NO_DATA: Buffers = Buffers {
        addr: ptr::null_mut(),
        length: 0,
        mr: ptr::null_mut(),
        remote_addr: 0,
        rkey: 0,
    };
    // SAFETY: as the caller promises.
    undisturbed(|| unsafe {
        let mut transfer = Transfer::new(Direction::Write, id, &NO_DATA, handler)?;
        let mut deadline = Deadline::after(timeout_ms);
        let mut earlier = Ok(0);
        loop {
            let result = transfer.run(&mut deadline);
            match result {
                // The send queue is full: what completes makes room.
                Err(failure) if transfer.refused && failure.errno() == ENOMEM => {
                    if deadline.has_passed() {
                        return Err(Failure::TimedOut);
                    }
                    earlier = earlier.and(transfer.take_for_a_while(&mut deadline)?);
                }
                Err(failure) if transfer.refused => {
                    return Err(Failure::InFlight {
                        errno: failure.errno(),
                    });
                }
                _ => return earlier.and(result),
            }
        }
    })
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
    handler: Handler,
    /// The next piece.
    request: ibv_send_wr,
    element: ibv_sge,
    /// The bytes that are not posted yet.
    rest: usize,
    /// The pieces whose completion has not been taken.
    in_flight: c_int,
    /// The provider has refused the last piece.
    refused: bool,
}

impl Transfer {
    /// # Safety
    /// As for [`transfer`].
    unsafe fn new(
        direction: Direction,
        id: *mut rdma_cm_id,
        buffers: &Buffers,
        handler: Handler,
    ) -> Result<Self, Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            let queue = Queue::of(Side::Send, id)?;
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
            Ok(Self {
                id,
                qp,
                queue,
                handler,
                request,
                element,
                rest: buffers.length,
                in_flight: 0,
                refused: false,
            })
        }
    }

    /// # Safety
    /// The pointers are valid.
    unsafe fn run(&mut self, deadline: &mut Deadline) -> Result<c_int, Failure> {
        // The device has the next piece while it finishes one.
        const PIPELINE: c_int = 2;
        // SAFETY: as the caller promises.
        let most_in_flight = unsafe { self.queue.capacity() }.min(PIPELINE);
        let mut more = true;
        let mut result = Ok(0);
        self.refused = false;
        // However short the time is, the first pieces are posted.
        deadline.start();
        loop {
            while more && self.in_flight < most_in_flight {
                // SAFETY: as the caller promises.
                match unsafe { self.post_piece() } {
                    Posted::Yes => more = self.rest != 0,
                    // The queue has no room for two.
                    Posted::No(failure) if failure.errno() == ENOMEM && self.in_flight != 0 => {
                        break;
                    }
                    Posted::No(failure) => {
                        self.refused = true;
                        result = result.and(Err(failure));
                        more = false;
                    }
                    // Its completion may never come.
                    Posted::Unknown(failure) => {
                        return Err(Failure::InFlight {
                            errno: failure.errno(),
                        });
                    }
                }
            }
            if self.in_flight == 0 {
                return result;
            }
            // SAFETY: as the caller promises.
            result = result.and(unsafe { self.take_completion(deadline)? });
            if more && deadline.has_passed() {
                result = result.and(Err(Failure::TimedOut));
            }
            more &= result.is_ok();
        }
    }

    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn post_piece(&mut self) -> Posted {
        let longest = self.element.length;
        let length = u32::try_from(self.rest).unwrap_or(longest).min(longest);
        self.element.length = length;
        self.request.sg_list = &raw mut self.element;
        self.request.num_sge = 1;
        // SAFETY: as the caller promises; providers copy the request and its element.
        let posted = unsafe { post_one(self.id, &raw mut self.request) };
        self.element.length = longest;
        if let Posted::Yes = posted {
            let offset = u64::from(length);
            self.in_flight = self.in_flight.wrapping_add(1);
            self.rest = self.rest.wrapping_sub(length as usize);
            self.element.addr = self.element.addr.wrapping_add(offset);
            // SAFETY: an RDMA request.
            let remote = unsafe { &mut self.request.wr.rdma };
            remote.remote_addr = remote.remote_addr.wrapping_add(offset);
        }
        posted
    }

    /// Takes the next completion, and says what it means for this transfer. Fails only with
    /// requests in flight.
    ///
    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn take_completion(
        &mut self,
        deadline: &mut Deadline,
    ) -> Result<Result<c_int, Failure>, Failure> {
        // SAFETY: integers only, for which zeros are valid.
        let mut wc: ibv_wc = unsafe { mem::zeroed() };
        // SAFETY: as the caller promises.
        match unsafe { self.queue.wait_patiently(&raw mut wc, deadline) } {
            // SAFETY: as the caller promises.
            Ok(true) => Ok(unsafe { self.judge(&wc) }),
            Ok(false) => Err(Failure::TimedOut),
            Err(failure) => Err(Failure::InFlight {
                errno: failure.errno(),
            }),
        }
    }

    /// Takes a completion, if one comes in a millisecond.
    ///
    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn take_for_a_while(
        &mut self,
        deadline: &mut Deadline,
    ) -> Result<Result<c_int, Failure>, Failure> {
        const NS: i64 = 1_000_000;
        // SAFETY: as the caller promises.
        match unsafe { self.take_completion(&mut deadline.within(NS)) } {
            Err(Failure::TimedOut) => Ok(Ok(0)),
            result => result,
        }
    }

    /// What a completion says of this transfer.
    ///
    /// # Safety
    /// As for [`Transfer::run`].
    unsafe fn judge(&mut self, wc: &ibv_wc) -> Result<c_int, Failure> {
        if wc.wr_id == self.request.wr_id {
            self.in_flight = self.in_flight.wrapping_sub(1);
        }
        // SAFETY: as the caller promises.
        let (qp_num, kept) = unsafe { ((*self.qp).qp_num, self.handler.give(wc)) };
        // An earlier request that failed takes those behind it with it.
        if wc.status != IBV_WC_SUCCESS && wc.qp_num == qp_num {
            return Err(Failure::Completed(wc.status));
        }
        if !kept {
            return Err(Failure::ForeignCompletion { wr_id: wc.wr_id });
        }
        Ok(0)
    }
}
