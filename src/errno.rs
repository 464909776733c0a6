// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call failed, and how C is told: errno, the return value, a line in the log.
#![allow(clippy::inline_always)]

use core::ffi::{CStr, c_int, c_void};
use core::fmt::{self, Write};
use core::ptr;

use libc::{E2BIG, EAGAIN, EBUSY, EINTR, EINVAL, EIO, ENOTUNIQ, EOPNOTSUPP, ETIMEDOUT};
use rdma_verbs_bindings::{ibv_mr, ibv_wc_status, ibv_wr_opcode};

use crate::logger::{self, Name, Number};
use crate::status;

/// Why a call failed.
///
/// Results are passed on in many places, so this fits into two registers.
#[derive(Clone, Copy)]
pub enum Failure {
    /// A pointer that the call needs is NULL. Holds its name as the caller knows it.
    Null(Name),
    /// A buffer is longer than the 32 bits of a scatter/gather element can say.
    TooLong(usize),
    /// A receive buffer is not inside the memory region it is posted with. The details
    /// are in the frame of the exported function.
    OutsideRegion(*const Outside),
    /// A number of elements that the call cannot do anything with.
    Count(c_int),
    /// An element of an array, or a structure, has a size that this library does not know.
    Size(usize),
    /// The program uses a field that was added by a later version.
    UnknownField,
    /// No operation that a batch can post.
    Opcode(ibv_wr_opcode),
    /// An address that must be a multiple of 8 is not.
    Misaligned(Name),
    /// The event that ended the wait belongs to another completion queue.
    ForeignEvent,
    /// The event that ended the wait belongs to another completion queue, which has come to
    /// share the channel meanwhile.
    SharedChannel,
    /// The call took the completion of a request of the program.
    ForeignCompletion { wr_id: u64 },
    /// Requests of the call may be in flight, and cannot be waited for: errno was this.
    InFlight { errno: c_int },
    /// The provider posts nothing in the error state, so that nothing tells when the queue
    /// with this name is empty.
    NoMarker(Name),
    /// A request of the call, or one before it, completed with an error.
    Completed(ibv_wc_status),
    /// The time was over before the call was done.
    TimedOut,
    /// The provider does not implement the operation.
    NoOperation(Name),
    /// An operation of the provider returned an errno value, which the verbs specify to be
    /// positive; providers also return it negated.
    Refused { operation: Name, returned: c_int },
    /// An operation of the provider returned -1 and set errno, if to anything.
    MinusOne { operation: Name, errno: c_int },
    /// The provider failed to poll, for a reason that is not an errno value.
    PollError,
    /// A function failed and set errno.
    Failed { function: Name, errno: c_int },
    /// A function that waits for an event failed and set errno.
    NotWaited { function: Name, errno: c_int },
}

// What makes a failure is called, not inline: the path of success stays short.
impl Failure {
    /// An operation of the provider returned what is not 0. Inline, so that no register has
    /// to be saved for it on the path of success.
    #[inline(always)]
    pub fn refused(operation: Name, returned: c_int) -> Self {
        if returned == -1 {
            return Self::MinusOne {
                operation,
                errno: get(),
            };
        }
        Self::Refused {
            operation,
            returned,
        }
    }

    /// `ibv_poll_cq` returned what is not a number of completions.
    ///
    /// Unlike the other operations, providers return here a code of their own: -1 and
    /// -2 (`CQ_POLL_ERR`) are no errno values. libibverbs' stand-in for a missing
    /// operation returns a positive one, as if it had found so many completions.
    #[cold]
    #[inline(never)]
    pub fn poll_refused(returned: c_int) -> Self {
        if returned == POLL_ERROR {
            return Self::PollError;
        }
        Self::refused(POLL, returned)
    }

    /// A function failed and set errno. Inline, as `refused`.
    #[inline(always)]
    pub fn failed(function: Name) -> Self {
        Self::Failed {
            function,
            errno: get(),
        }
    }

    /// A function that waits for an event failed and set errno.
    #[cold]
    #[inline(never)]
    pub fn not_waited(function: Name) -> Self {
        Self::NotWaited {
            function,
            errno: get(),
        }
    }

