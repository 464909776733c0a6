// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending what is outstanding on a queue pair.
//!
//! A queue pair that is moved to the error state completes all its requests with an error,
//! in their order. So a marker is posted to each queue: when its completion is there, no
//! request that was posted before it is outstanding. The markers come before the move, since
//! some providers refuse what is posted in the error state, or never complete it; where that
//! is not possible, after it.

use core::ffi::c_int;
use core::mem;
use core::ptr;

use libc::ENOMEM;
use rdma_verbs_bindings::{
    IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY, IBV_QP_STATE, IBV_QPS_ERR, IBV_QPS_INIT,
    IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND,
    IBV_WR_RDMA_WRITE, ibv_cq, ibv_modify_qp, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_state,
    ibv_recv_wr, ibv_sge, ibv_wc, rdma_cm_id,
};

use super::deadline::Deadline;
use super::handler::Handler;
use super::limits::query;
use super::own_request::{Posted, new_wr_id, own_request, post_one, post_one_recv};
use super::waiting::nap;
use crate::completion::poll;
use crate::errno::{Failure, accepted, not_null, undisturbed};
use crate::logger::Name;

/// Returns when no request of `id` is outstanding.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`.
pub unsafe fn drain(
    id: *mut rdma_cm_id,
    timeout_ms: c_int,
    handler: Handler,
) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    // SAFETY: a valid id has a valid queue pair or none.
    undisturbed(|| unsafe {
        let qp = not_null((*id).qp, c"id->qp")?;
        match (*qp).qp_type {
            IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_XRC_SEND => {
                Drain::new(id, qp, handler)?.run(&mut Deadline::after(timeout_ms))
            }
            _ => reset(qp, handler),
        }
    })
}

/// Drops the requests of a queue pair to which no marker can be posted: a datagram needs an
/// address. There is no peer to wait for either.
///
/// # Safety
/// The queue pair is valid.
unsafe fn reset(qp: *mut ibv_qp, handler: Handler) -> Result<c_int, Failure> {
    const ATTRIBUTES: ibv_qp_attr_mask = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    // SAFETY: as the caller promises.
    unsafe {
        let (mut attr, _) = query(qp, ATTRIBUTES)?;
        // Providers may drop what has completed, too.
        take_all(qp, handler)?;
        set_state(qp, IBV_QPS_RESET)?;
        take_all(qp, handler)?;
        // From here to the error state leads one way only.
        attr.qp_state = IBV_QPS_INIT;
        let mask = if (*qp).qp_type == IBV_QPT_UD {
            ATTRIBUTES
        } else {
            IBV_QP_PORT
        };
        modify(qp, &mut attr, IBV_QP_STATE | mask)?;
        set_state(qp, IBV_QPS_ERR)
    }
}

/// # Safety
/// The queue pair is valid.
unsafe fn set_state(qp: *mut ibv_qp, state: ibv_qp_state) -> Result<c_int, Failure> {
    // SAFETY: integers only, for which zeros are valid.
    let mut attr: ibv_qp_attr = unsafe { mem::zeroed() };
    attr.qp_state = state;
    // SAFETY: as the caller promises.
    unsafe { modify(qp, &mut attr, IBV_QP_STATE) }
}

/// # Safety
/// The queue pair is valid.
#[allow(clippy::cast_possible_wrap)] // A small number; C passes it as int.
unsafe fn modify(
    qp: *mut ibv_qp,
    attr: &mut ibv_qp_attr,
    mask: ibv_qp_attr_mask,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    accepted(c"modify_qp", unsafe {
        ibv_modify_qp(qp, attr, mask as c_int)
    })
}

/// The completion queues of a queue pair, each of which may be NULL; none twice.
///
/// # Safety
/// The queue pair is valid.
unsafe fn queues(qp: *mut ibv_qp) -> [*mut ibv_cq; 2] {
    // SAFETY: as the caller promises.
    let (send, recv) = unsafe { ((*qp).send_cq, (*qp).recv_cq) };
    [send, if recv == send { ptr::null_mut() } else { recv }]
}

