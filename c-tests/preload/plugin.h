// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the plugins of plugin.c give to loader.c, as the symbol "plugin". */
#pragma once

#include <infiniband/verbs.h>

struct plugin {
	struct ibv_context *(*open_device)(void);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*close_device)(struct ibv_context *context);
	int (*finds_what_is_not_there)(void);
};
