/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Draining on a device: when it returns, the buffers are free. */
#include "device.h"

#include <rdma/rdma_verbs_ext.h>

#include <sys/mman.h>

enum { BYTES = 4096 };

/* Both sides have requests that would not complete by themselves. */
static void leave_outstanding(struct link *link, struct region *local, struct region *remote)
{
	for (int i = 0; i < RECV_DEPTH; i++)
		must(rdma_post_recv(link->active, context_of(100), local->data, BYTES, local->mr));
	for (int i = 0; i < SEND_DEPTH / 2; i++)
		must(rdma_post_read(link->active, context_of(200), local->data, BYTES, local->mr,
				    i % 2 ? IBV_SEND_SIGNALED : 0, remote_address(remote),
				    remote->mr->rkey));
}

/* Nothing more completes, and nothing uses the buffers: their memory can be unmapped. */
static void assert_drained(struct link *link, struct region *local)
{
	struct ibv_wc wc;

	assert_succeeds(rdmax_get_send_comp(link->active, &wc, 20), 0);
	assert_succeeds(rdmax_get_recv_comp(link->active, &wc, 20), 0);
	region_deregister(local);
	must(mprotect(local->map, local->map_length, PROT_NONE));
}

enum { CONNECTED, IDLE, DISCONNECTED, BROKEN, PEER_IN_ERROR };

static const int connected_link = CONNECTED, idle_link = IDLE, disconnected_link = DISCONNECTED,
		 broken_link = BROKEN, dead_link = PEER_IN_ERROR;

static void drains(void **state)
{
	struct link *link = connected(state);
	struct region *local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *remote = region_add(link, rdma_reg_read, link->passive, BYTES);
	int kind = *(const int *)link->parameter;

	if (kind == BROKEN) {	/* its own mistake put it into the error state */
		must(rdma_post_write(link->active, context_of(1), local->data, BYTES, local->mr,
				     IBV_SEND_SIGNALED, remote_address(remote), 0));
		take_send(link->active, 1, IBV_WC_REM_ACCESS_ERR);
	}
	if (kind == PEER_IN_ERROR)
		set_qp_error(link->passive);
	if (kind != IDLE)
		leave_outstanding(link, local, remote);
	if (kind == DISCONNECTED)
		disconnect(link);
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
	assert_int_equal(qp_state(link->active), IBV_QPS_ERR);
	assert_drained(link, local);
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
}

/* As many as the device accepts, but no more than the completion queues hold. */
static void fill_queues(struct link *link, struct region *local, struct region *remote)
{
	int receives = 0, reads = 0;

	while (receives < link->active->recv_cq->cqe &&
	       !rdma_post_recv(link->active, NULL, local->data, BYTES, local->mr))
		receives++;
	while (reads < link->active->send_cq->cqe &&
	       !rdma_post_read(link->active, NULL, local->data, 1, local->mr, IBV_SEND_SIGNALED,
			       remote_address(remote), remote->mr->rkey))
		reads++;
	print_message("# %d receives, room for %d; %d reads, room for %d\n", receives,
		      link->active->recv_cq->cqe, reads, link->active->send_cq->cqe);
	assert_true(receives >= RECV_DEPTH && reads >= SEND_DEPTH);
}

/*
 * No completion has been taken, whether requests have completed or not: neither the request
 * queues nor the completion queues have room for one more.
 */
static void drains_full_queues(void **state)
{
	struct link *link = connected(state);
	struct region *local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *remote = region_add(link, rdma_reg_read, link->passive, BYTES);

	if (*(const int *)link->parameter == PEER_IN_ERROR)
		set_qp_error(link->passive);
	fill_queues(link, local, remote);
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS / 2 * 1000, NULL, NULL), 0);
	assert_drained(link, local);
}

/*
 * Requests posted in the error state are drained too, even where nothing is flushed by
 * itself.
 */
static void drains_what_is_posted_after_the_error(void **state)
{
	struct link *link = connected(state);
	struct region *local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *remote = region_add(link, rdma_reg_read, link->passive, BYTES);

	set_qp_error(link->active);
	leave_outstanding(link, local, remote);
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
	assert_drained(link, local);
}