    pub fn errno(self) -> c_int {
        match self {
            Self::Null(_)
            | Self::TooLong(_)
            | Self::OutsideRegion(_)
            | Self::Count(_)
            | Self::Size(_)
            | Self::Opcode(_)
            | Self::Misaligned(_)
            | Self::ForeignEvent => EINVAL,
            Self::UnknownField => E2BIG,
            Self::SharedChannel => ENOTUNIQ,
            Self::ForeignCompletion { .. } => EBUSY,
            Self::Completed(status) => status::errno(status),
            Self::TimedOut | Self::InFlight { .. } => ETIMEDOUT,
            Self::NoOperation(_) | Self::NoMarker(_) => EOPNOTSUPP,
            Self::Refused { returned, .. } => returned.wrapping_abs(),
            Self::PollError => EIO,
            Self::MinusOne { errno, .. } => known(errno),
            Self::Failed { errno, .. } | Self::NotWaited { errno, .. } => errno,
        }
    }

    /// Whether a wait was interrupted, or would have blocked: no fault of anybody.
    pub fn is_early_end(self) -> bool {
        matches!(
            self,
            Self::NotWaited {
                errno: EAGAIN | EINTR,
                ..
            }
        )
    }

    fn level(self) -> log::Level {
        if self.is_early_end() {
            log::Level::Debug
        } else {
            log::Level::Error
        }
    }
}

/// The operation that finds completions, and what it returns when it failed to.
pub const POLL: Name = Name::new(c"poll_cq");
const POLL_ERROR: c_int = -2;

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const RETURNED: &str = "the provider's @ returned #";
        const NO_NAME: Name = Name::new(c"");
        const NO_NUMBER: Number = Number::Signed(0);
        // The name stands at @, the number at #.
        let (text, name, number) = match *self {
            // SAFETY: the exported function has not returned yet.
            Self::OutsideRegion(details) => return unsafe { details.read() }.fmt(f),
            Self::Completed(status) => return status::text(status).fmt(f),
            Self::Null(name) => ("@ is NULL", name, NO_NUMBER),
            Self::TooLong(length) => {
                let text = "length # exceeds the limit of one buffer (4294967295)";
                (text, NO_NAME, Number::Decimal(length as u64))
            }
            Self::Count(count) => ("n is #", NO_NAME, Number::Signed(count)),
            Self::Size(size) => {
                let text = "a size of # is not supported";
                (text, NO_NAME, Number::Decimal(size as u64))
            }
            Self::Opcode(opcode) => {
                let text = "opcode # is not supported in a batch";
                (text, NO_NAME, Number::Decimal(u64::from(opcode)))
            }
            Self::Misaligned(name) => ("@ is not a multiple of 8", name, NO_NUMBER),
            Self::UnknownField => {
                let text = "a field is set that this version does not know";
                (text, NO_NAME, NO_NUMBER)
            }
            Self::SharedChannel => {
                let text = "the event was for a completion queue created during the wait";
                (text, NO_NAME, NO_NUMBER)
            }
            Self::ForeignEvent => {
                let text = "the event was for another completion queue on the channel";
                (text, NO_NAME, NO_NUMBER)
            }
            Self::ForeignCompletion { wr_id } => {
                let text = "took the completion of another request, wr_id #";
                (text, NO_NAME, Number::Hex(wr_id))
            }
            Self::InFlight { errno } => {
                let text = "requests may be in flight and cannot be waited for: errno #";
                (text, NO_NAME, Number::Signed(errno))
            }
            Self::NoMarker(name) => {
                let text = "the provider accepts no requests in the error state: \
                            cannot tell when the @ is empty";
                (text, name, NO_NUMBER)
            }
            Self::TimedOut => ("not completed in time", NO_NAME, NO_NUMBER),
            Self::NoOperation(name) => ("the provider does not implement @", name, NO_NUMBER),
            Self::Refused {
                operation,
                returned,
            } => (RETURNED, operation, Number::Signed(returned)),
            Self::MinusOne { operation, .. } => (RETURNED, operation, Number::Signed(-1)),
            Self::PollError => (RETURNED, POLL, Number::Signed(POLL_ERROR)),
            Self::Failed { function, .. } | Self::NotWaited { function, .. } => {
                ("@ failed", function, NO_NUMBER)
            }
        };
        for byte in text.bytes() {
            match byte {
                b'@' => name.fmt(f)?,
                b'#' => number.fmt(f)?,
                byte => f.write_char(char::from(byte))?,
            }
        }
        Ok(())
    }
}

