// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A libibverbs.so.1 whose device does nothing and costs nothing: what remains is the cost
 * of the hooks. Each post is completed by the next poll.
 */
#include "fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_device device = { .name = "fake0" };
static __thread struct ibv_wc next = { .status = IBV_WC_SUCCESS };
static __thread sem_t *said, *held;

struct fake_context {
	struct verbs_context extended;
};

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)bad;
	next.wr_id = wr->wr_id;
	next.qp_num = qp->qp_num;
	next.opcode = IBV_WC_SEND;
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	next.wr_id = wr->wr_id;
	next.qp_num = qp->qp_num;
	next.opcode = IBV_WC_RECV;
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	return 0;
}

void fake_hold_poll(uint64_t wr_id, struct ibv_qp *qp, sem_t *taken, sem_t *leave)
{
	next.wr_id = wr_id;
	next.qp_num = qp->qp_num;
	next.opcode = IBV_WC_SEND;
	said = taken;
	held = leave;
}

/* Nothing to be had if nothing is asked for. */
static int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	(void)cq;
	if (entries == 0)
		return 0;
	/* One by one, as providers fill them in. */
	wc->wr_id = next.wr_id;
	wc->status = next.status;
	wc->opcode = next.opcode;
	wc->vendor_err = 0;
	wc->byte_len = next.byte_len;
	wc->qp_num = next.qp_num;
	wc->wc_flags = 0;
	if (said) {
		sem_post(said);
		sem_wait(held);
		said = NULL;
	}
	return 1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

static const struct ibv_context_ops operations = {
	.post_send = post_send,
	.post_recv = post_recv,
	.post_srq_recv = post_srq_recv,
	.poll_cq = poll_cq,
	.req_notify_cq = req_notify_cq,
};

const struct ibv_context_ops *fake_ops(void)
{
	return &operations;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list)
		list[0] = &device;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *opened)
{
	struct fake_context *fake;
	struct ibv_context *context;

	if (opened != &device)
		return NULL;
	fake = calloc(1, sizeof(*fake));
	context = &fake->extended.context;
	context->device = opened;
	context->abi_compat = (void *)~0UL;
	fake->extended.sz = sizeof(fake->extended);
	context->ops = operations;
	return context;
}

/* Of another copy of this library. */
static int is_foreign(const struct ibv_context *context)
{
	return context->device != &device;
}

/* The hooks must be removed by now. */
int ibv_close_device(struct ibv_context *context)
{
	int clean = !is_foreign(context) && context->ops.post_send == post_send &&
		    context->ops.poll_cq == poll_cq;

	free((char *)context - offsetof(struct verbs_context, context));
	return clean ? 0 : -1;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	if (is_foreign(context))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int result = is_foreign(pd->context) ? -1 : 0;

	free(pd);
	return result;
}

static struct ibv_mr *last_mr;

/* Like a library whose destructor cleans up. */
void fake_dereg_at_exit(struct ibv_mr *mr)
{
	last_mr = mr;
}

static void __attribute__((destructor)) clean_up(void)
{
	if (last_mr)
		ibv_dereg_mr(last_mr);
}

static struct ibv_mr *new_region(struct ibv_pd *pd, void *addr, size_t length)
{
	static uint32_t key = 0x100;
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = mr->rkey = key++;
	return mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)access;
	return new_region(pd, addr, length);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	(void)pd;
	(void)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)handle;
	return new_region(pd, NULL, 0);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	free(mr);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

/* Each byte in the pipe is an event of the queue that fake_event named last. */
static int event_pipe[2];
static struct ibv_cq *event_cq;
static volatile int waits;

int fake_waits(void)
{
	return waits;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	if (!channel || pipe(event_pipe))
		return NULL;
	channel->context = context;
	channel->fd = event_pipe[0];
	return channel;
}

void fake_event(struct ibv_cq *cq)
{
	event_cq = cq;
	if (write(event_pipe[1], "", 1) != 1)
		abort();
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	char byte;
	ssize_t got;

	waits = 1;
	got = read(channel->fd, &byte, 1);
	waits = 0;
	if (got != 1)
		return -1;
	*cq = event_cq;
	*context = event_cq->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	(void)cq;
	(void)events;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = calloc(1, sizeof(*cq));

	(void)vector;
	cq->context = context;
	cq->channel = channel;
	cq->cq_context = cq_context;
	cq->cqe = entries;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes)
{
	static uint32_t number = 0x10;
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attributes->send_cq;
	qp->recv_cq = attributes->recv_cq;
	qp->qp_num = number++;
	qp->qp_type = attributes->qp_type;
	qp->state = IBV_QPS_RTS;
	return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}
