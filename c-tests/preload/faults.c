// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: faults NAME faulty|correct
 *
 * For each rule of rdma-verbs check, a program that breaks it, and a correct twin. `faults`
 * alone prints the names, each with its rule.
 */
#include "loop.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Posts a request that writes to the peer, which needs no receive. */
static void write_with(struct loop *loop, struct ibv_sge buffer, unsigned int more_flags)
{
	struct ibv_sge ignored;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &ignored);

	request.sg_list = &buffer;
	request.send_flags |= more_flags;
	if (!loop_send(loop, &request))
		loop_wait(loop);
}

static struct ibv_sge whole(const struct loop *loop)
{
	return (struct ibv_sge){ (uintptr_t)loop->memory, LOOP_BYTES, loop->mr->lkey };
}

static void past_the_end(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;

	loop_open_connected(&loop);
	buffer = whole(&loop);
	buffer.length = 16;
	buffer.addr += LOOP_BYTES - 16 + (faulty ? 1 : 0);
	write_with(&loop, buffer, 0);
	loop_stop_and_close(&loop);
}

static void unknown_key(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;

	loop_open_connected(&loop);
	buffer = whole(&loop);
	buffer.lkey ^= faulty ? 0x5500 : 0;
	write_with(&loop, buffer, 0);
	loop_stop_and_close(&loop);
}

static void deregistered_key(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;

	loop_open_connected(&loop);
	buffer = whole(&loop);
	if (faulty) {
		require(!ibv_dereg_mr(loop.mr), "ibv_dereg_mr");
		/* Another region for the same buffer, which keeps its key. */
		loop.mr = loop.far_mr;
		write_with(&loop, buffer, 0);
		loop.mr = NULL;
	} else {
		write_with(&loop, buffer, 0);
	}
	loop_stop_and_close(&loop);
}

static void other_domain(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;
	struct ibv_pd *pd;
	struct ibv_mr *mr;

	loop_open_connected(&loop);
	pd = ibv_alloc_pd(loop.context);
	require(pd != NULL, "ibv_alloc_pd");
	mr = ibv_reg_mr(faulty ? pd : loop.pd, loop.memory, LOOP_BYTES, 0);
	require(mr != NULL, "ibv_reg_mr");
	buffer = whole(&loop);
	buffer.lkey = mr->lkey;
	write_with(&loop, buffer, 0);
	require(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	loop_stop_and_close(&loop);
}

static void read_only(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;
	struct ibv_mr *mr;

	loop_open_connected(&loop);
	mr = ibv_reg_mr(loop.pd, loop.memory, LOOP_BYTES, faulty ? 0 : IBV_ACCESS_LOCAL_WRITE);
	require(mr != NULL, "ibv_reg_mr");
	buffer = whole(&loop);
	buffer.lkey = mr->lkey;
	require(!loop_receive(loop.qp, &buffer), "ibv_post_recv");
	loop_stop(&loop);
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	loop_close(&loop);
}

/* The peer's response is written to local memory. */
static void fetch_into_read_only(bool faulty, enum ibv_wr_opcode opcode, uint32_t length)
{
	struct loop loop;
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct ibv_mr *mr;

	loop_open_connected(&loop);
	mr = ibv_reg_mr(loop.pd, loop.memory, LOOP_BYTES, faulty ? 0 : IBV_ACCESS_LOCAL_WRITE);
	require(mr != NULL, "ibv_reg_mr");
	request = loop_request(&loop, opcode, &buffer);
	buffer.lkey = mr->lkey;
	buffer.length = length;
	if (opcode != IBV_WR_RDMA_READ) {
		request.wr.atomic.remote_addr = (uintptr_t)loop.far;
		request.wr.atomic.rkey = loop.far_mr->rkey;
		request.wr.atomic.compare_add = 1;
	}
	if (!loop_send(&loop, &request))
		loop_wait(&loop);
	loop_stop(&loop);
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	loop_close(&loop);
}

static void read_into_read_only(bool faulty)
{
	fetch_into_read_only(faulty, IBV_WR_RDMA_READ, 16);
}

static void atomic_into_read_only(bool faulty)
{
	fetch_into_read_only(faulty, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
}

static void no_key(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;

	loop_open_connected(&loop);
	buffer = (struct ibv_sge){ (uintptr_t)loop.memory, 16, 0 };
	write_with(&loop, buffer, faulty ? 0 : IBV_SEND_INLINE);
	loop_stop_and_close(&loop);
}

static void inline_size(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;

	loop_open_connected(&loop);
	buffer = whole(&loop);
	buffer.length = loop.cap.max_inline_data + (faulty ? 1 : 0);
	write_with(&loop, buffer, IBV_SEND_INLINE);
	loop_stop_and_close(&loop);
}

static void buffer_count(bool faulty)
{
	struct ibv_sge buffers[64] = { 0 };
	struct ibv_send_wr request;
	struct loop loop;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffers[0]);
	request.num_sge = (int)loop.cap.max_send_sge + (faulty ? 1 : 0);
	require(request.num_sge <= 64, "max_send_sge");
	for (int i = 1; i < request.num_sge; i++)
		buffers[i] = buffers[0];
	if (!loop_send(&loop, &request))
		loop_wait(&loop);
	loop_stop_and_close(&loop);
}

static void operation(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct loop loop;

	loop_open(&loop, faulty ? IBV_QPT_UC : IBV_QPT_RC);
	loop_connect(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_READ, &buffer);
	if (!loop_send(&loop, &request) && !faulty)
		loop_wait(&loop);
	loop_stop_and_close(&loop);
}

static void inline_read(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct loop loop;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_READ, &buffer);
	request.send_flags |= faulty ? IBV_SEND_INLINE : 0;
	if (!loop_send(&loop, &request) && !faulty)
		loop_wait(&loop);
	loop_stop_and_close(&loop);
}

