// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exported functions: documentation, and one call each.
//!
//! The documentation is written for readers of the C header, which is generated from this
//! file. The manual pages have the details.
// The signatures are in the style of librdmacm's, and names in C comments have no backticks.
#![allow(clippy::too_many_arguments, clippy::doc_markdown)]

use core::ffi::{c_char, c_int, c_void};

use libc::timespec;
use rdma_verbs_bindings::{
    __be32, ibv_comp_channel, ibv_cq, ibv_mr, ibv_recv_wr, ibv_send_wr, ibv_wc, rdma_cm_id,
};

use super::batch::{rdmax_recv_wr, rdmax_send_wr};
use super::deadline::Deadline;
use super::handler::{Handler, rdmax_wc_handler};
use super::limits::rdmax_limits;
use super::operation::Atomic;
use super::transfer::{Buffers, Direction};
use super::{batch, drain, limits, operation, transfer, waiting};
use crate::completion::Side;
use crate::errno::Returned;
use crate::{memory, status};

/// Takes one completion of the send queue of `id`, waiting for it no longer than `timeout_ms`.
///
/// `timeout_ms` is as in poll(2): milliseconds, 0 to look without waiting, a negative value to
/// wait forever. Check `wc->status` first: a failed request completes, too. Where `id->send_cq` is NULL,
/// the program's own queue is meant, that of its queue pair.
///
/// Returns 1 with `*wc` filled, 0 if none came in time, or -1 with errno. After 0 the queue is
/// armed: the next completion raises an event, and `rdmax_send_comp_fd` becomes readable.
///
/// - EINVAL: `id`, `wc` or the queue is NULL; the queue has no channel and the call would have to
///   wait.
/// - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again, or use
///   `rdmax_get_send_comps_until`, whose end does not move.
/// - ENOTUNIQ: another queue was created on the channel during the wait, and its event was taken:
///   poll both.
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
        waiting::take(Side::Send, id, 1, wc, Deadline::after(timeout_ms))
    })
}

/// Takes one completion of the receive queue of `id`, waiting for it no longer than `timeout_ms`.
///
/// `timeout_ms` is as in poll(2): milliseconds, 0 to look without waiting, a negative value to
/// wait forever. Check `wc->status` first: a failed request completes, too. Where `id->recv_cq` is NULL,
/// the program's own queue is meant, that of its queue pair.
///
/// Returns 1 with `*wc` filled, 0 if none came in time, or -1 with errno. After 0 the queue is
/// armed: the next completion raises an event, and `rdmax_recv_comp_fd` becomes readable.
///
/// - EINVAL: `id`, `wc` or the queue is NULL; the queue has no channel and the call would have to
///   wait.
/// - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again, or use
///   `rdmax_get_recv_comps_until`, whose end does not move.
/// - ENOTUNIQ: another queue was created on the channel during the wait, and its event was taken:
///   poll both.
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
        waiting::take(Side::Recv, id, 1, wc, Deadline::after(timeout_ms))
    })
}

/// Takes up to `n` completions of the send queue of `id`, waiting for the first.
///
/// Like `rdmax_get_send_comp`, but takes all that are there, up to `n`. It waits for the first one
/// only.
///
/// Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
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
        waiting::take(Side::Send, id, n, wc, Deadline::after(timeout_ms))
    })
}

/// Takes up to `n` completions of the send queue of `id`, waiting for the first.
///
/// Like `rdmax_get_send_comps`, but waits until a time on CLOCK_MONOTONIC; NULL is forever. A call
/// that was interrupted (EINTR) is repeated with the same arguments.
///
/// Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
///
/// - EINVAL: `n` is less than 1; and as for `rdmax_get_send_comp`.
/// - Others: as for `rdmax_get_send_comp`.
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to `n` elements.
/// - `end` is either NULL, or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_send_comps_until(
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
    n: c_int,
    end: *const timespec,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_send_comps_until", unsafe {
        waiting::take(Side::Send, id, n, wc, Deadline::at(end))
    })
}

/// Takes up to `n` completions of the receive queue of `id`, waiting for the first.
///
/// Like `rdmax_get_recv_comp`, but takes all that are there, up to `n`. It waits for the first one
/// only.
///
/// Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
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
        waiting::take(Side::Recv, id, n, wc, Deadline::after(timeout_ms))
    })
}

