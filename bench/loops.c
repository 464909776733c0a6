/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "loops.h"

#include <stdlib.h>

#include <rdma/rdma_verbs.h>

/* Nothing is carried from one call to the next, as if other code stood between. */
#define LOOP(name, succeeds)                                  \
	static void name(struct bench *b, long calls)         \
	{                                                     \
		for (; calls; calls--) {                      \
			__asm__ volatile("" ::: "memory");    \
			if (!(succeeds))                      \
				abort();                      \
		}                                             \
	}

enum { REMOTE_ADDR = 0x1000, RKEY = 9, REMOTE_QPN = 17 };

LOOP(reg_msgs, rdma_reg_msgs(b->id, b->buffer, b->length))
LOOP(reg_read, rdma_reg_read(b->id, b->buffer, b->length))
LOOP(reg_write, rdma_reg_write(b->id, b->buffer, b->length))
LOOP(dereg_mr, !rdma_dereg_mr(b->mr))
LOOP(post_recvv, !rdma_post_recvv(b->id, b, &b->element, 1))
LOOP(post_sendv, !rdma_post_sendv(b->id, b, &b->element, 1, IBV_SEND_SIGNALED))
LOOP(post_readv, !rdma_post_readv(b->id, b, &b->element, 1, IBV_SEND_SIGNALED, REMOTE_ADDR, RKEY))
LOOP(post_writev, !rdma_post_writev(b->id, b, &b->element, 1, IBV_SEND_SIGNALED, REMOTE_ADDR, RKEY))
LOOP(post_recv, !rdma_post_recv(b->id, b, b->buffer, b->length, b->mr))
LOOP(post_send, !rdma_post_send(b->id, b, b->buffer, b->length, b->mr, IBV_SEND_SIGNALED))
LOOP(post_read, !rdma_post_read(b->id, b, b->buffer, b->length, b->mr, IBV_SEND_SIGNALED,
				REMOTE_ADDR, RKEY))
LOOP(post_write, !rdma_post_write(b->id, b, b->buffer, b->length, b->mr, IBV_SEND_SIGNALED,
				  REMOTE_ADDR, RKEY))
LOOP(post_ud_send, !rdma_post_ud_send(b->id, b, b->buffer, b->length, b->mr, IBV_SEND_SIGNALED,
				      b->ah, REMOTE_QPN))
LOOP(get_send_comp, rdma_get_send_comp(b->id, &b->wc) == 1)
LOOP(get_recv_comp, rdma_get_recv_comp(b->id, &b->wc) == 1)

const struct loop loops[] = {
	{ "rdma_reg_msgs", BENCH_READY, reg_msgs },
	{ "rdma_reg_read", BENCH_READY, reg_read },
	{ "rdma_reg_write", BENCH_READY, reg_write },
	{ "rdma_dereg_mr", BENCH_READY, dereg_mr },
	{ "rdma_post_recvv", BENCH_READY, post_recvv },
	{ "rdma_post_sendv", BENCH_READY, post_sendv },
	{ "rdma_post_readv", BENCH_READY, post_readv },
	{ "rdma_post_writev", BENCH_READY, post_writev },
	{ "rdma_post_recv", BENCH_READY, post_recv },
	{ "rdma_post_send", BENCH_READY, post_send },
	{ "rdma_post_read", BENCH_READY, post_read },
	{ "rdma_post_write", BENCH_READY, post_write },
	{ "rdma_post_ud_send", BENCH_READY, post_ud_send },
	{ "rdma_get_send_comp", BENCH_READY, get_send_comp },
	{ "rdma_get_recv_comp", BENCH_READY, get_recv_comp },
	{ "rdma_get_send_comp, waits", BENCH_WAITS, get_send_comp },
	{ "rdma_get_recv_comp, waits", BENCH_WAITS, get_recv_comp },
	{ 0 },
};
