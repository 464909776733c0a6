// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: correct [NAME]
 *
 * Correct programs with objects and requests that the other tests lack: check finds
 * nothing. `correct` alone prints the names.
 */
#include "loop.h"

#include <stdlib.h>
#include <string.h>

static void succeeds(struct loop *loop)
{
	require(loop_wait(loop).status == IBV_WC_SUCCESS, "completion");
}

static void write_from(struct loop *loop, struct ibv_mr *mr)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &buffer);

	buffer.lkey = mr->lkey;
	require(!loop_send(loop, &request), "ibv_post_send");
	succeeds(loop);
}

static void to_init(struct ibv_qp *qp, int mask, uint32_t key)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = key };

	require(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | mask),
		"INIT");
}

/* Unused receives stay in the shared queue, which is destroyed after its queue pairs. */
static void shared_receive_queue(void)
{
	struct ibv_srq_init_attr srq_attributes = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr attributes = {
		.cap = { .max_send_wr = 4, .max_send_sge = 1 }, .qp_type = IBV_QPT_RC,
	};
	struct ibv_recv_wr receive = { .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr request;
	struct ibv_sge buffer, far;
	struct ibv_srq *srq;
	struct loop loop;

	loop_open(&loop, IBV_QPT_RC);
	srq = ibv_create_srq(loop.pd, &srq_attributes);
	require(srq != NULL, "ibv_create_srq");
	attributes.srq = srq;
	attributes.send_cq = attributes.recv_cq = loop.cq;
	require(!ibv_destroy_qp(loop.peer), "ibv_destroy_qp");
	loop.peer = ibv_create_qp(loop.pd, &attributes);
	require(loop.peer != NULL, "ibv_create_qp");
	to_init(loop.peer, IBV_QP_ACCESS_FLAGS, 0);
	loop_connect(&loop);
	far = (struct ibv_sge){ (uintptr_t)loop.far, LOOP_BYTES, loop.far_mr->lkey };
	receive.sg_list = &far;
	for (int i = 0; i < 3; i++)
		require(!ibv_post_srq_recv(srq, &receive, &bad_receive), "ibv_post_srq_recv");
	request = loop_request(&loop, IBV_WR_SEND, &buffer);
	require(!loop_send(&loop, &request), "ibv_post_send");
	succeeds(&loop);
	succeeds(&loop);
	loop_stop(&loop);
	loop_destroy_queues(&loop);
	require(!ibv_destroy_srq(srq), "ibv_destroy_srq");
	loop_close(&loop);
}

/* One address in two regions at once, and in one after the other. */
static void registered_again(void)
{
	struct loop loop;
	struct ibv_mr *mr;

	loop_open_connected(&loop);
	for (int i = 0; i < 50; i++) {
		mr = ibv_reg_mr(loop.pd, loop.memory, LOOP_BYTES, IBV_ACCESS_LOCAL_WRITE);
		require(mr != NULL, "ibv_reg_mr");
		write_from(&loop, mr);
		require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
		write_from(&loop, loop.mr);
	}
	loop_stop_and_close(&loop);
}

/* A request without buffers, or with an empty one, needs no key. */
static void no_bytes(void)
{
	struct ibv_recv_wr receive = { .num_sge = 0 }, *bad;
	struct ibv_sge empty = { 0 };
	struct ibv_send_wr request;
	struct loop loop;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &empty);
	empty = (struct ibv_sge){ 0 };
	require(!loop_send(&loop, &request), "ibv_post_send");
	succeeds(&loop);
	require(!ibv_post_recv(loop.peer, &receive, &bad), "ibv_post_recv");
	request.opcode = IBV_WR_SEND;
	request.num_sge = 0;
	request.sg_list = NULL;
	require(!loop_send(&loop, &request), "ibv_post_send");
	succeeds(&loop);
	succeeds(&loop);
	loop_stop_and_close(&loop);
}

