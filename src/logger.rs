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
    if value.is_empty() {
        return LevelFilter::Off;
    }
    LevelFilter::iter()
        .find(|level| {
            value
                .to_bytes()
                .eq_ignore_ascii_case(level.as_str().as_bytes())
        })
        .unwrap_or(LevelFilter::Error)
}

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut line = Line::new();
            // A line that is too long is cut: that is all that can go wrong.
            let _ = line.write_str(PREFIX);
            let _ = line.write_fmt(*record.args());
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

    fn push(&mut self, text: &[u8]) -> fmt::Result {
        let free = self.bytes.get_mut(self.length..).unwrap_or_default();
        let fits = text.len().min(free.len());
        for (to, from) in free.iter_mut().zip(text) {
            *to = *from;
        }
        self.length = self.length.saturating_add(fits);
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
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
        self.push(text.as_bytes())
    }

    /// What is logged is ASCII.
    fn write_char(&mut self, character: char) -> fmt::Result {
        self.push(&[u8::try_from(character).unwrap_or(b'?')])
    }
}

/// A number, written without the widths and signs of core's formatting, whose code is
/// larger than the rest of the logger.
pub enum Number {
    Signed(c_int),
    Decimal(u64),
    Hex(u64),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Signed(number) => {
                if number < 0 {
                    f.write_str("-")?;
                }
                write_digits(f, u64::from(number.unsigned_abs()), 10)
            }
            Self::Decimal(number) => write_digits(f, number, 10),
            Self::Hex(number) => {
                f.write_str("0x")?;
                write_digits(f, number, 16)
            }
        }
    }
}

/// The last digit comes last: at most 20 calls deep.
fn write_digits(f: &mut fmt::Formatter<'_>, number: u64, radix: u32) -> fmt::Result {
    let rest = number.checked_div(u64::from(radix)).unwrap_or_default();
    let digit = number.wrapping_sub(rest.wrapping_mul(u64::from(radix)));
    if rest != 0 {
        write_digits(f, rest, radix)?;
    }
    let digits = "0123456789abcdef";
    let start = usize::try_from(digit).unwrap_or_default();
    f.write_str(digits.get(start..start.wrapping_add(1)).unwrap_or_default())
}

/// The name of an errno value. The C library's text would be translated, for which it may take
/// locks and allocate: a call may fail in a signal handler.
pub struct ErrnoName(pub c_int);

impl fmt::Display for ErrnoName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = ERRNO_NAMES.iter().find(|(errno, _)| *errno == self.0);
        let name = known.map_or(padded("unknown error"), |(_, name)| *name);
        for byte in name.into_iter().take_while(|byte| *byte != 0) {
            f.write_char(char::from(byte))?;
        }
        Ok(())
    }
}

const NAME_LENGTH: usize = 16;

/// A name in a fixed number of bytes: pointers would have to be relocated when the library is
/// loaded.
#[allow(clippy::indexing_slicing, clippy::arithmetic_side_effects)] // Evaluated at build time.
const fn padded(name: &str) -> [u8; NAME_LENGTH] {
    let mut bytes = [0; NAME_LENGTH];
    let mut at = 0;
    while at < name.len() {
        bytes[at] = name.as_bytes()[at];
        at += 1;
    }
    bytes
}

macro_rules! errno_names {
    ($($name:ident)*) => { [$((libc::$name, padded(stringify!($name)))),*] };
}

/// What the library, providers and the kernel's RDMA return.
static ERRNO_NAMES: [(c_int, [u8; NAME_LENGTH]); 48] = errno_names![
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST ENODEV EINVAL
    ENFILE EMFILE ENOSPC EPIPE EDOM ERANGE EDEADLK ENOSYS ENOTUNIQ EBADR EBADRQC ENODATA EPROTO
    EBADMSG EOVERFLOW EREMOTEIO EMSGSIZE EPROTONOSUPPORT EOPNOTSUPP EADDRINUSE EADDRNOTAVAIL
    ENETDOWN ENETUNREACH ECONNABORTED ECONNRESET ENOBUFS ENOTCONN ETIMEDOUT ECONNREFUSED
    EHOSTUNREACH EALREADY EINPROGRESS ECANCELED
];

/// A text of the library, in one word: a `&str` takes two.
#[derive(Clone, Copy)]
pub struct Name(*const c_char);

impl Name {
    pub const fn new(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }

    pub const fn as_ptr(self) -> *const c_char {
        self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: it was made of a C string, which is never freed.
        write_ascii(f, unsafe { CStr::from_ptr(self.0) })
    }
}

/// Writes a C string.
fn write_ascii(f: &mut fmt::Formatter<'_>, text: &CStr) -> fmt::Result {
    for byte in text.to_bytes() {
        let character = if byte.is_ascii() {
            char::from(*byte)
        } else {
            '?'
        };
        f.write_char(character)?;
    }
    Ok(())
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
    fn errno_values_have_names() {
        assert_eq!(ErrnoName(22).to_string(), "EINVAL");
        assert_eq!(ErrnoName(125).to_string(), "ECANCELED");
        assert_eq!(ErrnoName(93).to_string(), "EPROTONOSUPPORT");
        assert_eq!(ErrnoName(0).to_string(), "unknown error");
        assert_eq!(ErrnoName(-1).to_string(), "unknown error");
    }
}
