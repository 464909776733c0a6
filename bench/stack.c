/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What RDMA reads and messages of 8 bytes cost on a device, posted and waited for in
 * different ways.
 *
 *	stack ADDRESS			times, in which the ways alternate, and how often
 *					the provider's post_send was called
 *	stack ADDRESS WORK WAY N	one way N times, for strace, which counts the system
 *					calls; prints how often post_send was called
 *
 * The first prints lines of CSV: section, work, way, unit, median, lower and upper
 * quartile. The peer is a thread of this process.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rdma/rdma_verbs.h>

#include "stack.h"
#include "statistics.h"

enum { ROUNDS = 201, WARM_UP = 20, MOST_WAYS = 32 };

struct rdma_cm_id *id;
struct ibv_mr *local, *remote;
char here[BATCH * LENGTH], there[BATCH * LENGTH];

static const struct way *ways[MOST_WAYS];
static int way_count;

_Noreturn void die(const char *what)
{
	perror(what);
	exit(EXIT_FAILURE);
}

void succeeded(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a request failed: %s\n", ibv_wc_status_str(wc->status));
		exit(EXIT_FAILURE);
	}
}

/* --- calls of the provider -------------------------------------------------------------- */

static int (*provider_post)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static unsigned long posts;

static int counting_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	posts++;
	return provider_post(qp, wr, bad);
}

static void compare(void)
{
	static double posting[MOST_WAYS][ROUNDS], whole[MOST_WAYS][ROUNDS];
	static double calls[MOST_WAYS][ROUNDS];

	for (int round = -WARM_UP; round < ROUNDS; round++)
		for (int w = 0; w < way_count; w++) {
			double start, posted;

			/* Not timed: the peer comes to rest after a message. */
			ways[0]->post();
			ways[0]->complete();
			posts = 0;
			start = now_ns();
			ways[w]->post();
			posted = now_ns();
			ways[w]->complete();
			if (round < 0)
				continue;
			posting[w][round] = (posted - start) / 1e3;
			whole[w][round] = (now_ns() - start) / 1e3;
			calls[w][round] = (double)posts;
		}
	for (int w = 0; w < way_count; w++) {
		const struct way *way = ways[w];

		print_row("stack: posting", way->work, way->name, "us", posting[w], ROUNDS);
		print_row("stack: until done", way->work, way->name, "us", whole[w], ROUNDS);
		print_row("stack: provider's post_send", way->work, way->name, "calls", calls[w],
			  ROUNDS);
	}
}

/* --- a connection with ourselves ------------------------------------------------------------ */

static struct rdma_event_channel *channel;
static struct rdma_cm_id *passive;

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
	struct rdma_cm_id *listener;
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

static void await_message(void)
{
	if (rdma_post_recv(passive, NULL, there, LENGTH, remote))
		die("rdma_post_recv");
}

static void *answer(void *unused)
{
	struct ibv_wc wc;

	while (rdma_get_recv_comp(passive, &wc) == 1) {
		succeeded(&wc);
		await_message();
		if (rdma_post_send(passive, NULL, there, LENGTH, remote, IBV_SEND_SIGNALED) ||
		    rdma_get_send_comp(passive, &wc) != 1)
			die("rdma_post_send");
		succeeded(&wc);
	}
	return unused;
}

static void start_peer(void)
{
	pthread_t thread;

	await_message();
	if ((errno = pthread_create(&thread, NULL, answer, NULL)))
		die("pthread_create");
}

/* --- the ways --------------------------------------------------------------------------------- */

static void add_ways(const struct way *of)
{
	for (; of->name; of++)
		ways[way_count++] = of;
}

static const struct way *find_way(const char *work, const char *name)
{
	for (int w = 0; w < way_count; w++)
		if (!strcmp(ways[w]->work, work) && !strcmp(ways[w]->name, name))
			return ways[w];
	return NULL;
}

static void repeat(const struct way *way, int times)
{
	while (times-- > 0) {
		way->post();
		way->complete();
	}
	printf("%lu\n", posts);
}

int main(int argc, char **argv)
{
	const struct way *way = NULL;

	add_ways(upstream_ways);
	add_ways(our_ways);
	if (argc != 2 && (argc != 5 || !(way = find_way(argv[2], argv[3])))) {
		fprintf(stderr, "usage: stack ADDRESS [WORK WAY N]\n");
		return 2;
	}
	connect_ids(argv[1]);
	start_peer();
	provider_post = id->qp->context->ops.post_send;
	id->qp->context->ops.post_send = counting_post;
	if (way)
		repeat(way, atoi(argv[4]));
	else
		compare();
	return 0;
}
