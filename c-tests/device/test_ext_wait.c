/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Waiting with a timeout on a device: it ends in time, nothing is lost or seen twice, and
 * an event loop neither sleeps too long nor spins.
 */
#include "device.h"
#include "../lib/clock.h"

#include <rdma/rdma_verbs_ext.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	LATE_MS = 10,		/* how late a wait may end */
	TRIES = 20,
	WAITS = 100000,
	LONG_SECONDS = 280,	/* for the test with many waits */
	AT_ONCE = 8,
	MAX_BURST = 4,
};

/* An empty message; both of its completions have this context. */
static void pass_message(struct link *link, uint64_t context)
{
	must(rdma_post_recvv(link->passive, context_of(context), NULL, 0));
	must(rdma_post_sendv(link->active, context_of(context), NULL, 0, IBV_SEND_SIGNALED));
}

static void take_both(struct link *link, uint64_t context, int timeout_ms)
{
	struct ibv_wc wc;

	assert_succeeds(rdmax_get_send_comp(link->active, &wc, timeout_ms), 1);
	assert_int_equal(wc.wr_id, context);
	assert_succeeds(rdmax_get_recv_comp(link->passive, &wc, timeout_ms), 1);
	assert_int_equal(wc.wr_id, context);
}

/* --- in time -------------------------------------------------------------------------- */

/* Never too early. It may be late on a busy machine, but not every time. */
static void assert_waits(struct link *link, int timeout_ms)
{
	double best = 1e9;

	for (int i = 0; i < TRIES && best > timeout_ms + LATE_MS; i++) {
		double started = now_ms(), took;
		struct ibv_wc wc;

		assert_succeeds(rdmax_get_recv_comp(link->passive, &wc, timeout_ms), 0);
		took = now_ms() - started;
		if (took < timeout_ms)
			fail_msg("a wait of %d ms took %.2f ms", timeout_ms, took);
		if (took < best)
			best = took;
	}
	print_message("# a wait of %d ms took %.2f ms\n", timeout_ms, best);
	if (best > timeout_ms + LATE_MS)
		fail_msg("a wait of %d ms took %.2f ms", timeout_ms, best);
}

static void ends_in_time(void **state)
{
	static const int timeouts[] = { 0, 1, 20, 100, 500 };
	struct link *link = connected(state);

	for (size_t i = 0; i < COUNT(timeouts); i++) {
		assert_waits(link, timeouts[i]);
		/* Nothing that arrives later is lost. */
		for (uint64_t j = 0; j < 3; j++) {
			pass_message(link, j);
			take_both(link, j, -1);
		}
	}
}

/* The completion arrives during the wait and ends it long before the timeout. */
static void *pass_later(void *link)
{
	usleep(50000);
	pass_message(link, 5);
	return NULL;
}

static void ends_with_the_completion(void **state)
{
	struct link *link = connected(state);
	double started = now_ms();
	pthread_t thread;

	must(pthread_create(&thread, NULL, pass_later, link));
	take_both(link, 5, 20000);
	assert_true(now_ms() - started < 10000);
	must(pthread_join(thread, NULL));
}

static void leaves_the_channel_as_it_is(void **state)
{
	struct link *link = connected(state);
	int fd = rdmax_recv_comp_fd(link->passive);
	struct ibv_wc wc;

	assert_int_equal(fd, link->passive->recv_cq_channel->fd);
	for (int flags = 0; flags <= O_NONBLOCK; flags += O_NONBLOCK) {
		must(fcntl(fd, F_SETFL, flags));
		assert_succeeds(rdmax_get_recv_comp(link->passive, &wc, 0), 0);
		assert_succeeds(rdmax_get_recv_comp(link->passive, &wc, 5), 0);
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, flags);
	}
}

