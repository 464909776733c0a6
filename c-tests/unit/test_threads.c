// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * One id used by several threads at once, on a provider with a working queue: an event is
 * written to a pipe only if the queue was armed when the completion came.
 */
#include "../lib/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_verbs.h>

enum { COMPLETIONS = 20000, QUEUE = 64, LIMIT_SECONDS = 60 };

static struct {
	struct ibv_context context;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_comp_channel channel;
	struct rdma_cm_id id;
	pthread_mutex_t lock;
	pthread_cond_t room;
	uint64_t completion[QUEUE];
	unsigned int added, taken;
	int armed;
	int pipe[2];
	atomic_uint acknowledged, events;
} queue;

static void add_completion(uint64_t wr_id)
{
	int armed;

	pthread_mutex_lock(&queue.lock);
	while (queue.added - queue.taken == QUEUE)
		pthread_cond_wait(&queue.room, &queue.lock);
	queue.completion[queue.added++ % QUEUE] = wr_id;
	armed = queue.armed;
	queue.armed = 0;
	pthread_mutex_unlock(&queue.lock);
	if (armed) {
		atomic_fetch_add(&queue.events, 1);
		if (write(queue.pipe[1], "", 1) != 1)
			abort();
	}
}

/* Posts complete at once; odd contexts are refused. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	if (wr->wr_id & 1) {
		*bad = wr;
		return ENOMEM;
	}
	add_completion(wr->wr_id);
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	int found;

	(void)cq;
	(void)entries;
	pthread_mutex_lock(&queue.lock);
	found = queue.added != queue.taken;
	if (found) {
		memset(wc, 0, sizeof(*wc));
		wc->wr_id = queue.completion[queue.taken++ % QUEUE];
		pthread_cond_signal(&queue.room);
	}
	pthread_mutex_unlock(&queue.lock);
	return found;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	pthread_mutex_lock(&queue.lock);
	queue.armed = 1;
	pthread_mutex_unlock(&queue.lock);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	char byte;

	(void)channel;
	if (read(queue.pipe[0], &byte, 1) != 1)
		return -1;
	*cq = &queue.cq;
	*context = &queue.id;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	if (cq != &queue.cq)
		abort();
	atomic_fetch_add(&queue.acknowledged, events);
}

static int reset(void **state)
{
	(void)state;
	memset(&queue, 0, sizeof(queue));
	pthread_mutex_init(&queue.lock, NULL);
	pthread_cond_init(&queue.room, NULL);
	queue.context.ops.post_send = post_send;
	queue.context.ops.poll_cq = poll_cq;
	queue.context.ops.req_notify_cq = req_notify_cq;
	queue.qp.context = &queue.context;
	queue.cq.context = &queue.context;
	queue.id.qp = &queue.qp;
	queue.id.send_cq = &queue.cq;
	queue.id.send_cq_channel = &queue.channel;
	return pipe(queue.pipe);
}

static int release(void **state)
{
	(void)state;
	close(queue.pipe[0]);
	close(queue.pipe[1]);
	pthread_cond_destroy(&queue.room);
	pthread_mutex_destroy(&queue.lock);
	return 0;
}

/* Unread events: raised between arming and the poll that found the completion. */
static unsigned int unread_events(void)
{
	int unread;

	assert_int_equal(ioctl(queue.pipe[0], FIONREAD, &unread), 0);
	return (unsigned int)unread;
}

/* Errors in a thread: cmocka's assertions work only in the main thread. */
static atomic_int faults;

/* Posts even numbers, each followed by an odd one, which is refused. */
static void *post_all(void *unused)
{
	for (uint64_t i = 1; i <= COMPLETIONS; i++) {
		errno = UNTOUCHED;
		if (rdma_post_sendv(&queue.id, (void *)(i * 2), NULL, 0, 0) != 0 ||
		    errno != UNTOUCHED)
			atomic_fetch_add(&faults, 1);
		if (rdma_post_sendv(&queue.id, (void *)(i * 2 + 1), NULL, 0, 0) != -1 ||
		    errno != ENOMEM)
			atomic_fetch_add(&faults, 1);
	}
	return unused;
}

/*
 * While one thread posts and is refused, the other takes all completions; errno is per
 * thread.
 */
static void one_posts_one_waits(void **state)
{
	pthread_t poster;

	(void)state;
	atomic_store(&faults, 0);
	assert_int_equal(pthread_create(&poster, NULL, post_all, NULL), 0);
	for (uint64_t i = 1; i <= COMPLETIONS; i++) {
		struct ibv_wc wc;

		assert_succeeds(rdma_get_send_comp(&queue.id, &wc), 1);
		assert_int_equal(wc.wr_id, i * 2);
	}
	pthread_join(poster, NULL);
	assert_int_equal(atomic_load(&faults), 0);
	assert_int_equal(atomic_load(&queue.acknowledged) + unread_events(),
			 atomic_load(&queue.events));
}

enum { STOP = 0 };
static atomic_uchar seen[COMPLETIONS + 1];

static void *take_until_stopped(void *unused)
{
	for (;;) {
		struct ibv_wc wc;

		if (rdma_get_send_comp(&queue.id, &wc) != 1) {
			atomic_fetch_add(&faults, 1);
			return unused;
		}
		if (wc.wr_id == STOP)
			return unused;
		atomic_fetch_add(&seen[wc.wr_id / 2], 1);
	}
}

static void two_wait(void **state)
{
	pthread_t takers[2];

	(void)state;
	atomic_store(&faults, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&takers[i], NULL, take_until_stopped, NULL), 0);
	for (uint64_t i = 1; i <= COMPLETIONS; i++)
		add_completion(i * 2);
	/*
	 * One event wakes one thread. The other may be waiting on a queue that has not been
	 * armed since, as in any program that waits in two threads.
	 */
	for (int i = 0; i < 2; i++) {
		req_notify_cq(&queue.cq, 0);
		add_completion(STOP);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(takers[i], NULL);
	assert_int_equal(atomic_load(&faults), 0);
	for (uint64_t i = 1; i <= COMPLETIONS; i++)
		assert_int_equal(atomic_load(&seen[i]), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_posts_one_waits, reset, release),
		cmocka_unit_test_setup_teardown(two_wait, reset, release),
	};

	alarm(LIMIT_SECONDS);	/* a lost wake-up ends the program, not the test run */
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
