/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The same work by helpers of librdmacm's family, or (with EXTENSIONS) by rdmax_* ones. */
#include "loops.h"

#include <stdlib.h>

#include <rdma/rdma_verbs_ext.h>

enum { REMOTE_ADDR = 0x1000, RKEY = 9, BATCH = 64 };

#ifdef EXTENSIONS

static struct rdmax_send_wr reads[BATCH];

/* The entries are ready when they are posted, as the arguments of rdma_post_read are. */
static void prepare(struct bench *b)
{
	for (int i = 0; i < BATCH; i++)
		reads[i] = (struct rdmax_send_wr){
			.context = b, .opcode = IBV_WR_RDMA_READ, .sgl = &b->element, .nsge = 1,
			.remote_addr = REMOTE_ADDR, .rkey = RKEY, .flags = IBV_SEND_SIGNALED,
		};
}

static void post(struct bench *b, int n)
{
	int posted;

	if (rdmax_post_sends(b->id, reads, sizeof(*reads), n, &posted))
		abort();
}

static void take(struct bench *b)
{
	if (rdmax_get_send_comp(b->id, &b->wc, -1) != 1)
		abort();
}

#else

static void prepare(struct bench *b)
{
	(void)b;
}

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
	prepare(b);
	for (; calls; calls--)
		post(b, 1);
}

static void post_batch(struct bench *b, long calls)
{
	prepare(b);
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
