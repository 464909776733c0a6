// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: behave NAME
 *
 * Programs that are harder to watch than others. They print what they did, for comparison
 * with the trace.
 */
#define _GNU_SOURCE	/* program_invocation_name */
#include "loop.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void writes(struct loop *loop, int count)
{
	struct ibv_sge buffer;
	struct ibv_send_wr request = loop_request(loop, IBV_WR_RDMA_WRITE, &buffer);

	for (int i = 0; i < count; i++) {
		request.wr_id = (uint64_t)i;
		require(!loop_send(loop, &request), "ibv_post_send");
		require(loop_wait(loop).wr_id == (uint64_t)i, "wr_id");
	}
}

static void runs(int count)
{
	struct loop loop;

	loop_open_connected(&loop);
	strcpy(loop.memory, "payload");
	writes(&loop, count);
	loop_stop_and_close(&loop);
}

static void once(void)
{
	runs(2);
}

/* Two contexts of one device at a time. */
static void two_contexts(void)
{
	struct loop one, other;

	loop_open_connected(&one);
	loop_open_connected(&other);
	writes(&one, 2);
	writes(&other, 3);
	loop_stop_and_close(&one);
	writes(&other, 4);
	loop_stop_and_close(&other);
}

/* The child opens the device again, and exits. */
static void forks(void)
{
	struct loop loop;
	int status;
	pid_t child;

	loop_open_connected(&loop);
	writes(&loop, 1);
	child = fork();
	require(child >= 0, "fork");
	if (child == 0) {
		runs(2);
		exit(7);
	}
	require(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7, "child");
	writes(&loop, 3);
	loop_stop_and_close(&loop);
}

/* Becomes another program with the same environment. */
static void execs(void)
{
	const char *self = program_invocation_name;

	runs(1);
	execl(self, self, "once", (char *)NULL);
	require(0, "execl");
}

static void is_killed(void)
{
	struct loop loop;

	loop_open_connected(&loop);
	writes(&loop, 5);
	raise(SIGKILL);
}

static void is_terminated(void)
{
	struct loop loop;

	loop_open_connected(&loop);
	writes(&loop, 5);
	raise(SIGTERM);
}

/* It continues between signals. */
static void is_asked(void)
{
	struct loop loop;

	loop_open_connected(&loop);
	writes(&loop, 5);
	raise(SIGUSR1);
	writes(&loop, 2);
	loop_stop_and_close(&loop);
}

static void on_signal(int number)
{
	printf("signal %d\n", number);
}

/* The program itself handles, ignores, and waits for SIGUSR1. */
static void uses_the_signal(void)
{
	sigset_t one;
	int number;

	signal(SIGUSR1, on_signal);
	runs(1);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_IGN);
	raise(SIGUSR1);
	signal(SIGUSR1, on_signal);
	sigemptyset(&one);
	sigaddset(&one, SIGUSR1);
	require(!sigprocmask(SIG_BLOCK, &one, NULL), "sigprocmask");
	raise(SIGUSR1);
	require(!sigwait(&one, &number), "sigwait");
	printf("waited for %d\n", number);
}

static void *wait_for_ever(void *loop)
{
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(((struct loop *)loop)->channel, &cq, &context);
	return NULL;
}

/* A thread is cancelled while it waits for an event, as in rping. */
static void cancels(void)
{
	pthread_t thread;
	struct loop loop;
	void *result;

	loop_open_connected(&loop);
	require(!ibv_req_notify_cq(loop.cq, 0), "ibv_req_notify_cq");
	require(!pthread_create(&thread, NULL, wait_for_ever, &loop), "pthread_create");
	usleep(100000);
	require(!pthread_cancel(thread), "pthread_cancel");
	require(!pthread_join(thread, &result) && result == PTHREAD_CANCELED, "pthread_join");
	loop_stop_and_close(&loop);
}

static void *write_in_thread(void *loop)
{
	writes(loop, 10);
	return NULL;
}

