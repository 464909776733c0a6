// SPDX-License-Identifier: MIT OR Apache-2.0
//! errno: every hook leaves it as the hooked function left it.

use libc::c_int;

/// The value of errno at one moment.
#[derive(Clone, Copy)]
pub struct Errno(pub c_int);

impl Errno {
    pub fn now() -> Self {
        // SAFETY: the address of the thread's errno.
        Self(unsafe { *libc::__errno_location() })
    }

    pub fn restore(self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 }
    }
}

/// The symbol of an error number; positive and negative numbers mean the same.
pub fn name(error: c_int) -> Option<&'static str> {
    Some(match error.wrapping_abs() {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENOSPC => "ENOSPC",
        libc::ERANGE => "ERANGE",
        libc::ENOSYS => "ENOSYS",
        libc::ENODATA => "ENODATA",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ECONNRESET => "ECONNRESET",
        libc::ENOTCONN => "ENOTCONN",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        _ => return None,
    })
}
