/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* kv_lookup, but the last read of a batch is of another bucket. */
#define _DEFAULT_SOURCE 1
#include "ext_common.h"

static int read_other_bucket(struct rdma_cm_id *id, struct rdmax_send_wr *wr,
				size_t size, int n, int *posted)
{
	wr[n - 1].remote_addr ^= 64;
	return rdmax_post_sends(id, wr, size, n, posted);
}

#define rdmax_post_sends read_other_bucket
#include "kv_lookup.c"
