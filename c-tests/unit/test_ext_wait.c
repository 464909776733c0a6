// SPDX-License-Identifier: MIT OR Apache-2.0
/* Waiting with a timeout: what comes back, how soon, and in which state the queue is. */
#define _GNU_SOURCE	/* pthread_timedjoin_np */
#include "../fake/ext_fake.h"
#include "../lib/clock.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	LATE_MS = 10,		/* how late a wait may end */
	TRIES = 10,
	LIMIT_SECONDS = 120,
};

/* Both sides in one table: each test runs for each. */
static const struct side {
	const char *name;
	int (*one)(struct rdma_cm_id *, struct ibv_wc *, int);
	int (*many)(struct rdma_cm_id *, struct ibv_wc *, int, int);
	int (*until)(struct rdma_cm_id *, struct ibv_wc *, int, const struct timespec *);
	int (*fd)(struct rdma_cm_id *);
	struct ext_cq *queue;
	struct ibv_cq **id_cq, **qp_cq;
	struct ibv_comp_channel **id_channel;
} sides[] = {
	{ "send", rdmax_get_send_comp, rdmax_get_send_comps, rdmax_get_send_comps_until,
	  rdmax_send_comp_fd, &ext.send, &ext.id.send_cq, &ext.qp.send_cq,
	  &ext.id.send_cq_channel },
	{ "recv", rdmax_get_recv_comp, rdmax_get_recv_comps, rdmax_get_recv_comps_until,
	  rdmax_recv_comp_fd, &ext.recv, &ext.id.recv_cq, &ext.qp.recv_cq,
	  &ext.id.recv_cq_channel },
};

static const struct side *side;

static int begin(void **state)
{
	side = *state;
	return ext_begin(state);
}

/*
 * A wait for a completion that does not come. It never ends early. It may end late on a
 * busy machine, but not every time.
 */
static void assert_waits(int timeout_ms)
{
	double started, took;
	struct ibv_wc wc;
	int tries = 0;

	do {
		started = now_ms();
		assert_succeeds(side->one(&ext.id, &wc, timeout_ms), 0);
		took = now_ms() - started;
		if (took < timeout_ms)
			fail_msg("a wait of %d ms took %.2f ms", timeout_ms, took);
	} while (took > timeout_ms + LATE_MS && ++tries < TRIES);
	if (tries == TRIES)
		fail_msg("a wait of %d ms took %.2f ms", timeout_ms, took);
}

/* --- results -------------------------------------------------------------------------- */

static void takes_what_is_there(void **state)
{
	static const int timeouts[] = { -1, 0, 1, INT32_MAX, INT32_MIN };

	(void)state;
	for (size_t i = 0; i < COUNT(timeouts); i++) {
		struct ibv_wc wc;

		ext_complete(side->queue, 100 + i, IBV_WC_REM_ACCESS_ERR);
		assert_succeeds(side->one(&ext.id, &wc, timeouts[i]), 1);
		assert_int_equal(wc.wr_id, 100 + i);
		assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(wc.vendor_err, 0x5a5a5a5a);
	}
	assert_int_equal(side->queue->polls, COUNT(timeouts));
	assert_int_equal(side->queue->arms, 0);
}

/* Timeout 0: returns 0 at once, with the queue armed and no event left to read. */
static void tries(void **state)
{
	struct ibv_wc wc;

	(void)state;
	assert_succeeds(side->one(&ext.id, &wc, 0), 0);
	assert_true(side->queue->armed);
	assert_int_equal(side->queue->polls, 2);
	assert_int_equal(side->queue->arms, 1);
	assert_false(ext_readable(side->queue));

	ext_complete(side->queue, 1, IBV_WC_SUCCESS);
	assert_true(ext_readable(side->queue));
	assert_succeeds(side->one(&ext.id, &wc, 0), 1);
}

/* Stale events, whose completions are gone, neither count nor remain. */
static void takes_stale_events(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 3; i++)
		ext_raise(side->queue, side->queue);
	assert_succeeds(side->one(&ext.id, &wc, 0), 0);
	assert_false(ext_readable(side->queue));
	assert_true(side->queue->armed);
	assert_int_equal(side->queue->acknowledged, 3);
}

