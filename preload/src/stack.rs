// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call stacks: taken cheaply as addresses, turned into names when they are printed.

use std::ffi::{c_int, c_void};
use std::fmt::{self, Write};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::errno::Errno;

const DEPTH: usize = 16;

// Of libgcc.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        visit: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIPInfo(frame: *mut c_void, is_signal_frame: *mut c_int) -> usize;
}

/// The return addresses of a call stack, without the frames of this library.
#[derive(Clone, Copy, Default)]
pub struct Stack {
    frames: [usize; DEPTH],
    length: usize,
}

impl Stack {
    #[inline(never)]
    pub fn here() -> Self {
        let errno = Errno::now();
        let mut stack = Self::default();
        let own = module(Self::here as *const () as usize);
        let visit = |frame: &backtrace::Frame| {
            let address = frame.ip() as usize;
            if address != 0 && (stack.length > 0 || module(address) != own) {
                if let Some(place) = stack.frames.get_mut(stack.length) {
                    *place = address;
                    stack.length += 1;
                }
            }
            stack.length < DEPTH
        };
        // SAFETY: the unwinder is libgcc's, which threads may use at the same time. The
        // lock that this goes without might be held for ever in the child of a fork.
        unsafe { backtrace::trace_unsynchronized(visit) };
        errno.restore();
        stack
    }

    /// Whether a signal handler is in the call stack: what it has interrupted may be
    /// anything.
    pub fn is_in_a_handler() -> bool {
        unsafe extern "C" fn visit(frame: *mut c_void, found: *mut c_void) -> c_int {
            let mut is_signal_frame = 0;
            _Unwind_GetIPInfo(frame, &raw mut is_signal_frame);
            *found.cast::<bool>() |= is_signal_frame != 0;
            0
        }
        let mut found = false;
        // SAFETY: `visit` takes what it is given here.
        unsafe { _Unwind_Backtrace(visit, (&raw mut found).cast()) };
        found
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn frames(&self) -> &[usize] {
        self.frames.get(..self.length).unwrap_or_default()
    }

    /// The same for the same stack.
    pub fn hash(&self) -> u64 {
        self.frames().iter().fold(0, |hash: u64, &frame| {
            (hash.rotate_left(7) ^ frame as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }

    /// A line for each function, up to `main`. Called on this library's stack only.
    pub fn write(&self, out: &mut impl Write, indent: &str) -> fmt::Result {
        for (number, &address) in self.frames().iter().enumerate() {
            let mut named = false;
            let mut is_main = false;
            // A return address may be that of the next function: the call is before it.
            resolve((address - 1) as *mut c_void, |symbol| {
                let Some(name) = symbol.name() else {
                    return;
                };
                named = true;
                is_main |= name.as_bytes() == b"main";
                let _ = write!(out, "{indent}#{number} {address:#x} in {name:#}");
                if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                    let _ = write!(out, " at {}:{line}", file.display());
                }
                let _ = out.write_str("\n");
            });
            if !named {
                write!(out, "{indent}#{number} {address:#x}")?;
                if let Some((name, offset)) = object(address) {
                    write!(out, " in {name}+{offset:#x}")?;
                }
                out.write_str("\n")?;
            }
            if is_main {
                break;
            }
        }
        Ok(())
    }
}

/// Another thread was about to change what the resolver keeps between calls when this
/// process was forked.
static IS_BROKEN: AtomicBool = AtomicBool::new(false);

/// In the child of a fork, which has not the thread that ran on this library's stack.
pub fn forget(was_in_use: bool) {
    if was_in_use {
        IS_BROKEN.store(true, Relaxed);
    }
}

/// One thread at a time: on this library's stack.
fn resolve(address: *mut c_void, name: impl FnMut(&backtrace::Symbol)) {
    if !IS_BROKEN.load(Relaxed) {
        // SAFETY: one thread at a time.
        unsafe { backtrace::resolve_unsynchronized(address, name) };
    }
}

fn about(address: usize) -> Option<libc::Dl_info> {
    let mut about = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(address as *const c_void, &raw mut about) } != 0;
    known.then_some(about)
}

/// Where the module that holds an address begins.
fn module(address: usize) -> usize {
    about(address).map_or(0, |about| about.dli_fbase as usize)
}

/// The file that holds an address, and the address in it.
fn object(address: usize) -> Option<(String, usize)> {
    let about = about(address)?;
    if about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of the object.
    let name = unsafe { std::ffi::CStr::from_ptr(about.dli_fname) };
    Some((
        name.to_string_lossy().into_owned(),
        address.wrapping_sub(about.dli_fbase as usize),
    ))
}

#[cfg(test)]
mod tests {
    use super::Stack;

    #[test]
    fn a_stack_without_own_frames_ends_early() {
        // In a test, all frames but the C library's are this library's.
        let stack = Stack::here();
        assert_eq!(stack.hash(), stack.hash());
    }
}
