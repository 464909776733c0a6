// SPDX-License-Identifier: MIT OR Apache-2.0
#include "loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void require(int condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

struct ibv_context *loop_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	require(list && list[0], "no RDMA device");
	context = ibv_open_device(list[0]);
	require(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	return context;
}

static struct ibv_qp *create_qp(struct loop *loop, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attributes = {
		.send_cq = loop->cq,
		.recv_cq = loop->cq,
		.qp_type = type,
		.cap = {
			.max_send_wr = LOOP_DEPTH,
			.max_recv_wr = LOOP_DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 32,
		},
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp *qp = ibv_create_qp(loop->pd, &attributes);

	require(qp != NULL, "ibv_create_qp");
	loop->cap = attributes.cap;
	require(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					  IBV_QP_ACCESS_FLAGS),
		"INIT");
	return qp;
}

void loop_open(struct loop *loop, enum ibv_qp_type type)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	memset(loop, 0, sizeof(*loop));
	loop->context = loop_device();
	loop->pd = ibv_alloc_pd(loop->context);
	require(loop->pd != NULL, "ibv_alloc_pd");
	loop->channel = ibv_create_comp_channel(loop->context);
	require(loop->channel != NULL, "ibv_create_comp_channel");
	loop->cq = ibv_create_cq(loop->context, 64, NULL, loop->channel, 0);
	require(loop->cq != NULL, "ibv_create_cq");
	loop->memory = calloc(2, LOOP_BYTES);
	require(loop->memory != NULL, "calloc");
	loop->far = loop->memory + LOOP_BYTES;
	loop->mr = ibv_reg_mr(loop->pd, loop->memory, LOOP_BYTES, access);
	loop->far_mr = ibv_reg_mr(loop->pd, loop->far, LOOP_BYTES, access);
	require(loop->mr && loop->far_mr, "ibv_reg_mr");
	loop->peer = create_qp(loop, type);
	loop->qp = create_qp(loop, type);
}

/* The GID of the IPv4 address, or the last GID if there is none. */
static uint8_t gid_index(struct ibv_context *context, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	union ibv_gid one;
	uint8_t index = 0;

	for (int i = 0; i < 16 && !ibv_query_gid(context, 1, i, &one); i++) {
		static const union ibv_gid none;

		if (!memcmp(&one, &none, sizeof(one)))
			continue;
		index = (uint8_t)i;
		*gid = one;
		if (!memcmp(one.raw, mapped, sizeof(mapped)))
			break;
	}
	return index;
}

struct ibv_ah_attr loop_path(struct loop *loop)
{
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } };

	path.grh.sgid_index = gid_index(loop->context, &path.grh.dgid);
	return path;
}

static void connect_to(struct loop *loop, struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr ready = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = loop_path(loop),
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	require(!ibv_modify_qp(qp, &ready, mask), "RTR");
}

static void ready_to_send(struct ibv_qp *qp)
{
	struct ibv_qp_attr ready = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	require(!ibv_modify_qp(qp, &ready, mask), "RTS");
}

void loop_connect(struct loop *loop)
{
	connect_to(loop, loop->qp, loop->peer);
	connect_to(loop, loop->peer, loop->qp);
	ready_to_send(loop->qp);
	ready_to_send(loop->peer);
}

void loop_open_connected(struct loop *loop)
{
	loop_open(loop, IBV_QPT_RC);
	loop_connect(loop);
}

void loop_to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attributes = { .qp_state = state };

	require(!ibv_modify_qp(qp, &attributes, IBV_QP_STATE), "ibv_modify_qp");
}

void loop_stop(struct loop *loop)
{
	struct ibv_wc wc;

	loop_to_state(loop->qp, IBV_QPS_ERR);
	loop_to_state(loop->peer, IBV_QPS_ERR);
	while (ibv_poll_cq(loop->cq, 1, &wc) > 0)
		;
}

void loop_destroy_queues(struct loop *loop)
{
	require(!ibv_destroy_qp(loop->qp), "ibv_destroy_qp");
	require(!ibv_destroy_qp(loop->peer), "ibv_destroy_qp");
	loop->qp = loop->peer = NULL;
}

void loop_close(struct loop *loop)
{
	if (loop->qp)
		loop_destroy_queues(loop);
	require(!ibv_destroy_cq(loop->cq), "ibv_destroy_cq");
	require(!ibv_destroy_comp_channel(loop->channel), "ibv_destroy_comp_channel");
	if (loop->mr)
		require(!ibv_dereg_mr(loop->mr), "ibv_dereg_mr");
	require(!ibv_dereg_mr(loop->far_mr), "ibv_dereg_mr");
	require(!ibv_dealloc_pd(loop->pd), "ibv_dealloc_pd");
	require(!ibv_close_device(loop->context), "ibv_close_device");
	free(loop->memory);
}

void loop_stop_and_close(struct loop *loop)
{
	loop_stop(loop);
	loop_close(loop);
}

struct ibv_send_wr loop_request(struct loop *loop, enum ibv_wr_opcode opcode,
				struct ibv_sge *buffer)
{
	struct ibv_send_wr request = {
		.wr_id = 1,
		.sg_list = buffer,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	*buffer = (struct ibv_sge){ (uintptr_t)loop->memory, 16, loop->mr->lkey };
	request.wr.rdma.remote_addr = (uintptr_t)loop->far;
	request.wr.rdma.rkey = loop->far_mr->rkey;
	return request;
}

int loop_send(struct loop *loop, struct ibv_send_wr *request)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(loop->qp, request, &bad);
}

int loop_receive(struct ibv_qp *qp, struct ibv_sge *buffer)
{
	struct ibv_recv_wr request = { .wr_id = 2, .sg_list = buffer, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp, &request, &bad);
}

struct ibv_wc loop_wait(struct loop *loop)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(loop->cq, 1, &wc)) == 0)
		;
	require(count == 1, "ibv_poll_cq");
	return wc;
}

int loop_main(int argc, char **argv, const struct loop_program *programs)
{
	for (; programs->name; programs++) {
		if (argc == 1) {
			puts(programs->name);
		} else if (!strcmp(argv[1], programs->name)) {
			programs->run();
			return 0;
		}
	}
	return argc == 1 ? 0 : 2;
}