static void ends_in_time(void **state)
{
	static const int timeouts[] = { 1, 20, 50, 200 };

	(void)state;
	for (size_t i = 0; i < COUNT(timeouts); i++) {
		ext_raise(side->queue, side->queue);	/* stale */
		assert_waits(timeouts[i]);
		assert_true(side->queue->armed);
	}
	/* Nothing that comes later is lost. */
	for (int timeout = -1; timeout <= 1; timeout++) {
		struct ibv_wc wc;

		ext_complete(side->queue, 7, IBV_WC_SUCCESS);
		assert_succeeds(side->one(&ext.id, &wc, timeout), 1);
		assert_int_equal(wc.wr_id, 7);
	}
}

/*
 * Another thread takes the event, but only one of the completions behind it: there is no
 * event for the rest, and the queue is not armed.
 */
static int (*poll_cq)(struct ibv_cq *cq, int entries, struct ibv_wc *wc);
static int completions_left;

static int poll_before_the_event_is_taken(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int found = poll_cq(cq, entries, wc);

	if (side->queue->polls == 2) {	/* the last one before the wait */
		side->queue->armed = 0;
		for (int i = 0; i < completions_left; i++)
			ext_complete(side->queue, 9, IBV_WC_SUCCESS);
	}
	return found;
}

/* They are found at the timeout at the latest; if there are none, the queue is armed. */
static void finds_what_another_thread_has_left(void **state)
{
	(void)state;
	poll_cq = ext.whole.context.ops.poll_cq;
	ext.whole.context.ops.poll_cq = poll_before_the_event_is_taken;
	for (completions_left = 0; completions_left < 2; completions_left++) {
		struct ibv_wc wc;

		side->queue->polls = 0;
		assert_succeeds(side->one(&ext.id, &wc, 1), completions_left);
		assert_int_equal(side->queue->armed, !completions_left);
	}
}

/* --- many at once ----------------------------------------------------------------------- */

static void takes_many(void **state)
{
	static const int sizes[] = { 1, 2, 63, 64, 65, 127, 128, 129, 200, 256 };
	struct ibv_wc wc[EXT_DEPTH + 1];

	(void)state;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		for (int there = 1; there <= EXT_DEPTH; there += 51) {
			int expected = there < sizes[i] ? there : sizes[i];

			for (int j = 0; j < there; j++)
				ext_complete(side->queue, (uint64_t)j, IBV_WC_SUCCESS);
			memset(wc, 0xee, sizeof(wc));
			assert_succeeds(side->many(&ext.id, wc, sizes[i], -1), expected);
			for (int j = 0; j < expected; j++)
				assert_int_equal(wc[j].wr_id, j);
			assert_int_equal(wc[expected].wr_id, 0xeeeeeeeeeeeeeeee);
			while (expected < there)
				expected += side->many(&ext.id, wc, EXT_DEPTH, 0);
		}
	}
	/* Where there is no such operation, libibverbs returns EOPNOTSUPP, which is 95. */
	assert_true(side->queue->largest_poll < EOPNOTSUPP);
}

static void refuses_counts(void **state)
{
	static const int counts[] = { 0, -1, INT32_MIN };
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++)
		assert_fails(side->many(&ext.id, &wc, counts[i], 0), EINVAL);
	assert_int_equal(side->queue->polls, 0);
}

/* A failed poll does not lose what the same call has taken before. */
static void polls_fail(void **state)
{
	static const struct { int result, error; } polls[] = {
		{ -2, EIO }, { -EINVAL, EINVAL }, { EOPNOTSUPP, EOPNOTSUPP },
	};
	struct ibv_wc wc[EXT_DEPTH];

	(void)state;
	for (size_t i = 0; i < COUNT(polls); i++) {
		side->queue->poll_result = polls[i].result;
		assert_fails(side->many(&ext.id, wc, EXT_DEPTH, -1), polls[i].error);
		for (int j = 0; j < 64; j++)
			ext_complete(side->queue, (uint64_t)j, IBV_WC_SUCCESS);
		assert_succeeds(side->many(&ext.id, wc, EXT_DEPTH, -1), 64);
	}
}

/* --- arguments -------------------------------------------------------------------------- */

