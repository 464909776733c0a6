// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits that nothing will end.
//!
//! Whether a completion queue is armed when a wait begins does not decide it: another
//! thread may arm it a moment later. So a suspicious wait is looked at again after a
//! while, by a thread that lives for that purpose only. It blocks all signals and
//! touches nothing of the program's.

use std::fmt::Write;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use rdma_verbs_settings::Rule;

use super::finding::Finding;
use super::stack::Stack;
use crate::model::model;
use crate::process::{self, Busy};

static PATIENCE: libc::timespec = libc::timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// A wait for an event of a completion channel.
struct Wait {
    channel: usize,
    process: i32,
    thread: i32,
    stack: Stack,
    /// 1 as soon as the wait has ended.
    ended: AtomicU32,
    /// The waiting thread and the watching one.
    users: AtomicU32,
}

/// Held during a wait that looks as if nothing could end it.
pub struct Suspicious(*const Wait);

impl Drop for Suspicious {
    fn drop(&mut self) {
        // SAFETY: freed by the last of its users only.
        let wait = unsafe { &*self.0 };
        wait.ended.store(1, Release);
        // SAFETY: wakes the watching thread, if it is there.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                wait.ended.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
        release(self.0);
    }
}

fn release(wait: *const Wait) {
    // SAFETY: the caller is a user.
    if unsafe { (*wait).users.fetch_sub(1, AcqRel) } == 1 {
        // SAFETY: it was the last one, and the wait came from a box.
        drop(unsafe { Box::from_raw(wait.cast_mut()) });
    }
}

/// Whether an event may come on a channel, as far as is known.
fn may_come(channel: usize) -> bool {
    let (mut any, mut armed) = (false, false);
    model().completions.each(|_, queue| {
        if queue.channel == channel {
            any = true;
            armed |= queue.armed > 0;
        }
    });
    // Before any queue is made, a thread that waits is early, not wrong.
    !any || armed
}

/// At most so many watching threads at a time.
static WATCHING: AtomicU64 = AtomicU64::new(0);

/// The child of a fork has none of them.
pub fn forget() {
    WATCHING.store(0, Relaxed);
}

/// Called when a wait begins; blocking, as far as the channel goes.
pub fn begin(channel: usize) -> Option<Suspicious> {
    if may_come(channel) || WATCHING.load(Relaxed) >= 8 {
        return None;
    }
    let (process, thread) = process::ids();
    let wait = Box::into_raw(Box::new(Wait {
        channel,
        process,
        thread,
        stack: Stack::here(),
        ended: AtomicU32::new(0),
        users: AtomicU32::new(2),
    }));
    WATCHING.fetch_add(1, Relaxed);
    if !start_thread(wait) {
        WATCHING.fetch_sub(1, Relaxed);
        release(wait);
    }
    Some(Suspicious(wait))
}

fn start_thread(wait: *mut Wait) -> bool {
    // SAFETY: zeros are a valid set and a valid place for attributes; all pointers are
    // to this frame, but the wait, which the thread uses.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread: libc::pthread_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let result =
            libc::pthread_create(&raw mut thread, &raw const attributes, watch, wait.cast());
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        result == 0
    }
}

extern "C" fn watch(wait: *mut libc::c_void) -> *mut libc::c_void {
    let wait: *const Wait = wait.cast();
    // SAFETY: this thread is a user of it.
    let this = unsafe { &*wait };
    // SAFETY: sleeps until the number is no longer 0, or the time is over.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            this.ended.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            0,
            &raw const PATIENCE,
        );
    }
    let _busy = Busy::enter();
    if this.ended.load(Acquire) == 0 && is_there(this) && !may_come(this.channel) {
        report(this);
    }
    release(wait);
    WATCHING.fetch_sub(1, Relaxed);
    ptr::null_mut()
}

/// A thread that was cancelled in its wait does not say that it has ended.
fn is_there(wait: &Wait) -> bool {
    // SAFETY: sends no signal.
    unsafe { libc::syscall(libc::SYS_tgkill, wait.process, wait.thread, 0) == 0 }
}

fn report(wait: &Wait) {
    let mut what = String::new();
    let _ = write!(
        what,
        "a wait for an event of channel {:#x}, none of whose completion queues is armed: nothing will end it",
        wait.channel
    );
    Finding::new(Rule::MissingArm, what).report_at(wait.stack);
}
