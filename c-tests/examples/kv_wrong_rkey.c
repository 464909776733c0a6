/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* kv_lookup, but a read in the middle of a batch has a wrong rkey. */
#define _DEFAULT_SOURCE 1
#include "ext_common.h"

static int read_with_wrong_rkey(struct rdma_cm_id *id, struct rdmax_send_wr *wr,
				size_t size, int n, int *posted)
{
	wr[n / 2].rkey ^= 0xff;
	return rdmax_post_sends(id, wr, size, n, posted);
}

#define rdmax_post_sends read_with_wrong_rkey
#include "kv_lookup.c"