/// Takes up to `n` completions of the receive queue of `id`, waiting for the first.
///
/// Like `rdmax_get_recv_comps`, but waits until a time on CLOCK_MONOTONIC; NULL is forever. A call
/// that was interrupted (EINTR) is repeated with the same arguments.
///
/// Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
///
/// - EINVAL: `n` is less than 1; and as for `rdmax_get_recv_comp`.
/// - Others: as for `rdmax_get_recv_comp`.
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to `n` elements.
/// - `end` is either NULL, or points to a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_recv_comps_until(
    id: *mut rdma_cm_id,
    wc: *mut ibv_wc,
    n: c_int,
    end: *const timespec,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_recv_comps_until", unsafe {
        waiting::take(Side::Recv, id, n, wc, Deadline::at(end))
    })
}

/// Returns the file descriptor that poll(2) and epoll(7) can wait on for the send queue of `id`.
///
/// It is readable while its channel has an event, which an armed queue raises when a
/// completion arrives. To arm the queue, and whenever the descriptor is readable, call
/// `rdmax_get_send_comps` with a timeout of 0 until it returns 0. Where several queues share the
/// channel, take its events with `rdmax_get_cq_event`. Do not read or close the descriptor: it
/// belongs to the channel.
///
/// Returns the file descriptor, or -1 with errno.
///
/// - EINVAL: `id`, the queue or its channel is NULL.
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

/// Returns the file descriptor that poll(2) and epoll(7) can wait on for the receive queue of `id`.
///
/// It is readable while its channel has an event, which an armed queue raises when a
/// completion arrives. To arm the queue, and whenever the descriptor is readable, call
/// `rdmax_get_recv_comps` with a timeout of 0 until it returns 0. Where several queues share the
/// channel, take its events with `rdmax_get_cq_event`. Do not read or close the descriptor: it
/// belongs to the channel.
///
/// Returns the file descriptor, or -1 with errno.
///
/// - EINVAL: `id`, the queue or its channel is NULL.
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

/// Waits for an event of a channel, for a server whose many queues share one.
///
/// The event is acknowledged on the queue that raised it, which is stored in `*cq`: its
/// `cq_context` is what the program created it with. Then poll that queue until it is empty, arm it,
/// and poll it once more; `rdmax_get_recv_comps` with a timeout of 0 does this when called until it
/// returns 0. It may be empty from the start, if its completions have been taken already.
/// `timeout_ms` is as in poll(2).
///
/// Returns 1 with `*cq` filled, 0 if no event came in time, or -1 with errno.
///
/// - EINVAL: `channel` or `cq` is NULL.
/// - EINTR: interrupted by a signal. Nothing is lost: call again.
/// - Others: as set by ppoll(2) and ibv_get_cq_event(3).
///
/// See also ibv_get_cq_event(3), ibv_req_notify_cq(3).
///
/// # Safety
/// - `channel` is either NULL, or points to an `ibv_comp_channel`.
/// - `cq` is either NULL, or points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_get_cq_event", unsafe {
        waiting::next_event(channel, cq, timeout_ms)
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

/// Posts `n` send-side requests, 64 per call of the provider.
///
/// Works as if each element of `wr` was posted in turn until one is refused, but the device is told
/// only once for all that go to the provider together. `size` is `sizeof(*wr)`: a program that was
/// compiled with a later header says so by it. Signaling the last request is enough: when it has
/// completed, all before it have.
///
/// Returns 0 if all are posted, or -1 with errno. `*posted` is the number of those that were; after
/// a failure, of those that may be: `wr[*posted]` and what follows it is not. It is exact where the
/// provider says which request it refused.
///
/// - EINVAL: `id` or its `qp`, `posted`, or `wr` (with `n` not 0) is NULL; `n` is less than 0; an
///   `opcode` is none of those that `struct rdmax_send_wr` names; `size` is too small.
/// - E2BIG: a field is not 0 that this version of the library does not know.
/// - Others: as for `rdma_post_sendv`.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wr` is either NULL, or points to `n` elements of `size` bytes. For each of them the rules of
///   the function hold that posts one: `rdma_post_sendv`, `rdma_post_readv`, `rdma_post_writev`,
///   `rdma_post_ud_send`, `rdmax_post_atomic_cas`.
/// - `posted` is either NULL, or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_sends(
    id: *mut rdma_cm_id,
    wr: *const rdmax_send_wr,
    size: usize,
    n: c_int,
    posted: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_sends", unsafe {
        batch::post_all::<ibv_send_wr>(id, wr, size, n, posted)
    })
}

