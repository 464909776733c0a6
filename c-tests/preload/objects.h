/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects of a small program on the provider of fake_ibverbs.c. */
#ifndef OBJECTS_H
#define OBJECTS_H

#include "fake.h"

extern struct ibv_context *context;
extern struct ibv_pd *pd;
extern struct ibv_comp_channel *channel;
extern struct ibv_cq *cq;
extern struct ibv_qp *qp;
extern struct ibv_mr *mr;
extern char memory[4096];

/* Ends the program with a message if the condition does not hold. */
void require(int condition, const char *what);

/* Opens the device and creates all of them. */
void open_all(void);
/* Posts a signaled send with a buffer in memory. */
void send_on(struct ibv_qp *to, uint32_t lkey);
/* Takes the completion that must be there. */
void poll_one(void);

#endif
