// SPDX-License-Identifier: MIT OR Apache-2.0
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>

struct ibv_context *context;
struct ibv_pd *pd;
struct ibv_comp_channel *channel;
struct ibv_cq *cq;
struct ibv_qp *qp;
struct ibv_mr *mr;
char memory[4096];

void require(int condition, const char *what)
{
	if (!condition) {
		perror(what);
		exit(1);
	}
}

void open_all(void)
{
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 16, NULL, channel, 0);
	attributes.send_cq = attributes.recv_cq = cq;
	qp = ibv_create_qp(pd, &attributes);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	require(channel && cq && qp && mr, "open");
}

void send_on(struct ibv_qp *to, uint32_t lkey)
{
	struct ibv_sge buffer = { (uintptr_t)memory, 64, lkey };
	struct ibv_send_wr request = {
		.sg_list = &buffer, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	require(!ibv_post_send(to, &request, &bad), "ibv_post_send");
}

void poll_one(void)
{
	struct ibv_wc wc;

	require(ibv_poll_cq(cq, 1, &wc) == 1, "ibv_poll_cq");
}
