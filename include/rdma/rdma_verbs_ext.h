/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Extensions to librdmacm's verbs helpers, in the same style, from librdma_verbs.
 *
 * Any thread may call any function at any time, unless the function says otherwise;
 * errno is per thread. Generated from src/ext/ffi.rs; manual: rdma_verbs(7).
 */

#ifndef RDMA_VERBS_EXT_H
#define RDMA_VERBS_EXT_H

#include <time.h>
#include <rdma/rdma_verbs.h>

/**
 * One send-side request, for `rdmax_post_sends`. Fields that its opcode does not need are ignored.
 *
 * The fields have the names and meanings of the arguments of the `rdma_post_*v` functions, and of
 * those of `struct ibv_send_wr`. New fields may be added at the end.
 */
struct rdmax_send_wr {
        /**
         * Becomes the `wr_id` of the completion.
         */
        void *context;
        /**
         * The local buffers, which are copied: the array is free when the call returns.
         */
        struct ibv_sge *sgl;
        /**
         * How many there are.
         */
        int nsge;
        /**
         * IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP,
         * IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM or IBV_WR_RDMA_WRITE_WITH_IMM.
         */
        enum ibv_wr_opcode opcode;
        /**
         * A bitwise OR of `enum ibv_send_flags`.
         */
        int flags;
        /**
         * Immediate data, in network byte order.
         */
        __be32 imm_data;
        /**
         * Read, write, atomic: the peer's memory, in host byte order.
         */
        uint64_t remote_addr;
        /**
         * Read, write, atomic: the key of the peer's region, in host byte order.
         */
        uint32_t rkey;
        /**
         * Datagram: the peer's queue pair number.
         */
        uint32_t remote_qpn;
        /**
         * Atomic: what is compared with the peer's 8 bytes, or added to them.
         */
        uint64_t compare_add;
        /**
         * Compare-and-swap: the new value.
         */
        uint64_t swap;
        /**
         * Datagram: the address handle; the Q_Key is RDMA_UDP_QKEY. Else NULL.
         */
        struct ibv_ah *ah;
};

/**
 * One receive, for `rdmax_post_recvs`.
 *
 * The fields are the arguments of `rdma_post_recvv`. New fields may be added at the end.
 */
struct rdmax_recv_wr {
        /**
         * Becomes the `wr_id` of the completion.
         */
        void *context;
        /**
         * The buffers, which are copied: the array is free when the call returns.
         */
        struct ibv_sge *sgl;
        /**
         * How many there are.
         */
        int nsge;
        /**
         * 0.
         */
        int reserved;
};

/**
 * What the queue pair of an id and its port can do, for `rdmax_query_limits`.
 *
 * The fields have the names and meanings of those of `struct ibv_qp_cap`,
 * `struct ibv_qp_attr` and `struct ibv_port_attr`.
 */
struct rdmax_limits {
        /**
         * Send-side requests that may be outstanding.
         */
        uint32_t max_send_wr;
        /**
         * Receives that may be outstanding; of no meaning with a shared receive queue.
         */
        uint32_t max_recv_wr;
        /**
         * Buffers of a send-side request.
         */
        uint32_t max_send_sge;
        /**
         * Buffers of a receive.
         */
        uint32_t max_recv_sge;
        /**
         * Bytes that a request may carry inline (IBV_SEND_INLINE).
         */
        uint32_t max_inline_data;
        /**
         * Reads and atomics that may be in flight at a time; 0 before there is a connection.
         */
        uint32_t max_rd_atomic;
        /**
         * The same, of the peer's.
         */
        uint32_t max_dest_rd_atomic;
        /**
         * Bytes that one request can carry.
         */
        uint32_t max_msg_sz;
};

/**
 * Gets the completions of the program's requests that a call takes while it waits for its own.
 *
 * `wc` is valid until the handler returns; `arg` is what was passed with the handler. It may
 * post requests and take completions, but neither drain nor destroy what the call works on.
 */
