/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two queue pairs of one process, connected to each other. */
#ifndef LOOP_H
#define LOOP_H

#include <infiniband/verbs.h>

#define LOOP_BYTES 4096
#define LOOP_DEPTH 4

struct loop {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	/* Requests are posted to the first; the second is its peer. */
	struct ibv_qp *qp;
	struct ibv_qp *peer;
	/* The capabilities granted to the first. */
	struct ibv_qp_cap cap;
	char *memory;
	char *far;
	/* Regions with all access flags, for memory and far. */
	struct ibv_mr *mr;
	struct ibv_mr *far_mr;
};

/* Ends the program with a message if the condition does not hold. */
void require(int condition, const char *what);

struct ibv_context *loop_device(void);

/* Device, domain, queues of that type; the queue pairs are in the INIT state. */
void loop_open(struct loop *loop, enum ibv_qp_type type);
/* From one queue pair to the other. */
struct ibv_ah_attr loop_path(struct loop *loop);
/* Both queue pairs go to the RTS state. */
void loop_connect(struct loop *loop);
/* Opens with type RC, and connects. */
void loop_open_connected(struct loop *loop);
void loop_to_state(struct ibv_qp *qp, enum ibv_qp_state state);
/* Both queue pairs go to the ERR state; takes all completions. */
void loop_stop(struct loop *loop);
void loop_destroy_queues(struct loop *loop);
/* Destroys what is left. */
void loop_close(struct loop *loop);
void loop_stop_and_close(struct loop *loop);

/* One request with one buffer; signaled. */
struct ibv_send_wr loop_request(struct loop *loop, enum ibv_wr_opcode opcode,
				struct ibv_sge *buffer);
int loop_send(struct loop *loop, struct ibv_send_wr *request);
int loop_receive(struct ibv_qp *qp, struct ibv_sge *buffer);
/* The next completion; waits for it. */
struct ibv_wc loop_wait(struct loop *loop);

struct loop_program {
	const char *name;
	void (*run)(void);
};

/* For main: runs the program of that name, or prints the names. The last entry is empty. */
int loop_main(int argc, char **argv, const struct loop_program *programs);

#endif
