// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exported functions: documentation, and one call each.
//!
//! The documentation is written for readers of the C header, which is generated from this
//! file. The manual pages have the details.
// The signatures are in the style of librdmacm's, and names in C comments have no backticks.
#![allow(clippy::too_many_arguments, clippy::doc_markdown)]

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;

use rdma_verbs_bindings::{__be32, ibv_mr, ibv_wc, rdma_cm_id};

use super::batch::{Entries, rdmax_rdma, rdmax_recv, rdmax_send};
use super::operation::Atomic;
use super::transfer::{Buffers, Direction};
use super::{batch, drain, limits, operation, transfer, waiting};
use crate::completion::Side;
use crate::errno::Returned;
use crate::{memory, status};

/// Takes one completion of the send queue of `id`, waiting for it up to `timeout_ms`.
///
/// `timeout_ms` is in milliseconds, as in poll(2): 0 returns at once, a negative value waits
/// indefinitely. Check `wc->status` first: a failed request completes, too.
///
/// Returns 1 with `*wc` filled, 0 if there was none before the timeout, or -1 with errno. After
/// 0 the queue is armed, and its file descriptor (`rdmax_send_comp_fd`) becomes readable with
/// the next completion.
///
/// - EINVAL: `id`, `wc` or `id->send_cq` is NULL; `id->send_cq_channel` is NULL and the call
///   would have to wait; the event was for another queue (it is acknowledged there).
/// - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again with
///   the remaining time.
/// - EIO: the provider cannot poll the queue.
/// - Others: as set by ppoll(2) and ibv_get_cq_event(3).
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to an `ibv_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_send_comp(
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_send_comp", unsafe {
        waiting::take(Side::Send, id, 1, wc, timeout_ms)
    })
}

/// Takes one completion of the receive queue of `id`, waiting for it up to `timeout_ms`.
///
/// `timeout_ms` is in milliseconds, as in poll(2): 0 returns at once, a negative value waits
/// indefinitely. Check `wc->status` first: a failed request completes, too.
///
/// Returns 1 with `*wc` filled, 0 if there was none before the timeout, or -1 with errno. After
/// 0 the queue is armed, and its file descriptor (`rdmax_recv_comp_fd`) becomes readable with
/// the next completion.
///
/// - EINVAL: `id`, `wc` or `id->recv_cq` is NULL; `id->recv_cq_channel` is NULL and the call
///   would have to wait; the event was for another queue (it is acknowledged there).
/// - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again with
///   the remaining time.
/// - EIO: the provider cannot poll the queue.
/// - Others: as set by ppoll(2) and ibv_get_cq_event(3).
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to an `ibv_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_recv_comp(
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_recv_comp", unsafe {
        waiting::take(Side::Recv, id, 1, wc, timeout_ms)
    })
}

/// Takes up to `n` completions of the send queue of `id`, waiting for the first.
///
/// Like `rdmax_get_send_comp`, but takes all available completions, up to `n`, and waits
/// only for the first.
///
/// Returns the number stored in `wc` (1 to `n`), 0 if there was none before the timeout, or
/// -1 with errno.
///
/// - EINVAL: `n` is less than 1; and as for `rdmax_get_send_comp`.
/// - Others: as for `rdmax_get_send_comp`.
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_send_comps(
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
    n: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_send_comps", unsafe {
        waiting::take(Side::Send, id, n, wc, timeout_ms)
    })
}

/// Takes up to `n` completions of the receive queue of `id`, waiting for the first.
///
/// Like `rdmax_get_recv_comp`, but takes all available completions, up to `n`, and waits
/// only for the first.
///
/// Returns the number stored in `wc` (1 to `n`), 0 if there was none before the timeout, or
/// -1 with errno.
///
/// - EINVAL: `n` is less than 1; and as for `rdmax_get_recv_comp`.
/// - Others: as for `rdmax_get_recv_comp`.
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to `n` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_recv_comps(
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
    n: c_int,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_recv_comps", unsafe {
        waiting::take(Side::Recv, id, n, wc, timeout_ms)
    })
}

