/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A call that fails, for its line in the log. */
#include <errno.h>
#include <rdma/rdma_verbs.h>

int main(void)
{
	return rdma_dereg_mr(NULL) == -1 && errno == EINVAL ? 0 : 1;
}
