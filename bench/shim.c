/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librdmacm's inline functions behind a C library: what a project writes that needs
 * them as symbols.
 */
#include <rdma/rdma_cma.h>

#define INLINE(name) inline_##name
#include "../c-tests/lib/inlines.h"

struct ibv_mr *rdma_reg_msgs(struct rdma_cm_id *id, void *addr, size_t length)
{
	return inline_rdma_reg_msgs(id, addr, length);
}

struct ibv_mr *rdma_reg_read(struct rdma_cm_id *id, void *addr, size_t length)
{
	return inline_rdma_reg_read(id, addr, length);
}

struct ibv_mr *rdma_reg_write(struct rdma_cm_id *id, void *addr, size_t length)
{
	return inline_rdma_reg_write(id, addr, length);
}

int rdma_dereg_mr(struct ibv_mr *mr)
{
	return inline_rdma_dereg_mr(mr);
}

int rdma_post_recvv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge)
{
	return inline_rdma_post_recvv(id, context, sgl, nsge);
}

int rdma_post_sendv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge,
		    int flags)
{
	return inline_rdma_post_sendv(id, context, sgl, nsge, flags);
}

int rdma_post_readv(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge,
		    int flags, uint64_t remote_addr, uint32_t rkey)
{
	return inline_rdma_post_readv(id, context, sgl, nsge, flags, remote_addr, rkey);
}

int rdma_post_writev(struct rdma_cm_id *id, void *context, struct ibv_sge *sgl, int nsge,
		     int flags, uint64_t remote_addr, uint32_t rkey)
{
	return inline_rdma_post_writev(id, context, sgl, nsge, flags, remote_addr, rkey);
}

int rdma_post_recv(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		   struct ibv_mr *mr)
{
	return inline_rdma_post_recv(id, context, addr, length, mr);
}

int rdma_post_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		   struct ibv_mr *mr, int flags)
{
	return inline_rdma_post_send(id, context, addr, length, mr, flags);
}

int rdma_post_read(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		   struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	return inline_rdma_post_read(id, context, addr, length, mr, flags, remote_addr, rkey);
}

int rdma_post_write(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		    struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	return inline_rdma_post_write(id, context, addr, length, mr, flags, remote_addr, rkey);
}

int rdma_post_ud_send(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		      struct ibv_mr *mr, int flags, struct ibv_ah *ah, uint32_t remote_qpn)
{
	return inline_rdma_post_ud_send(id, context, addr, length, mr, flags, ah, remote_qpn);
}

int rdma_get_send_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return inline_rdma_get_send_comp(id, wc);
}

int rdma_get_recv_comp(struct rdma_cm_id *id, struct ibv_wc *wc)
{
	return inline_rdma_get_recv_comp(id, wc);
}
