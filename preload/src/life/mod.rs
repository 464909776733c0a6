// SPDX-License-Identifier: MIT OR Apache-2.0
//! The life of the process: start, fork, signals, end.

mod end;
mod signals;
mod system;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::Once;

use rdma_verbs_settings::{Mode, variable};

use crate::errno::Errno;
use crate::model::devices;
use crate::output::{self, say};
use crate::{clock, elf, model, own_stack, settings, thread, watch};

unsafe extern "C" {
    fn __cxa_atexit(
        function: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        library: *mut c_void,
    ) -> c_int;
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

/// Before anything is watched: the loader calls it before `main`, but the constructor of
/// another library may open a device even earlier.
pub fn start() {
    static STARTED: Once = Once::new();
    if !STARTED.is_completed() {
        STARTED.call_once(start_now);
    }
}

#[cold]
fn start_now() {
    let errno = Errno::now();
    thread::note_process();
    // SAFETY: the functions may be called whenever they are.
    unsafe {
        libc::pthread_atfork(Some(elf::before_fork), Some(elf::after_fork), Some(forked));
    }
    clock::start();
    if let Some(mode) = settings::variable_of(variable::MODE) {
        start_mode(&mode);
    }
    errno.restore();
}

fn start_mode(mode_name: &str) {
    let output = settings::variable_of(variable::OUTPUT).map(PathBuf::from);
    if let Err(error) = output::open(output.as_deref()) {
        let path = output.unwrap_or_default();
        if output::open(None).is_ok() {
            say(format_args!(
                "cannot write to {}: {error}; nothing will be recorded",
                path.display()
            ));
        }
        return;
    }
    let Some(mode) = Mode::named(mode_name) else {
        say(format_args!(
            "{}={mode_name}: not trace, stat or check",
            variable::MODE
        ));
        return;
    };
    settings::read();
    system::find_originals();
    own_stack::start();
    signals::handle(mode);
    // SAFETY: the functions may be called whenever they are.
    unsafe {
        // Of no library, so that it is called last: destructors of libraries may well
        // deregister and destroy.
        __cxa_atexit(end::end, ptr::null_mut(), ptr::null_mut());
        __cxa_at_quick_exit(end::end_quickly, ptr::null_mut());
    }
    devices::share_with_children();
    watch::start(mode);
}

/// The child of a fork is a process of its own, with objects of its own.
extern "C" fn forked() {
    thread::note_process();
    elf::after_fork();
    let was_in_use = own_stack::forget();
    thread::forget();
    devices::forget();
    end::forget();
    model::forget();
    watch::forget(was_in_use);
}