static void not_connected(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct loop loop;

	loop_open(&loop, IBV_QPT_RC);
	if (!faulty)
		loop_connect(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffer);
	if (!loop_send(&loop, &request) && !faulty)
		loop_wait(&loop);
	loop_stop_and_close(&loop);
}

static void dereg_in_use(bool faulty)
{
	struct loop loop;
	struct ibv_sge buffer;

	loop_open_connected(&loop);
	buffer = whole(&loop);
	require(!loop_receive(loop.qp, &buffer), "ibv_post_recv");
	if (!faulty)
		loop_stop(&loop);
	require(!ibv_dereg_mr(loop.mr), "ibv_dereg_mr");
	loop.mr = NULL;
	loop_stop_and_close(&loop);
}

static void qp_in_use(bool faulty)
{
	struct ibv_sge buffer, far;
	struct ibv_send_wr request;
	struct loop loop;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_SEND, &buffer);
	if (!faulty) {
		far = (struct ibv_sge){ (uintptr_t)loop.far, LOOP_BYTES, loop.far_mr->lkey };
		require(!loop_receive(loop.peer, &far), "ibv_post_recv");
	}
	require(!loop_send(&loop, &request), "ibv_post_send");
	/* Without a receive at the peer, the send is retried without end. */
	if (!faulty) {
		loop_wait(&loop);
		loop_wait(&loop);
	}
	loop_close(&loop);
}

/* Sends until the queue is full: without a receive at the peer, nothing completes. */
static void send_queue_full(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct ibv_wc wc;
	struct loop loop;
	int result;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_SEND, &buffer);
	while (!(result = loop_send(&loop, &request)))
		;
	require(result == ENOMEM, "ibv_post_send");
	/* The twin takes the full queue as a sign to poll. */
	if (!faulty)
		require(ibv_poll_cq(loop.cq, 1, &wc) == 0, "ibv_poll_cq");
	loop_to_state(loop.qp, IBV_QPS_ERR);
	loop_close(&loop);
}

static void unsignaled_run(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct loop loop;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffer);
	for (unsigned int i = 1; i <= 2 * loop.cap.max_send_wr; i++) {
		bool signaled = !faulty && i % loop.cap.max_send_wr == 0;

		request.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
		if (!loop_send(&loop, &request) && signaled)
			loop_wait(&loop);
	}
	loop_stop_and_close(&loop);
}

static void completion_error(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct ibv_mr *mr;
	struct loop loop;

	loop_open_connected(&loop);
	mr = ibv_reg_mr(loop.pd, loop.far, LOOP_BYTES,
			IBV_ACCESS_LOCAL_WRITE | (faulty ? IBV_ACCESS_REMOTE_WRITE :
							   IBV_ACCESS_REMOTE_READ));
	require(mr != NULL, "ibv_reg_mr");
	request = loop_request(&loop, IBV_WR_RDMA_READ, &buffer);
	request.wr.rdma.rkey = mr->rkey;
	require(!loop_send(&loop, &request), "ibv_post_send");
	loop_wait(&loop);
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	loop_stop_and_close(&loop);
}

