/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* epoll_server, but the last byte of each message is wrong. */
#define _DEFAULT_SOURCE 1
#include "ext_common.h"

static int send_wrong(struct rdma_cm_id *id, void *context, void *addr, size_t length,
		      struct ibv_mr *mr, int flags)
{
	((char *)addr)[length - 1] ^= 1;
	return rdma_post_send(id, context, addr, length, mr, flags);
}

#define rdma_post_send send_wrong
#include "epoll_server.c"
