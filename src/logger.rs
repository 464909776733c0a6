// SPDX-License-Identifier: MIT OR Apache-2.0
//! The logger: off, unless the environment variable `RDMA_VERBS_LOG` names a level.
//!
//! One message is one line on standard error, written by one write(2) from a buffer on
//! the stack. It runs in programs that know nothing of it, so it allocates nothing,
//! takes no lock, and never fails the call that it reports.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};

use log::{LevelFilter, Log, Metadata, Record};

const VARIABLE: &CStr = c"RDMA_VERBS_LOG";
const PREFIX: &str = "rdma_verbs: ";

unsafe extern "C" {
    /// `getenv(3)`, but NULL in a program that runs with more rights than its caller.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

struct StandardError;

static LOGGER: StandardError = StandardError;

/// Runs when the library is loaded, before `main`.
#[ctor::ctor(unsafe)]
fn install() {
    // SAFETY: the name is a C string. What is returned stays valid until the environment
    // is changed, which nobody does before main.
    let value = unsafe { secure_getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return;
    }
    // SAFETY: a value of the environment is a C string.
    let level = level(unsafe { CStr::from_ptr(value) });
    // Only a second call could fail, and there is none.
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(level);
    }
}

/// The level that a value of the variable asks for. Whoever sets it to something else,
/// say `1`, wants to see why calls fail.
fn level(value: &CStr) -> LevelFilter {
    match value.to_str() {
        Ok("") => LevelFilter::Off,
        Ok(name) => name.parse().unwrap_or(LevelFilter::Error),
        Err(_) => LevelFilter::Error,
    }
}

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut line = Line::new();
            // A line that is too long is cut: that is all that can go wrong.
            let _ = write!(line, "{PREFIX}{}", record.args());
            line.end().write_to(libc::STDERR_FILENO);
        }
    }

    fn flush(&self) {}
}

/// A line of text in a fixed buffer; what does not fit is cut off.
struct Line {
    bytes: [u8; Self::SIZE],
    length: usize,
}

impl Line {
    const SIZE: usize = 512;

    const fn new() -> Self {
        Self {
            bytes: [0; Self::SIZE],
            length: 0,
        }
    }

    /// Ends the line, over its last byte where it is full.
    fn end(mut self) -> Self {
        self.length = self.length.min(Self::SIZE.saturating_sub(1));
        let _ = self.write_str("\n");
        self
    }

    fn write_to(&self, fd: c_int) {
        // SAFETY: the first `length` bytes of the buffer are initialised. Nobody can be
        // told that standard error is closed or full.
        unsafe { libc::write(fd, self.bytes.as_ptr().cast(), self.length) };
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        let fits = text.len().min(free.len());
        for (to, from) in free.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        self.length = self.length.saturating_add(fits);
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

/// The C library's text for an errno value.
pub struct ErrnoText(pub c_int);

impl fmt::Display for ErrnoText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text: [c_char; 128] = [0; 128];
        // SAFETY: the buffer has the length that is given. It is a C string even if the
        // text is cut or unknown, since it starts as zeros.
        let text = unsafe {
            libc::strerror_r(self.0, text.as_mut_ptr(), text.len());
            CStr::from_ptr(text.as_ptr())
        };
        f.write_str(text.to_str().unwrap_or("unknown error"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
    use super::*;

    #[test]
    fn levels() {
        for (value, expected) in [
            (c"", LevelFilter::Off),
            (c"off", LevelFilter::Off),
            (c"error", LevelFilter::Error),
            (c"WARN", LevelFilter::Warn),
            (c"info", LevelFilter::Info),
            (c"Debug", LevelFilter::Debug),
            (c"trace", LevelFilter::Trace),
            (c"1", LevelFilter::Error),
            (c"\xff", LevelFilter::Error),
        ] {
            assert_eq!(level(value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_line_holds_what_fits_and_ends_with_a_newline() {
        for (length, expected) in [
            (0, 1),
            (1, 2),
            (510, 511),
            (511, 512),
            (512, 512),
            (9999, 512),
        ] {
            let mut line = Line::new();
            let _ = write!(line, "{}", "x".repeat(length));
            let line = line.end();
            assert_eq!(line.length, expected);
            assert_eq!(line.bytes[expected - 1], b'\n');
            assert!(line.bytes[..expected - 1].iter().all(|byte| *byte == b'x'));
        }
    }

    #[test]
    fn errno_text_is_the_c_librarys() {
        assert_eq!(ErrnoText(libc::EINVAL).to_string(), "Invalid argument");
    }
}
