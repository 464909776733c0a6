// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A library that opens a device in its constructor, before all constructors of what is
 * preloaded, and a program that uses the device.
 */
#include <infiniband/verbs.h>

#include <stdlib.h>

#ifdef LIBRARY

struct ibv_context *early_context;

static void __attribute__((constructor)) open_early(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	early_context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
}

#else

extern struct ibv_context *early_context;

int main(void)
{
	struct ibv_pd *pd = early_context ? ibv_alloc_pd(early_context) : NULL;

	return !pd || ibv_dealloc_pd(pd) || ibv_close_device(early_context);
}

#endif
