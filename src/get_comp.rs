// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for one completion.
// The rest of the library is optimised for size, this for speed.
#![allow(clippy::inline_always)]

use core::ffi::c_int;

use rdma_verbs_bindings::{ibv_wc, rdma_cm_id};

use crate::completion::{Side, arm, poll, wait};
use crate::errno::{Failure, not_null};

/// Takes one completion, waiting for it if need be.
///
/// # Safety
/// `id` is NULL or points to an `rdma_cm_id`; `wc` is NULL or points to an `ibv_wc`.
#[inline(always)]
pub unsafe fn next(side: Side, id: *mut rdma_cm_id, wc: *mut ibv_wc) -> Result<c_int, Failure> {
    not_null(id, c"id")?;
    // SAFETY: `id` is not NULL, so it is valid, and so is its queue where it has one.
    unsafe {
        let queue = side.queue(id)?;
        not_null(wc, c"wc")?;
        let found = poll(queue, 1, wc)?;
        if found != 0 {
            return Ok(found);
        }
        wait_for_next(side, id, wc)
    }
}

/// Takes the next completion of a queue that was found empty.
///
/// A completion that arrives before the queue is armed raises no event. So the queue is
/// polled once more between arming and waiting; and since an event may be stale (its
/// completion taken by an earlier poll), the queue is armed again after each event that
/// leaves it empty.
///
/// # Safety
/// `id` and `wc` are valid, and so is the queue.
#[inline(never)]
unsafe fn wait_for_next(
    side: Side,
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises; the channel is valid where there is one.
    unsafe {
        let queue = side.queue(id)?;
        let (channel, channel_name) = side.channel(id);
        loop {
            arm(queue)?;
            let found = poll(queue, 1, wc)?;
            if found != 0 {
                return Ok(found);
            }
            wait(queue, not_null(channel, channel_name)?)?;
            let found = poll(queue, 1, wc)?;
            if found != 0 {
                return Ok(found);
            }
        }
    }
}
