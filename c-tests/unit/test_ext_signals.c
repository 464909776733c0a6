// SPDX-License-Identifier: MIT OR Apache-2.0
/* Signals interrupt a wait, but not a transfer. */
#include "../fake/ext_fake.h"
#include "../lib/clock.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { LENGTH = 100, TRIES = 10, LIMIT_SECONDS = 120 };

/* --- signals at an interval -------------------------------------------------------------- */

static atomic_int signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

/* Starts to send signals at an interval, and counts them; 0 stops them. */
static void every(int milliseconds)
{
	struct itimerval timer = {
		.it_interval.tv_usec = milliseconds * 1000,
		.it_value.tv_usec = milliseconds * 1000,
	};
	struct sigaction action = { .sa_handler = count_signal };

	if (milliseconds) {
		signals = 0;
		sigaction(SIGALRM, &action, NULL);
	}
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Stops the signals and restores the program's time limit, which uses the same timer. */
static void no_more(void)
{
	every(0);
	signal(SIGALRM, SIG_DFL);
	alarm(LIMIT_SECONDS);
}

/* --- a wait for a completion ---------------------------------------------------------------- */

static const struct side {
	int (*wait)(struct rdma_cm_id *, struct ibv_wc *, int);
	struct ext_cq *queue;
} sides[] = {
	{ rdmax_get_send_comp, &ext.send },
	{ rdmax_get_recv_comp, &ext.recv },
};

static const struct side *side;

static int begin_wait(void **state)
{
	side = *state;
	return ext_begin(state);
}

/* The wait ends with the queue armed; the program waits for the remaining time. */
static void interrupted(void **state)
{
	static const int timeouts[] = { -1, LIMIT_SECONDS * 1000 };

	(void)state;
	for (size_t i = 0; i < COUNT(timeouts); i++) {
		struct ibv_wc wc;

		every(20);
		assert_fails(side->wait(&ext.id, &wc, timeouts[i]), EINTR);
		no_more();
		assert_true(side->queue->armed);
		ext_complete(side->queue, 3, IBV_WC_SUCCESS);
		assert_succeeds(side->wait(&ext.id, &wc, timeouts[i]), 1);
	}
}

/* How often a wait was interrupted; in total it never takes less than the whole time. */
static int interruptions_of_a_wait(void)
{
	const double whole = 150;
	double started = now_ms(), left;
	int result = -1, interruptions = 0;
	struct ibv_wc wc;

	every(20);
	while ((left = started + whole - now_ms()) > 0) {
		result = side->wait(&ext.id, &wc, (int)left + 1);
		if (result >= 0)
			break;
		assert_int_equal(errno, EINTR);
		interruptions++;
	}
	no_more();
	assert_true(result <= 0);
	assert_true(now_ms() >= started + whole);
	return interruptions;
}

/* On a busy machine the signals may be merged, but not every time. */
static void waits_on_for_what_remains(void **state)
{
	int tries = 0;

	(void)state;
	while (interruptions_of_a_wait() < 3)
		assert_true(++tries < TRIES);
}

/* --- a transfer ----------------------------------------------------------------------------- */

static const struct direction {
	int (*transfer)(struct rdma_cm_id *, void *, size_t, struct ibv_mr *, uint64_t, uint32_t,
			int, rdmax_wc_handler, void *);
} directions[] = { { rdmax_read }, { rdmax_write } };

static const struct direction *direction;

static int begin_transfer(void **state)
{
	direction = *state;
	return ext_begin(state);
}

static int transfer(int timeout_ms)
{
	return direction->transfer(&ext.id, ext_memory, LENGTH, &ext.mr, 0, 0, timeout_ms, NULL,
				   NULL);
}

/* How long a call takes that signals do not end. */
static double time_with_signals(void)
{
	double started = now_ms();

	every(10);
	assert_fails(transfer(100), ETIMEDOUT);
	every(0);
	return now_ms() - started;
}

/* Nor do they make it longer. A busy machine may, or may deliver few of them. */
static void signals_do_not_end_it(void **state)
{
	int tries = 0;
	double took;

	(void)state;
	do {
		assert_true(tries++ < TRIES);
		took = time_with_signals();
		assert_true(took >= 100);
	} while (signals < 3 || took >= 200);
	no_more();
}

/* Completes the request after the waiting thread has received some signals. */
static void *complete_after_signals(void *unused)
{
	while (signals < 3)
		usleep(1000);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	return unused;
}

/* Interruptions that a call handles leave no trace in errno. */
static void signals_leave_errno_alone(void **state)
{
	sigset_t alarm_only;
	pthread_t thread;

	(void)state;
	signals = 0;
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
	assert_int_equal(pthread_create(&thread, NULL, complete_after_signals, NULL), 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	every(10);
	assert_succeeds(transfer(-1), 0);
	no_more();
	pthread_join(thread, NULL);
}

#define WAIT(test) \
	{ #test " (send)", test, begin_wait, ext_end, (void *)&sides[0] }, \
	{ #test " (recv)", test, begin_wait, ext_end, (void *)&sides[1] }
#define TRANSFER(test) \
	{ #test " (read)", test, begin_transfer, ext_end, (void *)&directions[0] }, \
	{ #test " (write)", test, begin_transfer, ext_end, (void *)&directions[1] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		WAIT(interrupted),
		WAIT(waits_on_for_what_remains),
		TRANSFER(signals_do_not_end_it),
		TRANSFER(signals_leave_errno_alone),
	};

	alarm(LIMIT_SECONDS);
	return cmocka_run_group_tests_name("ext_signals", tests, NULL, NULL);
}
