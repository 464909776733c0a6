/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "provider.h"

#include <stdlib.h>

enum { CACHE_LINE = 64, BUFFER = 4096 };

/* All that an id points to. */
struct object {
	struct ibv_context context;
	struct rdma_cm_id id;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_comp_channel channel;
	struct ibv_pd pd;
	struct ibv_mr mr;
	struct bench bench;
	unsigned int polls;
	char buffer[BUFFER];
};

static struct object *object_of(struct ibv_cq *cq)
{
	return cq->cq_context;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	return 0;
}

static int poll_ready(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	(void)cq, (void)entries, (void)wc;
	return 1;
}

/* Empty before the queue is armed, and before the wait. */
static int poll_third(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	struct object *object = object_of(cq);

	(void)entries, (void)wc;
	if (++object->polls < 3)
		return 0;
	object->polls = 0;
	return 1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq, (void)solicited_only;
	return 0;
}

/* --- instead of libibverbs' -------------------------------------------------------------- */

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)addr, (void)length, (void)access;
	return &((struct object *)pd->context)->mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	struct object *object = (struct object *)channel->context;

	*cq = &object->cq;
	*context = &object->id;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	(void)cq, (void)events;
}

/* --- the id --------------------------------------------------------------------------------- */

struct bench *bench_new(enum bench_queue queue)
{
	size_t size = (sizeof(struct object) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	struct object *object = aligned_alloc(CACHE_LINE, size);

	if (!object)
		abort();
	*object = (struct object){
		.context.ops = {
			.post_send = post_send,
			.post_recv = post_recv,
			.poll_cq = queue == BENCH_READY ? poll_ready : poll_third,
			.req_notify_cq = req_notify_cq,
		},
		.qp.context = &object->context,
		.cq = { .context = &object->context, .cq_context = object },
		.channel.context = &object->context,
		.pd.context = &object->context,
		.mr = { .context = &object->context, .pd = &object->pd, .lkey = 7,
			.addr = object->buffer, .length = sizeof(object->buffer) },
		.id = { .verbs = &object->context, .pd = &object->pd, .qp = &object->qp,
			.send_cq = &object->cq, .send_cq_channel = &object->channel,
			.recv_cq = &object->cq, .recv_cq_channel = &object->channel },
	};
	object->bench = (struct bench){
		.id = &object->id,
		.mr = &object->mr,
		.element = { (uintptr_t)object->buffer, 64, object->mr.lkey },
		.buffer = object->buffer,
		.length = 64,
	};
	return &object->bench;
}
