// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A libmlx5.so.1 with the functions that bypass the verbs, including those of other
 * providers. Their types are those of the manual pages; the objects work on the provider of
 * fake_ibverbs.c.
 */
#include "fake_mlx5.h"

#include <stdlib.h>

int mlx5dv_init_obj(void *object, uint64_t kind)
{
	(void)object;
	(void)kind;
	return 0;
}

int mlx4dv_init_obj(void *object, uint64_t kind)
{
	return mlx5dv_init_obj(object, kind);
}

void *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in, size_t in_length,
			     void *out, size_t out_length)
{
	static int object;

	(void)context;
	(void)in;
	(void)in_length;
	(void)out;
	(void)out_length;
	return &object;
}

void *mlx5dv_create_mkey(void *attributes)
{
	static int key;

	(void)attributes;
	return &key;
}

struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
				    uint64_t iova, int fd, int access, int more)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	(void)offset;
	(void)iova;
	(void)fd;
	(void)access;
	(void)more;
	mr->context = pd->context;
	mr->pd = pd;
	mr->length = length;
	mr->lkey = 0xdab;
	return mr;
}

static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	static uint32_t number = 0x70;
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = qp->recv_cq = cq;
	qp->qp_num = number++;
	qp->qp_type = IBV_QPT_RC;
	qp->state = IBV_QPS_RTS;
	return qp;
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attributes,
				void *more)
{
	(void)context;
	(void)more;
	return new_qp(attributes->pd, attributes->send_cq);
}

struct ibv_qp *hnsdv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attributes,
			       void *more)
{
	return mlx5dv_create_qp(context, attributes, more);
}

struct ibv_qp *efadv_create_qp_ex(struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attributes, void *more,
				  uint32_t length)
{
	(void)length;
	return mlx5dv_create_qp(context, attributes, more);
}

struct ibv_qp *efadv_create_driver_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attributes,
				      uint32_t kind)
{
	(void)kind;
	return new_qp(pd, attributes->send_cq);
}

struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context,
				   struct ibv_cq_init_attr_ex *attributes, void *more)
{
	struct ibv_cq_ex *cq = calloc(1, sizeof(*cq));

	(void)attributes;
	(void)more;
	cq->context = context;
	return cq;
}

struct ibv_cq_ex *efadv_create_cq(struct ibv_context *context,
				  struct ibv_cq_init_attr_ex *attributes, void *more,
				  uint32_t length)
{
	(void)length;
	return mlx5dv_create_cq(context, attributes, more);
}
