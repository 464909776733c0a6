// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion queues: polling, arming, and waiting for an event.
// The rest of the library is optimised for size, this for speed.
#![allow(clippy::inline_always)]

use core::ffi::{CStr, c_int};
use core::ptr;

use rdma_verbs_bindings::{
    ibv_ack_cq_events, ibv_comp_channel, ibv_cq, ibv_get_cq_event, ibv_wc, rdma_cm_id,
};

use crate::errno::{Failure, POLL, accepted, not_null};
use crate::logger::Name;

/// Which of the two completion queues of an id.
#[derive(Clone, Copy)]
pub enum Side {
    Send,
    Recv,
}

impl Side {
    /// # Safety
    /// `id` points to an `rdma_cm_id`.
    #[inline(always)]
    pub unsafe fn queue(self, id: *mut rdma_cm_id) -> Result<*mut ibv_cq, Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Send => not_null((*id).send_cq, c"id->send_cq"),
                Self::Recv => not_null((*id).recv_cq, c"id->recv_cq"),
            }
        }
    }

    /// The channel of the queue's events, and its name.
    ///
    /// # Safety
    /// `id` points to an `rdma_cm_id`.
    pub unsafe fn channel(self, id: *mut rdma_cm_id) -> (*mut ibv_comp_channel, &'static CStr) {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Self::Send => ((*id).send_cq_channel, c"id->send_cq_channel"),
                Self::Recv => ((*id).recv_cq_channel, c"id->recv_cq_channel"),
            }
        }
    }
}

/// Takes the completions that are there, at most `entries`; how many it took.
///
/// # Safety
/// The queue is valid, and `wc` points to `entries` elements.
#[inline(always)]
pub unsafe fn poll(queue: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> Result<c_int, Failure> {
    // SAFETY: the context of a valid queue is valid.
    let found = unsafe {
        let Some(poll) = (*(*queue).context).ops.poll_cq else {
            return Err(Failure::NoOperation(POLL));
        };
        poll(queue, entries, wc)
    };
    if found < 0 || found > entries {
        return Err(Failure::poll_refused(found));
    }
    Ok(found)
}

/// Asks for an event when the next completion, of whatever kind, arrives.
///
/// # Safety
/// The queue is valid.
#[inline(always)]
pub unsafe fn arm(queue: *mut ibv_cq) -> Result<c_int, Failure> {
    const SOLICITED_ONLY: c_int = 0;
    // SAFETY: the context of a valid queue is valid.
    unsafe {
        let Some(arm) = (*(*queue).context).ops.req_notify_cq else {
            return Err(Failure::NoOperation(Name::new(c"req_notify_cq")));
        };
        accepted(c"req_notify_cq", arm(queue, SOLICITED_ONLY))
    }
}

/// Waits for an event of the queue.
///
/// # Safety
/// The channel is valid.
#[inline(always)]
pub unsafe fn wait(queue: *mut ibv_cq, channel: *mut ibv_comp_channel) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    if unsafe { take_event(channel)? } != queue {
        return Err(Failure::ForeignEvent);
    }
    Ok(())
}

/// Waits for an event and acknowledges it, on the queue that raised it: a queue can be
/// destroyed only when all its events are acknowledged. Returns that queue.
///
/// # Safety
/// The channel is valid.
#[inline(always)]
pub unsafe fn take_event(channel: *mut ibv_comp_channel) -> Result<*mut ibv_cq, Failure> {
    let mut raised = ptr::null_mut();
    let mut context = ptr::null_mut();
    // SAFETY: as the caller promises. An event names a queue that is not destroyed yet.
    unsafe {
        if ibv_get_cq_event(channel, &raw mut raised, &raw mut context) != 0 {
            return Err(Failure::not_waited(Name::new(c"ibv_get_cq_event")));
        }
        ibv_ack_cq_events(raised, 1);
    }
    Ok(raised)
}
