// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions of the C library by which a process ends, or closes descriptors that it has
//! not opened.

use std::ffi::{c_int, c_uint};

use super::end;
use crate::errno::Errno;
use crate::loader::Behind;
use crate::{output, thread};

// --- the end -------------------------------------------------------------------------------

#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn _exit(status: c_int) -> ! {
    end::exit_now(end::leave(status))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(non_snake_case)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    end::exit_now(end::leave(status))
}

// --- descriptors ---------------------------------------------------------------------------

static CLOSE: Behind = Behind::new(c"close");
static CLOSE_RANGE: Behind = Behind::new(c"close_range");
static CLOSEFROM: Behind = Behind::new(c"closefrom");
static DUP2: Behind = Behind::new(c"dup2");
static DUP3: Behind = Behind::new(c"dup3");

/// Looks them up, which a signal handler or the child of a fork must not do.
pub fn find_originals() {
    for original in [&CLOSE, &CLOSE_RANGE, &CLOSEFROM, &DUP2, &DUP3] {
        original.address();
    }
}

/// The function, called where the C library has it.
macro_rules! call {
    ($original:ident($($argument:expr),*), fn($($type:ty),*) -> $result:ty, $missing:expr) => {{
        let address = $original.address();
        if address.is_null() {
            $missing
        } else {
            type Function = unsafe extern "C" fn($($type),*) -> $result;
            // SAFETY: the C library's function of that name has this type.
            unsafe { std::mem::transmute::<_, Function>(address)($($argument),*) }
        }
    }};
}

fn fails(error: c_int) -> c_int {
    Errno(error).restore();
    -1
}

fn is_hidden(descriptor: c_int) -> bool {
    output::hidden() == Some(descriptor)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn close(descriptor: c_int) -> c_int {
    if is_hidden(descriptor) {
        return fails(libc::EBADF);
    }
    call!(CLOSE(descriptor), fn(c_int) -> c_int, fails(libc::ENOSYS))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let close = |first, last| {
        call!(
            CLOSE_RANGE(first, last, flags),
            fn(c_uint, c_uint, c_int) -> c_int,
            fails(libc::ENOSYS)
        )
    };
    let hidden = output::hidden().map(|hidden| hidden as c_uint);
    let Some(hidden) = hidden.filter(|hidden| (first..=last).contains(hidden)) else {
        return close(first, last);
    };
    let below = if hidden > first {
        close(first, hidden - 1)
    } else {
        0
    };
    if below == 0 && hidden < last {
        close(hidden + 1, last)
    } else {
        below
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn closefrom(first: c_int) {
    let mut first = first.max(0);
    if let Some(hidden) = output::hidden().filter(|&hidden| hidden >= first) {
        (first..hidden).for_each(|descriptor| {
            close(descriptor);
        });
        first = hidden.saturating_add(1);
    }
    call!(CLOSEFROM(first), fn(c_int) -> (), ());
}

/// What the program wants to have at a number is its own from then on.
fn make_way(from: c_int, to: c_int) {
    if from != to && output::is_at(to) && thread::is_of_this_process() {
        output::make_way();
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
    if is_hidden(from) {
        return fails(libc::EBADF);
    }
    make_way(from, to);
    call!(
        DUP2(from, to),
        fn(c_int, c_int) -> c_int,
        fails(libc::ENOSYS)
    )
}

#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if is_hidden(from) {
        return fails(libc::EBADF);
    }
    make_way(from, to);
    call!(
        DUP3(from, to, flags),
        fn(c_int, c_int, c_int) -> c_int,
        fails(libc::ENOSYS)
    )
}