/// Returns a file descriptor for poll(2) or epoll(7) to wait for the send queue of `id`.
///
/// It is readable while its channel has an event, which an armed queue raises when a
/// completion arrives. To arm the queue, and whenever the descriptor is readable, call
/// `rdmax_get_send_comps` with a timeout of 0 until it returns 0; only then wait for the
/// descriptor. It belongs to the channel: do not read or close it.
///
/// Returns the file descriptor, or -1 with errno.
///
/// - EINVAL: `id`, `id->send_cq` or `id->send_cq_channel` is NULL.
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_send_comp_fd(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_send_comp_fd", unsafe {
        waiting::fd(Side::Send, id)
    })
}

/// Returns a file descriptor for poll(2) or epoll(7) to wait for the receive queue of `id`.
///
/// It is readable while its channel has an event, which an armed queue raises when a
/// completion arrives. To arm the queue, and whenever the descriptor is readable, call
/// `rdmax_get_recv_comps` with a timeout of 0 until it returns 0; only then wait for the
/// descriptor. It belongs to the channel: do not read or close it.
///
/// Returns the file descriptor, or -1 with errno.
///
/// - EINVAL: `id`, `id->recv_cq` or `id->recv_cq_channel` is NULL.
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_recv_comp_fd(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_recv_comp_fd", unsafe {
        waiting::fd(Side::Recv, id)
    })
}

/// Posts a send of one buffer with 32 bits of immediate data.
///
/// Like `rdma_post_send`; `imm_data`, in network byte order, arrives at the peer as
/// `wc.imm_data` of its receive, which has IBV_WC_WITH_IMM in `wc.wc_flags`.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL; `length` exceeds 2^32 - 1.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid until the completion is taken
///   (with IBV_SEND_INLINE: until the call returns).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_send_imm(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    imm_data: __be32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_send_imm", unsafe {
        operation::send_imm(id, context, addr, length, mr, flags, imm_data)
    })
}

/// Posts an RDMA write of one buffer with 32 bits of immediate data.
///
/// Like `rdma_post_write`; once the data is written, it also completes a receive of the
/// peer, which must have posted one. `imm_data`, in network byte order, is that completion's
/// `wc.imm_data`; its `wc.opcode` is IBV_WC_RECV_RDMA_WITH_IMM.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL; `length` exceeds 2^32 - 1.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid until the completion is taken
///   (with IBV_SEND_INLINE: until the call returns).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_write_imm(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
    imm_data: __be32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_write_imm", unsafe {
        operation::write_imm(
            id,
            context,
            addr,
            length,
            mr,
            flags,
            remote_addr,
            rkey,
            imm_data,
        )
    })
}

/// Posts an atomic compare-and-swap of 8 bytes of the peer's memory.
///
/// If they equal `compare`, they become `swap`. Their previous value goes to `addr`, in the
/// region `mr`. Values are in host byte order; both addresses are multiples of 8. The peer's
/// region needs IBV_ACCESS_REMOTE_ATOMIC, see `rdmax_reg`.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL; `mr` is NULL; `addr` or `remote_addr` is not a
///   multiple of 8.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` points to 8 bytes that stay valid, and are used by nothing else, until the
///   completion is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_atomic_cas(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
    compare: u64,
    swap: u64,
) -> c_int {
    let cas = Atomic::CompareAndSwap { compare, swap };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_atomic_cas", unsafe {
        operation::atomic(id, context, addr, mr, flags, remote_addr, rkey, cas)
    })
}

