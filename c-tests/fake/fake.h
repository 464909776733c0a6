/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A fake provider: it gives the answers that a test prepared, and records each call.
 *
 * It fills the operations of an ibv_context and replaces the functions of libibverbs that
 * the helpers call, so a test needs no device and sees every call. Only one thread may use
 * it.
 */
#ifndef FAKE_H
#define FAKE_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum {
	FAKE_MAX_CALLS = 64,
	FAKE_MAX_SGE = 16,
};

enum fake_operation {
	FAKE_REG_MR,
	FAKE_DEREG_MR,
	FAKE_POST_SEND,
	FAKE_POST_RECV,
	FAKE_POST_SRQ_RECV,
	FAKE_POLL_CQ,
	FAKE_REQ_NOTIFY_CQ,
	FAKE_GET_CQ_EVENT,
	FAKE_ACK_CQ_EVENTS,
};

/* One recorded call. Fields that do not belong to the operation are 0. */
struct fake_call {
	enum fake_operation operation;
	const void *object;	/* pd, mr, qp, srq, cq or channel */
	int number;		/* access, entries, solicited only, events */
	void *addr;
	size_t length;
	struct ibv_send_wr send;	/* as it was passed, byte for byte */
	struct ibv_recv_wr recv;
	int sge_count;		/* number of elements in sge */
	struct ibv_sge sge[FAKE_MAX_SGE];
};

/* The answer to one call. All zeros means success, and for a poll an empty queue. */
struct fake_reply {
	int result;
	int error;		/* written to errno if it is not 0 */
	struct ibv_cq *event_cq;	/* whose event it is; NULL: the one armed last */
	struct ibv_wc wc;	/* copied if the result of a poll is 1 */
};

struct fake {
	struct ibv_context context;
	struct ibv_pd pd;
	struct ibv_qp qp;
	struct ibv_srq srq;
	struct ibv_cq send_cq, recv_cq, other_cq;
	struct ibv_comp_channel send_channel, recv_channel;
	struct ibv_mr mr;
	struct ibv_ah ah;
	struct rdma_cm_id id;	/* has all of these but the srq */

	struct ibv_cq *armed;
	int replies, next_reply;	/* past the last: success, or a completion */
	struct fake_reply reply[FAKE_MAX_CALLS];
	int calls;
	struct fake_call call[FAKE_MAX_CALLS];
};

extern struct fake fake;

/* The address and length of the memory region fake.mr. */
enum { FAKE_MR_LENGTH = 4096 };
extern char fake_memory[FAKE_MR_LENGTH];

/* Resets the provider: no calls recorded, no answers prepared. */
void fake_reset(void);

/* Adds an answer for the next call without one. */
void fake_answer(struct fake_reply reply);

#endif
