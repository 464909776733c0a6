/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ways to read from a peer, and to have a message answered. Their source is compiled
 * twice: for librdmacm's header, and ours.
 */
#ifndef STACK_H
#define STACK_H

#include <rdma/rdma_cma.h>

enum { BATCH = 64, LENGTH = 8 };

/* A connected id, whose peer answers each message. All buffers are registered. */
extern struct rdma_cm_id *id;
extern struct ibv_mr *local, *remote;
extern char here[BATCH * LENGTH], there[BATCH * LENGTH];

struct way {
	const char *work;	/* what is done; ways of the same work are compared */
	const char *name;
	void (*post)(void);
	void (*complete)(void);
};

/* The last has no name. */
extern const struct way upstream_ways[], our_ways[];

_Noreturn void die(const char *what);

/* Ends the program if a request has failed. */
void succeeded(const struct ibv_wc *wc);

#endif