/// Posts an atomic fetch-and-add on 8 bytes of the peer's memory.
///
/// `add` is added to them, modulo 2^64. Their previous value goes to `addr`, in the region
/// `mr`. Values are in host byte order; both addresses are multiples of 8. The peer's
/// region needs IBV_ACCESS_REMOTE_ATOMIC, see `rdmax_reg`.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL; `mr` is NULL; `addr` or `remote_addr` is not a
///   multiple of 8.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` points to 8 bytes that stay valid, and are used by nothing else, until the
///   completion is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_atomic_faa(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
    add: u64,
) -> c_int {
    let faa = Atomic::FetchAndAdd { add };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_atomic_faa", unsafe {
        operation::atomic(id, context, addr, mr, flags, remote_addr, rkey, faa)
    })
}

/// Registers `length` bytes at `addr` as a memory region with the given access.
///
/// `access` is a bitwise OR of `enum ibv_access_flags`. 0 suffices for the source of sends and
/// writes, and IBV_ACCESS_REMOTE_READ alone for memory that the peer only reads: both may be
/// read-only. IBV_ACCESS_LOCAL_WRITE is needed for receives, for the destination of reads and
/// atomics, and together with IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC. Release
/// the region with `rdma_dereg_mr`.
///
/// Returns the region, or NULL with errno.
///
/// - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
/// - EFAULT: the memory is not mapped, or is read-only although `access` allows writes.
/// - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
/// - Others: as set by ibv_reg_mr(3).
///
/// See also ibv_reg_mr(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - The memory stays mapped until the region is deregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_reg(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_reg", unsafe {
        memory::register_with(id, addr, length, access)
    })
}

/// Posts `n` RDMA reads, 64 per call of the provider.
///
/// As if `rdma_post_read` were called for each element of `v` in turn until one is refused, but
/// the device is notified once per call of the provider. Only the last one needs
/// IBV_SEND_SIGNALED: when it has completed, all before it have.
///
/// Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
/// `v[*posted]` is the one that was refused.
///
/// - EINVAL: `id` or its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is negative; an
///   element has a `length` above 2^32 - 1, or its `mr` is NULL.
/// - Others: as for `rdma_post_read`.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `v` is either NULL, or points to `n` elements, for each of which the rules of
///   `rdma_post_read` hold.
/// - `posted` is either NULL, or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_reads(
    id: *mut rdma_cm_id,
    v: *const rdmax_rdma,
    n: c_int,
    posted: *mut c_int,
) -> c_int {
    let mut outside = MaybeUninit::uninit();
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_reads", unsafe {
        batch::post_all(id, Entries::Reads(v), n, posted, &mut outside)
    })
}

/// Posts `n` RDMA writes, 64 per call of the provider.
///
/// As if `rdma_post_write` were called for each element of `v` in turn until one is refused, but
/// the device is notified once per call of the provider. Only the last one needs
/// IBV_SEND_SIGNALED: when it has completed, all before it have.
///
/// Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
/// `v[*posted]` is the one that was refused.
///
/// - EINVAL: `id` or its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is negative; an
///   element has a `length` above 2^32 - 1.
/// - Others: as for `rdma_post_write`.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `v` is either NULL, or points to `n` elements, for each of which the rules of
///   `rdma_post_write` hold.
/// - `posted` is either NULL, or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_writes(
    id: *mut rdma_cm_id,
    v: *const rdmax_rdma,
    n: c_int,
    posted: *mut c_int,
) -> c_int {
    let mut outside = MaybeUninit::uninit();
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_writes", unsafe {
        batch::post_all(id, Entries::Writes(v), n, posted, &mut outside)
    })
}

/// Posts `n` sends, 64 per call of the provider.
///
/// As if `rdma_post_send` were called for each element of `v` in turn until one is refused, but
/// the device is notified once per call of the provider. Only the last one needs
/// IBV_SEND_SIGNALED: when it has completed, all before it have.
///
/// Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
/// `v[*posted]` is the one that was refused.
///
/// - EINVAL: `id` or its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is negative; an
///   element has a `length` above 2^32 - 1.
/// - Others: as for `rdma_post_send`.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `v` is either NULL, or points to `n` elements, for each of which the rules of
///   `rdma_post_send` hold.
/// - `posted` is either NULL, or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_sends(
    id: *mut rdma_cm_id,
    v: *const rdmax_send,
    n: c_int,
    posted: *mut c_int,
) -> c_int {
    let mut outside = MaybeUninit::uninit();
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_sends", unsafe {
        batch::post_all(id, Entries::Sends(v), n, posted, &mut outside)
    })
}

