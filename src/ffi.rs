// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exported functions: documentation, and one call each.
//!
//! The documentation is written for readers of the C header, which is generated from this
//! file. The manual pages have the details.
// The signatures are librdmacm's, and names in C comments have no backticks.
#![allow(clippy::too_many_arguments, clippy::doc_markdown)]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use rdma_verbs_bindings::{ibv_ah, ibv_mr, ibv_sge, ibv_wc, rdma_cm_id};

use crate::completion::Side;
use crate::errno::Returned;
use crate::{get_comp, memory, post};

/// Registers `length` bytes at `addr` as a memory region for sends and receives.
///
/// The region belongs to the protection domain of `id`; its access is
/// IBV_ACCESS_LOCAL_WRITE.
/// No queue pair is needed. Release the region with `rdma_dereg_mr`.
///
/// Returns the region, or NULL with errno.
///
/// - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
/// - EFAULT: the memory is not mapped, or is read-only (local write access is always
///   requested).
/// - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
/// - Others: as set by ibv_reg_mr(3).
///
/// See also ibv_reg_mr(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - The memory stays mapped until the region is deregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reg_msgs(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
) -> *mut ibv_mr {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_reg_msgs", unsafe {
        memory::register(id, addr, length, memory::MESSAGES)
    })
}

/// Registers `length` bytes at `addr` as a memory region that the peer may read.
///
/// The region belongs to the protection domain of `id`; its access is
/// IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ.
/// No queue pair is needed. Release the region with `rdma_dereg_mr`.
///
/// Returns the region, or NULL with errno.
///
/// - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
/// - EFAULT: the memory is not mapped, or is read-only (local write access is always
///   requested).
/// - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
/// - Others: as set by ibv_reg_mr(3).
///
/// See also ibv_reg_mr(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - The memory stays mapped until the region is deregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reg_read(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
) -> *mut ibv_mr {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_reg_read", unsafe {
        memory::register(id, addr, length, memory::REMOTE_READ)
    })
}

/// Registers `length` bytes at `addr` as a memory region that the peer may write.
///
/// The region belongs to the protection domain of `id`; its access is
/// IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE.
/// No queue pair is needed. Release the region with `rdma_dereg_mr`.
///
/// Returns the region, or NULL with errno.
///
/// - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
/// - EFAULT: the memory is not mapped, or is read-only (local write access is always
///   requested).
/// - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
/// - Others: as set by ibv_reg_mr(3).
///
/// See also ibv_reg_mr(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - The memory stays mapped until the region is deregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_reg_write(
    id: *mut rdma_cm_id,
    addr: *mut c_void,
    length: usize,
) -> *mut ibv_mr {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_reg_write", unsafe {
        memory::register(id, addr, length, memory::REMOTE_WRITE)
    })
}

/// Deregisters a memory region.
///
/// No request that uses the region may be outstanding.
///
/// Returns 0, or -1 with errno.
///
/// - EINVAL: `mr` is NULL.
/// - EBUSY: a memory window is still bound to it.
/// - Others: as returned by ibv_dereg_mr(3).
///
/// See also ibv_dereg_mr(3).
///
/// # Safety
/// - `mr` is either NULL, or points to a memory region.
/// - It is not used after it is deregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_dereg_mr", unsafe { memory::deregister(mr) })
}

/// Posts a receive into the `nsge` buffers of `sgl`.
///
/// It goes to the shared receive queue of `id` if there is one, otherwise to its queue pair.
/// `context` becomes the `wr_id` of the completion.
/// Messages without data need no buffers: `sgl` may be NULL and `nsge` 0.
///
/// Returns 0, or -1 with errno. `rdma_get_recv_comp` returns the completion.
///
/// - EINVAL: `id` is NULL, or both its `srq` and its `qp` are.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_recv(3), ibv_post_srq_recv(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `sgl` is either NULL, or points to `nsge` entries.
/// - The memory that the entries describe stays valid, and is used by nothing else, until
///   the completion is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_recvv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_recvv", unsafe {
        post::recvv(id, context, sgl, nsge)
    })
}

/// Posts a send of the `nsge` buffers of `sgl`.
///
/// `context` becomes the `wr_id` of the completion.
/// `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
/// IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
/// `sq_sig_all`.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `sgl` is either NULL, or points to `nsge` entries.
/// - The memory that the entries describe stays valid until the completion is taken
///   (with IBV_SEND_INLINE: until the call returns).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_sendv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_sendv", unsafe {
        post::sendv(id, context, sgl, nsge, flags)
    })
}

/// Posts an RDMA read from the peer's memory into the `nsge` buffers of `sgl`.
///
/// `context` becomes the `wr_id` of the completion.
/// `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
/// IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
/// `sq_sig_all`.
/// `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `sgl` is either NULL, or points to `nsge` entries.
/// - The memory that the entries describe stays valid, and is used by nothing else, until
///   the completion is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_readv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_readv", unsafe {
        post::readv(id, context, sgl, nsge, flags, remote_addr, rkey)
    })
}

/// Posts an RDMA write of the `nsge` buffers of `sgl` to the peer's memory.
///
/// `context` becomes the `wr_id` of the completion.
/// `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
/// IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
/// `sq_sig_all`.
/// `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `sgl` is either NULL, or points to `nsge` entries.
/// - The memory that the entries describe stays valid until the completion is taken
///   (with IBV_SEND_INLINE: until the call returns).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_writev(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    sgl: *mut ibv_sge,
    nsge: c_int,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_writev", unsafe {
        post::writev(id, context, sgl, nsge, flags, remote_addr, rkey)
    })
}

