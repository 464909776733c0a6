// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits that nothing will end.
//!
//! A thread may wait for an event before another one arms a completion queue. So a wait
//! is a finding only where there is no other thread. Of other waits, the program is told
//! when it is ended by a signal while they last, as it may be since it hangs.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use rdma_verbs_bindings::ibv_comp_channel;
use rdma_verbs_settings::Rule;

use super::finding::Finding;
use crate::clock;
use crate::model::{devices, model};
use crate::output::say;
use crate::{settings, thread};

/// Before the program waits for an event.
///
/// # Safety
/// `channel` points to a completion channel.
pub unsafe fn begins(channel: *mut ibv_comp_channel) {
    if returns_at_once((*channel).fd) {
        return;
    }
    let own = thread::own();
    // So that its number is known.
    thread::ids();
    own.waits_since.store(clock::now(), Relaxed);
    own.waits_for.store(channel as usize, Relaxed);
    if knows_events((*channel).context as usize) && !may_come(channel as usize) && is_only_thread()
    {
        let mut what = String::new();
        let _ = write!(
            what,
            "ibv_get_cq_event waits for an event of channel {channel:p}: none of its completion queues is armed, and there is no other thread that could arm one"
        );
        Finding::new(Rule::MissingArm, what).report();
    }
}

/// After it has waited.
pub fn ends() {
    thread::own().waits_for.store(0, Relaxed);
}

fn returns_at_once(fd: i32) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK != 0 }
}

/// Whether all armings of the completion queues of a context are seen.
fn knows_events(context: usize) -> bool {
    let model = model();
    !devices::has_inherited()
        && !model.direct.load(Relaxed)
        && model.contexts.get(context as u64).is_some()
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

fn is_only_thread() -> bool {
    // SAFETY: zeros are a valid stat, which is this frame's; a C string.
    unsafe {
        let mut tasks: libc::stat = std::mem::zeroed();
        // A directory has two links, and one for each directory in it.
        libc::stat(c"/proc/self/task".as_ptr(), &raw mut tasks) == 0 && tasks.st_nlink == 3
    }
}

/// Tells of the waits that last, in a signal handler.
pub fn report_waits() {
    for thread in thread::all() {
        let channel = thread.waits_for.load(Relaxed);
        if channel != 0 && !may_come(channel) {
            let nanos = clock::now().saturating_sub(thread.waits_since.load(Relaxed));
            say(format_args!(
                "check: {} [{}/{}]: has waited for {} s in ibv_get_cq_event for an event of channel {channel:#x}, none of whose completion queues is armed",
                settings::name(),
                thread::process(),
                thread.number.load(Relaxed),
                nanos / 1_000_000_000
            ));
        }
    }
}
