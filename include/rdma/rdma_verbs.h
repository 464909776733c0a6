/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librdmacm's verbs helpers, as functions of librdma_verbs.
 *
 * Replaces librdmacm's header of the same name, whose helpers are inline functions.
 * Any thread may call any function at any time, on objects that no other thread destroys
 * meanwhile; errno is per thread.
 * Generated from src/ffi.rs; manual: rdma_verbs(7).
 */

#ifndef RDMA_VERBS_H
#define RDMA_VERBS_H

/* Only in this header, not in librdmacm's: major * 10000 + minor * 100 + patch. */
#define RDMA_VERBS_LIBRARY_VERSION 10000

/* Programs rely on librdmacm's header for assert, unless they have their own. */
#ifndef assert
#include <assert.h>
#endif
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Converts a result, 0 or an errno value, to 0 or -1 with errno.
 */
static inline int rdma_seterrno(int ret)
{
	if (ret) {
		errno = ret;
		ret = -1;
	}
	return ret;
}

/*
 * Shared receive queues: functions of librdmacm, described in its manual.
 */
int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd,
		    struct ibv_srq_init_attr *attr);
int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
void rdma_destroy_srq(struct rdma_cm_id *id);

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Registers `length` bytes at `addr` as a memory region for sends and receives.
 *
 * The region belongs to the protection domain of `id`; its access is
 * IBV_ACCESS_LOCAL_WRITE.
 * No queue pair is needed. Release the region with `rdma_dereg_mr`.
 *
 * Returns the region, or NULL with errno.
 *
 * - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
 * - EFAULT: the memory is not mapped, or is read-only (local write access is always
 *   requested).
 * - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
 * - Others: as set by ibv_reg_mr(3).
 *
 * See also ibv_reg_mr(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - The memory stays mapped until the region is deregistered.
 */
struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id,
                             void *addr,
                             size_t length);

/**
 * Registers `length` bytes at `addr` as a memory region that the peer may read.
 *
 * The region belongs to the protection domain of `id`; its access is
 * IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ.
 * No queue pair is needed. Release the region with `rdma_dereg_mr`.
 *
 * Returns the region, or NULL with errno.
 *
 * - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
 * - EFAULT: the memory is not mapped, or is read-only (local write access is always
 *   requested).
 * - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
 * - Others: as set by ibv_reg_mr(3).
 *
 * See also ibv_reg_mr(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - The memory stays mapped until the region is deregistered.
 */
struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id,
                             void *addr,
                             size_t length);

/**
 * Registers `length` bytes at `addr` as a memory region that the peer may write.
 *
 * The region belongs to the protection domain of `id`; its access is
 * IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE.
 * No queue pair is needed. Release the region with `rdma_dereg_mr`.
 *
 * Returns the region, or NULL with errno.
 *
 * - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
 * - EFAULT: the memory is not mapped, or is read-only (local write access is always
 *   requested).
 * - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
 * - Others: as set by ibv_reg_mr(3).
 *
 * See also ibv_reg_mr(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - The memory stays mapped until the region is deregistered.
 */
struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id,
                              void *addr,
                              size_t length);

/**
 * Deregisters a memory region.
 *
 * No request that uses the region may be outstanding.
 *
 * Returns 0, or -1 with errno.
 *
 * - EINVAL: `mr` is NULL.
 * - EBUSY: a memory window is still bound to it.
 * - Others: as returned by ibv_dereg_mr(3).
 *
 * See also ibv_dereg_mr(3).
 *
 * # Safety
 * - `mr` is either NULL, or points to a memory region.
 * - It is not used after it is deregistered.
 */
int rdma_dereg_mr(struct ibv_mr *mr);

