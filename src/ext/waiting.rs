// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for completions, with a limit of time.
// The path of a completion that is there is for speed.
#![allow(clippy::inline_always)]

use core::ffi::{CStr, c_int};
use core::ptr;

use libc::{EAGAIN, pollfd};
use rdma_verbs_bindings::{ibv_comp_channel, ibv_cq, ibv_wc, rdma_cm_id};

use super::deadline::Deadline;
use super::turn::Turn;
use crate::completion::{Side, arm, poll, take_event, wait};
use crate::errno::{self, Failure, not_null, undisturbed};
use crate::logger::Name;

/// Fewer completions than the errno value that a missing operation may return.
const AT_ONCE: c_int = 64;

/// How long a queue is left alone that has no event to wait for.
const NAP_NS: i64 = 1_000_000;

/// Takes what is there, at most `entries` completions, and waits for the first one if
/// there is none. 0 when the time is over.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; `wc` is NULL or points to `entries` elements.
#[inline(always)]
pub unsafe fn take(
    side: Side,
    id: *mut rdma_cm_id,
    entries: c_int,
    wc: *mut ibv_wc,
    deadline: Deadline,
) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    // SAFETY: as the caller promises; `wc` is not NULL once it is used.
    unsafe {
        let cq = match side.queue(id) {
            Ok(cq) => cq,
            Err(failure) => Queue::of_queue_pair(side, id, failure)?.cq,
        };
        not_null(wc, c"wc")?;
        if entries <= 0 {
            return Err(Failure::Count(entries));
        }
        // Providers may change it although they succeed.
        let errno = errno::place();
        let errno_before = *errno;
        let mut found = poll(cq, entries.min(AT_ONCE), wc)?;
        if found == 0 {
            found = take_first(side, id, entries, wc, deadline)?;
        } else if found == AT_ONCE {
            found = take_more(cq, entries, wc, found)?;
        }
        *errno = errno_before;
        Ok(found)
    }
}

/// Waits for the first completion of a queue that was found empty.
///
/// # Safety
/// As for [`take`], with nothing that is NULL.
#[inline(never)]
unsafe fn take_first(
    side: Side,
    id: *mut rdma_cm_id,
    entries: c_int,
    wc: *mut ibv_wc,
    mut deadline: Deadline,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    unsafe { Queue::of(side, id)?.wait(entries, wc, &mut deadline) }
}

