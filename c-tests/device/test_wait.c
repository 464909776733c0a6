/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting for completions on a device: interrupted, without blocking, and with two
 * threads on one id.
 */
#include "device.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum {
	EVENT_MS = 10000,	/* long before an event would be late */
	REQUESTS = 1000,
	STOP = REQUESTS,	/* the context that stops a thread */
	WAITERS = 2,
};

/* --- one side of a queue pair ----------------------------------------------------- */

typedef int getter(struct rdma_cm_id *id, struct ibv_wc *wc);

/* The completions of a message: of its send here, of its receive there. */
struct side {
	getter *get;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
};

static const int send_side = 0, recv_side = 1;

static struct side side_of(const struct link *link)
{
	if (*(const int *)link->parameter == recv_side)
		return (struct side){ rdma_get_recv_comp, link->passive,
				      link->passive->recv_cq_channel };
	return (struct side){ rdma_get_send_comp, link->active,
			      link->active->send_cq_channel };
}

/* An empty message; both of its completions have this context. */
static void pass_message(struct link *link, uint64_t context)
{
	must(rdma_post_recvv(link->passive, context_of(context), NULL, 0));
	must(rdma_post_sendv(link->active, context_of(context), NULL, 0, IBV_SEND_SIGNALED));
}

static int has_event(const struct side *side, int timeout_ms)
{
	struct pollfd fd = { .fd = side->channel->fd, .events = POLLIN };

	return poll(&fd, 1, timeout_ms);
}

#define take(side, context) \
	take_completion((side).get, (side).id, context, IBV_WC_SUCCESS, __FILE__, __LINE__)

/* --- interrupted, and not blocking ------------------------------------------------ */

static void on_signal(int signal)
{
	(void)signal;
}

/* Repeated signals: if the first comes before the wait, the next one does not. */
static timer_t start_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };	/* no SA_RESTART */
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec interval = {
		.it_value = { .tv_nsec = 50000000 },
		.it_interval = { .tv_nsec = 50000000 },
	};
	timer_t timer;

	must(sigaction(SIGUSR1, &action, NULL));
	must(timer_create(CLOCK_MONOTONIC, &event, &timer));
	must(timer_settime(timer, 0, &interval, NULL));
	return timer;
}

static void assert_interrupted(const struct side *side)
{
	timer_t timer = start_signals();
	struct ibv_wc wc;
	int result, error;

	errno = UNTOUCHED;
	result = side->get(side->id, &wc);
	error = errno;
	must(timer_delete(timer));	/* whatever the result: the tests continue */
	assert_int_equal(result, -1);
	assert_int_equal(error, EINTR);
}

/* The queue is left armed, so a completion raises an event without another call. */
static void interrupted(void **state)
{
	struct link *link = connected(state);
	struct side side = side_of(link);

	for (uint64_t i = 0; i < 3; i++) {
		assert_interrupted(&side);
		pass_message(link, i);
		assert_int_equal(has_event(&side, EVENT_MS), 1);
		take(side, i);
	}
}

/* An unsignaled request has no completion: the wait would not end by itself. */
static void interrupted_without_hope(void **state)
{
	struct link *link = connected(state);
	struct side side = side_of(link);

	assert_succeeds(rdma_post_write(link->active, context_of(1), NULL, 0, NULL, 0, 0, 0),
			0);
	assert_interrupted(&side);
	assert_succeeds(rdma_post_write(link->active, context_of(2), NULL, 0, NULL,
					IBV_SEND_SIGNALED, 0, 0), 0);
	take(side, 2);
}

static void not_blocking(void **state)
{
	struct link *link = connected(state);
	struct side side = side_of(link);
	struct ibv_wc wc;

	must(fcntl(side.channel->fd, F_SETFL,
		   fcntl(side.channel->fd, F_GETFL) | O_NONBLOCK));
	for (uint64_t i = 0; i < 3; i++) {
		assert_fails(side.get(side.id, &wc), EAGAIN);
		assert_int_equal(has_event(&side, 0), 0);
		pass_message(link, i);
		assert_int_equal(has_event(&side, EVENT_MS), 1);
		take(side, i);
	}
	/* The last event is still there; it is taken once, then there is none. */
	assert_int_equal(has_event(&side, 0), 1);
	assert_fails(side.get(side.id, &wc), EAGAIN);
	assert_int_equal(has_event(&side, 0), 0);
}

