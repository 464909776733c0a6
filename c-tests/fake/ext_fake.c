/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "ext_fake.h"

#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

struct ext_fake ext;
char ext_memory[EXT_MEMORY];

#define OF(pointer, type, member) \
	((type *)(void *)((char *)(pointer) - offsetof(type, member)))

static struct ext_cq *queue_of(struct ibv_cq *cq)
{
	return OF(cq, struct ext_cq, cq);
}

/* --- completion queues -------------------------------------------------------------- */

void ext_raise(struct ext_cq *channel_of, struct ext_cq *raised_by)
{
	struct ibv_cq *cq = &raised_by->cq;

	if (write(channel_of->writer, &cq, sizeof(cq)) != sizeof(cq))
		abort();
	raised_by->events++;
}

static void add(struct ext_cq *queue, struct ibv_wc wc)
{
	int armed;

	pthread_mutex_lock(&queue->lock);
	if (queue->added - queue->taken == (unsigned int)queue->cq.cqe) {
		queue->overruns++;
		pthread_mutex_unlock(&queue->lock);
		return;
	}
	queue->wc[queue->added++ % EXT_DEPTH] = wc;
	armed = queue->armed;
	queue->armed = 0;
	if (armed)
		ext_raise(queue, queue);
	pthread_mutex_unlock(&queue->lock);
}

