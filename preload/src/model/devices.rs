// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a device was opened: by this process, its parent, or a child of it.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

static OPENED: AtomicBool = AtomicBool::new(false);
/// The parent of this process has opened a device before it forked.
static HAS_INHERITED: AtomicBool = AtomicBool::new(false);
/// Whether this process or a child of it has opened a device: all see the same.
static ANY_OPENED: AtomicPtr<AtomicBool> = AtomicPtr::new(ptr::null_mut());

/// At the start.
pub fn share_with_children() {
    // SAFETY: a fresh page, zeroed.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<AtomicBool>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if page != libc::MAP_FAILED {
        ANY_OPENED.store(page.cast(), Relaxed);
    }
}

fn any() -> Option<&'static AtomicBool> {
    // SAFETY: NULL, or a page that is never unmapped.
    unsafe { ANY_OPENED.load(Relaxed).as_ref() }
}

/// A device was opened.
pub fn opened() {
    OPENED.store(true, Relaxed);
    if let Some(any) = any() {
        any.store(true, Relaxed);
    }
}

/// Whether this process has opened a device.
pub fn has_opened() -> bool {
    OPENED.load(Relaxed)
}

/// Whether this process or a child of it has.
pub fn any_has_opened() -> bool {
    any().is_some_and(|any| any.load(Relaxed))
}

/// Whether the parent of this process had, before it forked.
pub fn has_inherited() -> bool {
    HAS_INHERITED.load(Relaxed)
}

/// In the child of a fork.
pub fn forget() {
    HAS_INHERITED.store(has_opened() || has_inherited(), Relaxed);
    OPENED.store(false, Relaxed);
}