/* --- random arrivals -------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return *seed >> 33;
}

static atomic_int stop;
static atomic_ullong taken;
static atomic_int faults;

struct sender {
	struct link *link;
	uint64_t sent;
};

/* Empty messages, posted together; only the last send is signaled. */
static int send_burst(struct sender *sender, int count)
{
	struct rdmax_recv_wr recvs[MAX_BURST] = { { 0 } };
	struct rdmax_send_wr sends[MAX_BURST] = { { 0 } };
	int posted;
	struct ibv_wc wc;

	for (int i = 0; i < count; i++) {
		recvs[i].context = sends[i].context = context_of(sender->sent++);
		sends[i].opcode = IBV_WR_SEND;
	}
	sends[count - 1].flags = IBV_SEND_SIGNALED;
	return rdmax_post_recvs(sender->link->passive, recvs, sizeof(*recvs), count,
				&posted) ||
	       rdmax_post_sends(sender->link->active, sends, sizeof(*sends), count,
				&posted) ||
	       rdmax_get_send_comp(sender->link->active, &wc, -1) != 1 ||
	       wc.status != IBV_WC_SUCCESS;
}

/* Bursts and pauses, but never more in flight than there are receives. */
static void *send_at_random(void *argument)
{
	struct sender *sender = argument;
	uint64_t seed = 42;

	while (!atomic_load(&stop)) {
		int burst = (int)(next_random(&seed) % MAX_BURST) + 1;

		if (sender->sent - atomic_load(&taken) <= RECV_DEPTH - MAX_BURST &&
		    send_burst(sender, burst)) {
			atomic_fetch_add(&faults, 1);
			break;
		}
		usleep((useconds_t)(next_random(&seed) % 100));
	}
	return NULL;
}

/* Mostly 0, so that the test ends; but every kind of timeout. */
static int random_timeout(uint64_t *seed)
{
	static const int timeouts[] = { 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, 1, 1, 2 };

	return timeouts[next_random(seed) % COUNT(timeouts)];
}

static void loses_and_duplicates_nothing(void **state)
{
	struct sender sender = { .link = connected(state) };
	uint64_t seed = 1, next = 0;
	struct ibv_wc wc[AT_ONCE];
	int timed_out = 0;
	pthread_t thread;

	alarm(LONG_SECONDS);
	atomic_store(&stop, 0);
	atomic_store(&taken, 0);
	atomic_store(&faults, 0);
	must(pthread_create(&thread, NULL, send_at_random, &sender));
	for (int i = 0; i < WAITS; i++) {
		int timeout = random_timeout(&seed);
		int n = (int)(next_random(&seed) % AT_ONCE) + 1;
		int found = rdmax_get_recv_comps(sender.link->passive, wc, n, timeout);

		assert_between(found, timeout < 0 ? 1 : 0, n);
		timed_out += found == 0;
		for (int j = 0; j < found; j++) {
			assert_int_equal(wc[j].status, IBV_WC_SUCCESS);
			assert_int_equal(wc[j].wr_id, next++);
		}
		atomic_store(&taken, next);
	}
	atomic_store(&stop, 1);
	must(pthread_join(thread, NULL));
	assert_int_equal(atomic_load(&faults), 0);
	while (next < sender.sent) {
		assert_succeeds(rdmax_get_recv_comp(sender.link->passive, wc, 5000), 1);
		assert_int_equal(wc[0].wr_id, next++);
	}
	assert_succeeds(rdmax_get_recv_comp(sender.link->passive, wc, 0), 0);
	assert_true(timed_out > 0);
	print_message("# %d waits, %llu completions, %d time-outs\n", WAITS,
		      (unsigned long long)next, timed_out);
}

/* --- an event loop -------------------------------------------------------------------------- */

enum { ROUNDS = 200, AT_ONCE_IN_LOOP = 2 };

/* Both queues of an id; the other one's completions are taken in another way. */
static const struct side {
	int (*many)(struct rdma_cm_id *, struct ibv_wc *, int, int);
	int (*fd)(struct rdma_cm_id *);
	int receives;
} sends = { rdmax_get_send_comps, rdmax_send_comp_fd, 0 },
  receives = { rdmax_get_recv_comps, rdmax_recv_comp_fd, 1 };

