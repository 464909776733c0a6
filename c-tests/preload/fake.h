/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What fake_ibverbs.c exports beyond libibverbs. */
#ifndef FAKE_H
#define FAKE_H

#include <infiniband/verbs.h>
#include <semaphore.h>

/* The provider's own operations, without hooks. */
const struct ibv_context_ops *fake_ops(void);
/* An event of a queue becomes readable from the channel that was made last. */
void fake_event(struct ibv_cq *cq);
/* Whether a thread is in ibv_get_cq_event. */
int fake_waits(void);
/* The next poll of this thread takes the completion of that request, says so by one
 * semaphore, and returns when another one lets it. */
void fake_hold_poll(uint64_t wr_id, struct ibv_qp *qp, sem_t *taken, sem_t *leave);
/* Deregistered by the library's destructor. */
void fake_dereg_at_exit(struct ibv_mr *mr);

#endif
