// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lock that costs two instructions when it is free. The standard one asks at each
//! turn whether the thread panics, which here none does.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::*};

use crate::errno::Errno;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may wait for it.
const WANTED: u32 = 2;

/// A value that one thread at a time can use.
#[derive(Default)]
pub struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is used by the holder only.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, as long as the lock is held.
pub struct Held<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        if self
            .state
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            self.wait();
        }
        Held(self)
    }

    /// As [`Self::lock`], unless it takes longer than that.
    pub fn lock_within(&self, longest: &libc::timespec) -> Option<Held<'_, T>> {
        if self
            .state
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_ok()
        {
            return Some(Held(self));
        }
        let errno = Errno::now();
        let mut is_over = false;
        while self.state.swap(WANTED, Acquire) != FREE {
            if is_over {
                errno.restore();
                return None;
            }
            is_over = !self.sleep(longest);
        }
        errno.restore();
        Some(Held(self))
    }

    /// Frees it in the child of a fork, where its holder may not exist; says whether it
    /// was held.
    pub fn free(&self) -> bool {
        self.state.swap(FREE, Relaxed) != FREE
    }

    /// The value, for whoever knows that the lock is held.
    pub const fn as_ptr(&self) -> *mut T {
        self.value.get()
    }

    #[cold]
    fn wait(&self) {
        let errno = Errno::now();
        while self.state.swap(WANTED, Acquire) != FREE {
            self.sleep(ptr::null());
        }
        errno.restore();
    }

    /// Sleeps while the lock is wanted; says whether the time is not over.
    fn sleep(&self, longest: *const libc::timespec) -> bool {
        // SAFETY: the state lives as long as the lock; NULL, or a time.
        let result = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.state.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                WANTED,
                longest,
            )
        };
        result == 0 || Errno::now().0 != libc::ETIMEDOUT
    }

    #[cold]
    fn wake_one(&self) {
        let errno = Errno::now();
        // SAFETY: wakes one sleeper, if there is one.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.state.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
        errno.restore();
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.state.swap(FREE, Release) == WANTED {
            self.0.wake_one();
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::Lock;

    #[test]
    fn nothing_is_lost() {
        static SUM: Lock<u64> = Lock::new(0);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for _ in 0..50_000 {
                        *SUM.lock() += 1;
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*SUM.lock(), 200_000);
    }
}
