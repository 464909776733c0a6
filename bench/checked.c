/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The helpers in C, with the checks and the zeros of ours (docs/deviations.md) but without
 * its log: what the same contract costs in another language.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define COLD __attribute__((cold, noinline))

/* --- failures ----------------------------------------------------------------------------- */

static COLD int fails(int error)
{
	errno = error;
	return -1;
}

/* What a provider returned that is not 0: an errno value, negated or not, or -1 with errno. */
static COLD int refused(int returned)
{
	if (returned != -1)
		return fails(abs(returned));
	return fails(errno ? errno : EIO);
}

/* -2 is the code of providers for a queue that cannot be read. */
static COLD int not_polled(int returned)
{
	return returned == -2 ? fails(EIO) : refused(returned);
}

static int accepted(int returned)
{
	return __builtin_expect(returned, 0) ? refused(returned) : 0;
}

/* --- registration -------------------------------------------------------------------------- */

static struct ibv_mr *reg(struct rdma_cm_id *id, void *addr, size_t length, int access)
{
	if (!id || !id->pd) {
		fails(EINVAL);
		return NULL;
	}
	return (ibv_reg_mr)(id->pd, addr, length, access);
}

struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
{
	return reg(id, addr, length, IBV_ACCESS_LOCAL_WRITE);
}

struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
{
	return reg(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
}

struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
{
	return reg(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

int rdma_dereg_mr(struct ibv_mr *mr)
{
	return mr ? accepted(ibv_dereg_mr(mr)) : fails(EINVAL);
}

/* --- posting -------------------------------------------------------------------------------- */

int rdma_post_recvv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge)
{
	struct ibv_recv_wr wr = {
		.wr_id = (uintptr_t)context, .sg_list = sgl, .num_sge = nsge,
	}, *bad;

	if (!id)
		return fails(EINVAL);
	if (id->srq) {
		if (!id->srq->context->ops.post_srq_recv)
			return fails(EOPNOTSUPP);
		return accepted(id->srq->context->ops.post_srq_recv(id->srq, &wr, &bad));
	}
	if (!id->qp)
		return fails(EINVAL);
	if (!id->qp->context->ops.post_recv)
		return fails(EOPNOTSUPP);
	return accepted(id->qp->context->ops.post_recv(id->qp, &wr, &bad));
}

static int post(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	if (!id || !id->qp)
		return fails(EINVAL);
	if (!id->qp->context->ops.post_send)
		return fails(EOPNOTSUPP);
	return accepted(id->qp->context->ops.post_send(id->qp, wr, &bad));
}

#define REQUEST(operation, ...)                                                              \
	{ .wr_id = (uintptr_t)context, .sg_list = sgl, .num_sge = nsge, .opcode = operation, \
	  .send_flags = (unsigned int)flags, ##__VA_ARGS__ }

int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge,
		    int flags)
{
	struct ibv_send_wr wr = REQUEST(IBV_WR_SEND);

	return post(id, &wr);
}

int rdma_post_readv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge,
		    int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr = REQUEST(IBV_WR_RDMA_READ, .wr.rdma = { remote_addr, rkey });

	return post(id, &wr);
}

int rdma_post_writev(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge,
		     int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr wr = REQUEST(IBV_WR_RDMA_WRITE, .wr.rdma = { remote_addr, rkey });

	return post(id, &wr);
}

/* A buffer without a region has the key 0. */
#define ELEMENT                                                                        \
	struct ibv_sge sge = { (uintptr_t)addr, (uint32_t)length, mr ? mr->lkey : 0 }, \
		       *sgl = &sge;                                                    \
	int nsge = 1;                                                                  \
                                                                                       \
	if (length > UINT32_MAX)                                                       \
		return fails(EINVAL)

int rdma_post_recv(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		   struct ibv_mr *mr)
{
	size_t offset;
	ELEMENT;

	if (!mr)
		return fails(EINVAL);
	offset = (uintptr_t)addr - (uintptr_t)mr->addr;
	if ((uintptr_t)addr < (uintptr_t)mr->addr || offset > mr->length ||
	    length > mr->length - offset)
		return fails(EINVAL);
	return rdma_post_recvv(id, context, sgl, nsge);
}

int rdma_post_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		   struct ibv_mr *mr, int flags)
{
	ELEMENT;

	return rdma_post_sendv(id, context, sgl, nsge, flags);
}

int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		   struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	ELEMENT;

	if (!mr)
		return fails(EINVAL);
	return rdma_post_readv(id, context, sgl, nsge, flags, remote_addr, rkey);
}

int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		    struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	ELEMENT;

	return rdma_post_writev(id, context, sgl, nsge, flags, remote_addr, rkey);
}

int rdma_post_ud_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		      struct ibv_mr *mr, int flags, struct ibv_ah *ah, uint32_t remote_qpn)
{
	ELEMENT;
	struct ibv_send_wr wr = REQUEST(IBV_WR_SEND, .wr.ud = { ah, remote_qpn, RDMA_UDP_QKEY });

	return post(id, &wr);
}

/* --- completions ------------------------------------------------------------------------------ */

static int poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int found;

	if (!cq->context->ops.poll_cq)
		return fails(EOPNOTSUPP);
	found = cq->context->ops.poll_cq(cq, 1, wc);
	return found < 0 || found > 1 ? not_polled(found) : found;
}

static __attribute__((noinline)) int wait_for(struct ibv_cq *cq, struct ibv_comp_channel *channel,
					      struct ibv_wc *wc)
{
	int found = 0;

	while (!found) {
		struct ibv_cq *raised;
		void *cq_context;

		if (!cq->context->ops.req_notify_cq)
			return fails(EOPNOTSUPP);
		if (accepted(cq->context->ops.req_notify_cq(cq, 0)))
			return -1;
		found = poll(cq, wc);
		if (found)
			break;
		if (!channel)
			return fails(EINVAL);
		if (ibv_get_cq_event(channel, &raised, &cq_context))
			return -1;
		ibv_ack_cq_events(raised, 1);
		if (raised != cq)
			return fails(EINVAL);
		found = poll(cq, wc);
	}
	return found;
}

static int get_comp(struct ibv_cq *cq, struct ibv_comp_channel *channel, struct ibv_wc *wc)
{
	int found;

	if (!cq || !wc)
		return fails(EINVAL);
	found = poll(cq, wc);
	return found ? found : wait_for(cq, channel, wc);
}

int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return id ? get_comp(id->send_cq, id->send_cq_channel, wc) : fails(EINVAL);
}

int rdma_get_recv_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return id ? get_comp(id->recv_cq, id->recv_cq_channel, wc) : fails(EINVAL);
}