/// Posts `n` receives, 64 per call of the provider.
///
/// As if `rdma_post_recv` were called for each element of `v` in turn until one is refused.
/// They go to the shared receive queue of `id` if there is one, otherwise to its queue pair.
///
/// Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
/// `v[*posted]` is the one that was refused.
///
/// - EINVAL: `id`, both its `srq` and its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is
///   negative; the `mr` of an element is NULL, its `length` exceeds 2^32 - 1, or its buffer is
///   not within the region.
/// - Others: as for `rdma_post_recv`.
///
/// See also ibv_post_recv(3), ibv_post_srq_recv(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `v` is either NULL, or points to `n` elements, for each of which the rules of
///   `rdma_post_recv` hold.
/// - `posted` is either NULL, or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_recvs(
    id: *mut rdma_cm_id,
    v: *const rdmax_recv,
    n: c_int,
    posted: *mut c_int,
) -> c_int {
    let mut outside = MaybeUninit::uninit();
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_recvs", unsafe {
        batch::post_all(id, Entries::Recvs(v), n, posted, &mut outside)
    })
}

/// Describes the status of a completion and its likely cause.
///
/// Returns a constant string, which must not be freed; never NULL, whatever the status.
///
/// See also ibv_poll_cq(3).
///
/// # Safety
/// - `wc` is either NULL, or points to an `ibv_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_wc_strerror(wc: *const ibv_wc) -> *const c_char {
    // SAFETY: as the caller promises.
    unsafe { status::text_of(wc) }
}

/// Maps the status of a completion to an errno value; errno itself is not changed.
///
/// Returns 0 for success, otherwise a positive value:
///
/// - ECANCELED: WR_FLUSH_ERR
/// - EACCES: REM_ACCESS_ERR
/// - EHOSTUNREACH: RETRY_EXC_ERR, RESP_TIMEOUT_ERR
/// - ENOBUFS: RNR_RETRY_EXC_ERR
/// - EMSGSIZE: LOC_LEN_ERR
/// - EFAULT: LOC_PROT_ERR, LOC_ACCESS_ERR
/// - EOPNOTSUPP: REM_INV_REQ_ERR, REM_INV_RD_REQ_ERR
/// - EREMOTEIO: REM_OP_ERR
/// - EPROTO: BAD_RESP_ERR
/// - ECONNABORTED: REM_ABORT_ERR
/// - EINPROGRESS: TM_RNDV_INCOMPLETE
/// - EINVAL: LOC_QP_OP_ERR, LOC_EEC_OP_ERR, MW_BIND_ERR, LOC_RDD_VIOL_ERR, INV_EECN_ERR,
///   INV_EEC_STATE_ERR; and if `wc` is NULL
/// - EIO: FATAL_ERR, GENERAL_ERR, TM_ERR, and any other status
///
/// See also ibv_poll_cq(3).
///
/// # Safety
/// - `wc` is either NULL, or points to an `ibv_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_wc_errno(wc: *const ibv_wc) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { status::errno_of(wc) }
}

/// Returns how many bytes a send or write of `id` may carry inline (IBV_SEND_INLINE).
///
/// Returns that number, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL.
/// - Others: as returned by ibv_query_qp(3).
///
/// See also ibv_query_qp(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_max_inline(id: *mut rdma_cm_id) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_max_inline", unsafe { limits::max_inline(id) })
}