/// A receive buffer, and the region it is not inside of.
pub struct Outside {
    pub addr: *const c_void,
    pub length: usize,
    pub region_addr: *const c_void,
    pub region_length: usize,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (before, number) in [
            ("addr ", Number::Hex(self.addr as u64)),
            (" with length ", Number::Decimal(self.length as u64)),
            (
                " is not inside mr (addr ",
                Number::Hex(self.region_addr as u64),
            ),
            (", length ", Number::Decimal(self.region_length as u64)),
        ] {
            f.write_str(before)?;
            number.fmt(f)?;
        }
        f.write_str(")")
    }
}

/// The pointer, if it is not NULL.
pub fn not_null<T>(pointer: *mut T, name: &'static CStr) -> Result<*mut T, Failure> {
    if pointer.is_null() {
        return Err(Failure::Null(Name::new(name)));
    }
    Ok(pointer)
}

/// The result of an operation that returns 0 when it succeeds.
pub fn accepted(operation: &'static CStr, returned: c_int) -> Result<c_int, Failure> {
    if returned != 0 {
        return Err(Failure::refused(Name::new(operation), returned));
    }
    Ok(returned)
}

/// Makes a call that may get over failures of others: if it succeeds, errno is as it was.
pub fn undisturbed(call: impl FnOnce() -> Result<c_int, Failure>) -> Result<c_int, Failure> {
    let before = get();
    let result = call();
    if result.is_ok() {
        set(before);
    }
    result
}

/// A value that a helper returns to C.
pub trait Returned: Sized {
    /// What the helper returns when it failed.
    const FAILURE: Self;

    /// Tells C how the call went. On success errno stays as it was; on failure it is
    /// written last, after the line in the log.
    fn from_result(function: &'static CStr, result: Result<Self, Failure>) -> Self {
        match result {
            Ok(value) => value,
            Err(ref failure) => {
                report(Name::new(function), failure);
                Self::FAILURE
            }
        }
    }
}

impl Returned for c_int {
    const FAILURE: Self = -1;
}

impl Returned for *mut ibv_mr {
    const FAILURE: Self = ptr::null_mut();
}

#[cold]
#[inline(never)]
fn report(function: Name, failure: &Failure) {
    let errno = failure.errno();
    log::log!(
        failure.level(),
        "{function}: {failure}: {} (errno {})",
        logger::ErrnoName(errno),
        Number::Signed(errno)
    );
    set(errno);
}

/// The errno of a call that failed, which may not have set it.
fn known(errno: c_int) -> c_int {
    if errno == 0 { EIO } else { errno }
}

/// Where this thread's errno is.
#[inline(always)]
pub fn place() -> *mut c_int {
    // SAFETY: the C library returns an address that is valid while the thread lives.
    unsafe { libc::__errno_location() }
}