/**
 * Posts a receive into the `nsge` buffers of `sgl`.
 *
 * It goes to the shared receive queue of `id` if there is one, otherwise to its queue pair.
 * `context` becomes the `wr_id` of the completion.
 * Messages without data need no buffers: `sgl` may be NULL and `nsge` 0.
 *
 * Returns 0, or -1 with errno. `rdma_get_recv_comp` returns the completion.
 *
 * - EINVAL: `id` is NULL, or both its `srq` and its `qp` are.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_recv(3), ibv_post_srq_recv(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `sgl` is either NULL, or points to `nsge` entries.
 * - The memory that the entries describe stays valid, and is used by nothing else, until
 *   the completion is taken.
 */
int rdma_post_recvv(struct rdma_cm_id *id,
                    void *context,
                    struct ibv_sge *sgl,
                    int nsge);

/**
 * Posts a send of the `nsge` buffers of `sgl`.
 *
 * `context` becomes the `wr_id` of the completion.
 * `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
 * IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
 * `sq_sig_all`.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `sgl` is either NULL, or points to `nsge` entries.
 * - The memory that the entries describe stays valid until the completion is taken
 *   (with IBV_SEND_INLINE: until the call returns).
 */
int rdma_post_sendv(struct rdma_cm_id *id,
                    void *context,
                    struct ibv_sge *sgl,
                    int nsge,
                    int flags);

/**
 * Posts an RDMA read from the peer's memory into the `nsge` buffers of `sgl`.
 *
 * `context` becomes the `wr_id` of the completion.
 * `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
 * IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
 * `sq_sig_all`.
 * `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `sgl` is either NULL, or points to `nsge` entries.
 * - The memory that the entries describe stays valid, and is used by nothing else, until
 *   the completion is taken.
 */
int rdma_post_readv(struct rdma_cm_id *id,
                    void *context,
                    struct ibv_sge *sgl,
                    int nsge,
                    int flags,
                    uint64_t remote_addr,
                    uint32_t rkey);

/**
 * Posts an RDMA write of the `nsge` buffers of `sgl` to the peer's memory.
 *
 * `context` becomes the `wr_id` of the completion.
 * `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
 * IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
 * `sq_sig_all`.
 * `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `sgl` is either NULL, or points to `nsge` entries.
 * - The memory that the entries describe stays valid until the completion is taken
 *   (with IBV_SEND_INLINE: until the call returns).
 */
int rdma_post_writev(struct rdma_cm_id *id,
                     void *context,
                     struct ibv_sge *sgl,
                     int nsge,
                     int flags,
                     uint64_t remote_addr,
                     uint32_t rkey);

/**
 * Posts a receive into one buffer.
 *
 * Like `rdma_post_recvv` with one entry: `length` bytes at `addr`, in the region `mr`.
 * The buffer must lie within the region.
 *
 * Returns 0, or -1 with errno. `rdma_get_recv_comp` returns the completion.
 *
 * - EINVAL: `id` is NULL, or both its `srq` and its `qp` are; `mr` is NULL; `length`
 *   exceeds 2^32 - 1; the buffer is not within the region.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_recv(3), ibv_post_srq_recv(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
 *   the completion is taken.
 */
int rdma_post_recv(struct rdma_cm_id *id,
                   void *context,
                   void *addr,
                   size_t length,
                   struct ibv_mr *mr);

/**
 * Posts a send of one buffer.
 *
 * Like `rdma_post_sendv` with one entry: `length` bytes at `addr`, in the region `mr`.
 * `mr` may be NULL for inline data (IBV_SEND_INLINE) and for a length of 0.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL; `length` exceeds 2^32 - 1.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid until the completion is taken
 *   (with IBV_SEND_INLINE: until the call returns).
 */
int rdma_post_send(struct rdma_cm_id *id,
                   void *context,
                   void *addr,
                   size_t length,
                   struct ibv_mr *mr,
                   int flags);

/**
 * Posts an RDMA read from the peer's memory into one buffer.
 *
 * Like `rdma_post_readv` with one entry: `length` bytes at `addr`, in the region `mr`.
 * `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL; `mr` is NULL; `length` exceeds 2^32 - 1.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
 *   the completion is taken.
 */
