/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of own_name.c that uses the library. */
#include "../fake/fake.h"

#include <rdma/rdma_verbs.h>
#include <stdio.h>

int use_the_library(void);

int use_the_library(void)
{
	fake_reset();
	/* A write of one buffer is like rdma_post_writev with one element. */
	if (rdma_post_write(&fake.id, NULL, fake_memory, 1, &fake.mr, 0, 1, 2) ||
	    rdma_post_read(&fake.id, NULL, fake_memory, 1, &fake.mr, 0, 1, 2) ||
	    rdma_post_ud_send(&fake.id, NULL, fake_memory, 1, &fake.mr, 0, &fake.ah, 3)) {
		puts("a post failed");
		return 1;
	}
	if (fake.calls != 3 || fake.call[0].send.opcode != IBV_WR_RDMA_WRITE ||
	    fake.call[1].send.opcode != IBV_WR_RDMA_READ ||
	    fake.call[2].send.opcode != IBV_WR_SEND) {
		puts("a post did not reach the provider");
		return 1;
	}
	return 0;
}
