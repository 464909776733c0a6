/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * client ADDRESS PORT [NAME=NUMBER ...]
 *
 * The active side of the load: random reads, writes, atomics and messages on one or more
 * connections at once, each request with a number of its own. One thread posts, others
 * wait. At the end one line says what was counted; exit status 0 if nothing was lost,
 * taken twice, wrong or late, and all ended well; 3 if requests failed, as they must where
 * the peer or the wire is gone, and everything else was right.
 *
 *   rounds=N       requests of each connection (2000)
 *   seconds=N      go on for so long instead
 *   seed=N         of the random choices (1)
 *   connections=N  at once (1)
 *   threads=N      that wait on each side of each connection (1)
 *   retry=N        retry_count of the connections (6)
 *   storm=1        a signal each millisecond interrupts the waits
 *   nonblock=1     waits by poll(2), on channels that do not block
 *   onequeue=1     one completion queue for both sides
 *   late_ms=N      so much after its time a wait may end (300)
 *   lossy=1        packets come late or not at all: there soft-RoCE of Linux 6.1 carries each
 *                  atomic out once, but may return the result of an earlier one
 */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <unistd.h>

#include "load.h"

enum { BLOCK = 4096, MOST_THREADS = 8, GIVE_UP_MS = 60000 };

static uint64_t rounds = 2000, seconds, seed = 1, connections = 1, threads = 1, retry = 6;
static uint64_t storm, nonblock, onequeue, lossy;
static uint64_t late_ms = 300;

static const struct { const char *name; uint64_t *value; } options[] = {
	{ "rounds", &rounds }, { "seconds", &seconds }, { "seed", &seed },
	{ "connections", &connections }, { "threads", &threads }, { "retry", &retry },
	{ "storm", &storm }, { "nonblock", &nonblock }, { "onequeue", &onequeue },
	{ "lossy", &lossy }, { "late_ms", &late_ms },
};

/* --- what is counted, over all connections ---------------------------------------- */

static atomic_ulong posted, completed, twice, wrong, late, drain_failed;
/* Atomics whose result is of another one; each was carried out once all the same. */
static atomic_ulong stale;
static atomic_ulong first_failure_ms, disconnected_ms;
static atomic_uint first_status;
static atomic_bool any_failed;

enum operation { READ, WRITE, ADD, ASK };

/* A request in flight; its number in the queue is its slot and a count. */
struct slot {
	uint64_t number;	/* 0: free */
	enum operation operation;
	size_t offset, length;
	uint64_t expected;
};

struct connection {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct {
		uint8_t sink[AREA_BYTES];	/* as the peer's has to become */
		uint8_t blocks[DEPTH][BLOCK];
		uint64_t results[DEPTH];
		struct message questions[DEPTH];
		struct message answers[DEPTH];
	} memory;
	struct ibv_mr *mr;
	uint64_t remote;
	uint32_t rkey;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slot slots[DEPTH];
	unsigned int in_flight, answers_due;
	uint64_t next_number, asked, sum;
	uint64_t due[64];	/* numbers of questions, plus 1, until they are answered */
	uint64_t state;		/* of the random choices */
	atomic_bool failed, over;
	int verdict;		/* the peer's: -1 if there is none yet */
};

static uint64_t chance(struct connection *c, uint64_t below)
{
	c->state = mix(c->state);
	return c->state % below;
}

/* --- connection ----------------------------------------------------------------------- */

static int expect(struct connection *c, enum rdma_cm_event_type type)
{
	struct pollfd fd = { .fd = c->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	int n, same;

	do
		n = poll(&fd, 1, GIVE_UP_MS);
	while (n < 0 && errno == EINTR);
	if (n < 1 || rdma_get_cm_event(c->channel, &event))
		return failed("rdma_get_cm_event");
	same = event->event == type;
	if (!same)
		fprintf(stderr, "client: %s, status %d\n", rdma_event_str(event->event),
			event->status);
	rdma_ack_cm_event(event);
	return same ? 0 : -1;
}

/* rdma_destroy_qp destroys the queue and the channel with the ones of an id. */
static int one_queue(struct connection *c, struct ibv_qp_init_attr *attr)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(c->id->verbs);
	struct ibv_cq *cq = channel ? ibv_create_cq(c->id->verbs, 4 * DEPTH, NULL, channel, 0) :
				      NULL;

	if (!cq)
		return failed("ibv_create_cq");
	attr->send_cq = attr->recv_cq = cq;
	c->id->send_cq = c->id->recv_cq = cq;
	c->id->send_cq_channel = c->id->recv_cq_channel = channel;
	return 0;
}

