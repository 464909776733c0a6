/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* epoll_server, whose client dies: it computes FNV-1a after its first eight answers only. */
#define _DEFAULT_SOURCE 1
#include "ext_common.h"

static uint64_t die(const void *data, size_t length)
{
	(void)data, (void)length;
	_exit(EXIT_FAILURE);
}

#define fnv1a die
#include "epoll_server.c"
