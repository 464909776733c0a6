// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that the library posts on its own account.
//!
//! Their completions arrive among those of the program, and one that was given up may
//! arrive during a later call. So each call has a `wr_id` that no other has, and all of
//! them have a mark.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};

use rdma_verbs_bindings::{IBV_SEND_SIGNALED, ibv_recv_wr, ibv_send_wr, ibv_wr_opcode, rdma_cm_id};

use crate::errno::Failure;
use crate::post::{request, submit, submit_recv};

/// The upper half of the `wr_id`: "rdmx". No address of a program has it.
const MARK: u64 = 0x7264_6d78;

static CALLS: AtomicU32 = AtomicU32::new(0);

/// A `wr_id` for the requests of one call.
///
/// Queue pairs complete requests in order, so one that was given up is met before 2^32
/// calls have gone by.
pub fn new_wr_id() -> u64 {
    (MARK << u32::BITS) | u64::from(CALLS.fetch_add(1, Ordering::Relaxed))
}

/// Whether a request was posted by the library, in this call or another.
pub fn is_own(wr_id: u64) -> bool {
    wr_id >> u32::BITS == MARK
}

/// A request without data, which is signaled.
#[allow(clippy::cast_possible_wrap)] // A small number; C passes it as int.
pub fn own_request(opcode: ibv_wr_opcode, wr_id: u64) -> ibv_send_wr {
    let context = wr_id as *mut c_void;
    request(
        opcode,
        context,
        ptr::null_mut(),
        0,
        IBV_SEND_SIGNALED as c_int,
    )
}

/// What came of posting a request.
#[derive(Clone, Copy)]
pub enum Posted {
    /// It was queued.
    Yes,
    /// It was refused.
    No(Failure),
    /// The provider failed without saying that it has refused this request: it may be queued.
    /// soft-RoCE queues it first, and then fails to tell the device.
    Unknown(Failure),
}

/// Posts one send-side request.
///
/// # Safety
/// `id` points to an `rdma_cm_id`; the request and its elements are valid.
pub unsafe fn post_one(id: *mut rdma_cm_id, request: *mut ibv_send_wr) -> Posted {
    let mut bad = ptr::null_mut();
    // SAFETY: as the caller promises.
    let result = unsafe { submit(id, request, &raw mut bad) };
    Posted::new(result, bad == request)
}

/// Posts one receive.
///
/// # Safety
/// As for [`post_one`].
pub unsafe fn post_one_recv(id: *mut rdma_cm_id, request: *mut ibv_recv_wr) -> Posted {
    let mut bad = ptr::null_mut();
    // SAFETY: as the caller promises.
    let result = unsafe { submit_recv(id, request, &raw mut bad) };
    Posted::new(result, bad == request)
}

impl Posted {
    fn new(result: Result<c_int, Failure>, refused: bool) -> Self {
        match result {
            Ok(_) => Self::Yes,
            // Those come from us, before the provider is called.
            Err(failure @ (Failure::Null(_) | Failure::NoOperation(_))) => Self::No(failure),
            Err(failure) if refused => Self::No(failure),
            Err(failure) => Self::Unknown(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_another_and_all_are_marked() {
        let (first, second) = (new_wr_id(), new_wr_id());
        assert_ne!(first, second);
        assert!(is_own(first) && is_own(second));
        assert_eq!(first >> 32, 0x7264_6d78);
    }

    #[test]
    fn a_programs_are_not() {
        for wr_id in [0, 1, u64::MAX, 0x7264_6d78, 0x7fff_ffff_ffff] {
            assert!(!is_own(wr_id));
        }
    }
}
