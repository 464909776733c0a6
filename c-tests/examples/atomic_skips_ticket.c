/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* atomic_counter, but two tickets are taken where one is seen. */
#define _DEFAULT_SOURCE 1
#include "ext_common.h"

static int add_two(struct rdma_cm_id *id, void *context, void *addr, struct ibv_mr *mr, int flags,
		   uint64_t remote_addr, uint32_t rkey, uint64_t add)
{
	return rdmax_post_atomic_faa(id, context, addr, mr, flags, remote_addr, rkey,
				     add == 1 && flags ? 2 : add);
}

#define rdmax_post_atomic_faa add_two
#include "atomic_counter.c"
