/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Extensions to librdmacm's verbs helpers, in the same style, from librdma_verbs.
 *
 * Any thread may call any function at any time, unless the function says otherwise;
 * errno is per thread. Generated from src/ext/ffi.rs; manual: rdma_verbs(7).
 */

#ifndef RDMA_VERBS_EXT_H
#define RDMA_VERBS_EXT_H

#include <rdma/rdma_verbs.h>

/**
 * One RDMA read or write, for `rdmax_post_reads` and `rdmax_post_writes`.
 *
 * The fields are the arguments of `rdma_post_read` and `rdma_post_write`.
 */
struct rdmax_rdma {
        /**
         * Becomes the `wr_id` of the completion.
         */
        void *context;
        /**
         * The local buffer.
         */
        void *addr;
        /**
         * Its length in bytes.
         */
        size_t length;
        /**
         * The region it lies in.
         */
        struct ibv_mr *mr;
        /**
         * The memory of the peer, in host byte order.
         */
        uint64_t remote_addr;
        /**
         * The key of the peer's region, in host byte order.
         */
        uint32_t rkey;
        /**
         * A set of `enum ibv_send_flags`.
         */
        int flags;
};

/**
 * One send, for `rdmax_post_sends`.
 *
 * The fields are the arguments of `rdma_post_send`.
 */
struct rdmax_send {
        /**
         * Becomes the `wr_id` of the completion.
         */
        void *context;
        /**
         * The buffer.
         */
        void *addr;
        /**
         * Its length in bytes.
         */
        size_t length;
        /**
         * The region it lies in.
         */
        struct ibv_mr *mr;
        /**
         * A set of `enum ibv_send_flags`.
         */
        int flags;
};

/**
 * One receive, for `rdmax_post_recvs`.
 *
 * The fields are the arguments of `rdma_post_recv`.
 */
