/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Includes one header and relies on what that includes, as programs do. */
#include <rdma/rdma_verbs.h>

int main(void)
{
	struct rdma_cm_id *id = NULL;
	uint64_t context = UINT64_MAX;
	size_t length = sizeof(uintptr_t);

	errno = EINVAL;
	assert(rdma_post_send(id, (void *)(uintptr_t)context, NULL, length, NULL,
			      IBV_SEND_SIGNALED) == -1);
	return errno != EINVAL;
}