typedef void (*rdmax_wc_handler)(const struct ibv_wc *wc, void *arg);

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Takes one completion of the send queue of `id`, waiting for it no longer than `timeout_ms`.
 *
 * `timeout_ms` is as in poll(2): milliseconds, 0 to look without waiting, a negative value to
 * wait forever. Check `wc->status` first: a failed request completes, too. Where `id->send_cq` is NULL,
 * the program's own queue is meant, that of its queue pair.
 *
 * Returns 1 with `*wc` filled, 0 if none came in time, or -1 with errno. After 0 the queue is
 * armed: the next completion raises an event, and `rdmax_send_comp_fd` becomes readable.
 *
 * - EINVAL: `id`, `wc` or the queue is NULL; the queue has no channel and the call would have to
 *   wait.
 * - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again, or use
 *   `rdmax_get_send_comps_until`, whose end does not move.
 * - ENOTUNIQ: another queue was created on the channel during the wait, and its event was taken:
 *   poll both.
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
 * Takes one completion of the receive queue of `id`, waiting for it no longer than `timeout_ms`.
 *
 * `timeout_ms` is as in poll(2): milliseconds, 0 to look without waiting, a negative value to
 * wait forever. Check `wc->status` first: a failed request completes, too. Where `id->recv_cq` is NULL,
 * the program's own queue is meant, that of its queue pair.
 *
 * Returns 1 with `*wc` filled, 0 if none came in time, or -1 with errno. After 0 the queue is
 * armed: the next completion raises an event, and `rdmax_recv_comp_fd` becomes readable.
 *
 * - EINVAL: `id`, `wc` or the queue is NULL; the queue has no channel and the call would have to
 *   wait.
 * - EINTR: interrupted by a signal. The queue stays armed, nothing is lost: call again, or use
 *   `rdmax_get_recv_comps_until`, whose end does not move.
 * - ENOTUNIQ: another queue was created on the channel during the wait, and its event was taken:
 *   poll both.
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
 * Like `rdmax_get_send_comp`, but takes all that are there, up to `n`. It waits for the first one
 * only.
 *
 * Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
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
 * Takes up to `n` completions of the send queue of `id`, waiting for the first.
 *
 * Like `rdmax_get_send_comps`, but waits until a time on CLOCK_MONOTONIC; NULL is forever. A call
 * that was interrupted (EINTR) is repeated with the same arguments.
 *
 * Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
 *
 * - EINVAL: `n` is less than 1; and as for `rdmax_get_send_comp`.
 * - Others: as for `rdmax_get_send_comp`.
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to `n` elements.
 * - `end` is either NULL, or points to a time.
 */
int rdmax_get_send_comps_until(struct rdma_cm_id *id,
                               struct ibv_wc *wc,
                               int n,
                               const struct timespec *end);

/**
 * Takes up to `n` completions of the receive queue of `id`, waiting for the first.
 *
 * Like `rdmax_get_recv_comp`, but takes all that are there, up to `n`. It waits for the first one
 * only.
 *
 * Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
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
 * Takes up to `n` completions of the receive queue of `id`, waiting for the first.
 *
 * Like `rdmax_get_recv_comps`, but waits until a time on CLOCK_MONOTONIC; NULL is forever. A call
 * that was interrupted (EINTR) is repeated with the same arguments.
 *
 * Returns how many it took (1 to `n`) into `wc`, 0 if none came in time, or -1 with errno.
 *
 * - EINVAL: `n` is less than 1; and as for `rdmax_get_recv_comp`.
 * - Others: as for `rdmax_get_recv_comp`.
 *
 * See also ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_get_cq_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wc` is either NULL, or points to `n` elements.
 * - `end` is either NULL, or points to a time.
 */
int rdmax_get_recv_comps_until(struct rdma_cm_id *id,
                               struct ibv_wc *wc,
                               int n,
                               const struct timespec *end);

/**
 * Returns the file descriptor that poll(2) and epoll(7) can wait on for the send queue of `id`.
 *
 * It is readable while its channel has an event, which an armed queue raises when a
 * completion arrives. To arm the queue, and whenever the descriptor is readable, call
 * `rdmax_get_send_comps` with a timeout of 0 until it returns 0. Where several queues share the
 * channel, take its events with `rdmax_get_cq_event`. Do not read or close the descriptor: it
 * belongs to the channel.
 *
 * Returns the file descriptor, or -1 with errno.
 *
 * - EINVAL: `id`, the queue or its channel is NULL.
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 */
int rdmax_send_comp_fd(struct rdma_cm_id *id);