struct rdmax_recv {
        /**
         * Becomes the `wr_id` of the completion.
         */
        void *context;
        /**
         * The buffer.
         */
        void *addr;
        /**
         * Its length in bytes.
         */
        size_t length;
        /**
         * The region it lies in.
         */
        struct ibv_mr *mr;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Takes one completion of the send queue of `id`, waiting for it up to `timeout_ms`.
 *
 * `timeout_ms` is in milliseconds, as in poll(2): 0 returns at once, a negative value waits
 * indefinitely. Check `wc->status` first: a failed request completes, too.
 *
 * Returns 1 with `*wc` filled, 0 if there was none before the timeout, or -1 with errno. After
 * 0 the queue is armed, and its file descriptor (`rdmax_send_comp_fd`) becomes readable with
 * the next completion.
 *
 * - EINVAL: `id`, `wc` or `id->send_cq` is NULL; `id->send_cq_channel` is NULL and the call
 *   would have to wait; the event was for another queue (it is acknowledged there).
 * - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again with
 *   the remaining time.
 * - EIO: the provider cannot poll the queue.
 * - Others: as set by ppoll(2) and ibv_get_cq_event(3).
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
int rdmax_get_send_comp(struct rdma_cm_id *id,
                        struct ibv_wc *wc,
                        int timeout_ms);

/**
 * Takes one completion of the receive queue of `id`, waiting for it up to `timeout_ms`.
 *
 * `timeout_ms` is in milliseconds, as in poll(2): 0 returns at once, a negative value waits
 * indefinitely. Check `wc->status` first: a failed request completes, too.
 *
 * Returns 1 with `*wc` filled, 0 if there was none before the timeout, or -1 with errno. After
 * 0 the queue is armed, and its file descriptor (`rdmax_recv_comp_fd`) becomes readable with
 * the next completion.
 *
 * - EINVAL: `id`, `wc` or `id->recv_cq` is NULL; `id->recv_cq_channel` is NULL and the call
 *   would have to wait; the event was for another queue (it is acknowledged there).
 * - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again with
 *   the remaining time.
 * - EIO: the provider cannot poll the queue.
 * - Others: as set by ppoll(2) and ibv_get_cq_event(3).
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
int rdmax_get_recv_comp(struct rdma_cm_id *id,
                        struct ibv_wc *wc,
                        int timeout_ms);

/**
 * Takes up to `n` completions of the send queue of `id`, waiting for the first.
 *
 * Like `rdmax_get_send_comp`, but takes all available completions, up to `n`, and waits
 * only for the first.
 *
 * Returns the number stored in `wc` (1 to `n`), 0 if there was none before the timeout, or
 * -1 with errno.
 *
 * - EINVAL: `n` is less than 1; and as for `rdmax_get_send_comp`.
 * - Others: as for `rdmax_get_send_comp`.
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to `n` elements.
 */
int rdmax_get_send_comps(struct rdma_cm_id *id,
                         struct ibv_wc *wc,
                         int n,
                         int timeout_ms);

/**
 * Takes up to `n` completions of the receive queue of `id`, waiting for the first.
 *
 * Like `rdmax_get_recv_comp`, but takes all available completions, up to `n`, and waits
 * only for the first.
 *
 * Returns the number stored in `wc` (1 to `n`), 0 if there was none before the timeout, or
 * -1 with errno.
 *
 * - EINVAL: `n` is less than 1; and as for `rdmax_get_recv_comp`.
 * - Others: as for `rdmax_get_recv_comp`.
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to `n` elements.
 */
int rdmax_get_recv_comps(struct rdma_cm_id *id,
                         struct ibv_wc *wc,
                         int n,
                         int timeout_ms);

/**
 * Returns a file descriptor for poll(2) or epoll(7) to wait for the send queue of `id`.
 *
 * It is readable while its channel has an event, which an armed queue raises when a
 * completion arrives. To arm the queue, and whenever the descriptor is readable, call
 * `rdmax_get_send_comps` with a timeout of 0 until it returns 0; only then wait for the
 * descriptor. It belongs to the channel: do not read or close it.
 *
 * Returns the file descriptor, or -1 with errno.
 *
 * - EINVAL: `id`, `id->send_cq` or `id->send_cq_channel` is NULL.
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 */
int rdmax_send_comp_fd(struct rdma_cm_id *id);

/**
 * Returns a file descriptor for poll(2) or epoll(7) to wait for the receive queue of `id`.
 *
 * It is readable while its channel has an event, which an armed queue raises when a
 * completion arrives. To arm the queue, and whenever the descriptor is readable, call
 * `rdmax_get_recv_comps` with a timeout of 0 until it returns 0; only then wait for the
 * descriptor. It belongs to the channel: do not read or close it.
 *
 * Returns the file descriptor, or -1 with errno.
 *
 * - EINVAL: `id`, `id->recv_cq` or `id->recv_cq_channel` is NULL.
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 */
int rdmax_recv_comp_fd(struct rdma_cm_id *id);

/**
 * Posts a send of one buffer with 32 bits of immediate data.
 *
 * Like `rdma_post_send`; `imm_data`, in network byte order, arrives at the peer as
 * `wc.imm_data` of its receive, which has IBV_WC_WITH_IMM in `wc.wc_flags`.
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
int rdmax_post_send_imm(struct rdma_cm_id *id,
                        void *context,
                        void *addr,
                        size_t length,
                        struct ibv_mr *mr,
                        int flags,
                        __be32 imm_data);

/**
 * Posts an RDMA write of one buffer with 32 bits of immediate data.
 *
 * Like `rdma_post_write`; once the data is written, it also completes a receive of the
 * peer, which must have posted one. `imm_data`, in network byte order, is that completion's
 * `wc.imm_data`; its `wc.opcode` is IBV_WC_RECV_RDMA_WITH_IMM.
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
int rdmax_post_write_imm(struct rdma_cm_id *id,
                         void *context,
                         void *addr,
                         size_t length,
                         struct ibv_mr *mr,
                         int flags,
                         uint64_t remote_addr,
                         uint32_t rkey,
                         __be32 imm_data);

/**
 * Posts an atomic compare-and-swap of 8 bytes of the peer's memory.
 *
 * If they equal `compare`, they become `swap`. Their previous value goes to `addr`, in the
 * region `mr`. Values are in host byte order; both addresses are multiples of 8. The peer's
 * region needs IBV_ACCESS_REMOTE_ATOMIC, see `rdmax_reg`.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL; `mr` is NULL; `addr` or `remote_addr` is not a
 *   multiple of 8.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` points to 8 bytes that stay valid, and are used by nothing else, until the
 *   completion is taken.
 */
int rdmax_post_atomic_cas(struct rdma_cm_id *id,
                          void *context,
                          void *addr,
                          struct ibv_mr *mr,
                          int flags,
                          uint64_t remote_addr,
                          uint32_t rkey,
                          uint64_t compare,
                          uint64_t swap);

/**
 * Posts an atomic fetch-and-add on 8 bytes of the peer's memory.
 *
 * `add` is added to them, modulo 2^64. Their previous value goes to `addr`, in the region
 * `mr`. Values are in host byte order; both addresses are multiples of 8. The peer's
 * region needs IBV_ACCESS_REMOTE_ATOMIC, see `rdmax_reg`.
 *
 * Returns 0 if the request was queued, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL; `mr` is NULL; `addr` or `remote_addr` is not a
 *   multiple of 8.
 * - EOPNOTSUPP: the provider cannot post to this queue.
 * - ENOMEM: the queue is full, or out of memory.
 * - Others, and EINVAL as well: the provider refused the request.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` points to 8 bytes that stay valid, and are used by nothing else, until the
 *   completion is taken.
 */
int rdmax_post_atomic_faa(struct rdma_cm_id *id,
                          void *context,
                          void *addr,
                          struct ibv_mr *mr,
                          int flags,
                          uint64_t remote_addr,
                          uint32_t rkey,
                          uint64_t add);

/**
 * Registers `length` bytes at `addr` as a memory region with the given access.
 *
 * `access` is a bitwise OR of `enum ibv_access_flags`. 0 suffices for the source of sends and
 * writes, and IBV_ACCESS_REMOTE_READ alone for memory that the peer only reads: both may be
 * read-only. IBV_ACCESS_LOCAL_WRITE is needed for receives, for the destination of reads and
 * atomics, and together with IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC. Release
 * the region with `rdma_dereg_mr`.
 *
 * Returns the region, or NULL with errno.
 *
 * - EINVAL: `id` or its `pd` is NULL, or the provider refused the arguments.
 * - EFAULT: the memory is not mapped, or is read-only although `access` allows writes.
 * - ENOMEM: out of memory, or over the locked-memory limit (RLIMIT_MEMLOCK).
 * - Others: as set by ibv_reg_mr(3).
 *
 * See also ibv_reg_mr(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - The memory stays mapped until the region is deregistered.
 */
struct ibv_mr *rdmax_reg(struct rdma_cm_id *id,
                         void *addr,
                         size_t length,
                         int access);

/**
 * Posts `n` RDMA reads, 64 per call of the provider.
 *
 * As if `rdma_post_read` were called for each element of `v` in turn until one is refused, but
 * the device is notified once per call of the provider. Only the last one needs
 * IBV_SEND_SIGNALED: when it has completed, all before it have.
 *
 * Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
 * `v[*posted]` is the one that was refused.
 *
 * - EINVAL: `id` or its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is negative; an
 *   element has a `length` above 2^32 - 1, or its `mr` is NULL.
 * - Others: as for `rdma_post_read`.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `v` is either NULL, or points to `n` elements, for each of which the rules of
 *   `rdma_post_read` hold.
 * - `posted` is either NULL, or points to an int.
 */
int rdmax_post_reads(struct rdma_cm_id *id,
                     const struct rdmax_rdma *v,
                     int n,
                     int *posted);

/**
 * Posts `n` RDMA writes, 64 per call of the provider.
 *
 * As if `rdma_post_write` were called for each element of `v` in turn until one is refused, but
 * the device is notified once per call of the provider. Only the last one needs
 * IBV_SEND_SIGNALED: when it has completed, all before it have.
 *
 * Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
 * `v[*posted]` is the one that was refused.
 *
 * - EINVAL: `id` or its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is negative; an
 *   element has a `length` above 2^32 - 1.
 * - Others: as for `rdma_post_write`.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `v` is either NULL, or points to `n` elements, for each of which the rules of
 *   `rdma_post_write` hold.
 * - `posted` is either NULL, or points to an int.
 */
int rdmax_post_writes(struct rdma_cm_id *id,
                      const struct rdmax_rdma *v,
                      int n,
                      int *posted);

/**
 * Posts `n` sends, 64 per call of the provider.
 *
 * As if `rdma_post_send` were called for each element of `v` in turn until one is refused, but
 * the device is notified once per call of the provider. Only the last one needs
 * IBV_SEND_SIGNALED: when it has completed, all before it have.
 *
 * Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
 * `v[*posted]` is the one that was refused.
 *
 * - EINVAL: `id` or its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is negative; an
 *   element has a `length` above 2^32 - 1.
 * - Others: as for `rdma_post_send`.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `v` is either NULL, or points to `n` elements, for each of which the rules of
 *   `rdma_post_send` hold.
 * - `posted` is either NULL, or points to an int.
 */
int rdmax_post_sends(struct rdma_cm_id *id,
                     const struct rdmax_send *v,
                     int n,
                     int *posted);

/**
 * Posts `n` receives, 64 per call of the provider.
 *
 * As if `rdma_post_recv` were called for each element of `v` in turn until one is refused.
 * They go to the shared receive queue of `id` if there is one, otherwise to its queue pair.
 *
 * Returns 0 if all were queued, or -1 with errno. `*posted` is the number queued;
 * `v[*posted]` is the one that was refused.
 *
 * - EINVAL: `id`, both its `srq` and its `qp`, `posted`, or `v` (if `n` is not 0) is NULL; `n` is
 *   negative; the `mr` of an element is NULL, its `length` exceeds 2^32 - 1, or its buffer is
 *   not within the region.
 * - Others: as for `rdma_post_recv`.
 *
 * See also ibv_post_recv(3), ibv_post_srq_recv(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `v` is either NULL, or points to `n` elements, for each of which the rules of
 *   `rdma_post_recv` hold.
 * - `posted` is either NULL, or points to an int.
 */
int rdmax_post_recvs(struct rdma_cm_id *id,
                     const struct rdmax_recv *v,
                     int n,
                     int *posted);

/**
 * Describes the status of a completion and its likely cause.
 *
 * Returns a constant string, which must not be freed; never NULL, whatever the status.
 *
 * See also ibv_poll_cq(3).
 *
 * # Safety
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
const char *rdmax_wc_strerror(const struct ibv_wc *wc);

/**
 * Maps the status of a completion to an errno value; errno itself is not changed.
 *
 * Returns 0 for success, otherwise a positive value:
 *
 * - ECANCELED: WR_FLUSH_ERR
 * - EACCES: REM_ACCESS_ERR
 * - EHOSTUNREACH: RETRY_EXC_ERR, RESP_TIMEOUT_ERR
 * - ENOBUFS: RNR_RETRY_EXC_ERR
 * - EMSGSIZE: LOC_LEN_ERR
 * - EFAULT: LOC_PROT_ERR, LOC_ACCESS_ERR
 * - EOPNOTSUPP: REM_INV_REQ_ERR, REM_INV_RD_REQ_ERR
 * - EREMOTEIO: REM_OP_ERR
 * - EPROTO: BAD_RESP_ERR
 * - ECONNABORTED: REM_ABORT_ERR
 * - EINPROGRESS: TM_RNDV_INCOMPLETE
 * - EINVAL: LOC_QP_OP_ERR, LOC_EEC_OP_ERR, MW_BIND_ERR, LOC_RDD_VIOL_ERR, INV_EECN_ERR,
 *   INV_EEC_STATE_ERR; and if `wc` is NULL
 * - EIO: FATAL_ERR, GENERAL_ERR, TM_ERR, and any other status
 *
 * See also ibv_poll_cq(3).
 *
 * # Safety
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
int rdmax_wc_errno(const struct ibv_wc *wc);

/**
 * Returns how many bytes a send or write of `id` may carry inline (IBV_SEND_INLINE).
 *
 * Returns that number, or -1 with errno.
 *
 * - EINVAL: `id` or its `qp` is NULL.
 * - Others: as returned by ibv_query_qp(3).
 *
 * See also ibv_query_qp(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 */
int rdmax_max_inline(struct rdma_cm_id *id);

/**
 * Reads the peer's memory into a buffer and waits for completion.
 *
 * Long transfers are split. `timeout_ms` is as in poll(2); signals do not end the wait. During
 * the call no other thread may take completions from the send completion queue of `id`, and
 * no signaled request of the program may be outstanding.
 *
 * Returns 0 if all data was read, or -1 with errno; the contents of the buffer are then
 * undefined.
 *
 * - ETIMEDOUT: the timeout expired. The request is **still in flight**: the buffer must stay
 *   registered and unmodified until it completes, or `rdmax_drain` has returned 0. Later
 *   calls of rdmax_read and rdmax_write recognize the late completion and drop it.
 * - EBUSY: the call took, and lost, the completion of another request of the program.
 * - EINVAL: `id`, its `qp`, `send_cq` or `send_cq_channel`, or `mr` is NULL.
 * - EOPNOTSUPP: the provider does not report the port's max_msg_sz (long transfers only).
 * - Those of rdmax_wc_errno: the request completed with an error.
 * - Others: as for `rdma_post_read`. If waiting itself has failed (as it does for
 *   `rdma_get_send_comp`), the request is still in flight, too.
 *
 * See also ibv_post_send(3), ibv_query_port(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
 *   no request for it is in flight.
 */
int rdmax_read(struct rdma_cm_id *id,
               void *addr,
               size_t length,
               struct ibv_mr *mr,
               uint64_t remote_addr,
               uint32_t rkey,
               int timeout_ms);

/**
 * Writes a buffer to the peer's memory and waits for completion.
 *
 * Long transfers are split. `timeout_ms` is as in poll(2); signals do not end the wait. During
 * the call no other thread may take completions from the send completion queue of `id`, and
 * no signaled request of the program may be outstanding. `mr` may be NULL if `length` is 0.
 *
 * Returns 0 when the peer's device has all data, or -1 with errno; the contents of the peer's
 * memory are then undefined.
 *
 * - ETIMEDOUT: the timeout expired. The request is **still in flight**: the buffer must stay
 *   registered and unmodified until it completes, or `rdmax_drain` has returned 0. Later
 *   calls of rdmax_read and rdmax_write recognize the late completion and drop it.
 * - EBUSY: the call took, and lost, the completion of another request of the program.
 * - EINVAL: `id`, its `qp`, `send_cq` or `send_cq_channel` is NULL.
 * - EOPNOTSUPP: the provider does not report the port's max_msg_sz (long transfers only).
 * - Those of rdmax_wc_errno: the request completed with an error.
 * - Others: as for `rdma_post_write`. If waiting itself has failed (as it does for
 *   `rdma_get_send_comp`), the request is still in flight, too.
 *
 * See also ibv_post_send(3), ibv_query_port(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid until no request for it is in flight.
 */
int rdmax_write(struct rdma_cm_id *id,
                void *addr,
                size_t length,
                struct ibv_mr *mr,
                uint64_t remote_addr,
                uint32_t rkey,
                int timeout_ms);

/**
 * Flushes all requests of `id`: when it returns 0, none is outstanding, and their buffers may
 * be deregistered.
 *
 * It moves the queue pair to the error state, in which nothing more is transferred, and takes
 * the completions of both queues until all requests have completed. **The completions that it
 * takes are lost**, including those of other ids on the same completion queues. The id may be
 * connected, disconnected, broken or never connected; it is not disconnected. Receives in a
 * shared receive queue stay there. Datagram queue pairs are reset.
 *
 * `timeout_ms` is as in poll(2); signals do not end the wait. During the call no other thread
 * may post to `id` or take its completions.
 *
 * Returns 0, or -1 with errno.
 *
 * - ETIMEDOUT: the timeout expired and requests may be outstanding. Call again.
 * - EINVAL: `id` or its `qp` is NULL; the event was for another queue (it is acknowledged
 *   there; call again).
 * - Others: as returned by ibv_modify_qp(3), or as for posting and waiting.
 *
 * See also ibv_modify_qp(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 */
int rdmax_drain(struct rdma_cm_id *id,
                int timeout_ms);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  /* RDMA_VERBS_EXT_H */
