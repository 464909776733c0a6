// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A plugin that is linked with a libibverbs of its own. Each function only ends in a call of
 * libibverbs, so that compilers make a jump of it: the call then seems to come from the program.
 */
#include "plugin.h"

#include <stdint.h>

/* What is not linked: of a library that is not there, and newer than the library that is. */
int mlx5dv_init_obj(void *object, uint64_t kind) __attribute__((weak));
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, void *attributes) __attribute__((weak));

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	return context;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	return ibv_alloc_pd(context);
}

static int dealloc_pd(struct ibv_pd *pd)
{
	return ibv_dealloc_pd(pd);
}

static int close_device(struct ibv_context *context)
{
	return ibv_close_device(context);
}

static int finds_what_is_not_there(void)
{
	return mlx5dv_init_obj || ibv_reg_mr_ex;
}

const struct plugin plugin = {
	.open_device = open_device,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.close_device = close_device,
	.finds_what_is_not_there = finds_what_is_not_there,
};