void ext_complete(struct ext_cq *queue, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	memset(&wc, 0x5a, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = status;
	wc.qp_num = EXT_QP_NUM;
	add(queue, wc);
}

unsigned int ext_waiting(struct ext_cq *queue)
{
	unsigned int waiting;

	pthread_mutex_lock(&queue->lock);
	waiting = queue->added - queue->taken;
	pthread_mutex_unlock(&queue->lock);
	return waiting;
}

int ext_readable(const struct ext_cq *queue)
{
	struct pollfd fd = { .fd = queue->channel.fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

static int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	struct ext_cq *queue = queue_of(cq);
	int found = 0;

	pthread_mutex_lock(&queue->lock);
	queue->polls++;
	if (entries > queue->largest_poll)
		queue->largest_poll = entries;
	while (found < entries && queue->added != queue->taken)
		wc[found++] = queue->wc[queue->taken++ % EXT_DEPTH];
	if (!found && queue->poll_result)
		found = queue->poll_result;
	pthread_mutex_unlock(&queue->lock);
	errno = EDOM;	/* a provider may leave it changed, also when it has succeeded */
	return found;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct ext_cq *queue = queue_of(cq);

	if (solicited_only)
		abort();
	pthread_mutex_lock(&queue->lock);
	queue->arms++;
	queue->armed = !queue->stale;
	pthread_mutex_unlock(&queue->lock);
	if (queue->stale)
		ext_raise(queue, queue);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	if (read(channel->fd, cq, sizeof(struct ibv_cq *)) != sizeof(struct ibv_cq *))
		return -1;
	*context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	queue_of(cq)->acknowledged += (int)events;
}

/* --- work queues -------------------------------------------------------------------- */

static struct ext_cq *completions_of(const struct ext_work_queue *work)
{
	return queue_of(work == &ext.sq ? ext.qp.send_cq : ext.qp.recv_cq);
}

void ext_complete_next(struct ext_work_queue *work, enum ibv_wc_status status)
{
	const struct ext_request *request = &work->request[work->completed++ % EXT_DEPTH];
	uint64_t wr_id = work == &ext.sq ? request->send.wr_id : request->recv.wr_id;

	if (work != &ext.sq || request->send.send_flags & IBV_SEND_SIGNALED ||
	    status != IBV_WC_SUCCESS)
		ext_complete(completions_of(work), wr_id, status);
}

static void flush(struct ext_work_queue *work)
{
	if (ext.slow)
		return;
	while (work->completed != work->posted)
		ext_complete_next(work, IBV_WC_WR_FLUSH_ERR);
}

/* Room for one more request, or NULL and the reason. */
static struct ext_request *place(struct ext_work_queue *work, int *refusal)
{
	if (work->refuses_in_error && ext.state == IBV_QPS_ERR) {
		*refusal = work->refuses_in_error;
		return NULL;
	}
	if (work->accept == 0) {
		*refusal = work->refusal;
		if (work->refusal_errno)
			errno = work->refusal_errno;
		return NULL;
	}
	if (work->posted - work->completed == work->depth) {
		*refusal = ENOMEM;
		return NULL;
	}
	work->accept--;
	return &work->request[work->posted++ % EXT_DEPTH];
}

/* Takes a request and forgets it. */
static int swallows(const struct ext_work_queue *work)
{
	return work->swallows_in_error && ext.state == IBV_QPS_ERR;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int refusal = 0;

	if (qp != &ext.qp)
		abort();
	ext.sq.calls++;
	for (; wr; wr = wr->next) {
		struct ext_request *request;

		if (swallows(&ext.sq))
			continue;
		request = place(&ext.sq, &refusal);

		if (!request) {
			if (!ext.sq.keeps_bad)
				*bad = wr;
			break;
		}
		request->send = *wr;
		if (wr->num_sge)
			request->sge = wr->sg_list[0];
		if (ext.on_send)
			ext.on_send(request);
	}
	if (ext.state == IBV_QPS_ERR)
		flush(&ext.sq);
	/* All is queued, and then the device cannot be told. */
	return refusal ? refusal : ext.sq.doorbell;
}

static int receive(struct ext_work_queue *work, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int refusal = 0;

	work->calls++;
	for (; wr; wr = wr->next) {
		struct ext_request *request;

		if (swallows(work))
			continue;
		request = place(work, &refusal);

		if (!request) {
			if (!work->keeps_bad)
				*bad = wr;
			break;
		}
		request->recv = *wr;
		if (wr->num_sge)
			request->sge = wr->sg_list[0];
	}
	return refusal;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (qp != &ext.qp)
		abort();
	return receive(&ext.rq, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	if (srq != &ext.srq)
		abort();
	return receive(&ext.shared, wr, bad);
}

/* --- the functions of libibverbs ---------------------------------------------------- */

/*
 * Receives posted in the error state are flushed only when the state is set again: posting
 * does not notify the device.
 */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;

	if (qp != &ext.qp || mask != (attr->qp_state == IBV_QPS_INIT ? to_init : IBV_QP_STATE))
		abort();
	if (attr->qp_state == IBV_QPS_INIT &&
	    (attr->port_num != EXT_PORT || attr->pkey_index != EXT_PKEY_INDEX ||
	     attr->qkey != EXT_QKEY))
		abort();
	ext.states_set++;
	errno = EDOM;
	if (ext.result)
		return ext.result;
	ext.state = attr->qp_state;
	if (ext.state == IBV_QPS_ERR) {
		flush(&ext.sq);
		flush(&ext.rq);
	}
	if (ext.state == IBV_QPS_RESET) {	/* dropped without a completion */
		ext.sq.completed = ext.sq.posted;
		ext.rq.completed = ext.rq.posted;
	}
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	if (qp != &ext.qp || !(mask & IBV_QP_CAP))
		abort();
	errno = EDOM;
	memset(attr, 0x5a, sizeof(*attr));
	if (mask & IBV_QP_STATE)
		attr->qp_state = ext.state;
	if (mask & IBV_QP_PORT)
		attr->port_num = EXT_PORT;
	if (mask & IBV_QP_PKEY_INDEX)
		attr->pkey_index = EXT_PKEY_INDEX;
	if (mask & IBV_QP_QKEY)
		attr->qkey = EXT_QKEY;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr->max_rd_atomic = EXT_RD_ATOMIC;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr->max_dest_rd_atomic = EXT_DEST_RD_ATOMIC;
	init->cap.max_inline_data = EXT_MAX_INLINE;
	init->cap.max_send_wr = (uint32_t)ext.sq.depth;
	init->cap.max_recv_wr = (uint32_t)ext.rq.depth;
	init->cap.max_send_sge = EXT_SEND_SGE;
	init->cap.max_recv_sge = EXT_RECV_SGE;
	return ext.result;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t length)
{
	if (context != &ext.whole.context || port != ext.id.port_num ||
	    length > sizeof(*attr))
		abort();
	ext.ports_queried++;
	errno = EDOM;
	attr->max_msg_sz = ext.max_msg_sz;
	return ext.result;
}

static struct ibv_mr *registered(void *addr, size_t length, int access)
{
	ext.registered = addr;
	ext.registered_length = length;
	ext.access = access;
	return ext.result ? NULL : &ext.mr;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (pd != &ext.pd)
		abort();
	ext.registrations++;
	return registered(addr, length, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	if (pd != &ext.pd || iova != (uintptr_t)addr)
		abort();
	ext.extended_registrations++;
	return registered(addr, length, (int)access);
}

/* --- each test ---------------------------------------------------------------------- */

static void make_queue(struct ext_cq *queue)
{
	int pipe_fds[2];

	if (pipe(pipe_fds))
		abort();
	queue->channel.fd = pipe_fds[0];
	queue->writer = pipe_fds[1];
	queue->channel.context = &ext.whole.context;
	queue->cq.context = &ext.whole.context;
	queue->cq.channel = &queue->channel;
	queue->cq.cqe = EXT_DEPTH;
	pthread_mutex_init(&queue->lock, NULL);
}

static void end_queue(struct ext_cq *queue)
{
	close(queue->channel.fd);
	close(queue->writer);
	pthread_mutex_destroy(&queue->lock);
}

int ext_begin(void **state)
{
	struct ibv_context *context = &ext.whole.context;

	(void)state;
	memset(&ext, 0, sizeof(ext));
	memset(ext_memory, 0, sizeof(ext_memory));
	ext.whole.sz = sizeof(ext.whole);
	ext.whole.query_port = query_port;
	context->abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	make_queue(&ext.send);
	make_queue(&ext.recv);
	make_queue(&ext.other);
	ext.sq.accept = ext.rq.accept = ext.shared.accept = -1;
	ext.sq.depth = ext.rq.depth = ext.shared.depth = EXT_DEPTH;
	ext.max_msg_sz = 1u << 30;

	ext.pd.context = context;
	ext.srq.context = context;
	ext.mr.context = context;
	ext.mr.pd = &ext.pd;
	ext.mr.addr = ext_memory;
	ext.mr.length = sizeof(ext_memory);
	ext.mr.lkey = 0x1111;
	ext.qp.context = context;
	ext.qp.send_cq = &ext.send.cq;
	ext.qp.recv_cq = &ext.recv.cq;
	ext.qp.qp_num = EXT_QP_NUM;
	ext.qp.qp_type = IBV_QPT_RC;
	ext.state = IBV_QPS_RTS;
	ext.id.verbs = context;
	ext.id.port_num = EXT_PORT;
	ext.id.pd = &ext.pd;
	ext.id.qp = &ext.qp;
	ext.id.send_cq = &ext.send.cq;
	ext.id.send_cq_channel = &ext.send.channel;
	ext.id.recv_cq = &ext.recv.cq;
	ext.id.recv_cq_channel = &ext.recv.channel;
	return 0;
}

/* Whatever a test did, each event that was taken must be acknowledged on its own queue. */
int ext_end(void **state)
{
	struct ext_cq *queues[] = { &ext.send, &ext.recv, &ext.other };
	int raised = 0, acknowledged = 0, left = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(queues); i++)
		raised += queues[i]->events;
	for (size_t i = 0; i < COUNT(queues); i++) {
		struct ibv_cq *cq;

		acknowledged += queues[i]->acknowledged;
		while (ext_readable(queues[i]) &&
		       read(queues[i]->channel.fd, &cq, sizeof(cq)) == sizeof(cq)) {
			queue_of(cq)->events--;
			left++;
		}
		end_queue(queues[i]);
	}
	for (size_t i = 0; i < COUNT(queues); i++)
		if (queues[i]->events != queues[i]->acknowledged)
			return -1;
	return raised - left - acknowledged;
}
