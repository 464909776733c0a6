// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call failed, and how C is told: errno, the return value, a line in the log.

use core::ffi::{c_int, c_void};
use core::fmt;
use core::ptr;

use libc::{EAGAIN, EINTR, EINVAL, EIO, EOPNOTSUPP};
use rdma_verbs_bindings::ibv_mr;

use crate::logger;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// A pointer that the call needs is NULL. Holds its name as the caller knows it.
    Null(&'static str),
    /// A buffer is longer than the 32 bits of a scatter/gather element can say.
    TooLong(usize),
    /// A receive buffer is not inside the memory region it is posted with.
    OutsideRegion {
        addr: *const c_void,
        length: usize,
        region_addr: *const c_void,
        region_length: usize,
    },
    /// The event that ended the wait belongs to another completion queue.
    ForeignEvent,
    /// The provider does not implement the operation.
    NoOperation(&'static str),
    /// An operation of the provider returned a code for failure.
    Refused {
        operation: &'static str,
        returned: c_int,
        errno: c_int,
    },
    /// A function of libibverbs failed and set errno.
    Failed {
        function: &'static str,
        errno: c_int,
    },
}

impl Failure {
    /// An operation of the provider returned `returned`, which is not 0.
    ///
    /// The verbs specify a positive errno value. Providers also return it negated, or
    /// return -1 and set errno.
    #[cold]
    pub fn refused(operation: &'static str, returned: c_int) -> Self {
        let errno = match returned {
            -1 => match get() {
                0 => EIO,
                errno => errno,
            },
            code => code.wrapping_abs(),
        };
        Self::Refused {
            operation,
            returned,
            errno,
        }
    }

    /// `ibv_poll_cq` returned the negative number `returned`.
    ///
    /// Unlike the other operations, providers return here a code of their own: -1 and
    /// -2 (`CQ_POLL_ERR`) are no errno values.
    #[cold]
    pub fn poll_refused(returned: c_int) -> Self {
        const POLL_ERROR: c_int = -2;
        match Self::refused("poll_cq", returned) {
            Self::Refused { operation, .. } if returned == POLL_ERROR => Self::Refused {
                operation,
                returned,
                errno: EIO,
            },
            failure => failure,
        }
    }

    /// A function of libibverbs failed and set errno.
    #[cold]
    pub fn failed(function: &'static str) -> Self {
        Self::Failed {
            function,
            errno: get(),
        }
    }

    fn errno(&self) -> c_int {
        match *self {
            Self::Null(_) | Self::TooLong(_) | Self::OutsideRegion { .. } | Self::ForeignEvent => {
                EINVAL
            }
            Self::NoOperation(_) => EOPNOTSUPP,
            Self::Refused { errno, .. } | Self::Failed { errno, .. } => errno,
        }
    }

    /// A wait that was interrupted, or would have blocked, is no fault of anybody.
    fn level(&self) -> log::Level {
        match *self {
            Self::Failed {
                function: "ibv_get_cq_event",
                errno: EAGAIN | EINTR,
            } => log::Level::Debug,
            _ => log::Level::Error,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Null(name) => write!(f, "{name} is NULL"),
            Self::TooLong(length) => write!(
                f,
                "length {length} is more than one buffer can have ({})",
                u32::MAX
            ),
            Self::OutsideRegion {
                addr,
                length,
                region_addr,
                region_length,
            } => write!(
                f,
                "addr {addr:p} with length {length} is not inside mr \
                 (addr {region_addr:p}, length {region_length})"
            ),
            Self::ForeignEvent => {
                f.write_str("the event on the channel is of another completion queue")
            }
            Self::NoOperation(operation) => write!(f, "the provider has no {operation}"),
            Self::Refused {
                operation,
                returned,
                ..
            } => write!(f, "the provider's {operation} returned {returned}"),
            Self::Failed { function, .. } => write!(f, "{function} failed"),
        }
    }
}

/// The pointer, if it is not NULL.
pub fn not_null<T>(pointer: *mut T, name: &'static str) -> Result<*mut T, Failure> {
    if pointer.is_null() {
        return Err(Failure::Null(name));
    }
    Ok(pointer)
}

/// The result of an operation that returns 0 when it succeeds.
pub fn accepted(operation: &'static str, returned: c_int) -> Result<c_int, Failure> {
    if returned != 0 {
        return Err(Failure::refused(operation, returned));
    }
    Ok(returned)
}

/// A value that a helper returns to C.
pub trait Returned: Sized {
    /// What the helper returns when it failed.
    const FAILURE: Self;

    /// Tells C how the call went. On success errno stays as it was; on failure it is
    /// written last, after the line in the log.
    fn from_result(function: &'static str, result: Result<Self, Failure>) -> Self {
        match result {
            Ok(value) => value,
            Err(failure) => {
                report(function, &failure);
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
fn report(function: &'static str, failure: &Failure) {
    let errno = failure.errno();
    log::log!(
        failure.level(),
        "{function}: {failure}: {} (errno {errno})",
        logger::ErrnoText(errno)
    );
    set(errno);
}

fn get() -> c_int {
    // SAFETY: the C library returns the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

fn set(errno: c_int) {
    // SAFETY: as in `get`.
    unsafe { *libc::__errno_location() = errno }
}