/// Posts `n` receives, 64 per call of the provider.
///
/// Works as if `rdma_post_recvv` was called for each element of `wr` in turn until one is refused.
/// They go to the shared receive queue of `id` if it has one, else to its queue pair. `size` is
/// `sizeof(*wr)`, as for `rdmax_post_sends`.
///
/// Returns 0 if all are posted, or -1 with errno; `*posted` is as for `rdmax_post_sends`.
///
/// - EINVAL: `id`, both its `srq` and its `qp`, `posted`, or `wr` (with `n` not 0) is NULL; `n` is
///   less than 0; `size` is too small.
/// - E2BIG: a field is not 0 that this version of the library does not know.
/// - Others: as for `rdma_post_recvv`.
///
/// See also ibv_post_recv(3), ibv_post_srq_recv(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wr` is either NULL, or points to `n` elements of `size` bytes, for each of which the rules of
///   `rdma_post_recvv` hold.
/// - `posted` is either NULL, or points to an int.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_post_recvs(
    id: *mut rdma_cm_id,
    wr: *const rdmax_recv_wr,
    size: usize,
    n: c_int,
    posted: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_post_recvs", unsafe {
        batch::post_all::<ibv_recv_wr>(id, wr, size, n, posted)
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
/// - EBADRQC: REM_INV_REQ_ERR, REM_INV_RD_REQ_ERR
/// - EREMOTEIO: REM_OP_ERR
/// - EPROTO: BAD_RESP_ERR
/// - ECONNABORTED: REM_ABORT_ERR
/// - EINPROGRESS: TM_RNDV_INCOMPLETE
/// - EBADR: LOC_QP_OP_ERR, LOC_EEC_OP_ERR, MW_BIND_ERR, LOC_RDD_VIOL_ERR, INV_EECN_ERR,
///   INV_EEC_STATE_ERR
/// - EINVAL: `wc` is NULL
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

/// Tells what the queue pair of `id` and its port can do.
///
/// `size` is `sizeof(*limits)`. What a later version of the library adds is not written to a smaller
/// structure; what this version does not know is 0.
///
/// Returns 0 with `*limits` filled, or -1 with errno.
///
/// - EINVAL: `id`, its `qp` or `limits` is NULL.
/// - EOPNOTSUPP: the device does not report how much the port can carry.
/// - Others: as returned by ibv_query_qp(3) and ibv_query_port(3).
///
/// See also ibv_query_qp(3), ibv_query_port(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `limits` is either NULL, or points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_query_limits(
    id: *mut rdma_cm_id,
    limits: *mut rdmax_limits,
    size: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_query_limits", unsafe {
        limits::query_limits(id, limits, size)
    })
}

/// Reads the peer's memory into a buffer, and returns when that is done.
///
/// A length that the port cannot carry in one request is split. `timeout_ms` is as in poll(2);
/// signals do not end the wait. The call takes completions of the send queue of `id`, and no other
/// thread may. Those of other requests go to `handler`, unless it is NULL.
///
/// Returns 0 if all data has been transferred, or -1 with errno; then the content of the buffer
/// is undefined. Only after ETIMEDOUT, requests of the call may be in flight.
///
/// - ETIMEDOUT: the timeout expired, or the provider does not say what became of a request (the log
///   says why). The buffer must stay registered and untouched until `rdmax_wait` returns anything
///   else than ETIMEDOUT, `rdmax_drain` returns 0, or the queue pair is destroyed.
/// - EBUSY: the completion of another request was met, and lost since `handler` is NULL.
/// - EINVAL: `id`, its `qp` or the completion queue, or `mr` is NULL.
/// - EOPNOTSUPP: the device does not report how much the port can carry.
/// - Those of rdmax_wc_errno: the request completed with an error, or one before it.
/// - Others: as for `rdma_post_read`.
///
/// See also ibv_post_send(3), ibv_query_port(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
///   no request for it is in flight.
/// - `handler` is either NULL, or can be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_read(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    remote_addr: u64,
    rkey: u32,
    timeout_ms: c_int,
    handler: rdmax_wc_handler,
    arg: *mut c_void,
) -> c_int {
    let buffers = Buffers {
        addr,
        length,
        mr,
        remote_addr,
        rkey,
    };
    let handler = Handler {
        function: handler,
        arg,
    };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_read", unsafe {
        transfer::transfer(Direction::Read, id, &buffers, timeout_ms, handler)
    })
}

