/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * epoll_server server ADDRESS CLIENTS
 * epoll_server client ADDRESS PORT
 *
 * One thread serves several clients at once. It waits only in epoll_wait, for
 * connection events and all clients' completions. It answers each request with the
 * request's FNV-1a checksum, which the client verifies. The server ends after CLIENTS
 * clients have come and gone.
 */
#define _DEFAULT_SOURCE 1
#include <fcntl.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "ext_common.h"

#define WINDOW		8	/* unanswered requests of a client */
#define ROUNDS		125
#define REQUESTS	(WINDOW * ROUNDS)	/* of each client */
#define SLOTS		(2 * WINDOW)
#define RNR_FOREVER	7	/* the peer retries until there is a receive */

/* Requests and answers, in network byte order. */
struct message {
	uint64_t number;
	uint64_t value;
};

/* --- server --------------------------------------------------------------------- */

struct server {
	int epoll;
	struct rdma_event_channel *channel;
	struct rdma_addrinfo *address;
	struct rdma_cm_id *listener;
	int clients;		/* yet to connect or to end */
	int failures;
};

/*
 * A slot is the buffer first of a receive, then of the send that answers it, and the
 * wr_id of both. There are twice as many as the client's window, since the client may
 * have an answer, and send its next request, before this side has the completion of
 * the send.
 */
struct client {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint64_t answered;
	struct message slots[SLOTS];
};

static int post_receive(struct client *c, struct message *slot)
{
	if (rdma_post_recv(c->id, slot, slot, sizeof(*slot), c->mr))
		return failed_errno("rdma_post_recv");
	return 0;
}

static int answer(struct client *c, struct message *slot, size_t length)
{
	if (length != sizeof(*slot) || be64toh(slot->number) != c->answered)
		return failed("receive of a request", "not the next request");
	slot->value = htobe64(fnv1a(slot, sizeof(*slot)));
	c->answered++;
	if (rdma_post_send(c->id, slot, slot, sizeof(*slot), c->mr,
			   IBV_SEND_SIGNALED))
		return failed_errno("rdma_post_send");
	return 0;
}

/* Requests flushed when the connection ended are an effect, not a cause. */
static int done(const char *what, const struct ibv_wc *wc)
{
	return wc->status == IBV_WC_WR_FLUSH_ERR ? -1 : completed(what, wc);
}

static int take_receives(struct client *c, const struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++)
		if (done("receive of a request", &wc[i]) ||
		    answer(c, (void *)(uintptr_t)wc[i].wr_id, wc[i].byte_len))
			return -1;
	return 0;
}

static int take_sends(struct client *c, const struct ibv_wc *wc, int n)
{
	for (int i = 0; i < n; i++)
		if (done("send of an answer", &wc[i]) ||
		    post_receive(c, (void *)(uintptr_t)wc[i].wr_id))
			return -1;
	return 0;
}

/*
 * Arm, then poll. A call with timeout 0 that returns 0 has armed the queue, polled once
 * more after that, and left no old event in the channel: the next completion makes the
 * descriptor readable. So take completions from both queues until there are none before
 * going back to epoll_wait. Stopping earlier means waiting, perhaps forever, for an
 * event that was not requested.
 */
static int serve_queues(struct client *c)
{
	struct ibv_wc wc[SLOTS];
	int received, sent;

	do {
		received = rdmax_get_recv_comps(c->id, wc, SLOTS, 0);
		if (received < 0)
			return failed_errno("rdmax_get_recv_comps");
		if (take_receives(c, wc, received))
			return -1;
		sent = rdmax_get_send_comps(c->id, wc, SLOTS, 0);
		if (sent < 0)
			return failed_errno("rdmax_get_send_comps");
		if (take_sends(c, wc, sent))
			return -1;
	} while (received || sent);
	return 0;
}

static int watch(struct server *s, int fd, void *what)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };

	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event))
		return failed_errno("epoll_ctl");
	return 0;
}

static void unwatch(struct server *s, int fd)
{
	if (epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL))
		failed_errno("epoll_ctl");
}

/*
 * A client that fails is removed from epoll and disconnected. This causes a DISCONNECTED
 * event, as if it had disconnected itself, which closes it.
 */
static void serve_client(struct server *s, struct client *c)
{
	if (!serve_queues(c))
		return;
	unwatch(s, rdmax_recv_comp_fd(c->id));
	unwatch(s, rdmax_send_comp_fd(c->id));
	if (rdma_disconnect(c->id))
		failed_errno("rdma_disconnect");
}

/* rdma_create_qp creates the two completion queues, with a channel for each. */
static int create_queues(struct client *c)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = SLOTS,
			.max_recv_wr = SLOTS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(c->id, NULL, &attr))
		return failed_errno("rdma_create_qp");
	c->mr = rdma_reg_msgs(c->id, c->slots, sizeof(c->slots));
	if (!c->mr)
		return failed_errno("rdma_reg_msgs");
	for (int i = 0; i < SLOTS; i++)
		if (post_receive(c, &c->slots[i]))
			return -1;
	return 0;
}

