// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lists of work requests that a post takes.

use std::ffi::c_int;
use std::{iter, ptr};

use rdma_verbs_bindings::{ibv_recv_wr, ibv_send_wr};

/// A work request that names the next one.
pub trait Linked {
    fn next(&self) -> *mut Self;
}

impl Linked for ibv_send_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl Linked for ibv_recv_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

/// The requests of a list.
///
/// # Safety
/// `first` is NULL, or the first of requests that are all valid.
#[inline]
pub unsafe fn requests<'a, W: Linked + 'a>(first: *mut W) -> impl Iterator<Item = &'a W> + Clone {
    // SAFETY: by the contract of this function.
    iter::successors(unsafe { first.as_ref() }, |wr| unsafe {
        wr.next().as_ref()
    })
}

/// The requests that a call took, and the one that it refused; whether it took each.
///
/// # Safety
/// As of [`requests`]; `bad` is what the call was given, and `result` what it returned.
#[inline]
pub unsafe fn outcomes<'a, W: Linked + 'a>(
    first: *mut W,
    bad: *mut *mut W,
    result: c_int,
) -> impl Iterator<Item = (&'a W, bool)> {
    let refused = if result == 0 || bad.is_null() {
        ptr::null_mut()
    } else {
        // SAFETY: the call has failed, and so has set it.
        unsafe { *bad }
    };
    let is_accepted = move |wr: &W| result == 0 || (!ptr::eq(wr, refused) && !refused.is_null());
    let mut has_ended = false;
    // SAFETY: by the contract of this function.
    unsafe { requests(first) }.map_while(move |wr| {
        if has_ended {
            return None;
        }
        has_ended = !is_accepted(wr);
        Some((wr, !has_ended))
    })
}