/// Takes what is in the completion queues, and hands it over.
///
/// # Safety
/// The queue pair is valid.
unsafe fn take_all(qp: *mut ibv_qp, handler: Handler) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    unsafe {
        for cq in queues(qp) {
            each_completion(cq, |wc| {
                handler.give(wc);
                true
            })?;
        }
    }
    Ok(())
}

/// Takes completions until there is none, or `go_on` says no; but no more than the queue can
/// hold, since others may complete in it all the time. Whether there was one.
///
/// # Safety
/// The queue is valid or NULL.
unsafe fn each_completion(
    cq: *mut ibv_cq,
    mut go_on: impl FnMut(&ibv_wc) -> bool,
) -> Result<bool, Failure> {
    const AT_ONCE: c_int = 16;
    if cq.is_null() {
        return Ok(false);
    }
    // SAFETY: the queue is valid; integers only, for which zeros are valid.
    let (capacity, mut wc): (_, [ibv_wc; AT_ONCE.unsigned_abs() as usize]) =
        unsafe { ((*cq).cqe, mem::zeroed()) };
    let mut taken: c_int = 0;
    loop {
        // SAFETY: there is room for so many.
        let found = unsafe { poll(cq, AT_ONCE, wc.as_mut_ptr())? };
        let mut more = true;
        for wc in wc.iter().take(found.unsigned_abs() as usize) {
            more &= go_on(wc);
        }
        taken = taken.saturating_add(found);
        let was_last = found < AT_ONCE;
        if was_last || !more || taken >= capacity {
            return Ok(taken != 0);
        }
    }
}

/// The last request of a queue.
struct Marker {
    wr_id: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Not posted, since the queue is full, or not yet.
    Wanted,
    /// It may be posted.
    Unknown,
    Posted,
    /// The provider accepts none.
    Refused,
    /// Nothing is outstanding.
    Done,
}

impl Marker {
    fn new(is_needed: bool) -> Self {
        let state = if is_needed {
            State::Wanted
        } else {
            State::Done
        };
        let wr_id = new_wr_id();
        Self { wr_id, state }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, State::Wanted | State::Unknown | State::Posted)
    }

    /// Whether it is to be posted; once more where that may not have happened.
    fn is_wanted(&self) -> bool {
        matches!(self.state, State::Wanted | State::Unknown)
    }

    /// Notes what came of posting it.
    fn note(&mut self, posted: Posted) {
        self.state = match posted {
            Posted::Yes => State::Posted,
            Posted::Unknown(_) if self.state == State::Wanted => State::Unknown,
            // The first one may be there.
            _ if self.state == State::Unknown => State::Posted,
            Posted::No(failure) | Posted::Unknown(failure) if failure.errno() == ENOMEM => {
                State::Wanted
            }
            _ => State::Refused,
        }
    }

    /// Notes a completion: no other request has its `wr_id`.
    fn completed(&mut self, wr_id: u64) {
        if self.wr_id == wr_id {
            self.state = State::Done;
        }
    }
}

struct Drain {
    id: *mut rdma_cm_id,
    qp: *mut ibv_qp,
    /// The state in which the call met the queue pair.
    state: ibv_qp_state,
    handler: Handler,
    send: Marker,
    recv: Marker,
    /// A receive may need an element, if only an empty one.
    recv_elements: c_int,
}