/* A write, and the event of its completion. */
static void take_event(struct loop *loop)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &buffer);
	struct ibv_cq *cq;
	void *context;

	require(!ibv_req_notify_cq(loop->cq, 0), "ibv_req_notify_cq");
	require(!loop_send(loop, &request), "ibv_post_send");
	require(!ibv_get_cq_event(loop->channel, &cq, &context), "ibv_get_cq_event");
	loop_wait(loop);
}

static void unacked_events(bool faulty)
{
	struct loop loop;

	loop_open_connected(&loop);
	take_event(&loop);
	if (!faulty)
		ibv_ack_cq_events(loop.cq, 1);
	/* The faulty one hangs in ibv_destroy_cq. */
	alarm(faulty ? 2 : 0);
	loop_stop_and_close(&loop);
}

static void missing_arm(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct ibv_cq *cq;
	struct loop loop;
	void *context;

	loop_open_connected(&loop);
	take_event(&loop);
	ibv_ack_cq_events(loop.cq, 1);
	if (!faulty)
		require(!ibv_req_notify_cq(loop.cq, 0), "ibv_req_notify_cq");
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffer);
	require(!loop_send(&loop, &request), "ibv_post_send");
	/* The faulty one waits without end. */
	alarm(faulty ? 4 : 0);
	require(!ibv_get_cq_event(loop.channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(loop.cq, 1);
	loop_stop_and_close(&loop);
}

static void null_object(bool faulty)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request;
	struct loop loop;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffer);
	if (faulty)
		ibv_dereg_mr(NULL);
	require(!loop_send(&loop, &request), "ibv_post_send");
	loop_wait(&loop);
	loop_stop_and_close(&loop);
}

/* The device could not be opened, and the program did not check. */
static void null_context(bool faulty)
{
	struct ibv_context *context = faulty ? NULL : loop_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);

	require(pd && !ibv_dealloc_pd(pd) && !ibv_close_device(context), "ibv_close_device");
}

static void destroyed_twice(bool faulty)
{
	struct loop loop;

	loop_open_connected(&loop);
	loop_stop(&loop);
	loop_destroy_queues(&loop);
	require(!ibv_dereg_mr(loop.mr), "ibv_dereg_mr");
	if (faulty)
		ibv_dereg_mr(loop.mr);
	loop.mr = NULL;
	loop_close(&loop);
}

static void leaked_region(bool faulty)
{
	struct loop loop;

	loop_open_connected(&loop);
	if (!faulty)
		loop_stop_and_close(&loop);
}

static const struct {
	const char *name;
	const char *rule;
	void (*run)(bool faulty);
} faults[] = {
	{ "past-the-end", "local-buffer", past_the_end },
	{ "unknown-key", "local-buffer", unknown_key },
	{ "deregistered-key", "local-buffer", deregistered_key },
	{ "other-domain", "local-buffer", other_domain },
	{ "read-only", "local-access", read_only },
	{ "read-into-read-only", "local-access", read_into_read_only },
	{ "atomic-into-read-only", "local-access", atomic_into_read_only },
	{ "no-key", "no-key", no_key },
	{ "inline-size", "inline-size", inline_size },
	{ "buffer-count", "sge-count", buffer_count },
	{ "operation", "opcode", operation },
	{ "inline-read", "opcode", inline_read },
	{ "not-connected", "not-connected", not_connected },
	{ "dereg-in-use", "dereg-in-use", dereg_in_use },
	{ "qp-in-use", "qp-in-use", qp_in_use },
	{ "send-queue-full", "send-queue-full", send_queue_full },
	{ "unsignaled-run", "unsignaled-run", unsignaled_run },
	{ "completion-error", "completion-error", completion_error },
	{ "unacked-events", "unacked-events", unacked_events },
	{ "missing-arm", "missing-arm", missing_arm },
	{ "null-object", "null-object", null_object },
	{ "null-context", "null-object", null_context },
	{ "destroyed-twice", "destroyed", destroyed_twice },
	{ "leaked-region", "leaked-region", leaked_region },
};

int main(int argc, char **argv)
{
	const size_t count = sizeof(faults) / sizeof(faults[0]);

	for (size_t i = 0; i < count; i++) {
		if (argc == 1)
			printf("%s %s\n", faults[i].name, faults[i].rule);
		else if (argc == 3 && !strcmp(argv[1], faults[i].name))
			faults[i].run(!strcmp(argv[2], "faulty"));
	}
	return 0;
}
