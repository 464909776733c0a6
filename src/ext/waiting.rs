// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for completions, with a limit of time.

use core::ffi::{CStr, c_int};
use core::ptr;

use libc::{EAGAIN, pollfd};
use rdma_verbs_bindings::{ibv_comp_channel, ibv_cq, ibv_wc, rdma_cm_id};

use super::deadline::Deadline;
use super::turn::Turn;
use crate::completion::{Side, arm, poll, wait};
use crate::errno::{Failure, not_null, undisturbed};
use crate::logger::Name;

/// A completion queue, and the channel of its events where it has one.
#[derive(Clone, Copy)]
pub struct Queue {
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    channel_name: &'static CStr,
}

/// Takes what is there, at most `entries` completions, and waits for the first one if
/// there is none. 0 when the time is over.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; `wc` is NULL or points to `entries` elements.
pub unsafe fn take(
    side: Side,
    id: *mut rdma_cm_id,
    entries: c_int,
    wc: *mut ibv_wc,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    // SAFETY: `id` is not NULL, so it is valid; `wc` is not NULL once it is used.
    unsafe {
        let cq = side.queue(id)?;
        not_null(wc, c"wc")?;
        if entries <= 0 {
            return Err(Failure::Count(entries));
        }
        undisturbed(|| {
            // Most often there is one, and nothing else needs to be known.
            let found = poll(cq, entries.min(AT_ONCE), wc)?;
            if found != 0 && (found < AT_ONCE || found == entries) {
                return Ok(found);
            }
            take_more(side, id, entries, wc, found, timeout_ms)
        })
    }
}

/// After the first `found` completions, which were none or as many as are polled at once.
///
/// # Safety
/// As for [`take`], with nothing that is NULL.
#[inline(never)]
unsafe fn take_more(
    side: Side,
    id: *mut rdma_cm_id,
    entries: c_int,
    wc: *mut ibv_wc,
    found: c_int,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    unsafe {
        let queue = Queue::of(side, id)?;
        if found == 0 {
            return queue.wait_empty(entries, wc, &mut Deadline::after(timeout_ms));
        }
        let left = entries.saturating_sub(found);
        // What has been taken must not be lost; the next call fails as well.
        let more = queue.poll(left, wc.offset(found as isize)).unwrap_or(0);
        Ok(found.saturating_add(more))
    }
}

/// The file descriptor that is readable when there is an event.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`.
pub unsafe fn fd(side: Side, id: *mut rdma_cm_id) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the channel is valid if it is there.
    unsafe { Ok((*Queue::of(side, id)?.channel()?).fd) }
}

/// How many completions are polled at once: fewer than the errno value that a missing
/// operation may return.
const AT_ONCE: c_int = 64;

impl Queue {
    /// Where the requests of `id` complete.
    ///
    /// # Safety
    /// `id` is NULL or points to an `rdma_cm_id`.
    pub unsafe fn of(side: Side, id: *mut rdma_cm_id) -> Result<Self, Failure> {
        not_null(id, c"id")?;
        // SAFETY: `id` is not NULL, so it is valid.
        unsafe {
            let (channel, channel_name) = side.channel(id);
            Ok(Self {
                cq: side.queue(id)?,
                channel,
                channel_name,
            })
        }
    }

    /// A queue with the channel that it was made with.
    ///
    /// # Safety
    /// The queue is valid.
    pub unsafe fn whole(cq: *mut ibv_cq) -> Self {
        Self {
            cq,
            // SAFETY: as the caller promises.
            channel: unsafe { (*cq).channel },
            channel_name: c"its channel",
        }
    }

    pub fn channel(&self) -> Result<*mut ibv_comp_channel, Failure> {
        not_null(self.channel, self.channel_name)
    }

    /// How many completions the queue can hold.
    ///
    /// # Safety
    /// The queue is valid.
    pub unsafe fn capacity(&self) -> c_int {
        // SAFETY: as the caller promises.
        unsafe { (*self.cq).cqe }
    }