/**
 * Returns the file descriptor that poll(2) and epoll(7) can wait on for the receive queue of `id`.
 *
 * It is readable while its channel has an event, which an armed queue raises when a
 * completion arrives. To arm the queue, and whenever the descriptor is readable, call
 * `rdmax_get_recv_comps` with a timeout of 0 until it returns 0. Where several queues share the
 * channel, take its events with `rdmax_get_cq_event`. Do not read or close the descriptor: it
 * belongs to the channel.
 *
 * Returns the file descriptor, or -1 with errno.
 *
 * - EINVAL: `id`, the queue or its channel is NULL.
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 */
int rdmax_recv_comp_fd(struct rdma_cm_id *id);

/**
 * Waits for an event of a channel, for a server whose many queues share one.
 *
 * The event is acknowledged on the queue that raised it, which is stored in `*cq`: its
 * `cq_context` is what the program created it with. Then poll that queue until it is empty, arm it,
 * and poll it once more; `rdmax_get_recv_comps` with a timeout of 0 does this when called until it
 * returns 0. It may be empty from the start, if its completions have been taken already.
 * `timeout_ms` is as in poll(2).
 *
 * Returns 1 with `*cq` filled, 0 if no event came in time, or -1 with errno.
 *
 * - EINVAL: `channel` or `cq` is NULL.
 * - EINTR: interrupted by a signal. Nothing is lost: call again.
 * - Others: as set by ppoll(2) and ibv_get_cq_event(3).
 *
 * See also ibv_get_cq_event(3), ibv_req_notify_cq(3).
 *
 * # Safety
 * - `channel` is either NULL, or points to an `ibv_comp_channel`.
 * - `cq` is either NULL, or points to a pointer.
 */