/* serve_queues arms the queues before anything can arrive. */
static int accept_client(struct server *s, struct client *c)
{
	struct rdma_conn_param param = {
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_FOREVER,
	};

	if (create_queues(c) || watch(s, rdmax_recv_comp_fd(c->id), c) ||
	    watch(s, rdmax_send_comp_fd(c->id), c) || serve_queues(c))
		return -1;
	if (rdma_accept(c->id, &param))
		return failed_errno("rdma_accept");
	return 0;
}

/*
 * Drain first: no request may be outstanding when its memory is deregistered.
 * Destroying the queues closes their descriptors, which removes them from epoll.
 */
static void close_client(struct server *s, struct client *c)
{
	if (c->id->qp && rdmax_drain(c->id, WAIT_MS, NULL, NULL))
		failed_errno("rdmax_drain");
	if (c->mr && rdma_dereg_mr(c->mr))
		failed_errno("rdma_dereg_mr");
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (rdma_destroy_id(c->id))
		failed_errno("rdma_destroy_id");
	printf("server: a client has ended, answered %" PRIu64 " of %d\n",
	       c->answered, REQUESTS);
	if (c->answered != REQUESTS)
		s->failures++;
	s->clients--;
	free(c);
}

static int open_client(struct server *s, struct rdma_cm_id *id)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return failed_errno("calloc");
	c->id = id;
	id->context = c;
	if (accept_client(s, c))
		close_client(s, c);
	return 0;
}

/*
 * Acknowledge the event before handling it: an id cannot be destroyed while it has an
 * unacknowledged event.
 */
static int serve_channel(struct server *s)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;
	struct rdma_cm_id *id;

	if (rdma_get_cm_event(s->channel, &event))
		return errno == EAGAIN ? 0 : failed_errno("rdma_get_cm_event");
	type = event->event;
	id = event->id;
	if (rdma_ack_cm_event(event))
		return failed_errno("rdma_ack_cm_event");
	switch (type) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return open_client(s, id);
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		close_client(s, id->context);
		return 0;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return failed(rdma_event_str(type), "the device is gone");
	default:
		return 0;	/* ESTABLISHED, TIMEWAIT_EXIT */
	}
}

/* A process that was stopped or is traced may wake without an event. */
static int await_event(struct server *s, struct epoll_event *event)
{
	int n;

	do
		n = epoll_wait(s->epoll, event, 1, -1);
	while (n < 0 && errno == EINTR);
	return n == 1 ? 0 : -1;
}

/*
 * One event at a time: the first of two could close the client that the second is for.
 * An event not taken now is reported again, since epoll is level-triggered here.
 */
static int loop(struct server *s)
{
	struct epoll_event event;

	while (s->clients) {
		begin("wait for an event");
		if (await_event(s, &event))
			return failed_errno("epoll_wait");
		if (event.data.ptr != s)
			serve_client(s, event.data.ptr);
		else if (serve_channel(s))
			return -1;
	}
	return s->failures ? failed("NOT verified", "clients have failed") : 0;
}

/* The channel is non-blocking, since an event may turn out to be gone. */
static int open_channel(struct server *s)
{
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (s->epoll < 0)
		return failed_errno("epoll_create1");
	s->channel = rdma_create_event_channel();
	if (!s->channel)
		return failed_errno("rdma_create_event_channel");
	if (fcntl(s->channel->fd, F_SETFL, O_NONBLOCK))
		return failed_errno("fcntl");
	return watch(s, s->channel->fd, s);
}

/* With an event channel, an id is asynchronous, and so are the ids it creates. */
static int listen_on(struct server *s, const char *address)
{
	if (resolve(address, NULL, RAI_PASSIVE, &s->address))
		return -1;
	if (rdma_create_id(s->channel, &s->listener, NULL, RDMA_PS_TCP))
		return failed_errno("rdma_create_id");
	if (rdma_bind_addr(s->listener, s->address->ai_src_addr))
		return failed_errno("rdma_bind_addr");
	if (rdma_listen(s->listener, s->clients))
		return failed_errno("rdma_listen");
	printf("server: listening on %s port %u\n", address,
	       ntohs(rdma_get_src_port(s->listener)));
	return 0;
}

/* If the loop failed, the remaining clients end with the process. */
static int run_server(const char *address, int clients)
{
	struct server s = { .epoll = -1, .clients = clients };
	int ret;

	begin("listen");
	ret = open_channel(&s) || listen_on(&s, address) || loop(&s);
	if (!ret)
		printf("server: verified, %d clients were answered %d times "
		       "each\n", clients, REQUESTS);
	if (s.listener && rdma_destroy_id(s.listener))
		ret = failed_errno("rdma_destroy_id");
	if (s.address)
		rdma_freeaddrinfo(s.address);
	if (s.channel)
		rdma_destroy_event_channel(s.channel);
	if (s.epoll >= 0)
		close(s.epoll);
	return ret;
}