/* --- two threads ------------------------------------------------------------------ */

/*
 * cmocka's assertions work only in the main thread. Other threads count what is wrong, and
 * the main thread checks the count at the end.
 */
struct shared {
	struct rdma_cm_id *id;
	sem_t room;		/* how many more requests the queues can hold */
	sem_t stopped;
	atomic_int faults;
	atomic_int taken[REQUESTS];
};

static void share(struct shared *shared, struct link *link)
{
	*shared = (struct shared){ .id = link->active };
	must(sem_init(&shared->room, 0, SEND_DEPTH));
	must(sem_init(&shared->stopped, 0, 0));
}

static int post_request(struct rdma_cm_id *id, uint64_t context)
{
	return rdma_post_write(id, context_of(context), NULL, 0, NULL, IBV_SEND_SIGNALED,
			       0, 0);
}

/* Posts requests that succeed, alternating with ones that fail: errno is per thread. */
static void *post_all(void *argument)
{
	static uint8_t too_long[1 << 20];
	struct shared *shared = argument;

	for (uint64_t i = 0; i < REQUESTS; i++) {
		sem_wait(&shared->room);
		errno = 0;
		if (rdma_post_send(shared->id, NULL, too_long, sizeof(too_long), NULL,
				   IBV_SEND_INLINE) != -1 || !errno)
			shared->faults++;
		errno = UNTOUCHED;
		if (post_request(shared->id, i) || errno != UNTOUCHED)
			shared->faults++;
	}
	return NULL;
}

static void posting_and_waiting(void **state)
{
	static struct shared shared;
	struct link *link = connected(state);
	pthread_t poster;

	share(&shared, link);
	must(pthread_create(&poster, NULL, post_all, &shared));
	for (uint64_t i = 0; i < REQUESTS; i++) {
		take_send(link->active, i, IBV_WC_SUCCESS);
		must(sem_post(&shared.room));
	}
	must(pthread_join(poster, NULL));
	assert_int_equal(shared.faults, 0);
}

static void *take_until_stop(void *argument)
{
	struct shared *shared = argument;
	struct ibv_wc wc;

	for (;;) {
		errno = UNTOUCHED;
		if (rdma_get_send_comp(shared->id, &wc) != 1 || errno != UNTOUCHED ||
		    wc.status != IBV_WC_SUCCESS || wc.wr_id > STOP)
			break;
		if (wc.wr_id == STOP) {
			sem_post(&shared->stopped);
			return NULL;
		}
		shared->taken[wc.wr_id]++;
		sem_post(&shared->room);
	}
	shared->faults++;
	sem_post(&shared->stopped);
	return NULL;
}

static void two_waiting(void **state)
{
	static struct shared shared;
	struct link *link = connected(state);
	pthread_t waiters[WAITERS];

	share(&shared, link);
	for (size_t i = 0; i < WAITERS; i++)
		must(pthread_create(&waiters[i], NULL, take_until_stop, &shared));
	for (uint64_t i = 0; i < REQUESTS; i++) {
		must(sem_wait(&shared.room));
		must(post_request(link->active, i));
	}
	for (size_t i = 0; i < SEND_DEPTH; i++)
		must(sem_wait(&shared.room));

	/*
	 * One event wakes one thread, and a thread that ends does not arm the queue for the
	 * other. So it is armed here.
	 */
	for (size_t i = 0; i < WAITERS; i++) {
		must(ibv_req_notify_cq(link->active->send_cq, 0));
		must(post_request(link->active, STOP));
		must(sem_wait(&shared.stopped));
	}
	for (size_t i = 0; i < WAITERS; i++)
		must(pthread_join(waiters[i], NULL));
	assert_int_equal(shared.faults, 0);
	for (size_t i = 0; i < REQUESTS; i++)
		assert_int_equal(shared.taken[i], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST_OF("interrupted, send", interrupted, &send_side),
		DEVICE_TEST_OF("interrupted, receive", interrupted, &recv_side),
		DEVICE_TEST_OF("interrupted, nothing to wait for", interrupted_without_hope,
			       &send_side),
		DEVICE_TEST_OF("not blocking, send", not_blocking, &send_side),
		DEVICE_TEST_OF("not blocking, receive", not_blocking, &recv_side),
		DEVICE_TEST(posting_and_waiting),
		DEVICE_TEST(two_waiting),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("waiting on a device", tests, NULL, NULL);
}