static void null_pointers(void **state)
{
	struct ibv_wc wc;

	(void)state;
	assert_fails(side->one(NULL, &wc, -1), EINVAL);
	assert_fails(side->one(&ext.id, NULL, -1), EINVAL);
	assert_fails(side->many(NULL, &wc, 1, -1), EINVAL);
	assert_fails(side->many(&ext.id, NULL, 1, -1), EINVAL);
	assert_fails(side->fd(NULL), EINVAL);
	assert_fails(side->until(NULL, &wc, 1, NULL), EINVAL);
	assert_fails(side->until(&ext.id, NULL, 1, NULL), EINVAL);
	assert_fails(side->until(&ext.id, &wc, 0, NULL), EINVAL);
	*side->id_cq = *side->qp_cq = NULL;
	assert_fails(side->one(&ext.id, &wc, -1), EINVAL);
	assert_fails(side->fd(&ext.id), EINVAL);
	ext.id.qp = NULL;
	assert_fails(side->one(&ext.id, &wc, -1), EINVAL);
}

/* A channel is needed only to wait. */
static void no_channel(void **state)
{
	struct ibv_wc wc;

	(void)state;
	*side->id_channel = NULL;
	assert_fails(side->fd(&ext.id), EINVAL);
	ext_complete(side->queue, 1, IBV_WC_SUCCESS);
	assert_succeeds(side->one(&ext.id, &wc, -1), 1);
	assert_succeeds(side->one(&ext.id, &wc, 0), 0);
	assert_fails(side->one(&ext.id, &wc, 1), EINVAL);
	assert_fails(side->one(&ext.id, &wc, -1), EINVAL);
}

static void closed_channel(void **state)
{
	struct ibv_wc wc;
	int fd = side->queue->channel.fd;

	(void)state;
	side->queue->channel.fd = 999;
	assert_fails(side->one(&ext.id, &wc, -1), EBADF);
	side->queue->channel.fd = fd;
}

static void missing_operations(void **state)
{
	struct ibv_context_ops ops = ext.whole.context.ops;
	struct ibv_wc wc;

	(void)state;
	ext.whole.context.ops.req_notify_cq = NULL;
	assert_fails(side->one(&ext.id, &wc, 0), EOPNOTSUPP);
	ext.whole.context.ops = ops;
	ext.whole.context.ops.poll_cq = NULL;
	assert_fails(side->one(&ext.id, &wc, 0), EOPNOTSUPP);
}

/* Acknowledged where it was raised. */
static void event_of_another_queue(void **state)
{
	struct ibv_wc wc;

	(void)state;
	ext_raise(side->queue, &ext.other);
	assert_fails(side->one(&ext.id, &wc, -1), ENOTUNIQ);
	assert_int_equal(ext.other.acknowledged, 1);
	assert_int_equal(side->queue->acknowledged, 0);
	assert_true(side->queue->armed);
}

/* --- an end that does not move -------------------------------------------------------------- */

static struct timespec after_ms(int ms)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	return end;
}

static void waits_until(void **state)
{
	static const struct timespec past[] = { { 0, 0 }, { -1, 0 }, { INT64_MIN, 0 } };
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(past); i++) {
		assert_succeeds(side->until(&ext.id, &wc, 1, &past[i]), 0);
		assert_true(side->queue->armed);
		ext_complete(side->queue, 7, IBV_WC_SUCCESS);
		assert_succeeds(side->until(&ext.id, &wc, 1, &past[i]), 1);
	}
	for (int ms = 0; ms < 100; ms += 30) {
		struct timespec end = after_ms(ms);
		double end_ms = (double)end.tv_sec * 1e3 + (double)end.tv_nsec / 1e6;

		ext_raise(side->queue, side->queue);	/* stale */
		assert_succeeds(side->until(&ext.id, &wc, 1, &end), 0);
		assert_true(now_ms() >= end_ms);
	}
	ext_complete(side->queue, 7, IBV_WC_SUCCESS);
	assert_succeeds(side->until(&ext.id, &wc, 1, NULL), 1);
}

/* --- queues of the program --------------------------------------------------------------------- */

static void *complete_later(void *wr_id)
{
	usleep(20000);
	ext_complete(side->queue, (uintptr_t)wr_id, IBV_WC_SUCCESS);
	return NULL;
}