int rdma_post_read(struct rdma_cm_id *id,
                   void *context,
                   void *addr,
                   size_t length,
                   struct ibv_mr *mr,
                   int flags,
                   uint64_t remote_addr,
                   uint32_t rkey);

/**
 * Posts an RDMA write of one buffer to the peer's memory.
 *
 * Like `rdma_post_writev` with one entry: `length` bytes at `addr`, in the region `mr`.
 * `remote_addr` and `rkey` name memory that the peer registered for this, in host byte order.
 * `mr` may be NULL for inline data (IBV_SEND_INLINE) and for a length of 0.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL; `length` exceeds 2^32 - 1.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid until the completion is taken
 *   (with IBV_SEND_INLINE: until the call returns).
 */
int rdma_post_write(struct rdma_cm_id *id,
                    void *context,
                    void *addr,
                    size_t length,
                    struct ibv_mr *mr,
                    int flags,
                    uint64_t remote_addr,
                    uint32_t rkey);

/**
 * Posts a datagram send of one buffer.
 *
 * It goes to queue pair number `remote_qpn` at `ah`, with the Q_Key RDMA_UDP_QKEY.
 * `context` becomes the `wr_id` of the completion.
 * `flags` is a bitwise OR of `enum ibv_send_flags`, passed on unchanged. Without
 * IBV_SEND_SIGNALED, a request completes silently unless it fails or the queue pair has
 * `sq_sig_all`.
 * `mr` may be NULL for inline data (IBV_SEND_INLINE) and for a length of 0.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL; `length` exceeds 2^32 - 1.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `ah` is an address handle that the provider accepts.
 * - `addr` and `length` describe memory that stays valid until the completion is taken
 *   (with IBV_SEND_INLINE: until the call returns).
 */
int rdma_post_ud_send(struct rdma_cm_id *id,
                      void *context,
                      void *addr,
                      size_t length,
                      struct ibv_mr *mr,
                      int flags,
                      struct ibv_ah *ah,
                      uint32_t remote_qpn);

/**
 * Takes one completion of the send queue of `id`, waiting for it if necessary.
 *
 * Check `wc->status` first: a failed request completes, too.
 * Polls, arms the queue, polls again, and only then waits for an event on its channel.
 *
 * Returns 1 with `*wc` filled, or -1 with errno; never 0.
 *
 * - EINVAL: `id`, `wc` or `id->send_cq` is NULL; `id->send_cq_channel` is NULL and the
 *   queue is empty; the event was for another queue (it is acknowledged there).
 * - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again.
 * - EAGAIN: the channel is non-blocking and has no event. As for EINTR.
 * - EIO: the provider cannot poll the queue.
 * - Others: as set by ibv_get_cq_event(3).
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
int rdma_get_send_comp(struct rdma_cm_id *id,
                       struct ibv_wc *wc);

/**
 * Takes one completion of the receive queue of `id`, waiting for it if necessary.
 *
 * Check `wc->status` first: a failed request completes, too.
 * Polls, arms the queue, polls again, and only then waits for an event on its channel.
 *
 * Returns 1 with `*wc` filled, or -1 with errno; never 0.
 *
 * - EINVAL: `id`, `wc` or `id->recv_cq` is NULL; `id->recv_cq_channel` is NULL and the
 *   queue is empty; the event was for another queue (it is acknowledged there).
 * - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again.
 * - EAGAIN: the channel is non-blocking and has no event. As for EINTR.
 * - EIO: the provider cannot poll the queue.
 * - Others: as set by ibv_get_cq_event(3).
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
int rdma_get_recv_comp(struct rdma_cm_id *id,
                       struct ibv_wc *wc);

#ifdef __cplusplus
}
#endif

#endif  /* RDMA_VERBS_H */