impl Drain {
    /// # Safety
    /// The pointers are valid.
    unsafe fn new(id: *mut rdma_cm_id, qp: *mut ibv_qp, handler: Handler) -> Result<Self, Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            let (attr, capacity) = query(qp, IBV_QP_STATE)?;
            let has_sends = capacity.max_send_wr != 0;
            // Receives of a shared queue are not the queue pair's.
            let shares = !(*qp).srq.is_null() || !(*id).srq.is_null();
            let has_recvs = capacity.max_recv_wr != 0 && !shares;
            if has_sends {
                not_null((*qp).send_cq, c"id->qp->send_cq")?;
            }
            if has_recvs {
                not_null((*qp).recv_cq, c"id->qp->recv_cq")?;
            }
            Ok(Self {
                id,
                qp,
                state: attr.qp_state,
                handler,
                send: Marker::new(has_sends),
                recv: Marker::new(has_recvs),
                recv_elements: c_int::from(capacity.max_recv_sge != 0),
            })
        }
    }

    /// # Safety
    /// The pointers are valid.
    unsafe fn run(&mut self, deadline: &mut Deadline) -> Result<c_int, Failure> {
        deadline.start();
        // SAFETY: as the caller promises.
        unsafe {
            // What has completed makes room, in both kinds of queues.
            self.take_completions()?;
            if self.state != IBV_QPS_ERR {
                self.post_recv_marker();
                self.post_send_marker();
            }
            set_state(self.qp, IBV_QPS_ERR)?;
            self.retry_refused();
            loop {
                if self.send.is_wanted() || self.recv.is_wanted() {
                    self.take_completions()?;
                    self.post_wanted_markers()?;
                }
                let some = self.take_completions()?;
                if !self.send.is_open() && !self.recv.is_open() {
                    return self.outcome();
                }
                if deadline.has_passed() {
                    return Err(Failure::TimedOut);
                }
                if !some {
                    nap(deadline);
                }
            }
        }
    }

    /// What was refused before the move may be accepted after it.
    fn retry_refused(&mut self) {
        for marker in [&mut self.send, &mut self.recv] {
            if marker.state == State::Refused {
                marker.state = State::Wanted;
            }
        }
    }

    /// Posts the markers that are not posted, in the error state.
    ///
    /// # Safety
    /// As for [`Drain::run`].
    unsafe fn post_wanted_markers(&mut self) -> Result<(), Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            if self.send.is_wanted() {
                self.post_send_marker();
            }
            if self.recv.is_wanted() {
                self.post_recv_marker();
                // A receive that is posted in the error state may be looked at only when the
                // state is set once more.
                set_state(self.qp, IBV_QPS_ERR)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for [`Drain::run`].
    unsafe fn post_send_marker(&mut self) {
        if self.send.is_wanted() {
            let mut request = own_request(IBV_WR_RDMA_WRITE, self.send.wr_id);
            // SAFETY: as the caller promises.
            self.send
                .note(unsafe { post_one(self.id, &raw mut request) });
        }
    }

    /// # Safety
    /// As for [`Drain::run`].
    unsafe fn post_recv_marker(&mut self) {
        if self.recv.is_wanted() {
            let mut nothing = ibv_sge {
                addr: 0,
                length: 0,
                lkey: 0,
            };
            let mut request = ibv_recv_wr {
                wr_id: self.recv.wr_id,
                next: ptr::null_mut(),
                sg_list: &raw mut nothing,
                num_sge: self.recv_elements,
            };
            // SAFETY: as the caller promises; providers copy the request and its element.
            self.recv
                .note(unsafe { post_one_recv(self.id, &raw mut request) });
        }
    }

    /// Takes what is there from both queues, and hands over what is not a marker's. Whether there
    /// was anything.
    ///
    /// # Safety
    /// As for [`Drain::run`].
    unsafe fn take_completions(&mut self) -> Result<bool, Failure> {
        let Self {
            qp,
            handler,
            send,
            recv,
            ..
        } = self;
        let mut some = false;
        // SAFETY: as the caller promises.
        unsafe {
            for cq in queues(*qp) {
                some |= each_completion(cq, |wc| {
                    send.completed(wc.wr_id);
                    recv.completed(wc.wr_id);
                    handler.give(wc);
                    send.is_open() || recv.is_open()
                })?;
            }
        }
        Ok(some)
    }

    /// Whether a queue whose marker was refused is known to be empty: nothing can be sent before
    /// there is a connection, or received by a queue pair that was just made.
    fn outcome(&self) -> Result<c_int, Failure> {
        let unconnected = self.state <= IBV_QPS_RTR;
        if self.send.state == State::Refused && !unconnected {
            return Err(Failure::NoMarker(Name::new(c"send queue")));
        }
        if self.recv.state == State::Refused && self.state != IBV_QPS_RESET {
            return Err(Failure::NoMarker(Name::new(c"receive queue")));
        }
        Ok(0)
    }
}
