/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The helpers in tables, so that a test can treat each of them alike. All arguments are
 * valid, except those that the caller chooses.
 */
#ifndef HELPERS_H
#define HELPERS_H

#include "fake.h"

#include <rdma/rdma_verbs.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define CONTEXT ((void *)0xc0ffee)
#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)
#define RKEY UINT32_C(0xfedcba98)
#define REMOTE_QPN UINT32_C(0x00abcdef)
#define FLAGS (IBV_SEND_SIGNALED | IBV_SEND_FENCE)

/* A helper that takes one buffer. */
struct buffer_helper {
	const char *name;
	enum fake_operation operation;
	int needs_mr;
	int (*post)(struct rdma_cm_id *id, void *addr, size_t length, struct ibv_mr *mr,
		    int flags);
};

/* A helper that takes a list of buffers. */
struct list_helper {
	const char *name;
	enum fake_operation operation;
	int (*post)(struct rdma_cm_id *id, struct ibv_sge *sgl, int nsge, int flags);
};

static inline int buffer_recv(struct rdma_cm_id *id, void *addr, size_t length,
			      struct ibv_mr *mr, int flags)
{
	(void)flags;
	return rdma_post_recv(id, CONTEXT, addr, length, mr);
}

static inline int buffer_send(struct rdma_cm_id *id, void *addr, size_t length,
			      struct ibv_mr *mr, int flags)
{
	return rdma_post_send(id, CONTEXT, addr, length, mr, flags);
}

static inline int buffer_read(struct rdma_cm_id *id, void *addr, size_t length,
			      struct ibv_mr *mr, int flags)
{
	return rdma_post_read(id, CONTEXT, addr, length, mr, flags, REMOTE_ADDR, RKEY);
}

static inline int buffer_write(struct rdma_cm_id *id, void *addr, size_t length,
			       struct ibv_mr *mr, int flags)
{
	return rdma_post_write(id, CONTEXT, addr, length, mr, flags, REMOTE_ADDR, RKEY);
}

static inline int buffer_ud_send(struct rdma_cm_id *id, void *addr, size_t length,
				 struct ibv_mr *mr, int flags)
{
	return rdma_post_ud_send(id, CONTEXT, addr, length, mr, flags, &fake.ah, REMOTE_QPN);
}

static inline int list_recvv(struct rdma_cm_id *id, struct ibv_sge *sgl, int nsge, int flags)
{
	(void)flags;
	return rdma_post_recvv(id, CONTEXT, sgl, nsge);
}

static inline int list_sendv(struct rdma_cm_id *id, struct ibv_sge *sgl, int nsge, int flags)
{
	return rdma_post_sendv(id, CONTEXT, sgl, nsge, flags);
}

static inline int list_readv(struct rdma_cm_id *id, struct ibv_sge *sgl, int nsge, int flags)
{
	return rdma_post_readv(id, CONTEXT, sgl, nsge, flags, REMOTE_ADDR, RKEY);
}

static inline int list_writev(struct rdma_cm_id *id, struct ibv_sge *sgl, int nsge, int flags)
{
	return rdma_post_writev(id, CONTEXT, sgl, nsge, flags, REMOTE_ADDR, RKEY);
}

static const struct buffer_helper buffer_helpers[] = {
	{ "rdma_post_recv", FAKE_POST_RECV, 1, buffer_recv },
	{ "rdma_post_send", FAKE_POST_SEND, 0, buffer_send },
	{ "rdma_post_read", FAKE_POST_SEND, 1, buffer_read },
	{ "rdma_post_write", FAKE_POST_SEND, 0, buffer_write },
	{ "rdma_post_ud_send", FAKE_POST_SEND, 0, buffer_ud_send },
};

static const struct list_helper list_helpers[] = {
	{ "rdma_post_recvv", FAKE_POST_RECV, list_recvv },
	{ "rdma_post_sendv", FAKE_POST_SEND, list_sendv },
	{ "rdma_post_readv", FAKE_POST_SEND, list_readv },
	{ "rdma_post_writev", FAKE_POST_SEND, list_writev },
};

/* A helper that waits for a completion, and its queue. */
struct wait_helper {
	const char *name;
	int (*wait)(struct rdma_cm_id *id, struct ibv_wc *wc);
	struct ibv_cq *cq;
	struct ibv_cq **id_cq;
	struct ibv_comp_channel *channel;
	struct ibv_comp_channel **id_channel;
};

static const struct wait_helper wait_helpers[] = {
	{ "rdma_get_send_comp", rdma_get_send_comp, &fake.send_cq, &fake.id.send_cq,
	  &fake.send_channel, &fake.id.send_cq_channel },
	{ "rdma_get_recv_comp", rdma_get_recv_comp, &fake.recv_cq, &fake.id.recv_cq,
	  &fake.recv_channel, &fake.id.recv_cq_channel },
};

struct reg_helper {
	const char *name;
	struct ibv_mr *(*reg)(struct rdma_cm_id *id, void *addr, size_t length);
	int access;
};

/* The access values are the manual's: local write always, and what the name says. */
static const struct reg_helper reg_helpers[] = {
	{ "rdma_reg_msgs", rdma_reg_msgs, IBV_ACCESS_LOCAL_WRITE },
	{ "rdma_reg_read", rdma_reg_read, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ },
	{ "rdma_reg_write", rdma_reg_write, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE },
};

#endif
