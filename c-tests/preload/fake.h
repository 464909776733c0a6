/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What fake_ibverbs.c exports beyond libibverbs. */
#ifndef FAKE_H
#define FAKE_H

#include <infiniband/verbs.h>

/* The provider's own operations, without hooks. */
const struct ibv_context_ops *fake_ops(void);
/* An event of a queue becomes readable from the channel that was made last. */
void fake_event(struct ibv_cq *cq);
/* Whether a thread is in ibv_get_cq_event. */
int fake_waits(void);
/* Deregistered by the library's destructor. */
void fake_dereg_at_exit(struct ibv_mr *mr);

#endif
