// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: stack [KIB]
 *
 * Prints how many bytes of stack each of some calls takes, on the provider of
 * fake_ibverbs.c. With KIB, the thread that makes them has a stack of no more than that.
 */
#include "fake.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAINT 0x5a

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char memory[4096];

static void require(int condition, const char *what)
{
	if (!condition) {
		perror(what);
		exit(1);
	}
}

static void open_device(void)
{
	context = ibv_open_device(ibv_get_device_list(NULL)[0]);
	require(context != NULL, "ibv_open_device");
}

static void create(void)
{
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	attributes.send_cq = attributes.recv_cq = cq;
	qp = ibv_create_qp(pd, &attributes);
	require(pd && cq && qp, "ibv_create_qp");
}

static void register_memory(void)
{
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	require(mr != NULL, "ibv_reg_mr");
}

static void send_with(uint32_t lkey)
{
	struct ibv_sge buffer = { (uintptr_t)memory, 64, lkey };
	struct ibv_send_wr request = {
		.sg_list = &buffer, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	require(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
}

static void post(void)
{
	send_with(mr->lkey);
}

/* check has something to say about it. */
static void post_faulty(void)
{
	send_with(0x4711);
}

static void poll(void)
{
	struct ibv_wc wc;

	require(ibv_poll_cq(cq, 1, &wc) == 1, "ibv_poll_cq");
}

static void deregister(void)
{
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void destroy(void)
{
	require(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd), "destroy");
}

static void close_device(void)
{
	require(!ibv_close_device(context), "ibv_close_device");
}

static const struct {
	const char *name;
	void (*run)(void);
} calls[] = {
	{ "open", open_device }, { "create", create }, { "register", register_memory },
	{ "post", post }, { "poll", poll },
	{ "post-faulty", post_faulty }, { "poll", poll },
	{ "deregister", deregister }, { "destroy", destroy }, { "close", close_device },
};

#define COUNT (sizeof(calls) / sizeof(calls[0]))

static unsigned char *stack;
static size_t used[COUNT];

/* Everything below what this function and its callees may be using is painted. */
static void __attribute__((noinline)) run_all(void)
{
	unsigned char *here = __builtin_frame_address(0);
	unsigned char *top = here - 512;

	for (size_t i = 0; i < COUNT; i++) {
		unsigned char *lowest = stack;

		for (unsigned char *byte = stack; byte < top; byte++)
			*(volatile unsigned char *)byte = PAINT;
		calls[i].run();
		while (lowest < top && *lowest == PAINT)
			lowest++;
		used[i] = (size_t)(here - lowest);
	}
}

static void *thread(void *nothing)
{
	run_all();
	return nothing;
}

int main(int argc, char **argv)
{
	size_t size = (argc > 1 ? strtoul(argv[1], NULL, 10) : 512) * 1024;
	pthread_attr_t attributes;
	pthread_t id;

	stack = aligned_alloc(4096, size);
	require(stack != NULL, "aligned_alloc");
	pthread_attr_init(&attributes);
	require(!pthread_attr_setstack(&attributes, stack, size), "pthread_attr_setstack");
	require(!pthread_create(&id, &attributes, thread, NULL), "pthread_create");
	pthread_join(id, NULL);
	for (size_t i = 0; i < COUNT; i++)
		printf("%s %zu\n", calls[i].name, used[i]);
	return 0;
}