static void threads(void)
{
	struct loop loop[4];
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		loop_open_connected(&loop[i]);
	for (int i = 0; i < 4; i++)
		require(!pthread_create(&thread[i], NULL, write_in_thread, &loop[i]), "thread");
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		loop_stop_and_close(&loop[i]);
	}
}

/* Successful calls leave errno alone; failing calls set it themselves. */
static void keeps_errno(void)
{
	struct ibv_sge buffers[64] = { 0 };
	struct ibv_send_wr request;
	struct loop loop;
	struct ibv_wc wc;

	loop_open_connected(&loop);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffers[0]);
	errno = 4711;
	require(!loop_send(&loop, &request), "ibv_post_send");
	while (ibv_poll_cq(loop.cq, 1, &wc) == 0)
		;
	ibv_req_notify_cq(loop.cq, 0);
	printf("errno %d\n", errno);
	request.num_sge = (int)loop.cap.max_send_sge + 1;
	require(request.num_sge <= 64, "max_send_sge");
	printf("ibv_post_send %d, ", loop_send(&loop, &request));
	printf("errno %d\n", errno);
	errno = 0;
	if (!ibv_reg_mr(loop.pd, NULL, 4096, 0))
		printf("ibv_reg_mr %s\n", strerror(errno));
	loop_stop_and_close(&loop);
}

/* Replaces the queue pair of a loop with an extended one. */
static struct ibv_qp_ex *open_extended(struct loop *loop, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr_ex attributes = {
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2,
			 .max_recv_sge = 1, .max_inline_data = 32 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
		.pd = loop->pd,
		.send_cq = cq,
		.recv_cq = cq,
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};

	require(!ibv_destroy_qp(loop->qp), "ibv_destroy_qp");
	loop->qp = ibv_create_qp_ex(loop->context, &attributes);
	require(loop->qp != NULL, "ibv_create_qp_ex");
	loop->cap = attributes.cap;
	require(!ibv_modify_qp(loop->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						IBV_QP_ACCESS_FLAGS),
		"INIT");
	loop_connect(loop);
	return ibv_qp_to_qp_ex(loop->qp);
}

/* A batch that is refused, and a request that the classic call refuses. */
static void refused(void)
{
	struct ibv_sge buffers[64] = { 0 };
	struct ibv_send_wr request;
	struct ibv_qp_ex *qp;
	struct loop loop;

	loop_open(&loop, IBV_QPT_RC);
	qp = open_extended(&loop, loop.cq);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	/* More than the queue can hold, however the device rounds its depth. */
	for (unsigned int i = 0; i < 4 * loop.cap.max_send_wr; i++) {
		ibv_wr_rdma_write(qp, loop.far_mr->rkey, (uintptr_t)loop.far);
		ibv_wr_set_sge(qp, loop.mr->lkey, (uintptr_t)loop.memory, 16);
	}
	printf("batch of %u: %s\n", 4 * loop.cap.max_send_wr,
	       ibv_wr_complete(qp) ? "refused" : "taken");
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffers[0]);
	request.num_sge = (int)loop.cap.max_send_sge + 1;
	require(request.num_sge <= 64, "max_send_sge");
	printf("request: %s\n", loop_send(&loop, &request) ? "refused" : "taken");
	writes(&loop, 1);
	loop_stop_and_close(&loop);
}

enum {
	WRITES = 500,
	UNDER_WAY = 32,	/* fewer than the completion queue has room for */
};
static atomic_int taken;

static void *take_completions(void *loop)
{
	for (int i = 0; i < WRITES; i++) {
		require(loop_wait(loop).status == IBV_WC_SUCCESS, "status");
		atomic_fetch_add(&taken, 1);
	}
	return NULL;
}