/* Those of the queue pair, with their own channels. */
static void queue_of_the_program(void **state)
{
	pthread_t thread;
	struct ibv_wc wc;

	(void)state;
	*side->id_cq = NULL;
	*side->id_channel = NULL;
	ext_complete(side->queue, 1, IBV_WC_SUCCESS);
	assert_succeeds(side->one(&ext.id, &wc, -1), 1);
	assert_int_equal(side->fd(&ext.id), side->queue->channel.fd);
	assert_int_equal(pthread_create(&thread, NULL, complete_later, (void *)8), 0);
	assert_succeeds(side->one(&ext.id, &wc, -1), 1);
	assert_int_equal(wc.wr_id, 8);
	pthread_join(thread, NULL);
	side->queue->cq.channel = NULL;
	assert_fails(side->one(&ext.id, &wc, -1), EINVAL);
	assert_fails(side->fd(&ext.id), EINVAL);
}

/*
 * Another queue raises its events in the same channel, as libibverbs counts: they stay for
 * their owner, and so do our own.
 */
static void shared_channel(void **state)
{
	pthread_t thread;
	struct ibv_wc wc;

	(void)state;
	side->queue->channel.refcnt = 2;
	ext_raise(side->queue, &ext.other);
	assert_succeeds(side->one(&ext.id, &wc, 0), 0);
	assert_waits(20);
	assert_true(side->queue->armed);
	for (int timeout = -1; timeout < LIMIT_SECONDS * 1000; timeout += LIMIT_SECONDS * 1000) {
		assert_int_equal(pthread_create(&thread, NULL, complete_later, (void *)9), 0);
		assert_succeeds(side->one(&ext.id, &wc, timeout), 1);
		assert_int_equal(wc.wr_id, 9);
		pthread_join(thread, NULL);
	}
	assert_int_equal(ext.other.acknowledged + side->queue->acknowledged, 0);
}

/* --- events of a channel ------------------------------------------------------------------------ */

static void *raise_later(void *raised_by)
{
	usleep(20000);
	ext_raise(side->queue, raised_by);
	return NULL;
}

/* Each is acknowledged where it was raised, and says where. */
static void events_of_a_channel(void **state)
{
	struct ibv_comp_channel *channel = &side->queue->channel;
	struct ibv_cq *cq = NULL;
	pthread_t thread;

	(void)state;
	for (int timeout = -1; timeout < 2; timeout++) {
		ext_raise(side->queue, &ext.other);
		ext_raise(side->queue, side->queue);
		assert_succeeds(rdmax_get_cq_event(channel, &cq, timeout), 1);
		assert_ptr_equal(cq, &ext.other.cq);
		assert_succeeds(rdmax_get_cq_event(channel, &cq, timeout), 1);
		assert_ptr_equal(cq, &side->queue->cq);
	}
	assert_int_equal(ext.other.acknowledged, 3);
	assert_int_equal(side->queue->acknowledged, 3);
	cq = NULL;
	for (int timeout = 0; timeout <= 20; timeout += 20) {
		double started = now_ms();

		assert_succeeds(rdmax_get_cq_event(channel, &cq, timeout), 0);
		assert_true(now_ms() - started >= timeout);
	}
	assert_null(cq);
	assert_int_equal(pthread_create(&thread, NULL, raise_later, &ext.other), 0);
	assert_succeeds(rdmax_get_cq_event(channel, &cq, -1), 1);
	assert_ptr_equal(cq, &ext.other.cq);
	pthread_join(thread, NULL);
	assert_int_equal(side->queue->polls + side->queue->arms, 0);

	assert_fails(rdmax_get_cq_event(NULL, &cq, 0), EINVAL);
	assert_fails(rdmax_get_cq_event(channel, NULL, 0), EINVAL);
	ext_raise(side->queue, &ext.other);
	assert_fails(rdmax_get_cq_event(channel, NULL, 0), EINVAL);
	assert_true(ext_readable(side->queue));
}

/* --- the file descriptor ------------------------------------------------------------------ */

/* As the manual says: poll until nothing is left, then wait for the descriptor. */
static void event_loop(void **state)
{
	struct epoll_event event = { .events = EPOLLIN };
	int loop = epoll_create1(0), wakeups = 0, taken = 0;
	struct ibv_wc wc[4];
	int found;

	(void)state;
	assert_int_equal(side->fd(&ext.id), side->queue->channel.fd);
	assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, side->fd(&ext.id), &event), 0);
	while ((found = side->many(&ext.id, wc, 4, 0)) > 0)
		taken += found;
	assert_int_equal(found, 0);

	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < round % 10; i++)
			ext_complete(side->queue, 1, IBV_WC_SUCCESS);
		while (epoll_wait(loop, &event, 1, 0) == 1) {
			wakeups++;
			while ((found = side->many(&ext.id, wc, 4, 0)) > 0)
				taken += found;
			assert_int_equal(found, 0);
		}
	}
	assert_int_equal(taken, 450);
	assert_int_equal(wakeups, 90);	/* one per round with completions: it does not spin */
	close(loop);
}