/// Reads the peer's memory into a buffer and waits for completion.
///
/// Long transfers are split. `timeout_ms` is as in poll(2); signals do not end the wait. During
/// the call no other thread may take completions from the send completion queue of `id`, and
/// no signaled request of the program may be outstanding.
///
/// Returns 0 if all data was read, or -1 with errno; the contents of the buffer are then
/// undefined.
///
/// - ETIMEDOUT: the timeout expired. The request is **still in flight**: the buffer must stay
///   registered and unmodified until it completes, or `rdmax_drain` has returned 0. Later
///   calls of rdmax_read and rdmax_write recognize the late completion and drop it.
/// - EBUSY: the call took, and lost, the completion of another request of the program.
/// - EINVAL: `id`, its `qp`, `send_cq` or `send_cq_channel`, or `mr` is NULL.
/// - EOPNOTSUPP: the provider does not report the port's max_msg_sz (long transfers only).
/// - Those of rdmax_wc_errno: the request completed with an error.
/// - Others: as for `rdma_post_read`. If waiting itself has failed (as it does for
///   `rdma_get_send_comp`), the request is still in flight, too.
///
/// See also ibv_post_send(3), ibv_query_port(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
///   no request for it is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_read(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    remote_addr: u64,
    rkey: u32,
    timeout_ms: c_int,
) -> c_int {
    let buffers = Buffers {
        addr,
        length,
        mr,
        remote_addr,
        rkey,
    };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_read", unsafe {
        transfer::transfer(Direction::Read, id, &buffers, timeout_ms)
    })
}

/// Writes a buffer to the peer's memory and waits for completion.
///
/// Long transfers are split. `timeout_ms` is as in poll(2); signals do not end the wait. During
/// the call no other thread may take completions from the send completion queue of `id`, and
/// no signaled request of the program may be outstanding. `mr` may be NULL if `length` is 0.
///
/// Returns 0 when the peer's device has all data, or -1 with errno; the contents of the peer's
/// memory are then undefined.
///
/// - ETIMEDOUT: the timeout expired. The request is **still in flight**: the buffer must stay
///   registered and unmodified until it completes, or `rdmax_drain` has returned 0. Later
///   calls of rdmax_read and rdmax_write recognize the late completion and drop it.
/// - EBUSY: the call took, and lost, the completion of another request of the program.
/// - EINVAL: `id`, its `qp`, `send_cq` or `send_cq_channel` is NULL.
/// - EOPNOTSUPP: the provider does not report the port's max_msg_sz (long transfers only).
/// - Those of rdmax_wc_errno: the request completed with an error.
/// - Others: as for `rdma_post_write`. If waiting itself has failed (as it does for
///   `rdma_get_send_comp`), the request is still in flight, too.
///
/// See also ibv_post_send(3), ibv_query_port(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid until no request for it is in flight.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_write(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    remote_addr: u64,
    rkey: u32,
    timeout_ms: c_int,
) -> c_int {
    let buffers = Buffers {
        addr,
        length,
        mr,
        remote_addr,
        rkey,
    };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_write", unsafe {
        transfer::transfer(Direction::Write, id, &buffers, timeout_ms)
    })
}

/// Flushes all requests of `id`: when it returns 0, none is outstanding, and their buffers may
/// be deregistered.
///
/// It moves the queue pair to the error state, in which nothing more is transferred, and takes
/// the completions of both queues until all requests have completed. **The completions that it
/// takes are lost**, including those of other ids on the same completion queues. The id may be
/// connected, disconnected, broken or never connected; it is not disconnected. Receives in a
/// shared receive queue stay there. Datagram queue pairs are reset.
///
/// `timeout_ms` is as in poll(2); signals do not end the wait. During the call no other thread
/// may post to `id` or take its completions.
///
/// Returns 0, or -1 with errno.
///
/// - ETIMEDOUT: the timeout expired and requests may be outstanding. Call again.
/// - EINVAL: `id` or its `qp` is NULL; the event was for another queue (it is acknowledged
///   there; call again).
/// - Others: as returned by ibv_modify_qp(3), or as for posting and waiting.
///
/// See also ibv_modify_qp(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_drain(id: *mut rdma_cm_id, timeout_ms: c_int) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_drain", unsafe { drain::drain(id, timeout_ms) })
}