/// Posts a receive into one buffer.
///
/// Like `rdma_post_recvv` with one entry: `length` bytes at `addr`, in the region `mr`.
/// The buffer must lie within the region.
///
/// Returns 0, or -1 with errno. `rdma_get_recv_comp` returns the completion.
///
/// - EINVAL: `id` is NULL, or both its `srq` and its `qp` are; `mr` is NULL; `length`
///   exceeds 2^32 - 1; the buffer is not within the region.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_recv(3), ibv_post_srq_recv(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
///   the completion is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_recv(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
) -> c_int {
    let mut outside = MaybeUninit::uninit();
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_recv", unsafe {
        post::recv(id, context, addr, length, mr, &mut outside)
    })
}

/// Posts a send of one buffer.
///
/// Like `rdma_post_sendv` with one entry: `length` bytes at `addr`, in the region `mr`.
/// `mr` may be NULL for inline data (IBV_SEND_INLINE) and for a length of 0.
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
pub unsafe extern "C" fn rdma_post_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_send", unsafe {
        post::send(id, context, addr, length, mr, flags)
    })
}

/// Posts an RDMA read from the peer's memory into one buffer.
///
/// Like `rdma_post_readv` with one entry: `length` bytes at `addr`, in the region `mr`.
/// `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
///
/// Returns 0 if the request was queued, or -1 with errno.
///
/// - EINVAL: `id` or its `qp` is NULL; `mr` is NULL; `length` exceeds 2^32 - 1.
/// - EOPNOTSUPP: the provider cannot post to this queue.
/// - ENOMEM: the queue is full, or out of memory.
/// - Others, and EINVAL as well: the provider refused the request.
///
/// See also ibv_post_send(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `mr` is either NULL, or points to a memory region.
/// - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
///   the completion is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_read(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_read", unsafe {
        post::read(id, context, addr, length, mr, flags, remote_addr, rkey)
    })
}

/// Posts an RDMA write of one buffer to the peer's memory.
///
/// Like `rdma_post_writev` with one entry: `length` bytes at `addr`, in the region `mr`.
/// `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
/// `mr` may be NULL for inline data (IBV_SEND_INLINE) and for a length of 0.
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
pub unsafe extern "C" fn rdma_post_write(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    remote_addr: u64,
    rkey: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_write", unsafe {
        post::write(id, context, addr, length, mr, flags, remote_addr, rkey)
    })
}

/// Posts a datagram send of one buffer.
///
/// It goes to queue pair number `remote_qpn` at `ah`, with the Q_Key RDMA_UDP_QKEY.
/// `context` becomes the `wr_id` of the completion.
/// `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
/// IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
/// `sq_sig_all`.
/// `mr` may be NULL for inline data (IBV_SEND_INLINE) and for a length of 0.
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
/// - `ah` is an address handle that the provider accepts.
/// - `addr` and `length` describe memory that stays valid until the completion is taken
///   (with IBV_SEND_INLINE: until the call returns).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_post_ud_send(
    id: *mut rdma_cm_id,
    context: *mut c_void,
    addr: *mut c_void,
    length: usize,
    mr: *mut ibv_mr,
    flags: c_int,
    ah: *mut ibv_ah,
    remote_qpn: u32,
) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_post_ud_send", unsafe {
        post::ud_send(id, context, addr, length, mr, flags, ah, remote_qpn)
    })
}

/// Takes one completion of the send queue of `id`, waiting for it if necessary.
///
/// Check `wc->status` first: a failed request completes, too.
/// Polls, arms the queue, polls again, and only then waits for an event on its channel.
///
/// Returns 1 with `*wc` filled, or -1 with errno; never 0.
///
/// - EINVAL: `id`, `wc` or `id->send_cq` is NULL; `id->send_cq_channel` is NULL and the
///   queue is empty; the event was for another queue (it is acknowledged there).
/// - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again.
/// - EAGAIN: the channel is non-blocking and has no event. As for EINTR.
/// - EIO: the provider cannot poll the queue.
/// - Others: as set by ibv_get_cq_event(3).
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to an `ibv_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_send_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_get_send_comp", unsafe {
        get_comp::next(Side::Send, id, wc)
    })
}

/// Takes one completion of the receive queue of `id`, waiting for it if necessary.
///
/// Check `wc->status` first: a failed request completes, too.
/// Polls, arms the queue, polls again, and only then waits for an event on its channel.
///
/// Returns 1 with `*wc` filled, or -1 with errno; never 0.
///
/// - EINVAL: `id`, `wc` or `id->recv_cq` is NULL; `id->recv_cq_channel` is NULL and the
///   queue is empty; the event was for another queue (it is acknowledged there).
/// - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again.
/// - EAGAIN: the channel is non-blocking and has no event. As for EINTR.
/// - EIO: the provider cannot poll the queue.
/// - Others: as set by ibv_get_cq_event(3).
///
/// See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
///
/// # Safety
/// - `id` is either NULL, or points to an `rdma_cm_id`.
/// - `wc` is either NULL, or points to an `ibv_wc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_get_recv_comp(id: *mut rdma_cm_id, wc: *mut ibv_wc) -> c_int {
    // SAFETY: as the caller promises.
    Returned::from_result(c"rdma_get_recv_comp", unsafe {
        get_comp::next(Side::Recv, id, wc)
    })
}
