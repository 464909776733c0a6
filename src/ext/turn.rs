// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose turn it is to wait for the events of a channel.
//!
//! One arming raises one event, which one thread reads. If several waited for it at once, the
//! others would go on to block in `ibv_get_cq_event`, whatever their time, or sleep beside the
//! completions that the one has left. So one waits at the channel, the others for their turn;
//! when it ends, all of them look at their queues again.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use libc::{EINTR, ETIMEDOUT};

use super::deadline::Deadline;
use crate::errno::Failure;
use crate::logger::Name;

/// A turn for each file descriptor: the thread that has it, or 0. Where so many are open that
/// two channels share one, a turn is waited for in vain, but not for long.
static TURNS: [AtomicU32; LAST + 1] = [const { AtomicU32::new(0) }; LAST + 1];
/// All bits are 1.
const LAST: usize = 1023;
/// Others wait for the turn.
const WANTED: u32 = 1 << 31;
/// How long a thread waits before it looks at its queue again, and whether the one that has
/// the turn still lives: it may have been cancelled while it waited.
const LOOK_NS: i64 = 100_000_000;

/// The right to wait at a channel; ends when it is dropped.
pub struct Turn(&'static AtomicU32);

impl Turn {
    /// Takes the turn if it is free. Else waits until it ends, at most until the deadline: then
    /// there is none, and the caller has to look at its queue.
    pub fn take(fd: c_int, deadline: &mut Deadline) -> Result<Option<Self>, Failure> {
        #[allow(clippy::cast_sign_loss)] // Only the low bits are used.
        let Some(turn) = TURNS.get(fd as usize & LAST) else {
            return Ok(None);
        };
        // SAFETY: no preconditions.
        let own = unsafe { libc::gettid() }.unsigned_abs();
        match turn.compare_exchange(0, own, Acquire, Relaxed) {
            Ok(_) => Ok(Some(Self(turn))),
            Err(held) => wait_for_end(turn, held, deadline).map(|()| None),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0.swap(0, Release) & WANTED != 0 {
            // SAFETY: wakes all that sleep there.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.0.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    c_int::MAX,
                );
            }
        }
    }
}

/// Sleeps until the turn that was `held` ends, or for a while.
fn wait_for_end(turn: &AtomicU32, held: u32, deadline: &mut Deadline) -> Result<(), Failure> {
    let wanted = held | WANTED;
    if held != wanted
        && turn
            .compare_exchange(held, wanted, Relaxed, Relaxed)
            .is_err()
    {
        return Ok(());
    }
    let limit = deadline.remaining_within(LOOK_NS);
    // SAFETY: sleeps while the value is that, for this time.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            turn.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            wanted,
            ptr::from_ref(&limit),
        )
    };
    if result == 0 {
        return Ok(());
    }
    match Failure::not_waited(Name::new(c"futex")) {
        failure @ Failure::NotWaited { errno: EINTR, .. } => Err(failure),
        Failure::NotWaited {
            errno: ETIMEDOUT, ..
        } => {
            if !lives(held & !WANTED) {
                // Another thread may have taken it over meanwhile.
                let _ = turn.compare_exchange(wanted, 0, Relaxed, Relaxed);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Whether a thread of this process is there.
fn lives(thread: u32) -> bool {
    // SAFETY: sends no signal.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, 0) == 0 }
}