/* The classic calls on an extended queue pair: one thread posts, another polls. */
static void classic_on_extended(void)
{
	struct ibv_send_wr request;
	struct ibv_sge buffer;
	pthread_t thread;
	struct loop loop;

	loop_open(&loop, IBV_QPT_RC);
	open_extended(&loop, loop.cq);
	request = loop_request(&loop, IBV_WR_RDMA_WRITE, &buffer);
	require(!pthread_create(&thread, NULL, take_completions, &loop), "pthread_create");
	for (int i = 0; i < WRITES; i++) {
		request.wr_id = (uint64_t)i;
		while (i - atomic_load(&taken) >= UNDER_WAY)
			sched_yield();
		while (loop_send(&loop, &request))
			require(errno == ENOMEM || errno == EAGAIN || !errno, "ibv_post_send");
	}
	pthread_join(thread, NULL);
	loop_stop_and_close(&loop);
}

/* Extended queue pairs and completion queues. */
static void extended(void)
{
	struct ibv_cq_init_attr_ex cq_attributes = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
	struct loop loop;
	int seen = 0;

	loop_open(&loop, IBV_QPT_RC);
	cq = ibv_create_cq_ex(loop.context, &cq_attributes);
	require(cq != NULL, "ibv_create_cq_ex");
	qp = open_extended(&loop, ibv_cq_ex_to_cq(cq));

	ibv_wr_start(qp);
	qp->wr_id = 1;
	/* Only rxe wants the flag, but then it is in error without. */
	qp->wr_flags = IBV_SEND_INLINE;
	ibv_wr_rdma_write(qp, loop.far_mr->rkey, (uintptr_t)loop.far);
	ibv_wr_set_inline_data(qp, "inline", 6);
	qp->wr_id = 2;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(qp, loop.far_mr->rkey, (uintptr_t)loop.far);
	ibv_wr_set_sge(qp, loop.mr->lkey, (uintptr_t)loop.memory, 16);
	qp->wr_id = 3;
	ibv_wr_atomic_fetch_add(qp, loop.far_mr->rkey, (uintptr_t)loop.far + 64, 5);
	ibv_wr_set_sge(qp, loop.mr->lkey, (uintptr_t)loop.memory, 8);
	require(!ibv_wr_complete(qp), "ibv_wr_complete");
	/* An aborted batch is not seen. */
	ibv_wr_start(qp);
	ibv_wr_rdma_write(qp, loop.far_mr->rkey, (uintptr_t)loop.far);
	ibv_wr_abort(qp);

	while (seen < 2) {
		if (ibv_start_poll(cq, &none))
			continue;
		do {
			require(cq->status == IBV_WC_SUCCESS, "status");
			seen++;
		} while (!ibv_next_poll(cq));
		ibv_end_poll(cq);
	}
	require(!memcmp(loop.memory + 8, loop.far + 8, 8), "data");
	loop_to_state(loop.qp, IBV_QPS_ERR);
	loop_destroy_queues(&loop);
	require(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), "ibv_destroy_cq");
	/* The loop no longer has queue pairs. */
	require(!ibv_destroy_cq(loop.cq) && !ibv_destroy_comp_channel(loop.channel), "cq");
	require(!ibv_dereg_mr(loop.mr) && !ibv_dereg_mr(loop.far_mr), "ibv_dereg_mr");
	require(!ibv_dealloc_pd(loop.pd) && !ibv_close_device(loop.context), "close");
}

static const struct loop_program programs[] = {
	{ "once", once },
	{ "two-contexts", two_contexts },
	{ "fork", forks },
	{ "exec", execs },
	{ "killed", is_killed },
	{ "terminated", is_terminated },
	{ "cancel", cancels },
	{ "threads", threads },
	{ "errno", keeps_errno },
	{ "extended", extended },
	{ "refused", refused },
	{ "classic-on-extended", classic_on_extended },
	{ "asked", is_asked },
	{ "uses-the-signal", uses_the_signal },
	{ NULL, NULL },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	return loop_main(argc, argv, programs);
}