    /// Takes what is there, at most `entries` completions, and waits for the first one if
    /// there is none. 0 when the time is over; the queue is then armed, and has no event that is
    /// older than that.
    ///
    /// A completion that arrives before the queue is armed raises no event, so the queue is
    /// polled once more before the wait; and an event may be stale (its completion taken by
    /// an earlier poll), so each event starts all over again. With no time at all the channel is
    /// looked at all the same: a stale event would keep its file descriptor readable, and an
    /// event loop busy. A wait whose time is over ends as one with no time at all: another
    /// thread may have taken the event, and left completions behind it.
    ///
    /// # Safety
    /// The queue and its channel are valid; `wc` points to `entries` elements.
    pub unsafe fn wait(
        &self,
        entries: c_int,
        wc: *mut ibv_wc,
        deadline: &mut Deadline,
    ) -> Result<c_int, Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            match self.poll(entries, wc)? {
                0 => self.wait_empty(entries, wc, deadline),
                found => Ok(found),
            }
        }
    }

    /// As [`Queue::wait`], for a queue that was found empty.
    ///
    /// # Safety
    /// As for [`Queue::wait`].
    unsafe fn wait_empty(
        &self,
        entries: c_int,
        wc: *mut ibv_wc,
        deadline: &mut Deadline,
    ) -> Result<c_int, Failure> {
        /// Events that come without end, each of them stale, must not prolong the wait.
        const AFTER_THE_END: c_int = 64;
        let mut late_events: c_int = 0;
        loop {
            // SAFETY: as the caller promises.
            unsafe {
                let mut is_over = false;
                // Armed by the one whose turn it is: a completion that is not found after that
                // raises an event, and nobody else reads it.
                if let Some(_turn) = Turn::take(self.fd(), deadline)? {
                    arm(self.cq)?;
                    let found = self.poll(entries, wc)?;
                    if found != 0 {
                        return Ok(found);
                    }
                    if !self.event_before(deadline)? {
                        if deadline.expire() {
                            return Ok(0);
                        }
                    } else if deadline.has_passed() {
                        late_events = late_events.saturating_add(1);
                    }
                } else {
                    is_over = deadline.has_passed();
                }
                let found = self.poll(entries, wc)?;
                if found != 0 || is_over || late_events == AFTER_THE_END {
                    return Ok(found);
                }
            }
        }
    }

    /// The channel's file descriptor; -1 where there is no channel.
    ///
    /// # Safety
    /// As for [`Queue::wait`].
    unsafe fn fd(&self) -> c_int {
        if self.channel.is_null() {
            return -1;
        }
        // SAFETY: as the caller promises.
        unsafe { (*self.channel).fd }
    }

    /// Takes one completion, in spite of signals, and also from a queue without a channel:
    /// that one is looked at every millisecond. False when the time is over.
    ///
    /// # Safety
    /// As for [`Queue::wait`].
    pub unsafe fn wait_patiently(
        &self,
        wc: *mut ibv_wc,
        deadline: &mut Deadline,
    ) -> Result<bool, Failure> {
        loop {
            let mut at_once = Deadline::after(0);
            let limit = if self.channel.is_null() {
                &mut at_once
            } else {
                &mut *deadline
            };
            // SAFETY: as the caller promises.
            match unsafe { self.wait(1, wc, limit) } {
                Err(failure) if failure.is_early_end() => (),
                Ok(0) if !deadline.has_passed() => nap(),
                result => return result.map(|found| found != 0),
            }
        }
    }

    /// # Safety
    /// As for [`Queue::wait`].
    unsafe fn poll(&self, entries: c_int, wc: *mut ibv_wc) -> Result<c_int, Failure> {
        let mut taken: c_int = 0;
        loop {
            let wanted = entries.saturating_sub(taken).min(AT_ONCE);
            // SAFETY: of the elements of `wc`, the first `taken` are used.
            let found = match unsafe { poll(self.cq, wanted, wc.offset(taken as isize)) } {
                // What has been taken must not be lost; the next call fails as well.
                Err(_) if taken != 0 => 0,
                result => result?,
            };
            taken = taken.saturating_add(found);
            if found < AT_ONCE || taken == entries {
                return Ok(taken);
            }
        }
    }

    /// Takes an event of the channel, if one comes in time.
    ///
    /// # Safety
    /// The queue and its channel are valid.
    unsafe fn event_before(&self, deadline: &mut Deadline) -> Result<bool, Failure> {
        if self.channel.is_null() && deadline.has_passed() {
            return Ok(false);
        }
        let channel = self.channel()?;
        // SAFETY: the channel is valid.
        unsafe {
            let fd = (*channel).fd;
            if !readable_before(fd, deadline)? {
                return Ok(false);
            }
            match wait(self.cq, channel) {
                // Another thread has taken the event, and may leave completions to us.
                Err(Failure::NotWaited { errno: EAGAIN, .. }) => Ok(true),
                result => result.map(|()| true),
            }
        }
    }
}

fn nap() {
    const NO_FD: c_int = -1;
    const MILLISECONDS: c_int = 1;
    // If a signal ends it, so be it.
    let _ = readable_before(NO_FD, &mut Deadline::after(MILLISECONDS));
}

/// Waits until there is something to read, or an error to be told by reading.
fn readable_before(fd: c_int, deadline: &mut Deadline) -> Result<bool, Failure> {
    let mut polled = pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let remaining = deadline.remaining();
    let limit = remaining.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: one element, and a time or NULL; the signal mask is not changed.
    match unsafe { libc::ppoll(&raw mut polled, 1, limit, ptr::null()) } {
        -1 => Err(Failure::not_waited(Name::new(c"ppoll"))),
        ready => Ok(ready != 0),
    }
}
