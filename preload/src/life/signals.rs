// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports at signals.

use std::ffi::c_int;
use std::ptr;

use rdma_verbs_settings::Mode;

use super::end;
use crate::errno::Errno;
use crate::{own_stack, thread, watch};

type Handler = extern "C" fn(c_int);

/// Handles a signal that the program leaves to the system. What the program installs
/// later takes its place.
fn on_signal(signal: c_int, handler: Handler) {
    // SAFETY: zeros are a valid sigaction; the handler is async-signal-safe.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, ptr::null(), &raw mut now) != 0
            || now.sa_sigaction != libc::SIG_DFL
        {
            return;
        }
        now.sa_sigaction = handler as *const () as usize;
        now.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        // One report at a time.
        libc::sigfillset(&raw mut now.sa_mask);
        libc::sigaction(signal, &raw const now, ptr::null_mut());
    }
}

/// Servers are ended by a signal; they deserve a report, too.
pub fn handle(mode: Mode) {
    let (now, fatal) = watch::signals(mode);
    for &signal in now {
        on_signal(signal, report_now);
    }
    for &signal in fatal {
        on_signal(signal, report_and_die);
    }
}

extern "C" fn report_now(_: c_int) {
    let errno = Errno::now();
    if end::is_worth_a_report() {
        own_stack::run_soon(watch::report_now);
    }
    errno.restore();
}

extern "C" fn report_and_die(signal: c_int) {
    if end::is_worth_a_report() {
        let is_in_hook = thread::is_busy();
        own_stack::run_soon(|| {
            if !is_in_hook {
                watch::report_waits();
            }
            end::last_report();
        });
    }
    // SAFETY: the signal is blocked until this handler returns, and then ends the
    // process as it would have without this library.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
