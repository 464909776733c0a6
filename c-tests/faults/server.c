/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * server ADDRESS [srq]
 *
 * The passive side of the load: prints its port, serves any number of clients, each with
 * a thread, and prints a line for each that has gone. With SIGTERM it ends, and says
 * what it was.
 */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "load.h"

struct client {
	struct rdma_cm_id *id;
	struct area *area;
	struct message inbox[DEPTH];
	struct message outbox[DEPTH];
	struct ibv_mr *area_mr, *message_mr;
	atomic_bool gone;	/* the connection has ended */
	uint64_t answered;
	int sending;		/* answers whose completion is not there yet */
	const char *end;	/* what became of it */
};

static atomic_int clients;
static atomic_ulong total_answers, total_wrong, total_verified, total_cut_off;
static volatile sig_atomic_t stopped;
static int with_srq;

static void stop(int signo)
{
	(void)signo;
	stopped = 1;
}

static int post_receive(struct client *c, struct message *m)
{
	return rdma_post_recv(c->id, m, m, sizeof(*m), c->message_mr) ?
	       failed("rdma_post_recv") : 0;
}

static int send_message(struct client *c, struct message *m)
{
	if (rdma_post_send(c->id, m, m, sizeof(*m), c->message_mr, IBV_SEND_SIGNALED))
		return -1;
	c->sending++;
	return 0;
}

/* The counter and the sink must be what the client has made of them. */
static void judge(struct client *c, const struct message *end)
{
	int same = end->value == c->area->counter &&
		   end->sink == checksum(c->area->sink, AREA_BYTES) &&
		   end->number == c->answered;

	c->end = same ? "verified" : "WRONG";
}

static int answer(struct client *c, const struct ibv_wc *wc)
{
	struct message *question = (void *)(uintptr_t)wc->wr_id;
	struct message *reply = &c->outbox[question - c->inbox];

	*reply = *question;
	if (question->kind == END) {
		judge(c, question);
		reply->value = !strcmp(c->end, "verified");
	} else if (question->number == c->answered) {
		c->answered++;
		reply->value = mix(question->number);
	} else {
		c->end = "WRONG";	/* lost, or there twice */
		return -1;
	}
	return post_receive(c, question) || send_message(c, reply);
}

/* Until the client has gone, or a request has failed. */
static void serve(struct client *c)
{
	struct ibv_wc wc;
	int n;

	while (!c->gone && !stopped) {
		n = rdmax_get_recv_comp(c->id, &wc, SLICE_MS);
		if (n < 0 && errno != EINTR) {
			failed("rdmax_get_recv_comp");
			return;
		}
		if (n > 0 && (wc.status || answer(c, &wc)))
			return;
		while (c->sending && rdmax_get_send_comp(c->id, &wc, 0) > 0) {
			c->sending--;
			if (wc.status)
				return;
		}
	}
}

static int create_queues(struct client *c)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 2 * DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	if (with_srq && rdma_create_srq(c->id, NULL, &srq))
		return failed("rdma_create_srq");
	attr.srq = c->id->srq;
	if (rdma_create_qp(c->id, NULL, &attr))
		return failed("rdma_create_qp");
	return 0;
}

static int prepare(struct client *c)
{
	struct rdma_conn_param param = {
		.responder_resources = DEPTH, .initiator_depth = DEPTH,
		.rnr_retry_count = RNR_FOR_EVER,
	};

	c->area = aligned_alloc(4096, sizeof(*c->area) + 4096 - sizeof(*c->area) % 4096);
	if (!c->area || create_queues(c))
		return -1;
	memset(c->area, 0, sizeof(*c->area));
	for (size_t i = 0; i < AREA_BYTES; i++)
		c->area->source[i] = source_byte(i);
	c->area_mr = rdmax_reg(c->id, c->area, sizeof(*c->area),
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	c->message_mr = rdma_reg_msgs(c->id, c, sizeof(*c));
	if (!c->area_mr || !c->message_mr)
		return failed("rdma_reg_msgs");
	for (int i = 0; i < DEPTH; i++)
		if (post_receive(c, &c->inbox[i]))
			return -1;
	return rdma_accept(c->id, &param) ? failed("rdma_accept") : 0;
}

/* In the order of their making, backwards; each must succeed. */
static void release(struct client *c)
{
	if (c->id->qp && rdmax_drain(c->id, 5000, NULL, NULL))
		failed("rdmax_drain");
	if (c->area_mr && rdma_dereg_mr(c->area_mr))
		failed("rdma_dereg_mr");
	if (c->message_mr && rdma_dereg_mr(c->message_mr))
		failed("rdma_dereg_mr");
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->id->srq)
		rdma_destroy_srq(c->id);
	if (rdma_destroy_id(c->id))
		failed("rdma_destroy_id");
	free(c->area);
}

/*
 * Begins when the connection is established. The id is destroyed only when no more
 * events of it can come to another thread: after DISCONNECTED.
 */
static void *client_thread(void *argument)
{
	struct client *c = argument;
	struct message *hello = &c->outbox[0];

	*hello = (struct message){ .kind = HELLO, .rkey = c->area_mr->rkey,
				   .addr = (uintptr_t)c->area };
	if (!send_message(c, hello))
		serve(c);
	if (!c->gone)
		rdma_disconnect(c->id);
	while (!c->gone)
		usleep(1000);
	total_answers += c->answered;
	if (!c->end)
		total_cut_off++;
	else if (!strcmp(c->end, "verified"))
		total_verified++;
	else
		total_wrong++;
	release(c);
	free(c);
	clients--;
	return NULL;
}

static void start(struct client *c)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	if (pthread_create(&thread, &attr, client_thread, c)) {
		failed("pthread_create");
		exit(1);
	}
	pthread_attr_destroy(&attr);
}

static void requested(struct rdma_cm_id *id)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		exit(1);
	c->id = id;
	id->context = c;
	clients++;
	if (prepare(c)) {
		release(c);
		free(c);
		clients--;
	}
}

/* Each event is acknowledged before its id can be destroyed. */
static void take_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;
	struct client *c;

	if (rdma_get_cm_event(channel, &event))
		return;
	type = event->event;
	id = event->id;
	c = id->context;
	rdma_ack_cm_event(event);	/* from here on the id may be gone */
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		requested(id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		start(c);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		c->gone = 1;
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		release(c);	/* it was never established */
		free(c);
		clients--;
		break;
	default:
		break;
	}
}

static struct rdma_cm_id *listen_on(struct rdma_event_channel *channel, const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct rdma_cm_id *id;

	if (inet_pton(AF_INET, address, &in.sin_addr) != 1 ||
	    rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(id, (struct sockaddr *)&in) || rdma_listen(id, 256)) {
		failed("listen");
		exit(1);
	}
	printf("port %u\n", ntohs(rdma_get_src_port(id)));
	return id;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stop };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;

	if (argc < 2 || !channel)
		return 2;
	with_srq = argc > 2 && !strcmp(argv[2], "srq");
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGTERM, &action, NULL);
	listener = listen_on(channel, argv[1]);
	while (!stopped || clients) {
		struct pollfd fd = { .fd = channel->fd, .events = POLLIN };

		if (poll(&fd, 1, 100) > 0)
			take_event(channel);
	}
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(channel);
	printf("server: clients verified %lu, cut off %lu, wrong %lu; answers %lu\n",
	       total_verified, total_cut_off, total_wrong, total_answers);
	return total_wrong != 0;
}