/* The peer binds a memory window, which is written through. */
static void memory_window(void)
{
	struct ibv_mw_bind bind = { .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr request;
	struct ibv_sge buffer;
	struct loop loop;
	struct ibv_mr *mr;
	struct ibv_mw *mw;

	loop_open_connected(&loop);
	mr = ibv_reg_mr(loop.pd, loop.far, LOOP_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(loop.pd, IBV_MW_TYPE_1);
	require(mr && mw, "ibv_alloc_mw");
	bind.bind_info = (struct ibv_mw_bind_info){
		mr, (uintptr_t)loop.far, LOOP_BYTES, IBV_ACCESS_REMOTE_WRITE,
	};
	require(!ibv_bind_mw(loop.peer, mw, &bind), "ibv_bind_mw");
	succeeds(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffer);
	request.wr.rdma.rkey = mw->rkey;
	require(!loop_send(&loop, &request), "ibv_post_send");
	succeeds(&loop);
	require(!ibv_dealloc_mw(mw) && !ibv_dereg_mr(mr), "ibv_dealloc_mw");
	loop_stop_and_close(&loop);
}

static void ready_for_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr ready = { .qp_state = IBV_QPS_RTR };

	to_init(qp, IBV_QP_QKEY, 0x1234);
	require(!ibv_modify_qp(qp, &ready, IBV_QP_STATE), "RTR");
	ready.qp_state = IBV_QPS_RTS;
	require(!ibv_modify_qp(qp, &ready, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
}

static struct ibv_qp *new_datagram_pair(struct loop *loop, struct ibv_qp *old)
{
	struct ibv_qp_init_attr attributes = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD, .send_cq = loop->cq, .recv_cq = loop->cq,
	};
	struct ibv_qp *qp;

	require(!ibv_destroy_qp(old), "ibv_destroy_qp");
	qp = ibv_create_qp(loop->pd, &attributes);
	require(qp != NULL, "ibv_create_qp");
	ready_for_datagrams(qp);
	return qp;
}

/* Address handles are made and destroyed again and again, also at the same address. */
static void datagrams(void)
{
	struct ibv_send_wr request;
	struct ibv_ah_attr path;
	struct ibv_sge buffer, far;
	struct loop loop;
	struct ibv_ah *ah;

	loop_open(&loop, IBV_QPT_RC);
	loop.qp = new_datagram_pair(&loop, loop.qp);
	loop.peer = new_datagram_pair(&loop, loop.peer);
	path = loop_path(&loop);
	far = (struct ibv_sge){ (uintptr_t)loop.far, LOOP_BYTES, loop.far_mr->lkey };
	for (int i = 0; i < 10; i++) {
		ah = ibv_create_ah(loop.pd, &path);
		require(ah != NULL, "ibv_create_ah");
		require(!loop_receive(loop.peer, &far), "ibv_post_recv");
		request = loop_request(&loop, IBV_WR_SEND, &buffer);
		request.wr.ud.ah = ah;
		request.wr.ud.remote_qpn = loop.peer->qp_num;
		request.wr.ud.remote_qkey = 0x1234;
		require(!loop_send(&loop, &request), "ibv_post_send");
		succeeds(&loop);
		succeeds(&loop);
		require(!ibv_destroy_ah(ah), "ibv_destroy_ah");
	}
	loop_stop_and_close(&loop);
}

/* Reset and connected again, which drops the outstanding requests. */
static void connected_again(void)
{
	struct ibv_sge buffer;
	struct loop loop;

	loop_open_connected(&loop);
	buffer = (struct ibv_sge){ (uintptr_t)loop.memory, LOOP_BYTES, loop.mr->lkey };
	require(!loop_receive(loop.qp, &buffer), "ibv_post_recv");
	loop_to_state(loop.qp, IBV_QPS_RESET);
	loop_to_state(loop.peer, IBV_QPS_RESET);
	to_init(loop.qp, IBV_QP_ACCESS_FLAGS, 0);
	to_init(loop.peer, IBV_QP_ACCESS_FLAGS, 0);
	loop_connect(&loop);
	require(!ibv_dereg_mr(loop.mr), "ibv_dereg_mr");
	loop.mr = ibv_reg_mr(loop.pd, loop.memory, LOOP_BYTES, IBV_ACCESS_LOCAL_WRITE);
	require(loop.mr != NULL, "ibv_reg_mr");
	loop_stop_and_close(&loop);
}

static const struct loop_program programs[] = {
	{ "shared-receive-queue", shared_receive_queue },
	{ "registered-again", registered_again },
	{ "no-bytes", no_bytes },
	{ "memory-window", memory_window },
	{ "datagrams", datagrams },
	{ "connected-again", connected_again },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	return loop_main(argc, argv, programs);
}