/// What errno is now.
fn get() -> c_int {
    // SAFETY: the C library returns the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set(errno: c_int) {
    // SAFETY: as in `get`.
    unsafe { *libc::__errno_location() = errno }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    /// The errno values that the library itself chooses or treats in a special way.
    const OWN: [(&str, c_int); 9] = [
        ("E2BIG", E2BIG),
        ("EAGAIN", EAGAIN),
        ("EBUSY", EBUSY),
        ("EINTR", EINTR),
        ("EINVAL", EINVAL),
        ("EIO", EIO),
        ("ENOTUNIQ", ENOTUNIQ),
        ("EOPNOTSUPP", EOPNOTSUPP),
        ("ETIMEDOUT", ETIMEDOUT),
    ];

    /// The first two columns of a table in docs/troubleshooting.md, without its head.
    fn rows(heading: &str) -> Vec<[String; 2]> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/troubleshooting.md");
        let text = std::fs::read_to_string(path).unwrap();
        let section = text.split("\n## ").find(|text| text.starts_with(heading));
        section
            .unwrap()
            .lines()
            .filter(|line| line.starts_with('|'))
            .skip(2)
            .map(|line| {
                let cells: Vec<_> = line.split('|').collect();
                [1, 2].map(|i| cells[i].trim().trim_matches('`').to_owned())
            })
            .collect()
    }

    /// One failure of each kind, in a chain: a new kind does not compile without a place in it.
    fn next(failure: Option<Failure>, outside: &Outside) -> Option<Failure> {
        const NAME: Name = Name::new(c"name");
        Some(match failure {
            None => Failure::Null(NAME),
            Some(Failure::Null(_)) => Failure::TooLong(1),
            Some(Failure::TooLong(_)) => Failure::OutsideRegion(outside),
            Some(Failure::OutsideRegion(_)) => Failure::Count(1),
            Some(Failure::Count(_)) => Failure::Size(1),
            Some(Failure::Size(_)) => Failure::UnknownField,
            Some(Failure::UnknownField) => Failure::Opcode(1),
            Some(Failure::Opcode(_)) => Failure::Misaligned(NAME),
            Some(Failure::Misaligned(_)) => Failure::ForeignEvent,
            Some(Failure::ForeignEvent) => Failure::SharedChannel,
            Some(Failure::SharedChannel) => Failure::ForeignCompletion { wr_id: 1 },
            Some(Failure::ForeignCompletion { .. }) => Failure::InFlight { errno: 1 },
            Some(Failure::InFlight { .. }) => Failure::NoMarker(NAME),
            Some(Failure::NoMarker(_)) => Failure::TimedOut,
            Some(Failure::TimedOut) => Failure::NoOperation(NAME),
            Some(Failure::NoOperation(_)) => Failure::Refused {
                operation: NAME,
                returned: 1,
            },
            Some(Failure::Refused { .. }) => Failure::MinusOne {
                operation: NAME,
                errno: 1,
            },
            Some(Failure::MinusOne { .. }) => Failure::PollError,
            Some(Failure::PollError) => Failure::Failed {
                function: NAME,
                errno: 1,
            },
            Some(Failure::Failed { .. }) => Failure::NotWaited {
                function: NAME,
                errno: 1,
            },
            // A completion's status has a table and a test of its own.
            Some(Failure::NotWaited { .. } | Failure::Completed(_)) => return None,
        })
    }

    /// Whether a text is what the pattern says, in which … stands for anything.
    fn fits(pattern: &str, text: &str) -> bool {
        let Some((start, rest)) = pattern.split_once('…') else {
            return pattern == text;
        };
        text.strip_prefix(start)
            .is_some_and(|text| (1..=text.len()).any(|end| fits(rest, &text[end..])))
    }

    #[test]
    fn troubleshooting_has_each_reason_with_its_errno() {
        let outside = Outside {
            addr: ptr::null(),
            length: 1,
            region_addr: ptr::null(),
            region_length: 1,
        };
        let mut unused = rows("By log message");
        let documented = unused.clone();
        let failures =
            core::iter::successors(next(None, &outside), |last| next(Some(*last), &outside));
        for failure in failures {
            let reason = failure.to_string();
            let row = documented
                .iter()
                .find(|[pattern, _]| fits(pattern, &reason));
            assert!(row.is_some(), "no row for: {reason}");
            let [pattern, errno] = row.unwrap();
            unused.retain(|[other, _]| other != pattern);
            if errno.starts_with('E') {
                let value = OWN.iter().find(|(name, _)| name == errno).unwrap().1;
                assert_eq!(failure.errno(), value, "{reason}");
            }
        }
        assert!(unused.is_empty(), "never logged: {unused:?}");
    }

    #[test]
    fn troubleshooting_has_each_errno() {
        let documented = rows("By errno");
        for (name, _) in OWN {
            assert!(documented.iter().any(|[errno, _]| errno == name), "{name}");
        }
    }
}