/* Receives can be posted before the connection is established. */
static void drains_before_the_connection(void **state)
{
	struct link *link = *state;
	struct region *local;

	link_open(link, RDMA_PS_TCP);
	link_create_qp(link, link->active);
	local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	for (int i = 0; i < RECV_DEPTH; i++)
		must(rdma_post_recv(link->active, NULL, local->data, BYTES, local->mr));
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
	assert_drained(link, local);
}

/* An id that only reads has no receive queue, or hardly any. */
static void drains_without_receives(void **state)
{
	struct link *link = *state;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = SEND_DEPTH, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct region *local, *remote;

	link_open(link, RDMA_PS_TCP);
	attr.send_cq = attr.recv_cq = ibv_create_cq(link->active->verbs, SEND_DEPTH + 1, NULL,
						    NULL, 0);
	assert_non_null(attr.send_cq);
	must(rdma_create_qp(link->active, link->pd, &attr));
	link_connect(link);
	local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	remote = region_add(link, rdma_reg_read, link->passive, BYTES);
	set_qp_error(link->passive);
	for (int i = 0; i < 3; i++)
		must(rdma_post_read(link->active, NULL, local->data, BYTES, local->mr, 0,
				    remote_address(remote), remote->mr->rkey));
	/* The queue has no channel either: it is polled every millisecond. */
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
	region_deregister(local);
	rdma_destroy_qp(link->active);
	must(ibv_destroy_cq(attr.send_cq));
}

static void drains_beside_a_shared_queue(void **state)
{
	struct link *link = *state;
	struct ibv_srq_init_attr srq_attr = {
		.attr = { .max_wr = RECV_DEPTH, .max_sge = 1 },
	};
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = SEND_DEPTH, .max_recv_wr = RECV_DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct region *local, *remote;

	link_open(link, RDMA_PS_TCP);
	must(rdma_create_srq(link->active, link->pd, &srq_attr));
	attr.srq = link->active->srq;
	must(rdma_create_qp(link->active, link->pd, &attr));
	link_connect(link);
	local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	remote = region_add(link, rdma_reg_read, link->passive, BYTES);
	must(rdma_post_recv(link->active, NULL, local->data, BYTES, local->mr));
	set_qp_error(link->passive);
	must(rdma_post_read(link->active, NULL, local->data, BYTES, local->mr, 0,
			    remote_address(remote), remote->mr->rkey));
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
}

static void resets_datagrams(void **state)
{
	struct link *link = *state;
	struct region *local;
	struct ibv_wc wc;

	link_open(link, RDMA_PS_UDP);
	link_connect(link);
	local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	for (int i = 0; i < RECV_DEPTH; i++)
		must(rdma_post_recv(link->active, NULL, local->data, BYTES, local->mr));
	must(rdma_post_ud_send(link->active, NULL, local->data, 100, local->mr,
			       IBV_SEND_SIGNALED, link->ah, link->remote_qpn));
	assert_succeeds(rdmax_drain(link->active, TEST_SECONDS * 1000, NULL, NULL), 0);
	assert_int_equal(qp_state(link->active), IBV_QPS_ERR);
	while (rdmax_get_send_comp(link->active, &wc, 0) > 0)
		;
	region_deregister(local);
	must(mprotect(local->map, local->map_length, PROT_NONE));
}

/* With a peer that does not answer, the reads take long, but the call does not. */
static void drain_ends_in_time(void **state)
{
	struct link *link = connected(state);

	assert_succeeds(rdmax_drain(link->active, 0, NULL, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST_OF("drains, connected", drains, &connected_link),
		DEVICE_TEST_OF("drains, idle", drains, &idle_link),
		DEVICE_TEST_OF("drains, disconnected", drains, &disconnected_link),
		DEVICE_TEST_OF("drains, broken", drains, &broken_link),
		DEVICE_TEST_OF("drains, the peer in error", drains, &dead_link),
		DEVICE_TEST_OF("drains full queues", drains_full_queues, &connected_link),
		DEVICE_TEST_OF("drains full queues, the peer in error", drains_full_queues,
			       &dead_link),
		DEVICE_TEST(drains_what_is_posted_after_the_error),
		DEVICE_TEST(drains_before_the_connection),
		DEVICE_TEST(drains_without_receives),
		DEVICE_TEST(drains_beside_a_shared_queue),
		DEVICE_TEST(resets_datagrams),
		DEVICE_TEST(drain_ends_in_time),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("ext_drain", tests, NULL, NULL);
}
