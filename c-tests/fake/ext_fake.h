/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A provider with working queues, for the tests of the extension helpers: requests are
 * outstanding until a test completes them, armed completion queues raise an event in a
 * pipe, and a queue pair in the error state flushes its requests.
 *
 * One thread may add completions while another waits.
 */
#ifndef EXT_FAKE_H
#define EXT_FAKE_H

#include "../lib/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs_ext.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
	EXT_DEPTH = 256,	/* of each queue, unless a test reduces it */
	EXT_QP_NUM = 0x77,
	EXT_MAX_INLINE = 188,
	EXT_MEMORY = 4096,
	EXT_SEND_SGE = 5,
	EXT_RECV_SGE = 6,
	EXT_RD_ATOMIC = 7,
	EXT_DEST_RD_ATOMIC = 8,
	EXT_PORT = 3,
	EXT_PKEY_INDEX = 11,
	EXT_QKEY = 12,
};

struct ext_cq {
	struct ibv_cq cq;
	struct ibv_comp_channel channel;
	int writer;		/* of the pipe whose reader is the channel's fd */
	pthread_mutex_t lock;
	struct ibv_wc wc[EXT_DEPTH];
	unsigned int added, taken;
	int armed;
	int stale;	/* each arming raises an event at once, with no completion behind it */
	int polls, arms;	/* calls */
	int poll_result;	/* what a poll returns instead, unless 0 */
	int largest_poll;	/* the most entries requested by one poll */
	int overruns;		/* completions lost because the queue was full */
	atomic_int events, acknowledged;
};

/* One accepted request. */
struct ext_request {
	struct ibv_send_wr send;
	struct ibv_recv_wr recv;
	struct ibv_sge sge;
};

struct ext_work_queue {
	struct ext_request request[EXT_DEPTH];
	int posted;		/* since the start */
	int completed;		/* of these */
	int depth;
	int calls;		/* of the provider's operation */
	int accept;		/* how many more are accepted; less than 0: all */
	int refusal;		/* what the provider returns for the next one */
	int keeps_bad;		/* it does not say which one it refused */
	int refusal_errno;	/* set along with it, if it is not 0 */
	int refuses_in_error;	/* what the provider returns in the error state */
	int swallows_in_error;	/* what is posted there never completes */
	int doorbell;		/* it queues all, and then returns this */
};

struct ext_fake {
	struct verbs_context whole;
	struct ibv_qp qp;
	struct ibv_srq srq;
	struct ibv_pd pd;
	struct ibv_mr mr;
	struct rdma_cm_id id;
	struct ext_cq send, recv, other;
	struct ext_work_queue sq, rq, shared;
	enum ibv_qp_state state;
	int states_set;		/* calls of ibv_modify_qp */
	int slow;		/* flushes nothing by itself */
	uint32_t max_msg_sz;
	int ports_queried;
	int result;		/* of ibv_query_qp, ibv_modify_qp and query_port */
	int registrations, extended_registrations, access;
	void *registered;
	size_t registered_length;
	/* Called for each send-side request that is accepted, when it is on its queue. */
	void (*on_send)(struct ext_request *request);
};

extern struct ext_fake ext;
extern char ext_memory[EXT_MEMORY] __attribute__((aligned(8)));

/* The setup and teardown of each test. */
int ext_begin(void **state);
int ext_end(void **state);

/* Adds a completion, as the device does. */
void ext_complete(struct ext_cq *queue, uint64_t wr_id, enum ibv_wc_status status);

/* Completes the oldest request that is outstanding. */
void ext_complete_next(struct ext_work_queue *work, enum ibv_wc_status status);

/* Raises an event for which there is no completion. */
void ext_raise(struct ext_cq *channel_of, struct ext_cq *raised_by);

/* Completions that have not been taken yet. */
unsigned int ext_waiting(struct ext_cq *queue);

/* Whether the channel has an event. */
int ext_readable(const struct ext_cq *queue);

#endif