static int create_queues(struct connection *c)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	if (onequeue && one_queue(c, &attr))
		return -1;
	if (rdma_create_qp(c->id, NULL, &attr))
		return failed("rdma_create_qp");
	if (nonblock && (fcntl(c->id->send_cq_channel->fd, F_SETFL, O_NONBLOCK) ||
			 fcntl(c->id->recv_cq_channel->fd, F_SETFL, O_NONBLOCK)))
		return failed("fcntl");
	return 0;
}

static int post_receive(struct connection *c, struct message *m)
{
	return rdma_post_recv(c->id, m, m, sizeof(*m), c->mr) ? failed("rdma_post_recv") : 0;
}

static int connect_to(struct connection *c, struct sockaddr *to)
{
	struct rdma_conn_param param = {
		.responder_resources = DEPTH, .initiator_depth = DEPTH,
		.retry_count = (uint8_t)retry, .rnr_retry_count = RNR_FOR_EVER,
	};

	c->channel = rdma_create_event_channel();
	if (!c->channel || rdma_create_id(c->channel, &c->id, NULL, RDMA_PS_TCP))
		return failed("rdma_create_id");
	if (rdma_resolve_addr(c->id, NULL, to, 2000) ||
	    expect(c, RDMA_CM_EVENT_ADDR_RESOLVED) || rdma_resolve_route(c->id, 2000) ||
	    expect(c, RDMA_CM_EVENT_ROUTE_RESOLVED) || create_queues(c))
		return -1;
	c->mr = rdma_reg_msgs(c->id, &c->memory, sizeof(c->memory));
	if (!c->mr)
		return failed("rdma_reg_msgs");
	for (int i = 0; i < DEPTH; i++)
		if (post_receive(c, &c->memory.answers[i]))
			return -1;
	if (rdma_connect(c->id, &param))
		return failed("rdma_connect");
	return expect(c, RDMA_CM_EVENT_ESTABLISHED);
}

/* --- completions ------------------------------------------------------------------------- */

static void note_failure(struct connection *c, const struct ibv_wc *wc)
{
	unsigned long none = 0;

	c->failed = 1;
	any_failed = 1;
	/* Flushed is what came behind the request that failed. */
	if (wc->status != IBV_WC_WR_FLUSH_ERR &&
	    atomic_compare_exchange_strong(&first_failure_ms, &none, now_ms()))
		first_status = wc->status;
}

static void report_wrong(const char *what)
{
	wrong++;
	fprintf(stderr, "client: wrong: the %s\n", what);
}

static int is_right(const struct slot *slot, const uint8_t *block)
{
	for (size_t i = 0; slot->operation == READ && i < slot->length; i++)
		if (block[i] != source_byte(slot->offset + i))
			return 0;
	return 1;
}

/* A request of the send queue is done: it must be one that was in flight. */
static void sent(struct connection *c, const struct ibv_wc *wc)
{
	size_t index = wc->wr_id % DEPTH;
	struct slot *slot = &c->slots[index];

	if (slot->number != wc->wr_id) {
		twice++;
		return;
	}
	completed++;
	c->in_flight--;
	slot->number = 0;
	if (wc->status)
		note_failure(c, wc);
	else if (slot->operation == ADD)
		stale += c->memory.results[index] != slot->expected;
	else if (!is_right(slot, c->memory.blocks[index]))
		report_wrong("read");
}

