// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the output goes, and how it is put together without allocation.
//!
//! One system call for each line, to a descriptor in append mode: the lines of threads
//! and processes do not mix, and those of a program that is killed are all there.

use std::fmt::{self, Write};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use rdma_verbs_settings::open_output;

use crate::errno::Errno;

/// Text of a bounded length, in an array or in a box; what does not fit is cut off.
pub struct Buffer<Bytes = [u8; 1024]> {
    bytes: Bytes,
    length: usize,
    cut: bool,
}

impl<const SIZE: usize> Buffer<[u8; SIZE]> {
    pub const fn new() -> Self {
        Self {
            bytes: [0; SIZE],
            length: 0,
            cut: false,
        }
    }
}

impl Buffer<Box<[u8]>> {
    pub fn boxed(size: usize) -> Self {
        Self {
            bytes: vec![0; size].into_boxed_slice(),
            length: 0,
            cut: false,
        }
    }
}

impl<Bytes: AsRef<[u8]> + AsMut<[u8]>> Buffer<Bytes> {
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref().get(..self.length).unwrap_or_default()
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
        let size = self.bytes.as_ref().len();
        if self.cut || self.length == size {
            self.length = self.length.min(size.saturating_sub(4));
            self.cut = false;
            let _ = self.write_str("...");
        }
        let _ = self.write_str("\n");
    }
}

impl<Bytes: AsRef<[u8]> + AsMut<[u8]>> Write for Buffer<Bytes> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self
            .bytes
            .as_mut()
            .get_mut(self.length..)
            .unwrap_or_default();
        let taken = text.len().min(room.len());
        if let (Some(to), Some(from)) = (room.get_mut(..taken), text.as_bytes().get(..taken)) {
            to.copy_from_slice(from);
        }
        self.length = self.length.saturating_add(taken);
        self.cut |= taken < text.len();
        Ok(())
    }
}

static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);
/// The output has a file of its own, which no program closes by mistake.
static IS_OWN: AtomicBool = AtomicBool::new(false);
/// A write may raise SIGPIPE, which would end the program.
static IS_PIPE: AtomicBool = AtomicBool::new(false);

/// Above what programs use, so that those that expect the lowest free one do not notice;
/// the first where the limit on descriptors allows it.
const HIGH: [i32; 2] = [1000, 200];

/// Opens the output: a file, or what standard error is now.
pub fn open(path: Option<&Path>) -> Result<(), std::io::Error> {
    let file = match path {
        Some(path) => Some(open_output(path)?),
        None => None,
    };
    let from = file
        .as_ref()
        .map_or(libc::STDERR_FILENO, AsRawFd::as_raw_fd);
    let high = HIGH
        .iter()
        .map(|&least| duplicate(from, least))
        .find(|&number| number >= 0);
    let descriptor = match (high, file) {
        (Some(number), _) => number,
        (None, Some(file)) => file.into_raw_fd(),
        (None, None) => libc::STDERR_FILENO,
    };
    if let Some(about) = about(descriptor) {
        let kind = about.st_mode & libc::S_IFMT;
        IS_PIPE.store(kind == libc::S_IFIFO || kind == libc::S_IFSOCK, Relaxed);
        IS_OWN.store(path.is_some(), Relaxed);
        DESCRIPTOR.store(descriptor, Relaxed);
    }
    Ok(())
}

fn duplicate(descriptor: i32, at_least: i32) -> i32 {
    // SAFETY: no pointers; the descriptor is checked by the system.
    unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, at_least) }
}

fn about(descriptor: i32) -> Option<libc::stat> {
    // SAFETY: zeros are a valid stat, which is this frame's.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut about) == 0).then_some(about)
    }
}

/// The output's descriptor where the program must not find it: without this library, it
/// would not be there. Standard error is the program's to close.
pub fn hidden() -> Option<i32> {
    let descriptor = DESCRIPTOR.load(Relaxed);
    (descriptor >= 0 && IS_OWN.load(Relaxed)).then_some(descriptor)
}

