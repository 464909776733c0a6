/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A provider that does nothing, and an id on it: what a helper costs is all there is.
 * Its library also has the functions of libibverbs that the helpers call; linked, or
 * loaded globally, before libibverbs it replaces them.
 */
#ifndef PROVIDER_H
#define PROVIDER_H

#include <rdma/rdma_cma.h>

/* Queues whose completions are there at once, or only after a wait for an event. */
enum bench_queue { BENCH_READY, BENCH_WAITS };

/* What the helpers are called with. Each one is on cache lines of its own. */
struct bench {
	struct rdma_cm_id *id;	/* both of its queues are of the kind asked for */
	struct ibv_mr *mr;
	struct ibv_ah *ah;
	struct ibv_sge element;
	struct ibv_wc wc;
	void *buffer;
	size_t length;
};

/* Never freed. */
struct bench *bench_new(enum bench_queue queue);

#endif