/// Writes a buffer to the peer's memory, and returns when that is done.
///
/// A length that the port cannot carry in one request is split. `timeout_ms` is as in poll(2);
/// signals do not end the wait. The call takes completions of the send queue of `id`, and no other
/// thread may. Those of other requests go to `handler`, unless it is NULL. `mr` may be
/// NULL for a length of 0.
///
/// Returns 0 if all data has been transferred, or -1 with errno; then the content of the
/// peer's memory
/// is undefined. Only after ETIMEDOUT, requests of the call may be in flight.
///
/// - ETIMEDOUT: the timeout expired, or the provider does not say what became of a request (the log
///   says why). The buffer must stay registered and untouched until `rdmax_wait` returns anything
///   else than ETIMEDOUT, `rdmax_drain` returns 0, or the queue pair is destroyed.
/// - EBUSY: the completion of another request was met, and lost since `handler` is NULL.
/// - EINVAL: `id`, its `qp` or the completion queue is NULL.
/// - EOPNOTSUPP: the device does not report how much the port can carry.
/// - Those of rdmax_wc_errno: the request completed with an error, or one before it.
/// - Others: as for `rdma_post_write`.
///
/// See also ibv_post_send(3), ibv_query_port(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid until
///   no request for it is in flight.
/// - `handler` is either NULL, or can be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_write(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    remote_addr: u64,
    rkey: u32,
    timeout_ms: c_int,
    handler: rdmax_wc_handler,
    arg: *mut c_void,
) -> c_int {
    let buffers = Buffers {
        addr,
        length,
        mr,
        remote_addr,
        rkey,
    };
    let handler = Handler {
        function: handler,
        arg,
    };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_write", unsafe {
        transfer::transfer(Direction::Write, id, &buffers, timeout_ms, handler)
    })
}

/// Waits until the requests that calls of `rdmax_read` and `rdmax_write` have left in flight are done.
///
/// It posts a write without data and waits for its completion, which comes after all others of the
/// send queue. So it waits for earlier requests of the program, too; their completions go to
/// `handler`, unless it is NULL. `timeout_ms` is as in poll(2); signals do not end the wait.
///
/// Returns 0, or -1 with errno. Only after ETIMEDOUT, requests may be in flight.
///
/// - ETIMEDOUT: the timeout expired, or the provider refuses the request, as some do in the error state
///   (the log says why). Then call `rdmax_drain`, or destroy the queue pair.
/// - EBUSY: the completion of another request was met, and lost since `handler` is NULL.
/// - EINVAL: `id`, its `qp` or the completion queue is NULL.
/// - Those of rdmax_wc_errno: a request completed with an error.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `handler` is either NULL, or can be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_wait(
    id: *mut rdma_cm_id,
    timeout_ms: c_int,
    handler: rdmax_wc_handler,
    arg: *mut c_void,
) -> c_int {
    let handler = Handler {
        function: handler,
        arg,
    };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_wait", unsafe {
        transfer::wait_for_earlier(id, timeout_ms, handler)
    })
}

/// Ends all requests of `id`: when it returns 0, none is outstanding, and their buffers may be
/// deregistered.
///
/// It moves the queue pair to the error state, whatever state that is in, and takes the completions
/// of both queues until the requests are done. Each goes to `handler`, unless that is NULL: those
/// of other queue pairs on the same completion queues, too (`wc->qp_num` tells). It polls, and
/// neither arms a queue nor touches a channel. It does not disconnect.
///
/// Receives in a shared receive queue stay there. Those that the queue pair has already taken from it
/// complete before the event IBV_EVENT_QP_LAST_WQE_REACHED: wait for that one before their buffers
/// are deregistered. A datagram queue pair is reset on its way: its requests are dropped without a
/// completion.
///
/// `timeout_ms` is as in poll(2); signals do not end the wait. Meanwhile no other thread posts to
/// `id` or takes its completions.
///
/// Returns 0, or -1 with errno.
///
/// - ETIMEDOUT: the timeout expired and requests may be outstanding. Call again, or destroy the queue
///   pair, which always ends them.
/// - EOPNOTSUPP: the provider accepts no request in the error state, in which the queue pair
///   was already, or its queue was full: nothing tells when it is empty. What had completed is taken.
/// - EINVAL: `id` or its `qp`, or a completion queue of that is NULL.
/// - Others: as returned by ibv_query_qp(3) and ibv_modify_qp(3), or as for polling.
///
/// See also ibv_modify_qp(3), ibv_get_async_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `handler` is either NULL, or can be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdmax_drain(
    id: *mut rdma_cm_id,
    timeout_ms: c_int,
    handler: rdmax_wc_handler,
    arg: *mut c_void,
) -> c_int {
    let handler = Handler {
        function: handler,
        arg,
    };
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdmax_drain", unsafe {
        drain::drain(id, timeout_ms, handler)
    })
}
