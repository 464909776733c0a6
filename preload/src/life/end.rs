// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of the process: the last report, and the exit status.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rdma_verbs_settings::STATUS_FOUND;

use crate::model::devices;
use crate::output::say;
use crate::stack::Stack;
use crate::{own_stack, settings, thread, watch};

/// In the child of a fork.
pub fn forget() {
    HAS_ENDED.store(false, Relaxed);
}

/// Whether there was something to watch: a device, or objects of the parent's that this
/// process has used.
pub fn is_worth_a_report() -> bool {
    devices::has_opened() || (devices::has_inherited() && watch::has_seen_something())
}

static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The table, or the number of findings: once. Runs on this library's stack, so that
/// whoever comes second waits until it is written.
pub fn last_report() {
    if !HAS_ENDED.swap(true, Relaxed) {
        watch::last_report();
    }
}

/// What is left to be said at the end, all of it where that `is_safe`; says whether the
/// exit status is to be [`STATUS_FOUND`].
fn finish(is_safe: bool) -> bool {
    if settings::mode().is_none() || HAS_ENDED.load(Relaxed) {
        return false;
    }
    let has_watched = is_worth_a_report();
    if !has_watched {
        say_that_nothing_was_hooked();
    }
    // A signal handler may have ended the program in the middle of a hook. Then this
    // thread holds locks, and has not seen what destructors did since.
    if is_safe && !thread::is_busy() {
        watch::at_exit();
    }
    if is_safe {
        watch::finish();
    }
    if has_watched && is_safe {
        own_stack::run(last_report);
    } else if has_watched {
        own_stack::run_soon(last_report);
    }
    settings::get().fail && watch::found() > 0
}

fn say_that_nothing_was_hooked() {
    let main = settings::get().main;
    let in_child = devices::any_has_opened();
    if !in_child && (main == 0 || main == thread::process()) {
        say(format_args!(
            "{} [{}]: saw no RDMA device being opened: nothing to report",
            settings::name(),
            thread::process()
        ));
    }
}

/// Called when the program has ended by `exit`, from `main`, or with its last thread,
/// after all else.
pub extern "C" fn end(_: *mut c_void) {
    if finish(true) {
        // What the program has printed comes first: the status is all that changes.
        // SAFETY: flushes all streams.
        unsafe { libc::fflush(ptr::null_mut()) };
        exit_now(STATUS_FOUND);
    }
}

/// Called when the program has ended by `quick_exit`, which flushes nothing.
pub extern "C" fn end_quickly(_: *mut c_void) {
    if finish(true) {
        exit_now(STATUS_FOUND);
    }
}

/// Before the program ends by `_exit`; the status that it is to end with. A signal
/// handler may do so, whatever it has interrupted.
pub fn leave(status: c_int) -> c_int {
    if thread::is_of_this_process() && finish(!Stack::is_in_a_handler()) {
        STATUS_FOUND
    } else {
        status
    }
}

/// Ends the process as `_exit` does.
pub fn exit_now(status: c_int) -> ! {
    loop {
        // SAFETY: no preconditions.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
