// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending what is outstanding on a queue pair.
//!
//! A queue pair that is moved to the error state completes all its requests with an error,
//! in their order. So a marker is posted to each queue: when its completion is there, no
//! request that was posted before it is outstanding.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;

use libc::ENOMEM;
use rdma_verbs_bindings::{
    IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPT_UD, IBV_WR_RDMA_WRITE, ibv_cq, ibv_modify_qp,
    ibv_qp, ibv_qp_attr, ibv_qp_state, ibv_wc, rdma_cm_id,
};

use super::deadline::Deadline;
use super::limits::capacity;
use super::own_request::{new_wr_id, own_request, post_one};
use super::waiting::Queue;
use crate::errno::{Failure, accepted, not_null, undisturbed};
use crate::post::recvv;

/// Returns when no request of `id` is outstanding.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`.
pub unsafe fn drain(id: *mut rdma_cm_id, timeout_ms: c_int) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    // SAFETY: a valid id has a valid queue pair or none, and that one has valid queues.
    unsafe {
        let qp = not_null((*id).qp, c"id->qp")?;
        // Datagrams need an address, which a marker has not. They have no peer to wait
        // for either: the reset drops what there is, at once.
        if (*qp).qp_type == IBV_QPT_UD {
            return set_state(qp, IBV_QPS_RESET);
        }
        let capacity = capacity(qp)?;
        let shared = !(*qp).srq.is_null() || !(*id).srq.is_null();
        let mut drain = Drain {
            id,
            qp,
            send: Marker::new((*qp).send_cq, capacity.max_send_wr != 0)?,
            // Receives of a shared queue are not the queue pair's.
            recv: Marker::new((*qp).recv_cq, capacity.max_recv_wr != 0 && !shared)?,
        };
        undisturbed(|| drain.run(&mut Deadline::after(timeout_ms)))
    }
}

/// # Safety
/// The queue pair is valid.
#[allow(clippy::cast_possible_wrap)] // A small number; C passes it as int.
unsafe fn set_state(qp: *mut ibv_qp, state: ibv_qp_state) -> Result<c_int, Failure> {
    // SAFETY: integers only, for which zeros are valid.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    attr.qp_state = state;
    // SAFETY: as the caller promises.
    accepted(c"modify_qp", unsafe {
        ibv_modify_qp(qp, &raw mut attr, IBV_QP_STATE as c_int)
    })
}

/// The last request of a queue.
struct Marker {
    cq: *mut ibv_cq,
    wr_id: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Not posted: the queue is full.
    Wanted,
    Posted,
    Completed,
}

impl Marker {
    /// A marker that completes in `cq`. Where there is no queue to post it to, it has
    /// completed.
    fn new(cq: *mut ibv_cq, has_queue: bool) -> Result<Self, Failure> {
        let mut state = State::Completed;
        if has_queue {
            not_null(cq, c"the completion queue of id->qp")?;
            state = State::Wanted;
        }
        let wr_id = new_wr_id();
        Ok(Self { cq, wr_id, state })
    }

    /// Notes what came of posting it.
    fn posted(&mut self, result: Result<c_int, Failure>) -> Result<(), Failure> {
        match result {
            Ok(_) => self.state = State::Posted,
            Err(failure) if failure.errno() == ENOMEM => (),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Notes a completion.
    fn completed(&mut self, wr_id: u64) {
        if self.wr_id == wr_id {
            self.state = State::Completed;
        }
    }
}

struct Drain {
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    send: Marker,
    recv: Marker,
}

impl Drain {
    /// # Safety
    /// The pointers are valid.
    unsafe fn run(&mut self, deadline: &mut Deadline) -> Result<c_int, Failure> {
        // A queue that is full may become free without a completion.
        const RETRY_MILLISECONDS: c_int = 10;
        deadline.start();
        loop {
            // SAFETY: as the caller promises.
            unsafe { self.post_markers()? };
            let cq = if self.send.state != State::Completed {
                self.send.cq
            } else if self.recv.state != State::Completed {
                self.recv.cq
            } else {
                return Ok(0);
            };
            let limit = if self.is_wanting() && !deadline.has_passed() {
                Deadline::after(RETRY_MILLISECONDS)
            } else {
                *deadline
            };
            // SAFETY: as the caller promises; the marker's completion queue is not NULL.
            if !unsafe { self.take_completions(cq, limit)? } && deadline.has_passed() {
                return Err(Failure::TimedOut);
            }
        }
    }

    fn is_wanting(&self) -> bool {
        self.send.state == State::Wanted || self.recv.state == State::Wanted
    }

    /// Posts the markers that are not posted, and moves the queue pair to the error state.
    ///
    /// The receive comes before that: one that is posted in the error state may be looked
    /// at only when the state is set once more.
    ///
    /// What is there is taken before. Where the device does not wait for that, a request
    /// queue has room while its completion queue is full, and the marker's completion would
    /// be lost.
    ///
    /// # Safety
    /// As for [`Drain::run`].
    unsafe fn post_markers(&mut self) -> Result<(), Failure> {
        if !self.is_wanting() {
            return Ok(());
        }
        // SAFETY: as the caller promises.
        unsafe {
            if self.recv.state == State::Wanted {
                self.take_completions(self.recv.cq, Deadline::after(0))?;
                let context = self.recv.wr_id as *mut c_void;
                self.recv
                    .posted(recvv(self.id, context, ptr::null_mut(), 0))?;
            }
            set_state(self.qp, IBV_QPS_ERR)?;
            if self.send.state == State::Wanted {
                self.take_completions(self.send.cq, Deadline::after(0))?;
                let mut request = own_request(IBV_WR_RDMA_WRITE, self.send.wr_id);
                self.send.posted(post_one(self.id, &raw mut request))?;
            }
        }
        Ok(())
    }

    /// Waits for a completion, and takes what is there with it; drops what is not a marker's.
    /// False when the time is over.
    ///
    /// # Safety
    /// As for [`Drain::run`]; the completion queue is valid.
    #[inline(never)]
    unsafe fn take_completions(
        &mut self,
        cq: *mut ibv_cq,
        mut limit: Deadline,
    ) -> Result<bool, Failure> {
        // SAFETY: as the caller promises; integers only, for which zeros are valid.
        unsafe {
            let mut wc: ibv_wc = mem::zeroed();
            let mut taken = false;
            // Others may complete in it all the time.
            for _ in 0..(*cq).cqe {
                if !Queue::whole(cq).wait_patiently(&raw mut wc, &mut limit)? {
                    break;
                }
                // Both may complete in one queue. No other request has their wr_id.
                self.send.completed(wc.wr_id);
                self.recv.completed(wc.wr_id);
                taken = true;
                limit.expire();
            }
            Ok(taken)
        }
    }
}
