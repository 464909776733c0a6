// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: cost MODE
 *        cost calls request|empty-poll|post NUMBER
 *
 * What the hooks cost, in one process: the time of a call through the context, as programs
 * make it, minus that of the provider's own function; the two alternate. Uses the provider
 * of fake_ibverbs.c, which costs nothing. Prints lines of CSV for `make bench`, with this
 * name for the mode. The second form makes NUMBER calls, whose instructions can be counted.
 */
#include "fake.h"

#include <string.h>

#include "../../bench/statistics.h"

enum { CALLS = 20000, ROUNDS = 200 };

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_sge buffer;
static struct ibv_send_wr request = {
	.sg_list = &buffer,
	.num_sge = 1,
	.opcode = IBV_WR_SEND,
	.send_flags = IBV_SEND_SIGNALED,
};

static void post(const struct ibv_context_ops *ops)
{
	struct ibv_send_wr *bad;

	ops->post_send(qp, &request, &bad);
}

static void poll_nothing(const struct ibv_context_ops *ops)
{
	struct ibv_wc wc;

	ops->poll_cq(cq, 0, &wc);
}

static void post_and_poll(const struct ibv_context_ops *ops)
{
	struct ibv_wc wc;

	post(ops);
	ops->poll_cq(cq, 1, &wc);
}

static double nanoseconds(void (*call)(const struct ibv_context_ops *),
			  const struct ibv_context_ops *ops)
{
	double start = now_ns();

	for (int i = 0; i < CALLS; i++)
		call(ops);
	return (now_ns() - start) / CALLS;
}

static void measure(const char *name, void (*call)(const struct ibv_context_ops *),
		    const char *mode)
{
	static double more[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		double plain = nanoseconds(call, fake_ops());

		more[round] = nanoseconds(call, &qp->context->ops) - plain;
	}
	print_row("preload", name, mode, "ns", more, ROUNDS);
}

static void make_calls(const char *name, int number)
{
	void (*call)(const struct ibv_context_ops *) = !strcmp(name, "request") ? post_and_poll :
						       !strcmp(name, "post")    ? post :
										  poll_nothing;

	for (int i = 0; i < number; i++)
		call(&qp->context->ops);
}

int main(int argc, char **argv)
{
	static char memory[4096];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1 << 15, .max_send_sge = 1 },
	};

	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	attributes.send_cq = attributes.recv_cq = cq;
	qp = ibv_create_qp(pd, &attributes);
	buffer = (struct ibv_sge){ (uintptr_t)memory, 64, mr->lkey };
	if (argc == 4 && !strcmp(argv[1], "calls")) {
		make_calls(argv[2], atoi(argv[3]));
		return 0;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: cost MODE\n"
				"       cost calls request|empty-poll|post NUMBER\n");
		return 2;
	}
	measure("a post", post, argv[1]);
	measure("a poll that finds nothing", poll_nothing, argv[1]);
	measure("a request, from post to completion", post_and_poll, argv[1]);
	return 0;
}
