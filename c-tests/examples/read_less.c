/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* read_client, but the last 16 bytes are not read. */
#include <rdma/rdma_verbs.h>

static int read_less(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		     struct ibv_mr *mr, int flags, uint64_t remote_addr, uint32_t rkey)
{
	return rdma_post_read(id, context, addr, length - 16, mr, flags, remote_addr, rkey);
}

#define rdma_post_read read_less
#include "read_client.c"
