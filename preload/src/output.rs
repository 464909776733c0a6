// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the output goes, and how it is put together without allocation.
//!
//! One write(2) for each line, to a descriptor in append mode: the lines of threads
//! and processes do not mix, and those of a program that is killed are all there.

use std::fmt::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed};

use rdma_verbs_settings::open_output;

use crate::errno::Errno;

/// Text of a bounded length; what does not fit is cut off.
pub struct Buffer<const SIZE: usize = 2048> {
    bytes: [u8; SIZE],
    length: usize,
    cut: bool,
}

impl<const SIZE: usize> Buffer<SIZE> {
    pub const fn new() -> Self {
        Self {
            bytes: [0; SIZE],
            length: 0,
            cut: false,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    pub fn is_cut(&self) -> bool {
        self.cut
    }

    pub fn clear(&mut self) {
        self.length = 0;
        self.cut = false;
    }

    /// Ends the line, also where there is no room left.
    pub fn end_line(&mut self) {
        if self.cut || self.length == SIZE {
            self.length = self.length.min(SIZE - 4);
            self.cut = false;
            let _ = self.write_str("...");
        }
        let _ = self.write_str("\n");
    }
}

impl<const SIZE: usize> Write for Buffer<SIZE> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = SIZE.saturating_sub(self.length);
        let taken = text.len().min(room);
        if let (Some(to), Some(from)) = (
            self.bytes
                .get_mut(self.length..self.length.saturating_add(taken)),
            text.as_bytes().get(..taken),
        ) {
            to.copy_from_slice(from);
            self.length = self.length.saturating_add(taken);
        }
        self.cut |= taken < text.len();
        Ok(())
    }
}

static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
/// A write may raise SIGPIPE, which would end the program.
static IS_PIPE: AtomicBool = AtomicBool::new(false);

/// Above what programs use, so that those that close all descriptors they know of, or
/// expect the lowest free one, do not notice.
const HIGH: i32 = 200;

/// Opens the output: a file, or what standard error is now.
pub fn open(path: Option<&Path>) -> Result<(), std::io::Error> {
    let file = match path {
        Some(path) => Some(open_output(path)?),
        None => None,
    };
    let from = file
        .as_ref()
        .map_or(libc::STDERR_FILENO, AsRawFd::as_raw_fd);
    // SAFETY: no pointers; the descriptors are checked by the system.
    let mut descriptor = unsafe { libc::fcntl(from, libc::F_DUPFD_CLOEXEC, HIGH) };
    if descriptor < 0 {
        // The limit on descriptors may be lower.
        descriptor = match file {
            Some(file) => file.into_raw_fd(),
            None => libc::STDERR_FILENO,
        };
    }
    if let Some(about) = about(descriptor) {
        DEVICE.store(about.st_dev, Relaxed);
        INODE.store(about.st_ino, Relaxed);
        let kind = about.st_mode & libc::S_IFMT;
        IS_PIPE.store(kind == libc::S_IFIFO || kind == libc::S_IFSOCK, Relaxed);
        DESCRIPTOR.store(descriptor, Relaxed);
    }
    Ok(())
}

fn about(descriptor: i32) -> Option<libc::stat> {
    // SAFETY: zeros are a valid stat, which is this frame's.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut about) == 0).then_some(about)
    }
}

/// The descriptor, unless the program has closed it: then its number may be the
/// program's own by now.
fn descriptor() -> Option<i32> {
    let descriptor = DESCRIPTOR.load(Relaxed);
    let about = about(descriptor)?;
    (about.st_dev == DEVICE.load(Relaxed) && about.st_ino == INODE.load(Relaxed))
        .then_some(descriptor)
}

/// The length of the output file, where it is one.
pub fn length() -> Option<u64> {
    let about = about(descriptor()?)?;
    (about.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(about.st_size as u64)
}

/// Writes, and leaves errno alone; nothing can be done about what cannot be written. May
/// be called by a signal handler.
pub fn write(bytes: &[u8]) {
    let errno = Errno::now();
    if let Some(descriptor) = descriptor() {
        if IS_PIPE.load(Relaxed) {
            without_sigpipe(|| write_all(descriptor, bytes));
        } else {
            write_all(descriptor, bytes);
        }
    }
    errno.restore();
}

/// # Errors
/// Whether the reader is gone.
fn write_all(descriptor: i32, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // Not libc::write: that is a cancellation point, and the thread may hold a lock.
        // SAFETY: the pointer and the length are those of a slice.
        let written =
            unsafe { libc::syscall(libc::SYS_write, descriptor, bytes.as_ptr(), bytes.len()) };
        if let Ok(written) = usize::try_from(written) {
            bytes = bytes.get(written..).unwrap_or_default();
            continue;
        }
        match Errno::now().0 {
            libc::EINTR => {}
            libc::EAGAIN => wait_for_room(descriptor),
            libc::EPIPE => return true,
            _ => return false,
        }
    }
    false
}

fn wait_for_room(descriptor: i32) {
    let mut wanted = libc::pollfd {
        fd: descriptor,
        events: libc::POLLOUT,
        revents: 0,
    };
    let wanted = &raw mut wanted;
    let none = ptr::null::<libc::c_void>();
    // SAFETY: one pollfd, which is this frame's; no time-out and no signal mask.
    unsafe { libc::syscall(libc::SYS_ppoll, wanted, 1usize, none, none, 0usize) };
}

fn without_sigpipe(write: impl FnOnce() -> bool) {
    // SAFETY: zeros are a valid set; all pointers are to this frame.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::sigpending(&raw mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        let reader_is_gone = write();
        if reader_is_gone && libc::sigismember(&raw const pending, libc::SIGPIPE) == 0 {
            let at_once = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const pipe,
                ptr::null::<libc::c_void>(),
                &raw const at_once,
                8usize,
            );
            DESCRIPTOR.store(-1, Relaxed);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
    }
}

/// Writes one line of its own: `rdma-verbs: …`.
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = Buffer::<1024>::new();
    let _ = write!(line, "rdma-verbs: {text}");
    line.end_line();
    write(line.bytes());
}

#[cfg(test)]
mod tests {
    use super::Buffer;
    use std::fmt::Write;

    #[test]
    fn cuts_what_does_not_fit() {
        let mut buffer = Buffer::<8>::new();
        buffer.write_str("1234").unwrap();
        buffer.end_line();
        assert_eq!(buffer.bytes(), b"1234\n");
        buffer.write_str("567890").unwrap();
        buffer.end_line();
        assert_eq!(buffer.bytes(), b"1234...\n");
    }
}