int rdmax_get_cq_event(struct ibv_comp_channel *channel,
                       struct ibv_cq **cq,
                       int timeout_ms);

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
 * Posts `n` send-side requests, 64 per call of the provider.
 *
 * Works as if each element of `wr` was posted in turn until one is refused, but the device is told
 * only once for all that go to the provider together. `size` is `sizeof(*wr)`: a program that was
 * compiled with a later header says so by it. Signaling the last request is enough: when it has
 * completed, all before it have.
 *
 * Returns 0 if all are posted, or -1 with errno. `*posted` is the number of those that were; after
 * a failure, of those that may be: `wr[*posted]` and what follows it is not. It is exact where the
 * provider says which request it refused.
 *
 * - EINVAL: `id` or its `qp`, `posted`, or `wr` (with `n` not 0) is NULL; `n` is less than 0; an
 *   `opcode` is none of those that `struct rdmax_send_wr` names; `size` is too small.
 * - E2BIG: a field is not 0 that this version of the library does not know.
 * - Others: as for `rdma_post_sendv`.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wr` is either NULL, or points to `n` elements of `size` bytes. For each of them the rules of
 *   the function hold that posts one: `rdma_post_sendv`, `rdma_post_readv`, `rdma_post_writev`,
 *   `rdma_post_ud_send`, `rdmax_post_atomic_cas`.
 * - `posted` is either NULL, or points to an int.
 */
int rdmax_post_sends(struct rdma_cm_id *id,
                     const struct rdmax_send_wr *wr,
                     size_t size,
                     int n,
                     int *posted);

/**
 * Posts `n` receives, 64 per call of the provider.
 *
 * Works as if `rdma_post_recvv` was called for each element of `wr` in turn until one is refused.
 * They go to the shared receive queue of `id` if it has one, else to its queue pair. `size` is
 * `sizeof(*wr)`, as for `rdmax_post_sends`.
 *
 * Returns 0 if all are posted, or -1 with errno; `*posted` is as for `rdmax_post_sends`.
 *
 * - EINVAL: `id`, both its `srq` and its `qp`, `posted`, or `wr` (with `n` not 0) is NULL; `n` is
 *   less than 0; `size` is too small.
 * - E2BIG: a field is not 0 that this version of the library does not know.
 * - Others: as for `rdma_post_recvv`.
 *
 * See also ibv_post_recv(3), ibv_post_srq_recv(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `wr` is either NULL, or points to `n` elements of `size` bytes, for each of which the rules of
 *   `rdma_post_recvv` hold.
 * - `posted` is either NULL, or points to an int.
 */
int rdmax_post_recvs(struct rdma_cm_id *id,
                     const struct rdmax_recv_wr *wr,
                     size_t size,
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
 * - EBADRQC: REM_INV_REQ_ERR, REM_INV_RD_REQ_ERR
 * - EREMOTEIO: REM_OP_ERR
 * - EPROTO: BAD_RESP_ERR
 * - ECONNABORTED: REM_ABORT_ERR
 * - EINPROGRESS: TM_RNDV_INCOMPLETE
 * - EBADR: LOC_QP_OP_ERR, LOC_EEC_OP_ERR, MW_BIND_ERR, LOC_RDD_VIOL_ERR, INV_EECN_ERR,
 *   INV_EEC_STATE_ERR
 * - EINVAL: `wc` is NULL
 * - EIO: FATAL_ERR, GENERAL_ERR, TM_ERR, and any other status
 *
 * See also ibv_poll_cq(3).
 *
 * # Safety
 * - `wc` is either NULL, or points to an `ibv_wc`.
 */
int rdmax_wc_errno(const struct ibv_wc *wc);

/**
 * Tells what the queue pair of `id` and its port can do.
 *
 * `size` is `sizeof(*limits)`. What a later version of the library adds is not written to a smaller
 * structure; what this version does not know is 0.
 *
 * Returns 0 with `*limits` filled, or -1 with errno.
 *
 * - EINVAL: `id`, its `qp` or `limits` is NULL.
 * - EOPNOTSUPP: the device does not report how much the port can carry.
 * - Others: as returned by ibv_query_qp(3) and ibv_query_port(3).
 *
 * See also ibv_query_qp(3), ibv_query_port(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `limits` is either NULL, or points to `size` bytes.
 */
int rdmax_query_limits(struct rdma_cm_id *id,
                       struct rdmax_limits *limits,
                       size_t size);

/**
 * Reads the peer's memory into a buffer, and returns when that is done.
 *
 * A length that the port cannot carry in one request is split. `timeout_ms` is as in poll(2);
 * signals do not end the wait. The call takes completions of the send queue of `id`, and no other
 * thread may. Those of other requests go to `handler`, unless it is NULL.
 *
 * Returns 0 if all data has been transferred, or -1 with errno; then the content of the buffer
 * is undefined. Only after ETIMEDOUT, requests of the call may be in flight.
 *
 * - ETIMEDOUT: the timeout expired, or the provider does not say what became of a request (the log
 *   says why). The buffer must stay registered and untouched until `rdmax_wait` returns anything
 *   else than ETIMEDOUT, `rdmax_drain` returns 0, or the queue pair is destroyed.
 * - EBUSY: the completion of another request was met, and lost since `handler` is NULL.
 * - EINVAL: `id`, its `qp` or the completion queue, or `mr` is NULL.
 * - EOPNOTSUPP: the device does not report how much the port can carry.
 * - Those of rdmax_wc_errno: the request completed with an error, or one before it.
 * - Others: as for `rdma_post_read`.
 *
 * See also ibv_post_send(3), ibv_query_port(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid, and is used by nothing else, until
 *   no request for it is in flight.
 * - `handler` is either NULL, or can be called with `arg`.
 */
int rdmax_read(struct rdma_cm_id *id,
               void *addr,
               size_t length,
               struct ibv_mr *mr,
               uint64_t remote_addr,
               uint32_t rkey,
               int timeout_ms,
               rdmax_wc_handler handler,
               void *arg);

/**
 * Writes a buffer to the peer's memory, and returns when that is done.
 *
 * A length that the port cannot carry in one request is split. `timeout_ms` is as in poll(2);
 * signals do not end the wait. The call takes completions of the send queue of `id`, and no other
 * thread may. Those of other requests go to `handler`, unless it is NULL. `mr` may be
 * NULL for a length of 0.
 *
 * Returns 0 if all data has been transferred, or -1 with errno; then the content of the
 * peer's memory
 * is undefined. Only after ETIMEDOUT, requests of the call may be in flight.
 *
 * - ETIMEDOUT: the timeout expired, or the provider does not say what became of a request (the log
 *   says why). The buffer must stay registered and untouched until `rdmax_wait` returns anything
 *   else than ETIMEDOUT, `rdmax_drain` returns 0, or the queue pair is destroyed.
 * - EBUSY: the completion of another request was met, and lost since `handler` is NULL.
 * - EINVAL: `id`, its `qp` or the completion queue is NULL.
 * - EOPNOTSUPP: the device does not report how much the port can carry.
 * - Those of rdmax_wc_errno: the request completed with an error, or one before it.
 * - Others: as for `rdma_post_write`.
 *
 * See also ibv_post_send(3), ibv_query_port(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `mr` is either NULL, or points to a memory region.
 * - `addr` and `length` describe memory that stays valid until
 *   no request for it is in flight.
 * - `handler` is either NULL, or can be called with `arg`.
 */
int rdmax_write(struct rdma_cm_id *id,
                void *addr,
                size_t length,
                struct ibv_mr *mr,
                uint64_t remote_addr,
                uint32_t rkey,
                int timeout_ms,
                rdmax_wc_handler handler,
                void *arg);

/**
 * Waits until the requests that calls of `rdmax_read` and `rdmax_write` have left in flight are done.
 *
 * It posts a write without data and waits for its completion, which comes after all others of the
 * send queue. So it waits for earlier requests of the program, too; their completions go to
 * `handler`, unless it is NULL. `timeout_ms` is as in poll(2); signals do not end the wait.
 *
 * Returns 0, or -1 with errno. Only after ETIMEDOUT, requests may be in flight.
 *
 * - ETIMEDOUT: the timeout expired, or the provider refuses the request, as some do in the error state
 *   (the log says why). Then call `rdmax_drain`, or destroy the queue pair.
 * - EBUSY: the completion of another request was met, and lost since `handler` is NULL.
 * - EINVAL: `id`, its `qp` or the completion queue is NULL.
 * - Those of rdmax_wc_errno: a request completed with an error.
 *
 * See also ibv_post_send(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `handler` is either NULL, or can be called with `arg`.
 */
int rdmax_wait(struct rdma_cm_id *id,
               int timeout_ms,
               rdmax_wc_handler handler,
               void *arg);

/**
 * Ends all requests of `id`: when it returns 0, none is outstanding, and their buffers may be
 * deregistered.
 *
 * It moves the queue pair to the error state, whatever state that is in, and takes the completions
 * of both queues until the requests are done. Each goes to `handler`, unless that is NULL: those
 * of other queue pairs on the same completion queues, too (`wc->qp_num` tells). It polls, and
 * neither arms a queue nor touches a channel. It does not disconnect.
 *
 * Receives in a shared receive queue stay there. Those that the queue pair has already taken from it
 * complete before the event IBV_EVENT_QP_LAST_WQE_REACHED: wait for that one before their buffers
 * are deregistered. A datagram queue pair is reset on its way: its requests are dropped without a
 * completion.
 *
 * `timeout_ms` is as in poll(2); signals do not end the wait. Meanwhile no other thread posts to
 * `id` or takes its completions.
 *
 * Returns 0, or -1 with errno.
 *
 * - ETIMEDOUT: the timeout expired and requests may be outstanding. Call again, or destroy the queue
 *   pair, which always ends them.
 * - EOPNOTSUPP: the provider accepts no request in the error state, in which the queue pair
 *   was already, or its queue was full: nothing tells when it is empty. What had completed is taken.
 * - EINVAL: `id` or its `qp`, or a completion queue of that is NULL.
 * - Others: as returned by ibv_query_qp(3) and ibv_modify_qp(3), or as for polling.
 *
 * See also ibv_modify_qp(3), ibv_get_async_event(3).
 *
 * # Safety
 * - `id` is either NULL, or points to an `rdma_cm_id`.
 * - `handler` is either NULL, or can be called with `arg`.
 */
int rdmax_drain(struct rdma_cm_id *id,
                int timeout_ms,
                rdmax_wc_handler handler,
                void *arg);

#ifdef __cplusplus
}
#endif

#endif  /* RDMA_VERBS_EXT_H */
