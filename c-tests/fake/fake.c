/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake fake;
char fake_memory[FAKE_MR_LENGTH];

static struct fake_call *record(enum fake_operation operation, const void *object)
{
	struct fake_call *call;

	if (fake.calls == FAKE_MAX_CALLS) {
		fprintf(stderr, "fake provider: more than %d calls\n", FAKE_MAX_CALLS);
		abort();
	}
	call = &fake.call[fake.calls++];
	memset(call, 0, sizeof(*call));
	call->operation = operation;
	call->object = object;
	return call;
}

static struct fake_reply answer(struct fake_reply otherwise)
{
	struct fake_reply reply = otherwise;

	if (fake.next_reply < fake.replies)
		reply = fake.reply[fake.next_reply++];
	if (reply.error)
		errno = reply.error;
	return reply;
}

static int answer_result(void)
{
	return answer((struct fake_reply){ 0 }).result;
}

static void record_sge(struct fake_call *call, const struct ibv_sge *sge, int count)
{
	if (sge && count > 0 && count <= FAKE_MAX_SGE) {
		call->sge_count = count;
		memcpy(call->sge, sge, sizeof(*sge) * (size_t)count);
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_call *call = record(FAKE_POST_SEND, qp);
	int result = answer_result();

	memcpy(&call->send, wr, sizeof(*wr));
	record_sge(call, wr->sg_list, wr->num_sge);
	if (result)
		*bad = wr;
	return result;
}

static int record_recv(struct fake_call *call, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	int result = answer_result();

	memcpy(&call->recv, wr, sizeof(*wr));
	record_sge(call, wr->sg_list, wr->num_sge);
	if (result)
		*bad = wr;
	return result;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return record_recv(record(FAKE_POST_RECV, qp), wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	return record_recv(record(FAKE_POST_SRQ_RECV, srq), wr, bad);
}

static int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	struct fake_reply reply;

	record(FAKE_POLL_CQ, cq)->number = entries;
	/* If a test gives too few answers, a helper must not wait without end. */
	reply = answer((struct fake_reply){ .result = 1 });
	if (reply.result == 1)
		*wc = reply.wc;
	return reply.result;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	record(FAKE_REQ_NOTIFY_CQ, cq)->number = solicited_only;
	fake.armed = cq;
	return answer_result();
}

/*
 * The functions of libibverbs that the helpers call. Like libibverbs they dereference their
 * argument, and so crash where it does.
 */

static void look_into(const void *object)
{
	(void)*(const volatile char *)object;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct fake_call *call = record(FAKE_REG_MR, pd);

	call->addr = addr;
	call->length = length;
	call->number = access;
	look_into(pd);
	return answer_result() ? NULL : &fake.mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	record(FAKE_DEREG_MR, mr);
	look_into(mr);
	return answer_result();
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	struct fake_reply reply;

	record(FAKE_GET_CQ_EVENT, channel);
	look_into(channel);
	reply = answer((struct fake_reply){ 0 });
	if (!reply.result) {
		*cq = reply.event_cq ? reply.event_cq : fake.armed;
		*context = (*cq)->cq_context;
	}
	return reply.result;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	record(FAKE_ACK_CQ_EVENTS, cq)->number = (int)events;
}

void fake_reset(void)
{
	struct ibv_cq *cqs[] = { &fake.send_cq, &fake.recv_cq, &fake.other_cq };

	memset(&fake, 0, sizeof(fake));
	fake.context.ops.post_send = post_send;
	fake.context.ops.post_recv = post_recv;
	fake.context.ops.post_srq_recv = post_srq_recv;
	fake.context.ops.poll_cq = poll_cq;
	fake.context.ops.req_notify_cq = req_notify_cq;

	fake.pd.context = &fake.context;
	fake.qp.context = &fake.context;
	fake.srq.context = &fake.context;
	for (size_t i = 0; i < sizeof(cqs) / sizeof(*cqs); i++) {
		cqs[i]->context = &fake.context;
		cqs[i]->cq_context = &fake.id;
	}
	fake.send_channel.context = &fake.context;
	fake.recv_channel.context = &fake.context;
	fake.mr.context = &fake.context;
	fake.mr.pd = &fake.pd;
	fake.mr.addr = fake_memory;
	fake.mr.length = FAKE_MR_LENGTH;
	fake.mr.lkey = 0x1111;
	fake.mr.rkey = 0x2222;

	fake.id.verbs = &fake.context;
	fake.id.pd = &fake.pd;
	fake.id.qp = &fake.qp;
	fake.id.send_cq = &fake.send_cq;
	fake.id.send_cq_channel = &fake.send_channel;
	fake.id.recv_cq = &fake.recv_cq;
	fake.id.recv_cq_channel = &fake.recv_channel;
}

void fake_answer(struct fake_reply reply)
{
	if (fake.replies == FAKE_MAX_CALLS) {
		fprintf(stderr, "fake provider: more than %d answers\n", FAKE_MAX_CALLS);
		abort();
	}
	fake.reply[fake.replies++] = reply;
}