/* One message; its completions are there when this returns, or on our side soon after. */
static void pass_to(const struct side *side, struct link *link, uint64_t context)
{
	pass_message(link, context);
	if (side->receives)
		take_send(link->active, context, IBV_WC_SUCCESS);
	else
		take_recv(link->passive, context, IBV_WC_SUCCESS);
}

static void event_loop(void **state)
{
	struct link *link = connected(state);
	const struct side *side = link->parameter;
	struct rdma_cm_id *id = side->receives ? link->passive : link->active;
	struct epoll_event event = { .events = EPOLLIN };
	int loop = epoll_create1(0), wakeups = 0;
	struct ibv_wc wc[AT_ONCE_IN_LOOP];
	uint64_t next = 0;

	assert_int_equal(side->fd(id), (side->receives ? id->recv_cq_channel :
							 id->send_cq_channel)->fd);
	must(epoll_ctl(loop, EPOLL_CTL_ADD, side->fd(id), &event));
	assert_succeeds(side->many(id, wc, AT_ONCE_IN_LOOP, 0), 0);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t target = next + round % 5 + 1;

		for (uint64_t i = next; i < target; i++)
			pass_to(side, link, i);
		while (next < target) {
			int found;

			/* It wakes up for each: a lost wake-up ends the test. */
			assert_int_equal(epoll_wait(loop, &event, 1, 5000), 1);
			wakeups++;
			while ((found = side->many(id, wc, AT_ONCE_IN_LOOP, 0)) > 0)
				for (int i = 0; i < found; i++)
					assert_int_equal(wc[i].wr_id, next++);
			assert_int_equal(found, 0);
		}
		assert_int_equal(epoll_wait(loop, &event, 1, 0), 0);	/* it does not spin */
	}
	print_message("# %llu completions, %d wake-ups\n", (unsigned long long)next, wakeups);
	close(loop);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void on_signal(int number)
{
	(void)number;
}

/* How often a wait was interrupted; interruptions do not shorten it. */
static int interruptions_of_a_wait(struct link *link)
{
	const double whole = 300;
	double started = now_ms(), left;
	int interruptions = 0, result = -1;
	struct ibv_wc wc;

	while (result < 0 && (left = started + whole - now_ms()) > 0) {
		result = rdmax_get_recv_comp(link->passive, &wc, (int)left + 1);
		if (result < 0)
			assert_int_equal(errno, EINTR);
		interruptions += result < 0;
	}
	assert_true(result <= 0);
	assert_true(now_ms() - started >= whole);
	return interruptions;
}

/* A timer that fires repeatedly; the program waits for the remaining time. */
static void signals_and_what_remains(void **state)
{
	struct link *link = connected(state);
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec interval = {
		.it_value = { .tv_nsec = 20000000 },
		.it_interval = { .tv_nsec = 20000000 },
	};
	timer_t timer;
	int tries = 0;

	must(sigaction(SIGUSR1, &action, NULL));
	must(timer_create(CLOCK_MONOTONIC, &event, &timer));
	must(timer_settime(timer, 0, &interval, NULL));
	/* On a busy machine the signals may be merged, but not every time. */
	while (interruptions_of_a_wait(link) < 3)
		assert_true(++tries < TRIES);
	must(timer_delete(timer));
	/* The queue stays armed, and nothing is lost. */
	pass_message(link, 1);
	take_both(link, 1, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(ends_in_time),
		DEVICE_TEST(ends_with_the_completion),
		DEVICE_TEST(leaves_the_channel_as_it_is),
		DEVICE_TEST(loses_and_duplicates_nothing),
		DEVICE_TEST_OF("event_loop (send)", event_loop, &sends),
		DEVICE_TEST_OF("event_loop (recv)", event_loop, &receives),
		DEVICE_TEST(signals_and_what_remains),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("ext_wait", tests, NULL, NULL);
}
