// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Posts, waits with random timeouts, and signals, at random: 1 to 8 threads wait for the
 * completions of one queue. Each request completes exactly once, and no thread sleeps while
 * there is a completion.
 */
#include "../fake/ext_fake.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum {
	MOST_ROUNDS = 100000,
	MOST_THREADS = 8,
	MOST_REQUESTS = 3,	/* of a round */
	LIMIT_SECONDS = 250,
	SIGNAL_US = 2000,
};

/* The wr_id that ends a thread. */
#define END UINT64_MAX

static atomic_uchar seen[MOST_ROUNDS * MOST_REQUESTS];
static atomic_ullong taken, interrupted, timed_out;
static atomic_int faults;
static int rounds = MOST_ROUNDS;

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005 + 1442695040888963407;
	return *seed >> 33;
}

/* --- the threads that wait -------------------------------------------------------------------- */

/* Half of them without a timeout: only a completion or a signal ends them. */
static int random_timeout(uint64_t *seed)
{
	static const int timeouts[] = { -1, -1, -1, 0, 1, 3 };

	return timeouts[next_random(seed) % COUNT(timeouts)];
}

static int wait_once(struct ibv_wc *wc, int n, uint64_t *seed)
{
	struct timespec end;
	int timeout = random_timeout(seed);

	if (next_random(seed) % 2)
		return rdmax_get_send_comps(&ext.id, wc, n, timeout);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += timeout * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	return rdmax_get_send_comps_until(&ext.id, wc, n, timeout < 0 ? NULL : &end);
}

/* Whether it was the end. An end that is not ours is for another thread. */
static int note(const struct ibv_wc *wc, int n)
{
	int ended = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].wr_id != END) {
			atomic_fetch_add(&seen[wc[i].wr_id], 1);
			atomic_fetch_add(&taken, 1);
		} else if (ended++) {
			ext_complete(&ext.send, END, IBV_WC_SUCCESS);
		}
	}
	return ended;
}

static void *take(void *argument)
{
	uint64_t seed = (uintptr_t)argument;
	struct ibv_wc wc[4];
	int found;

	do {
		int n = (int)(next_random(&seed) % COUNT(wc)) + 1;

		errno = 0;
		found = wait_once(wc, n, &seed);
		if (found < 0 && errno == EINTR)
			atomic_fetch_add(&interrupted, 1);
		else if (found < 0 || found > n)
			atomic_fetch_add(&faults, 1);
		else if (!found)
			atomic_fetch_add(&timed_out, 1);
	} while (found < 1 || !note(wc, found));
	return NULL;
}

/* --- the thread that posts ----------------------------------------------------------------------- */

static void post_some(uint64_t *seed, uint64_t *posted)
{
	struct rdmax_send_wr wr[MOST_REQUESTS] = { { 0 } };
	int n = (int)(next_random(seed) % MOST_REQUESTS) + 1, queued = -1;

	for (int i = 0; i < n; i++) {
		wr[i].context = (void *)(uintptr_t)(*posted)++;
		wr[i].opcode = IBV_WR_SEND;
		wr[i].flags = IBV_SEND_SIGNALED;
	}
	assert_int_equal(rdmax_post_sends(&ext.id, wr, sizeof(*wr), n, &queued), 0);
	assert_int_equal(queued, n);
}

/* Some of what is outstanding; all of it when there is not much room left. */
static void complete_some(uint64_t *seed)
{
	int outstanding = ext.sq.posted - ext.sq.completed;
	int n = outstanding > EXT_DEPTH / 2 ? outstanding :
					      (int)(next_random(seed) % (uint64_t)(outstanding + 1));

	while (n--)
		ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	while (ext_waiting(&ext.send) > EXT_DEPTH / 2 - 2 * MOST_THREADS)
		usleep(10);
}

/* The waiting threads get every signal, so that nothing else is interrupted. */
static void block(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(how, &set, NULL);
}

static void ignore(int number)
{
	(void)number;
}

static void signal_every(int us)
{
	struct itimerval timer = { .it_interval.tv_usec = us, .it_value.tv_usec = us };
	struct sigaction action = { .sa_handler = ignore };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Nobody sleeps beside a completion: then they are all taken, without another event. */
static void expect_all_taken(uint64_t posted)
{
	while (atomic_load(&taken) != posted)
		usleep(100);	/* the limit of the program ends it */
}

static void run_with(int n, uint64_t *posted)
{
	uint64_t seed = (uint64_t)n;
	pthread_t threads[MOST_THREADS];

	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, take,
						(void *)(uintptr_t)(n * 100 + i)), 0);
	block(SIG_BLOCK);
	for (int i = 0; i < rounds / MOST_THREADS; i++) {
		post_some(&seed, posted);
		complete_some(&seed);
		if (next_random(&seed) % 64 == 0)
			usleep((useconds_t)(next_random(&seed) % 500));
	}
	while (ext.sq.completed != ext.sq.posted)
		ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	expect_all_taken(*posted);
	for (int i = 0; i < n; i++)
		ext_complete(&ext.send, END, IBV_WC_SUCCESS);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	block(SIG_UNBLOCK);
}

static void each_completes_once(void **state)
{
	uint64_t posted = 0;

	(void)state;
	signal_every(SIGNAL_US);
	for (int n = 1; n <= MOST_THREADS; n++)
		run_with(n, &posted);
	signal_every(0);
	assert_int_equal(atomic_load(&faults), 0);
	for (uint64_t i = 0; i < posted; i++)
		assert_int_equal(atomic_load(&seen[i]), 1);
	assert_int_equal(ext.send.overruns, 0);
	assert_true(atomic_load(&interrupted) > 0 && atomic_load(&timed_out) > 0);
	print_message("# %llu requests, %llu interruptions, %llu timeouts\n",
		      (unsigned long long)posted, (unsigned long long)atomic_load(&interrupted),
		      (unsigned long long)atomic_load(&timed_out));
}

/* setitimer takes SIGALRM; so the limit of the program is another's. */
static void give_up(int number)
{
	(void)number;
	abort();
}

/* The argument: fewer rounds, for tools that make it slow. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_completes_once, ext_begin, ext_end),
	};
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2 };
	struct itimerspec limit = { .it_value.tv_sec = LIMIT_SECONDS };
	timer_t timer;

	if (argc > 1)
		rounds = atoi(argv[1]);
	signal(SIGUSR2, give_up);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &limit, NULL))
		return 1;
	return cmocka_run_group_tests_name("ext_random", tests, NULL, NULL);
}