/// Takes what is there behind the first `taken` completions; how many there are now.
///
/// # Safety
/// As for [`poll`].
#[inline(never)]
unsafe fn take_more(
    cq: *mut ibv_cq,
    entries: c_int,
    wc: *mut ibv_wc,
    mut taken: c_int,
) -> Result<c_int, Failure> {
    loop {
        let wanted = entries.saturating_sub(taken).min(AT_ONCE);
        if wanted == 0 {
            return Ok(taken);
        }
        // What has been taken must not be lost; if a poll fails, the next call's fails as well.
        // SAFETY: of the elements of `wc`, the first `taken` are used.
        let found = unsafe { poll(cq, wanted, wc.offset(taken as isize)) }.unwrap_or(0);
        taken = taken.saturating_add(found);
        if found < AT_ONCE {
            return Ok(taken);
        }
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

/// Takes an event of the channel, and acknowledges it. 1, and the queue that raised it; 0 when
/// the time is over.
///
/// # Safety
/// `channel` is NULL or valid; `cq` is NULL or can be written.
pub unsafe fn next_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    timeout_ms: c_int,
) -> Result<c_int, Failure> {
    not_null(channel, c"channel")?;
    not_null(cq, c"cq")?;
    let mut deadline = Deadline::after(timeout_ms);
    undisturbed(|| {
        loop {
            // SAFETY: as the caller promises, and neither is NULL.
            let fd = unsafe { (*channel).fd };
            if let Some(_turn) = Turn::take(fd, &mut deadline)? {
                if !readable_before(fd, &mut deadline)? {
                    return Ok(0);
                }
                // SAFETY: as before.
                match unsafe { take_event(channel) } {
                    // Somebody else has taken it.
                    Err(Failure::NotWaited { errno: EAGAIN, .. }) => (),
                    result => {
                        // SAFETY: as before.
                        unsafe { *cq = result? };
                        return Ok(1);
                    }
                }
            }
            if deadline.has_passed() {
                return Ok(0);
            }
        }
    })
}

/// A completion queue, and the channel of its events where it has one.
#[derive(Clone, Copy)]
pub struct Queue {
    cq: *mut ibv_cq,
    channel: *mut ibv_comp_channel,
    channel_name: &'static CStr,
}

impl Queue {
    /// Where the requests of `id` complete: in its own queue, or in that which the program has
    /// given to its queue pair.
    ///
    /// # Safety
    /// `id` is NULL or points to an `rdma_cm_id`.
    pub unsafe fn of(side: Side, id: *mut rdma_cm_id) -> Result<Self, Failure> {
        not_null(id, c"id")?;
        // SAFETY: `id` is not NULL, so it is valid.
        unsafe {
            match side.queue(id) {
                Ok(cq) => {
                    let (channel, channel_name) = side.channel(id);
                    Ok(Self {
                        cq,
                        channel,
                        channel_name,
                    })
                }
                Err(failure) => Self::of_queue_pair(side, id, failure),
            }
        }
    }

    /// The queue that the program has given to the queue pair, or the failure.
    ///
    /// # Safety
    /// `id` is valid.
    #[cold]
    #[inline(never)]
    unsafe fn of_queue_pair(
        side: Side,
        id: *mut rdma_cm_id,
        failure: Failure,
    ) -> Result<Self, Failure> {
        // SAFETY: a valid id has a valid queue pair or none, and that one has valid queues.
        unsafe {
            let qp = (*id).qp;
            if qp.is_null() {
                return Err(failure);
            }
            let cq = match side {
                Side::Send => (*qp).send_cq,
                Side::Recv => (*qp).recv_cq,
            };
            if cq.is_null() {
                return Err(failure);
            }
            Ok(Self {
                cq,
                channel: (*cq).channel,
                channel_name: c"the channel of the completion queue",
            })
        }
    }

    fn channel(&self) -> Result<*mut ibv_comp_channel, Failure> {
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

    /// Whether the queue has no channel, or one in which other queues raise their events, too. Such
    /// an event cannot be looked at without taking it, and its owner would wait for it in vain.
    ///
    /// # Safety
    /// The channel is valid, or NULL.
    unsafe fn leaves_events(&self) -> bool {
        // SAFETY: as the caller promises. Other threads may create and destroy queues.
        self.channel.is_null() || unsafe { (&raw const (*self.channel).refcnt).read_volatile() } > 1
    }

    /// Waits for the first completion of a queue that was found empty, and takes at most `entries`
    /// with it. 0 when the time is over; the queue is then armed, and has no event that is
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
    unsafe fn wait(
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
                let leaves_events = self.leaves_events();
                let turn = if leaves_events {
                    None
                } else {
                    Turn::take((*self.channel).fd, deadline)?
                };
                let mut is_over = false;
                // Armed by the one whose turn it is: a completion that is not found after that
                // raises an event, and nobody else reads it.
                if leaves_events || turn.is_some() {
                    arm(self.cq)?;
                    let found = self.poll(entries, wc)?;
                    if found != 0 {
                        return Ok(found);
                    }
                    if !self.event_before(leaves_events, deadline)? {
                        if deadline.expire() {
                            return Ok(0);
                        }
                    } else if deadline.has_passed() {
                        late_events = late_events.saturating_add(1);
                    }
                } else if deadline.has_passed() {
                    is_over = true;
                    // For an event loop, whoever waits at the channel now.
                    arm(self.cq)?;
                }
                drop(turn);
                let found = self.poll(entries, wc)?;
                if found != 0 || is_over || late_events == AFTER_THE_END {
                    return Ok(found);
                }
            }
        }
    }

    /// Takes one completion, in spite of signals, and also from a queue without a channel. False
    /// when the time is over.
    ///
    /// What a fast device does in a moment is waited for without sleeping: that would take
    /// longer.
    ///
    /// # Safety
    /// As for [`Queue::wait`].
    pub unsafe fn wait_patiently(
        &self,
        wc: *mut ibv_wc,
        deadline: &mut Deadline,
    ) -> Result<bool, Failure> {
        // SAFETY: as the caller promises.
        if unsafe { self.poll_for_a_moment(wc, deadline)? } {
            return Ok(true);
        }
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
                Ok(0) if !deadline.has_passed() => nap(deadline),
                result => return result.map(|found| found != 0),
            }
        }
    }

    /// Polls for about as long as it would take to fall asleep and to wake up again: then the
    /// wait takes at most twice as long as the shorter one of both ways.
    ///
    /// # Safety
    /// As for [`Queue::wait`].
    unsafe fn poll_for_a_moment(
        &self,
        wc: *mut ibv_wc,
        deadline: &mut Deadline,
    ) -> Result<bool, Failure> {
        const MOMENT_NS: i64 = 10_000;
        /// Between two looks at the clock.
        const POLLS: c_int = 8;
        let mut moment = Deadline::until(MOMENT_NS);
        loop {
            for _ in 0..POLLS {
                // SAFETY: as the caller promises.
                if unsafe { poll(self.cq, 1, wc)? } != 0 {
                    return Ok(true);
                }
            }
            if moment.has_passed() || deadline.has_passed() {
                return Ok(false);
            }
        }
    }

    /// # Safety
    /// As for [`Queue::wait`].
    unsafe fn poll(&self, entries: c_int, wc: *mut ibv_wc) -> Result<c_int, Failure> {
        // SAFETY: as the caller promises.
        unsafe {
            let found = poll(self.cq, entries.min(AT_ONCE), wc)?;
            if found == AT_ONCE {
                return take_more(self.cq, entries, wc, found);
            }
            Ok(found)
        }
    }

    /// Takes an event of the channel, if one comes in time; it is our turn. Where the channel is
    /// left alone, the queue is to be looked at again after a nap.
    ///
    /// # Safety
    /// The queue and its channel are valid.
    unsafe fn event_before(
        &self,
        leaves_events: bool,
        deadline: &mut Deadline,
    ) -> Result<bool, Failure> {
        if leaves_events && deadline.has_passed() {
            return Ok(false);
        }
        let channel = self.channel()?;
        if leaves_events {
            return sleep(deadline.within(NAP_NS)).map(|()| true);
        }
        // SAFETY: the channel is valid.
        unsafe {
            if !readable_before((*channel).fd, deadline)? {
                return Ok(false);
            }
            match wait(self.cq, channel) {
                // Another thread has taken the event, and may leave completions to us.
                Err(Failure::NotWaited { errno: EAGAIN, .. }) => Ok(true),
                Err(Failure::ForeignEvent) => Err(Failure::SharedChannel),
                result => result.map(|()| true),
            }
        }
    }
}

/// Sleeps for a while, but not beyond the deadline, nor beyond a signal.
pub fn nap(deadline: &mut Deadline) {
    let _ = sleep(deadline.within(NAP_NS));
}

fn sleep(mut until: Deadline) -> Result<(), Failure> {
    const NO_FD: c_int = -1;
    readable_before(NO_FD, &mut until).map(|_| ())
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
