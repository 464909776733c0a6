/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "stack.h"

#ifdef OURS
#include <rdma/rdma_verbs_ext.h>
#else
#include <rdma/rdma_verbs.h>
#endif

static void post_read(int i, int flags)
{
	if (rdma_post_read(id, NULL, here + i * LENGTH, LENGTH, local, flags,
			   (uintptr_t)there + (uint64_t)i * LENGTH, remote->rkey))
		die("rdma_post_read");
}

static void post_one(void)
{
	post_read(0, IBV_SEND_SIGNALED);
}

static void post_loop(void)
{
	for (int i = 0; i < BATCH; i++)
		post_read(i, i == BATCH - 1 ? IBV_SEND_SIGNALED : 0);
}

static void post_signaled_loop(void)
{
	for (int i = 0; i < BATCH; i++)
		post_read(i, IBV_SEND_SIGNALED);
}

static void wait_for_one(void)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(id, &wc) != 1)
		die("rdma_get_send_comp");
	succeeded(&wc);
}

static void wait_for_each(void)
{
	for (int i = 0; i < BATCH; i++)
		wait_for_one();
}

static void post_message(void)
{
	if (rdma_post_recv(id, NULL, here, LENGTH, local) ||
	    rdma_post_send(id, NULL, here, LENGTH, local, 0))
		die("rdma_post_send");
}

static void wait_for_answer(void)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(id, &wc) != 1)
		die("rdma_get_recv_comp");
	succeeded(&wc);
}

#ifndef OURS

const struct way upstream_ways[] = {
	{ "a read", "inline", post_one, wait_for_one },
	{ "64 reads", "inline, loop", post_loop, wait_for_one },
	{ "64 completions", "inline, loop", post_signaled_loop, wait_for_each },
	{ "a message and its answer", "inline, waiting", post_message, wait_for_answer },
	{ 0 },
};

#else

static void poll_for_answer(void)
{
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(id->recv_cq, 1, &wc)))
		;
	if (found < 0)
		die("ibv_poll_cq");
	succeeded(&wc);
}

static void post_together(int n, int flags)
{
	struct rdmax_send_wr reads[BATCH];
	struct ibv_sge elements[BATCH];
	int posted;

	for (int i = 0; i < n; i++) {
		elements[i] = (struct ibv_sge){ (uintptr_t)here + (uint64_t)i * LENGTH, LENGTH,
						local->lkey };
		reads[i] = (struct rdmax_send_wr){
			.opcode = IBV_WR_RDMA_READ, .sgl = &elements[i], .nsge = 1,
			.remote_addr = (uintptr_t)there + (uint64_t)i * LENGTH,
			.rkey = remote->rkey,
			.flags = i == n - 1 ? IBV_SEND_SIGNALED : flags,
		};
	}
	if (rdmax_post_sends(id, reads, sizeof(*reads), n, &posted))
		die("rdmax_post_sends");
}

static void post_one_together(void)
{
	post_together(1, 0);
}

static void post_batch(void)
{
	post_together(BATCH, 0);
}

static void post_signaled_batch(void)
{
	post_together(BATCH, IBV_SEND_SIGNALED);
}

static void wait_for_many(void)
{
	struct ibv_wc wc[BATCH];

	for (int taken = 0; taken < BATCH;) {
		int found = rdmax_get_send_comps(id, wc, BATCH - taken, -1);

		if (found < 1)
			die("rdmax_get_send_comps");
		for (int i = 0; i < found; i++)
			succeeded(&wc[i]);
		taken += found;
	}
}

static void read_whole(void)
{
	if (rdmax_read(id, here, LENGTH, local, (uintptr_t)there, remote->rkey, -1, NULL, NULL))
		die("rdmax_read");
}

static void nothing(void)
{
}

const struct way our_ways[] = {
	{ "a read", "ours", post_one, wait_for_one },
	{ "a read", "ours, rdmax_post_sends", post_one_together, wait_for_one },
	{ "a read", "ours, rdmax_read", read_whole, nothing },
	{ "64 reads", "ours, loop", post_loop, wait_for_one },
	{ "64 reads", "ours, rdmax_post_sends", post_batch, wait_for_one },
	{ "64 completions", "ours, loop", post_signaled_loop, wait_for_each },
	{ "64 completions", "ours, one by one", post_signaled_batch, wait_for_each },
	{ "64 completions", "ours, many at once", post_signaled_batch, wait_for_many },
	{ "a message and its answer", "ours, waiting", post_message, wait_for_answer },
	{ "a message and its answer", "ours, polling", post_message, poll_for_answer },
	{ 0 },
};

#endif
