/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that defines its own assert keeps it. */
static int calls;

#define assert(condition) ((void)(calls += !(condition)))

#include <rdma/rdma_verbs.h>

int main(void)
{
	assert(1 == 2);
	return calls != 1;
}