pub fn is_at(descriptor: i32) -> bool {
    descriptor >= 0 && descriptor == DESCRIPTOR.load(Relaxed)
}

/// Goes to another number.
pub fn make_way() {
    let descriptor = DESCRIPTOR.load(Relaxed);
    DESCRIPTOR.store(duplicate(descriptor, descriptor.saturating_add(1)), Relaxed);
}

/// The length of the output file, where it is one.
pub fn length() -> Option<u64> {
    let about = about(DESCRIPTOR.load(Relaxed))?;
    (about.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(about.st_size as u64)
}

/// Writes, and leaves errno alone; nothing can be done about what cannot be written. May
/// be called by a signal handler.
pub fn write(mut bytes: &[u8]) {
    let errno = Errno::now();
    while !bytes.is_empty() {
        let descriptor = DESCRIPTOR.load(Relaxed);
        match usize::try_from(write_some(descriptor, bytes)) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(_) => match Errno::now().0 {
                libc::EINTR => {}
                libc::EAGAIN => wait_for_room(descriptor),
                libc::EPIPE | libc::EBADF => {
                    // The reader is gone; or the program has closed it, and may get the
                    // number for something else.
                    DESCRIPTOR.store(-1, Relaxed);
                    break;
                }
                _ => break,
            },
        }
    }
    errno.restore();
}

/// The kernel does not know `RWF_NOSIGNAL`, which is new in Linux 6.18.
static IS_OLD: AtomicBool = AtomicBool::new(false);
const RWF_NOSIGNAL: usize = 0x100;

fn write_some(descriptor: i32, bytes: &[u8]) -> libc::c_long {
    // Not libc::write: that is a cancellation point, and the thread may hold a lock.
    let write = || {
        // SAFETY: the pointer and the length are those of a slice.
        unsafe { libc::syscall(libc::SYS_write, descriptor, bytes.as_ptr(), bytes.len()) }
    };
    if !IS_PIPE.load(Relaxed) {
        return write();
    }
    if !IS_OLD.load(Relaxed) {
        let part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: one vector, of a slice, from which is read; at the present position.
        let written = unsafe {
            let (part, position) = (&raw const part, -1isize);
            libc::syscall(
                libc::SYS_pwritev2,
                descriptor,
                part,
                1usize,
                position,
                position,
                RWF_NOSIGNAL,
            )
        };
        if written >= 0
            || !matches!(
                Errno::now().0,
                libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS
            )
        {
            return written;
        }
        IS_OLD.store(true, Relaxed);
    }
    without_sigpipe(write)
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

/// Holds back the SIGPIPE of a write, and only that.
fn without_sigpipe(write: impl FnOnce() -> libc::c_long) -> libc::c_long {
    // SAFETY: zeros are a valid set; all pointers are to this frame.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        let is_blocked = libc::sigismember(&raw const before, libc::SIGPIPE) == 1;
        if is_blocked {
            libc::sigpending(&raw mut pending);
        }
        let written = write();
        let errno = Errno::now();
        if written < 0
            && errno.0 == libc::EPIPE
            && libc::sigismember(&raw const pending, libc::SIGPIPE) == 0
        {
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
        }
        if !is_blocked {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        }
        errno.restore();
        written
    }
}

/// Writes one line of its own: `rdma-verbs: …`.
#[cold]
#[inline(never)]
pub fn say(text: fmt::Arguments<'_>) {
    let mut line = Buffer::<[u8; 1024]>::new();
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
        let mut buffer = Buffer::<[u8; 8]>::new();
        buffer.write_str("1234").unwrap();
        buffer.end_line();
        assert_eq!(buffer.bytes(), b"1234\n");
        buffer.write_str("567890").unwrap();
        buffer.end_line();
        assert_eq!(buffer.bytes(), b"1234...\n");
    }
}