static void received(struct connection *c, const struct ibv_wc *wc)
{
	struct message *m = (void *)(uintptr_t)wc->wr_id;

	if (wc->status) {
		note_failure(c, wc);
		return;
	}
	switch (m->kind) {
	case HELLO:
		c->remote = m->addr;
		c->rkey = m->rkey;
		break;
	case PING:
		if (c->due[m->number % 64] != m->number + 1 || m->value != mix(m->number))
			report_wrong("answer");
		c->due[m->number % 64] = 0;
		c->answers_due--;
		break;
	case END:
		c->verdict = m->value == 1;
		break;
	}
	if (post_receive(c, m))
		c->failed = 1;
}

static void take(struct connection *c, const struct ibv_wc *wc)
{
	pthread_mutex_lock(&c->lock);
	if (wc->wr_id > UINT32_MAX)	/* the address of a message */
		received(c, wc);
	else
		sent(c, wc);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

/* The plain helper on a channel that does not block, as users of epoll do. */
static int wait_by_poll(struct rdma_cm_id *id, int side, struct ibv_wc *wc, int ms)
{
	struct pollfd fd = {
		.fd = side ? id->recv_cq_channel->fd : id->send_cq_channel->fd,
		.events = POLLIN,
	};
	int n = side ? rdma_get_recv_comp(id, wc) : rdma_get_send_comp(id, wc);

	if (n < 0 && errno == EAGAIN) {
		poll(&fd, 1, ms);
		return 0;
	}
	return n;
}

/* How late a plain sleep was at worst: so much of a wait is the busy machine's. */
static atomic_ulong machine_late_ms;

static void *watch_machine(void *unused)
{
	for (;;) {
		uint64_t begun = now_ms(), late_by;

		usleep(10000);
		late_by = now_ms() - begun - 10;
		if (late_by < UINT32_MAX && late_by > machine_late_ms)
			machine_late_ms = late_by;
	}
	return unused;
}

static int wait_once(struct connection *c, int side, struct ibv_wc *wc, int ms)
{
	uint64_t begun = now_ms();
	int n;

	if (nonblock)
		n = wait_by_poll(c->id, side, wc, ms);
	else if (side)
		n = rdmax_get_recv_comp(c->id, wc, ms);
	else
		n = rdmax_get_send_comp(c->id, wc, ms);
	if (now_ms() - begun > (uint64_t)ms + late_ms + machine_late_ms)
		late++;
	return n;
}

static void *wait_on(struct connection *c, int side)
{
	uint64_t state = mix(seed ^ (uintptr_t)&state);
	struct ibv_wc wc;

	while (!c->over) {
		int n;

		state = mix(state);
		n = wait_once(c, side, &wc, (int)(state % SLICE_MS));
		if (n < 0 && errno != EINTR) {
			failed("waiting");
			c->failed = 1;
		}
		if (n > 0)
			take(c, &wc);
	}
	return NULL;
}

static void *wait_for_sends(void *connection)
{
	return wait_on(connection, 0);
}

static void *wait_for_receives(void *connection)
{
	return wait_on(connection, 1);
}

/* Whoever looks at the events knows of the peer's end before its requests fail. */
static void *wait_for_events(void *argument)
{
	struct connection *c = argument;
	struct pollfd fd = { .fd = c->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	while (!c->over) {
		if (poll(&fd, 1, SLICE_MS) < 1 || rdma_get_cm_event(c->channel, &event))
			continue;
		if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
			unsigned long none = 0;

			atomic_compare_exchange_strong(&disconnected_ms, &none, now_ms());
			c->failed = 1;
		}
		rdma_ack_cm_event(event);
	}
	return NULL;
}

/* --- requests ---------------------------------------------------------------------------- */

/* With the lock held. A slot is free when there are less than DEPTH in flight. */
static struct slot *free_slot(struct connection *c, size_t *index)
{
	for (*index = 0; c->slots[*index].number; ++*index)
		;
	return &c->slots[*index];
}

static int post(struct connection *c, struct slot *s, size_t index)
{
	void *context = (void *)(uintptr_t)s->number;
	uint64_t remote = c->remote + offsetof(struct area, sink) + s->offset;
	struct message *question = &c->memory.questions[index];

	switch (s->operation) {
	case READ:
		return rdma_post_read(c->id, context, c->memory.blocks[index], s->length, c->mr,
				      IBV_SEND_SIGNALED,
				      c->remote + offsetof(struct area, source) + s->offset,
				      c->rkey);
	case WRITE:
		for (size_t i = 0; i < s->length; i++)
			c->memory.blocks[index][i] = (uint8_t)mix(s->number + i);
		memcpy(c->memory.sink + s->offset, c->memory.blocks[index], s->length);
		return rdma_post_write(c->id, context, c->memory.blocks[index], s->length, c->mr,
				       IBV_SEND_SIGNALED, remote, c->rkey);
	case ADD:
		s->expected = c->sum;
		c->sum += s->number;
		return rdmax_post_atomic_faa(c->id, context, &c->memory.results[index], c->mr,
					     IBV_SEND_SIGNALED,
					     c->remote + offsetof(struct area, counter), c->rkey,
					     s->number);
	case ASK:
		*question = (struct message){ .kind = PING, .number = c->asked++ };
		c->due[question->number % 64] = c->asked;
		c->answers_due++;
		return rdma_post_send(c->id, context, question, sizeof(*question), c->mr,
				      IBV_SEND_SIGNALED);
	}
	return -1;
}

static void request(struct connection *c)
{
	size_t index;
	struct slot *s = free_slot(c, &index);

	s->operation = (enum operation)chance(c, c->answers_due < PINGS ? 4 : 3);
	s->length = chance(c, BLOCK + 1);
	s->offset = chance(c, AREA_BYTES - s->length + 1);
	s->number = ++c->next_number * DEPTH + index;
	c->in_flight++;
	posted++;
	if (post(c, s, index)) {
		failed("posting");
		c->failed = 1;
		s->number = 0;
		c->in_flight--;
		posted--;
	}
}

/* With the lock held: waits until it is so, the connection has failed, or too long. */
#define await(c, condition)                                                           \
	do {                                                                          \
		struct timespec limit;                                                \
                                                                                      \
		clock_gettime(CLOCK_REALTIME, &limit);                                \
		limit.tv_sec += GIVE_UP_MS / 1000;                                    \
		while (!(condition) && !(c)->failed &&                                \
		       !pthread_cond_timedwait(&(c)->changed, &(c)->lock, &limit))    \
			;                                                             \
	} while (0)

/* The end: the peer compares what it has with what this side has made of it. */
static void ask_for_verdict(struct connection *c)
{
	struct message *question = &c->memory.questions[0];

	await(c, !c->in_flight && !c->answers_due);
	if (c->failed)
		return;
	*question = (struct message){
		.kind = END, .number = c->asked, .value = c->sum,
		.sink = checksum(c->memory.sink, AREA_BYTES),
	};
	c->slots[0] = (struct slot){ .number = ++c->next_number * DEPTH, .operation = ASK };
	c->in_flight++;
	posted++;
	if (rdma_post_send(c->id, (void *)(uintptr_t)c->slots[0].number, question,
			   sizeof(*question), c->mr, IBV_SEND_SIGNALED))
		c->failed = 1;
	await(c, !c->in_flight && c->verdict >= 0);
	if (!c->failed && c->verdict != 1)
		report_wrong("memory of the peer");
}

static void run_requests(struct connection *c)
{
	uint64_t end = now_ms() + seconds * 1000;

	pthread_mutex_lock(&c->lock);
	await(c, c->rkey);
	for (uint64_t i = 0; !c->failed && (seconds ? now_ms() < end : i < rounds); i++) {
		await(c, c->in_flight < DEPTH);
		if (!c->failed && c->in_flight < DEPTH)
			request(c);
	}
	ask_for_verdict(c);
	pthread_mutex_unlock(&c->lock);
}

/*
 * After a failure all that was in flight must come back, too, with an error: the queue
 * pair is moved to the error state, as it may not be there yet.
 */
static void finish(struct connection *c)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	uint64_t end = now_ms() + 5000;

	if (c->failed)
		ibv_modify_qp(c->id->qp, &error, IBV_QP_STATE);
	while (c->in_flight && now_ms() < end)
		usleep(1000);
}