/* --- the state of the channel ------------------------------------------------------------- */

static void nonblocking_channel(void **state)
{
	int fd = side->queue->channel.fd;

	(void)state;
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
	assert_waits(30);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void blocking_channel(void **state)
{
	int fd = side->queue->channel.fd;

	(void)state;
	assert_waits(5);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/* --- random arrivals ---------------------------------------------------------------------- */

enum { WAITS = 100000 };

static atomic_int stop;

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return *seed >> 33;
}

/* Sometimes in bursts, sometimes after a pause. */
static void *arrive(void *last)
{
	uint64_t seed = 42, wr_id = 0;

	while (!atomic_load(&stop)) {
		for (uint64_t burst = next_random(&seed) % 5; burst; burst--) {
			if (ext_waiting(side->queue) > EXT_DEPTH / 2)
				break;
			ext_complete(side->queue, wr_id++, IBV_WC_SUCCESS);
		}
		usleep((useconds_t)(next_random(&seed) % 40));
	}
	*(uint64_t *)last = wr_id;
	return NULL;
}

static void loses_and_duplicates_nothing(void **state)
{
	uint64_t seed = 1, next = 0, arrived;
	int timed_out = 0;
	struct ibv_wc wc[8];
	pthread_t thread;

	(void)state;
	atomic_store(&stop, 0);
	assert_int_equal(pthread_create(&thread, NULL, arrive, &arrived), 0);
	for (int i = 0; i < WAITS; i++) {
		int timeout = (int)(next_random(&seed) % 4) - 1;
		int n = (int)(next_random(&seed) % 8) + 1;
		int found = side->many(&ext.id, wc, n, timeout);

		assert_between(found, timeout < 0 ? 1 : 0, n);
		timed_out += found == 0;
		for (int j = 0; j < found; j++)
			assert_int_equal(wc[j].wr_id, next++);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	while (next < arrived) {
		assert_int_equal(side->one(&ext.id, wc, 0), 1);
		assert_int_equal(wc[0].wr_id, next++);
	}
	assert_int_equal(side->one(&ext.id, wc, 0), 0);
	assert_true(timed_out > 0);
	assert_false(ext_readable(side->queue));
	assert_int_equal(side->queue->events, side->queue->acknowledged);
}

/* --- several threads at one queue ----------------------------------------------------------- */

static atomic_uchar seen[WAITS / 10];
static atomic_int faults;

static void *take_until_stopped(void *unused)
{
	while (!atomic_load(&stop)) {
		struct ibv_wc wc;
		int found;

		errno = UNTOUCHED;
		found = side->one(&ext.id, &wc, 5);
		if (found < 0 || errno != UNTOUCHED)
			atomic_fetch_add(&faults, 1);
		if (found == 1)
			atomic_fetch_add(&seen[wc.wr_id], 1);
	}
	return unused;
}

enum { MOST_THREADS = 8, GIVE_UP_SECONDS = 10 };

/* The thread has come to its end, or the test fails. */
static void join_in_time(pthread_t thread)
{
	struct timespec limit;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += GIVE_UP_SECONDS;
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &limit), 0);
}

/* On a channel that blocks, and on one that does not. */
static void share_completions(int flags)
{
	int fd = side->queue->channel.fd;
	pthread_t threads[MOST_THREADS];

	atomic_store(&stop, 0);
	atomic_store(&faults, 0);
	memset((void *)seen, 0, sizeof(seen));
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | flags);
	for (int i = 0; i < MOST_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take_until_stopped, NULL), 0);
	for (uint64_t i = 0; i < COUNT(seen); i++) {
		while (ext_waiting(side->queue) > EXT_DEPTH / 2)
			usleep(10);
		ext_complete(side->queue, i, IBV_WC_SUCCESS);
	}
	while (ext_waiting(side->queue))
		usleep(100);
	atomic_store(&stop, 1);
	for (int i = 0; i < MOST_THREADS; i++)
		join_in_time(threads[i]);
	assert_int_equal(atomic_load(&faults), 0);
	for (size_t i = 0; i < COUNT(seen); i++)
		assert_int_equal(atomic_load(&seen[i]), 1);
}