/* --- client --------------------------------------------------------------------- */

struct caller {
	struct rdma_addrinfo *address;
	struct rdma_cm_id *id;
	bool connected;
	struct {
		struct message requests[WINDOW];
		struct message answers[WINDOW];
	} messages;
	struct ibv_mr *mr;
};

static int connect_server(struct caller *c, const char *address,
			  const char *port)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = WINDOW,
			.max_recv_wr = WINDOW,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_conn_param param = {
		.retry_count = RETRIES,
		.rnr_retry_count = RNR_FOREVER,
	};

	begin("connect");
	if (resolve(address, port, 0, &c->address))
		return -1;
	if (rdma_create_ep(&c->id, c->address, NULL, &attr))
		return failed_errno("rdma_create_ep");
	c->mr = rdma_reg_msgs(c->id, &c->messages, sizeof(c->messages));
	if (!c->mr)
		return failed_errno("rdma_reg_msgs");
	if (rdma_connect(c->id, &param))
		return failed_errno("rdma_connect");
	c->connected = true;
	return 0;
}

/* The receives first: an answer must never find that there is none. */
static int ask(struct caller *c, uint64_t round)
{
	struct rdmax_recv_wr recvs[WINDOW];
	struct rdmax_send_wr sends[WINDOW];
	struct ibv_sge to[WINDOW], from[WINDOW];
	int posted;

	for (int i = 0; i < WINDOW; i++) {
		struct message *request = &c->messages.requests[i];
		struct message *answer = &c->messages.answers[i];

		request->number = htobe64(round * WINDOW + (uint64_t)i);
		request->value = htobe64((uint64_t)getpid());
		to[i] = (struct ibv_sge){
			(uintptr_t)answer, sizeof(*answer), c->mr->lkey
		};
		from[i] = (struct ibv_sge){
			(uintptr_t)request, sizeof(*request), c->mr->lkey
		};
		recvs[i] = (struct rdmax_recv_wr){
			.context = answer,
			.sgl = &to[i],
			.nsge = 1,
		};
		sends[i] = (struct rdmax_send_wr){
			.opcode = IBV_WR_SEND,
			.sgl = &from[i],
			.nsge = 1,
			.flags = i == WINDOW - 1 ? IBV_SEND_SIGNALED : 0,
		};
	}
	if (rdmax_post_recvs(c->id, recvs, sizeof(*recvs), WINDOW, &posted))
		return failed_errno("rdmax_post_recvs");
	if (rdmax_post_sends(c->id, sends, sizeof(*sends), WINDOW, &posted))
		return failed_errno("rdmax_post_sends");
	return 0;
}

static int check(const struct caller *c, int i)
{
	const struct message *request = &c->messages.requests[i];
	const struct message *answer = &c->messages.answers[i];

	if (answer->number != request->number ||
	    be64toh(answer->value) != fnv1a(request, sizeof(*request)))
		return failed("NOT verified", "a wrong answer");
	return 0;
}

/* Answers arrive in the order of the requests, several at a time. */
static int take_answers(struct caller *c)
{
	struct ibv_wc wc[WINDOW];
	int taken = 0, n;

	while (taken < WINDOW) {
		n = rdmax_get_recv_comps(c->id, wc, WINDOW - taken, 0);
		if (n < 0)
			return failed_errno("rdmax_get_recv_comps");
		if (!n && await_readable(c->id, rdmax_recv_comp_fd(c->id)))
			return -1;
		for (int i = 0; i < n; i++, taken++)
			if (completed("receive of an answer", &wc[i]) ||
			    check(c, taken))
				return -1;
	}
	return 0;
}

static int call(struct caller *c, const char *address, const char *port)
{
	if (connect_server(c, address, port))
		return -1;
	begin("ask the server");
	for (uint64_t round = 0; round < ROUNDS; round++)
		if (ask(c, round) || take_answers(c) ||
		    await_batch(c->id, "send of a request"))
			return -1;
	printf("client: verified, %d answers\n", REQUESTS);
	return 0;
}

static int run_client(const char *address, const char *port)
{
	static struct caller caller;
	struct caller *c = &caller;
	int ret = call(c, address, port);

	begin("release everything");
	if (c->connected && rdmax_drain(c->id, WAIT_MS, NULL, NULL))
		ret = failed_errno("rdmax_drain");
	if (c->connected && rdma_disconnect(c->id))
		ret = failed_errno("rdma_disconnect");
	if (c->mr && rdma_dereg_mr(c->mr))
		ret = failed_errno("rdma_dereg_mr");
	if (c->id)
		rdma_destroy_ep(c->id);
	if (c->address)
		rdma_freeaddrinfo(c->address);
	return ret;
}

int main(int argc, char **argv)
{
	return run_role(argc, argv, "epoll_server", run_server, run_client);
}