static void release(struct connection *c)
{
	if (c->id->qp && rdmax_drain(c->id, 5000, NULL, NULL)) {
		failed("rdmax_drain");
		drain_failed++;
	}
	if (c->id->qp)
		rdma_disconnect(c->id);
	if (c->mr && rdma_dereg_mr(c->mr))
		failed("rdma_dereg_mr");
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (rdma_destroy_id(c->id))
		failed("rdma_destroy_id");
	rdma_destroy_event_channel(c->channel);
}

static void *run_connection(void *argument)
{
	struct connection *c = argument;
	pthread_t waiting[2 * MOST_THREADS], events;

	for (uint64_t i = 0; i < threads; i++) {
		pthread_create(&waiting[2 * i], NULL, wait_for_sends, c);
		pthread_create(&waiting[2 * i + 1], NULL, wait_for_receives, c);
	}
	pthread_create(&events, NULL, wait_for_events, c);
	run_requests(c);
	finish(c);
	c->over = 1;
	for (uint64_t i = 0; i < 2 * threads; i++)
		pthread_join(waiting[i], NULL);
	pthread_join(events, NULL);
	return NULL;
}

/* --- the whole ----------------------------------------------------------------------------- */

static void interrupted(int signo)
{
	(void)signo;
}

static void start_storm(void)
{
	struct sigaction action = { .sa_handler = interrupted };
	struct itimerval each = { { 0, 1000 }, { 0, 1000 } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
}

static int set_option(const char *option)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		size_t length = strlen(options[i].name);

		if (!strncmp(option, options[i].name, length) && option[length] == '=') {
			*options[i].value = strtoull(option + length + 1, NULL, 10);
			return 0;
		}
	}
	fprintf(stderr, "client: no option is called %s\n", option);
	return -1;
}

