// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: polls NAME
 *
 * One completion queue polled by two threads, on the provider of fake_ibverbs.c. A
 * completion that the first one has taken reaches the hook after the second one's.
 */
#include "objects.h"

#include <pthread.h>
#include <string.h>

static struct ibv_mr *other;
static sem_t taken, leave;
static volatile int stop;

static void begin(void)
{
	open_all();
	other = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	require(other != NULL, "ibv_reg_mr");
	require(!sem_init(&taken, 0, 0) && !sem_init(&leave, 0, 0), "sem_init");
}

/* The other region has been deregistered. */
static void end(void)
{
	require(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr), "destroy");
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(context), "close");
}

static void post(uint64_t wr_id, struct ibv_mr *region)
{
	struct ibv_sge buffer = { (uintptr_t)memory, 64, region->lkey };
	struct ibv_send_wr request = {
		.wr_id = wr_id, .sg_list = &buffer, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	require(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
}

static void *poll_first(void *wr_id)
{
	fake_hold_poll((uintptr_t)wr_id, qp, &taken, &leave);
	poll_one();
	return NULL;
}

/* Two requests, whose completions are taken by two threads. The region of the second one
 * is not in use when it goes. */
static void out_of_order(uintptr_t first, uintptr_t second)
{
	pthread_t thread;

	begin();
	post(first, mr);
	post(second, other);
	require(!pthread_create(&thread, NULL, poll_first, (void *)first), "pthread_create");
	sem_wait(&taken);
	poll_one();
	require(!ibv_dereg_mr(other), "ibv_dereg_mr");
	sem_post(&leave);
	pthread_join(thread, NULL);
	end();
}

static void *poll_always(void *unused)
{
	do {
		require(ibv_poll_cq(cq, 0, NULL) == 0, "ibv_poll_cq");
		sem_post(&taken);
	} while (!stop);
	return unused;
}

/* Faulty: the region is in use, whatever the other thread does. */
static void in_use(void)
{
	pthread_t thread;

	begin();
	post(1, other);
	require(!pthread_create(&thread, NULL, poll_always, NULL), "pthread_create");
	sem_wait(&taken);
	require(!ibv_dereg_mr(other), "ibv_dereg_mr");
	stop = 1;
	pthread_join(thread, NULL);
	poll_one();
	end();
}

int main(int count, char **arguments)
{
	const char *name = count > 1 ? arguments[1] : "";

	if (!strcmp(name, "out-of-order"))
		out_of_order(1, 2);
	else if (!strcmp(name, "equal-ids"))
		out_of_order(7, 7);
	else if (!strcmp(name, "in-use"))
		in_use();
	else
		return 2;
	return 0;
}
