/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loops over the helpers: the same source, compiled for each way to call them. */
#ifndef LOOPS_H
#define LOOPS_H

#include "provider.h"

struct loop {
	const char *name;
	enum bench_queue queue;
	void (*run)(struct bench *bench, long calls);
};

/* What a variant's library exports; a loop without a name ends it. */
extern const struct loop loops[];

#endif