static struct connection *open_all(struct sockaddr *to)
{
	struct connection *all = calloc(connections, sizeof(*all));

	for (uint64_t i = 0; all && i < connections; i++) {
		pthread_mutex_init(&all[i].lock, NULL);
		pthread_cond_init(&all[i].changed, NULL);
		all[i].state = mix(seed + i);
		all[i].verdict = -1;
		if (connect_to(&all[i], to))
			return NULL;
	}
	return all;
}

static void run_all(struct connection *all)
{
	pthread_t *running = calloc(connections, sizeof(*running));

	for (uint64_t i = 0; running && i < connections; i++)
		pthread_create(&running[i], NULL, run_connection, &all[i]);
	for (uint64_t i = 0; running && i < connections; i++)
		pthread_join(running[i], NULL);
	for (uint64_t i = 0; i < connections; i++)
		release(&all[i]);
	free(running);
	free(all);
}

int main(int argc, char **argv)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct connection *all;
	pthread_t watch;

	if (argc < 3 || inet_pton(AF_INET, argv[1], &in.sin_addr) != 1)
		return 2;
	in.sin_port = htons((uint16_t)atoi(argv[2]));
	for (int i = 3; i < argc; i++)
		if (set_option(argv[i]))
			return 2;
	if (threads > MOST_THREADS)
		return 2;
	all = open_all((struct sockaddr *)&in);
	if (!all)
		return 1;
	pthread_create(&watch, NULL, watch_machine, NULL);
	printf("connected\n");
	fflush(stdout);
	if (storm)
		start_storm();
	run_all(all);
	printf("client: posted %lu, completed %lu, twice %lu, wrong %lu, late %lu, drains failed %lu, "
	       "stale atomics %lu", posted, completed, twice, wrong, late, drain_failed, stale);
	if (any_failed || disconnected_ms)
		printf("; %s at %lu ms, disconnected at %lu ms",
		       ibv_wc_status_str(first_status), first_failure_ms, disconnected_ms);
	printf("\n");
	if (posted != completed || twice || wrong || late || drain_failed || (stale && !lossy))
		return 1;
	return any_failed || disconnected_ms ? 3 : 0;
}
