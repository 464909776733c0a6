/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What 64 small RDMA reads cost, posted one by one or together.
 *
 *	batch_cost compare	times and calls of the provider, alternating in one run
 *	batch_cost loop N	N times 64 posts, then 64 reads have completed
 *	batch_cost batch N	N times one post of 64
 *	batch_cost one-loop N	N times one read, by rdma_post_read
 *	batch_cost one-batch N	N times one read, by rdmax_post_reads
 *
 * The last four are for strace, which counts the system calls. See c-tests/batch-cost.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs_ext.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64, LENGTH = 8, ROUNDS = 201, WARM_UP = 20 };

static struct rdma_cm_id *id;
static struct ibv_mr *local, *remote;
static uint64_t here[BATCH], there[BATCH];
static struct rdmax_rdma entries[BATCH];

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

/* --- calls of the provider -------------------------------------------------------------- */

static int (*provider)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static unsigned long calls;

static int counting(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	calls++;
	return provider(qp, wr, bad);
}

/* --- the four ways ------------------------------------------------------------------------ */

static void post_loop(int n)
{
	for (int i = 0; i < n; i++)
		if (rdma_post_read(id, NULL, &here[i], LENGTH, local,
				   i == n - 1 ? IBV_SEND_SIGNALED : 0, (uintptr_t)&there[i],
				   remote->rkey))
			die("rdma_post_read");
}

static void post_batch(int n)
{
	int posted;

	if (rdmax_post_reads(id, entries + BATCH - n, n, &posted))
		die("rdmax_post_reads");
}

static const struct way {
	const char *name;
	void (*post)(int n);
	int reads;
} ways[] = {
	{ "loop", post_loop, BATCH },
	{ "batch", post_batch, BATCH },
	{ "one-loop", post_loop, 1 },
	{ "one-batch", post_batch, 1 },
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* Busy waiting: no system call of the completion is counted. */
static void complete(void)
{
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(id->send_cq, 1, &wc)))
		;
	if (found < 0 || wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a read failed: %s\n",
			found < 0 ? "ibv_poll_cq" : rdmax_wc_strerror(&wc));
		exit(EXIT_FAILURE);
	}
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), ascending);
	return values[ROUNDS / 2];
}

static void compare(void)
{
	static double posting[WAYS][ROUNDS], whole[WAYS][ROUNDS];
	unsigned long provider_calls[WAYS] = { 0 };

	for (int round = -WARM_UP; round < ROUNDS; round++)
		for (int way = 0; way < WAYS; way++) {
			double start = now_us(), posted;

			calls = 0;
			ways[way].post(ways[way].reads);
			posted = now_us();
			complete();
			if (round < 0)
				continue;
			posting[way][round] = posted - start;
			whole[way][round] = now_us() - start;
			provider_calls[way] = calls;
		}
	for (int way = 0; way < WAYS; way++)
		printf("%s reads %d provider_calls %lu posting_us %.1f whole_us %.1f\n",
		       ways[way].name, ways[way].reads, provider_calls[way],
		       median(posting[way]), median(whole[way]));
}

/* --- a connection with ourselves ------------------------------------------------------------ */

static struct rdma_event_channel *channel;

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *of;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	if (event->event != type) {
		fprintf(stderr, "%s\n", rdma_event_str(event->event));
		exit(EXIT_FAILURE);
	}
	of = event->id;
	rdma_ack_cm_event(event);
	return of;
}

static void connect_ids(const char *address)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = BATCH, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	}, passive_attr = attr;
	struct rdma_conn_param param = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = 7,
	};
	struct rdma_cm_id *listener, *passive;
	struct rdma_addrinfo *info;

	channel = rdma_create_event_channel();
	if (rdma_getaddrinfo(address, "0", &hints, &info) || !channel ||
	    rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, info->ai_src_addr) || rdma_listen(listener, 1) ||
	    rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), 2000))
		die("setup");
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		die("rdma_resolve_route");
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (rdma_create_qp(id, NULL, &attr) || rdma_connect(id, &param))
		die("rdma_connect");
	passive = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	if (rdma_create_qp(passive, NULL, &passive_attr) || rdma_accept(passive, &param))
		die("rdma_accept");
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	local = rdma_reg_msgs(id, here, sizeof(here));
	remote = rdma_reg_read(passive, there, sizeof(there));
	if (!local || !remote)
		die("registration");
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: batch_cost ADDRESS compare\n"
				"       batch_cost ADDRESS loop|batch|one-loop|one-batch N\n");
		return 2;
	}
	connect_ids(argv[1]);
	for (int i = 0; i < BATCH; i++)
		entries[i] = (struct rdmax_rdma){
			.addr = &here[i], .length = LENGTH, .mr = local,
			.remote_addr = (uintptr_t)&there[i], .rkey = remote->rkey,
			.flags = i == BATCH - 1 ? IBV_SEND_SIGNALED : 0,
		};
	provider = id->qp->context->ops.post_send;
	id->qp->context->ops.post_send = counting;
	if (!strcmp(argv[2], "compare")) {
		compare();
		return 0;
	}
	for (int way = 0; argc == 4 && way < WAYS; way++)
		for (int i = 0; !strcmp(argv[2], ways[way].name) && i < atoi(argv[3]); i++) {
			ways[way].post(ways[way].reads);
			complete();
		}
	return 0;
}