static void threads_share_a_channel(void **state)
{
	(void)state;
	share_completions(0);
}

static void threads_share_a_channel_that_does_not_block(void **state)
{
	(void)state;
	share_completions(O_NONBLOCK);
}

static void *take_one(void *wr_id)
{
	struct ibv_wc wc = { .wr_id = UINT64_MAX };

	if (side->one(&ext.id, &wc, -1) != 1)
		atomic_fetch_add(&faults, 1);
	*(uint64_t *)wr_id = wc.wr_id;
	return NULL;
}

/* So many wait without a time-out; as many completions come at once, with one event. */
static void none_sleeps_beside_a_completion(void **state)
{
	(void)state;
	atomic_store(&faults, 0);
	for (int round = 0; round < 300; round++) {
		int n = 2 << round % 3;
		pthread_t threads[MOST_THREADS];
		uint64_t taken[MOST_THREADS], sum = 0;

		for (int i = 0; i < n; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_one, &taken[i]), 0);
		usleep((useconds_t)(round % 8) * 100);
		for (uint64_t i = 0; i < (uint64_t)n; i++)
			ext_complete(side->queue, 1ULL << i, IBV_WC_SUCCESS);
		for (int i = 0; i < n; i++) {
			join_in_time(threads[i]);
			sum += taken[i];
		}
		assert_int_equal(sum, (1ULL << n) - 1);
	}
	assert_int_equal(atomic_load(&faults), 0);
}

/* A thread may be cancelled while it waits. */
static void another_takes_the_place_of_one_that_is_gone(void **state)
{
	pthread_t gone, next;
	uint64_t nothing, taken;

	(void)state;
	atomic_store(&faults, 0);
	assert_int_equal(pthread_create(&gone, NULL, take_one, &nothing), 0);
	usleep(20000);
	assert_int_equal(pthread_cancel(gone), 0);
	join_in_time(gone);
	assert_int_equal(pthread_create(&next, NULL, take_one, &taken), 0);
	usleep(20000);
	ext_complete(side->queue, 7, IBV_WC_SUCCESS);
	join_in_time(next);
	assert_int_equal(taken, 7);
	assert_int_equal(atomic_load(&faults), 0);
}

/* As if another thread took each completion, and left its event. */
static void stale_events_do_not_prolong_a_wait(void **state)
{
	struct ibv_wc wc;

	(void)state;
	side->queue->stale = 1;
	alarm(GIVE_UP_SECONDS);	/* it would never end */
	assert_int_equal(side->one(&ext.id, &wc, 0), 0);
	assert_int_equal(side->one(&ext.id, &wc, 20), 0);
	alarm(0);
	side->queue->stale = 0;
	/* What is left of them does not stand in the way either. */
	ext_complete(side->queue, 3, IBV_WC_SUCCESS);
	assert_int_equal(side->one(&ext.id, &wc, 0), 1);
	assert_int_equal(wc.wr_id, 3);
}

#define BOTH(test) \
	{ #test " (send)", test, begin, ext_end, (void *)&sides[0] }, \
	{ #test " (recv)", test, begin, ext_end, (void *)&sides[1] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(takes_what_is_there),
		BOTH(tries),
		BOTH(takes_stale_events),
		BOTH(ends_in_time),
		BOTH(finds_what_another_thread_has_left),
		BOTH(takes_many),
		BOTH(refuses_counts),
		BOTH(polls_fail),
		BOTH(null_pointers),
		BOTH(no_channel),
		BOTH(closed_channel),
		BOTH(missing_operations),
		BOTH(event_of_another_queue),
		BOTH(waits_until),
		BOTH(queue_of_the_program),
		BOTH(shared_channel),
		BOTH(events_of_a_channel),
		BOTH(event_loop),
		BOTH(nonblocking_channel),
		BOTH(blocking_channel),
		BOTH(loses_and_duplicates_nothing),
		BOTH(threads_share_a_channel),
		BOTH(threads_share_a_channel_that_does_not_block),
		BOTH(none_sleeps_beside_a_completion),
		BOTH(another_takes_the_place_of_one_that_is_gone),
		BOTH(stale_events_do_not_prolong_a_wait),
	};

	alarm(LIMIT_SECONDS);
	return cmocka_run_group_tests_name("ext_wait", tests, NULL, NULL);
}
