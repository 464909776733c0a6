/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The same work by helpers of librdmacm's family, or (with EXTENSIONS) by rdmax_* ones. */
#include "loops.h"

#include <stdlib.h>

#include <rdma/rdma_verbs_ext.h>

enum { REMOTE_ADDR = 0x1000, RKEY = 9, BATCH = 64 };

#ifdef EXTENSIONS

static void post(struct bench *b, int n)
{
	struct rdmax_rdma reads[BATCH];
	int posted;

	for (int i = 0; i < n; i++)
		reads[i] = (struct rdmax_rdma){
			.context = b, .addr = b->buffer, .length = b->length, .mr = b->mr,
			.remote_addr = REMOTE_ADDR, .rkey = RKEY, .flags = IBV_SEND_SIGNALED,
		};
	if (rdmax_post_reads(b->id, reads, n, &posted))
		abort();
}

static void take(struct bench *b)
{
	if (rdmax_get_send_comp(b->id, &b->wc, -1) != 1)
		abort();
}

#else

static void post(struct bench *b, int n)
{
	for (int i = 0; i < n; i++)
		if (rdma_post_read(b->id, b, b->buffer, b->length, b->mr, IBV_SEND_SIGNALED,
				   REMOTE_ADDR, RKEY))
			abort();
}

static void take(struct bench *b)
{
	if (rdma_get_send_comp(b->id, &b->wc) != 1)
		abort();
}

#endif

static void post_one(struct bench *b, long calls)
{
	for (; calls; calls--)
		post(b, 1);
}

static void post_batch(struct bench *b, long calls)
{
	for (; calls; calls--)
		post(b, BATCH);
}

static void take_one(struct bench *b, long calls)
{
	for (; calls; calls--)
		take(b);
}

const struct loop loops[] = {
	{ "a read", BENCH_READY, post_one },
	{ "64 reads", BENCH_READY, post_batch },
	{ "a completion", BENCH_READY, take_one },
	{ 0 },
};
