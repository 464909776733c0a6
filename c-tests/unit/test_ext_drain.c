// SPDX-License-Identifier: MIT OR Apache-2.0
/* Draining: each request completes and is taken, whatever state the queues are in. */
#include "../fake/ext_fake.h"
#include "../lib/clock.h"

#include <unistd.h>

enum { LIMIT_SECONDS = 60 };

static struct ibv_sge element = { .addr = 1, .length = 1 };

static void post_some(int sends, int receives)
{
	for (int i = 0; i < sends; i++)
		assert_int_equal(rdma_post_sendv(&ext.id, NULL, &element, 1, 0), 0);
	for (int i = 0; i < receives; i++)
		assert_int_equal(rdma_post_recvv(&ext.id, NULL, &element, 1), 0);
}

static void assert_drained(void)
{
	assert_int_equal(ext.state, IBV_QPS_ERR);
	assert_int_equal(ext.sq.posted, ext.sq.completed);
	assert_int_equal(ext.rq.posted, ext.rq.completed);
	assert_int_equal(ext.send.added, ext.send.taken);
	assert_int_equal(ext.recv.added, ext.recv.taken);
}

static void drains(void **state)
{
	static const struct { int sends, receives; } outstanding[] = {
		{ 0, 0 }, { 1, 0 }, { 0, 1 }, { 30, 40 }, { EXT_DEPTH - 1, EXT_DEPTH - 1 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(outstanding); i++) {
		ext.state = IBV_QPS_RTS;
		post_some(outstanding[i].sends, outstanding[i].receives);
		assert_succeeds(rdmax_drain(&ext.id, 0), 0);
		assert_drained();
	}
}

/* Disconnected or broken: in the error state, with everything flushed. */
static void drains_in_error(void **state)
{
	(void)state;
	post_some(3, 3);
	ext.state = IBV_QPS_ERR;
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_drained();
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_drained();
}

/* There is room for the markers only after something has been flushed. */
static void drains_full_queues(void **state)
{
	(void)state;
	ext.sq.depth = ext.rq.depth = 16;
	post_some(16, 16);
	assert_succeeds(rdmax_drain(&ext.id, 1000), 0);
	assert_drained();
}

/*
 * The completion queues are full of completions not yet taken, while the completed requests
 * leave room for markers in the request queues.
 */
static void drains_full_completion_queues(void **state)
{
	(void)state;
	for (int left = 0; left <= EXT_DEPTH; left += EXT_DEPTH / 2) {
		ext.state = IBV_QPS_RTS;
		post_some(EXT_DEPTH, EXT_DEPTH);
		while (ext.sq.posted - ext.sq.completed > left) {
			ext_complete_next(&ext.sq, IBV_WC_REM_ACCESS_ERR);
			ext_complete_next(&ext.rq, IBV_WC_SUCCESS);
		}
		assert_succeeds(rdmax_drain(&ext.id, 1000), 0);
		assert_drained();
		assert_int_equal(ext.send.overruns + ext.recv.overruns, 0);
	}
}

static void drains_one_queue_for_both(void **state)
{
	(void)state;
	ext.qp.recv_cq = &ext.send.cq;
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_drained();
}

/* The completion queues are the queue pair's; the id need not know them. */
static void drains_queues_of_the_program(void **state)
{
	(void)state;
	ext.id.send_cq = ext.id.recv_cq = NULL;
	ext.id.send_cq_channel = ext.id.recv_cq_channel = NULL;
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_drained();
}

static void *flush_later(void *unused)
{
	usleep(20000);
	while (ext.sq.completed != ext.sq.posted)
		ext_complete_next(&ext.sq, IBV_WC_WR_FLUSH_ERR);
	while (ext.rq.completed != ext.rq.posted)
		ext_complete_next(&ext.rq, IBV_WC_WR_FLUSH_ERR);
	return unused;
}

static int keep_state(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	ext.sq.request[ext.sq.posted++ % EXT_DEPTH].send = *wr;
	return 0;
}

/* A slow device, with and without completion channels. */
static void drains_slowly(void **state)
{
	(void)state;
	for (int channels = 0; channels < 2; channels++) {
		pthread_t thread;

		ext.state = IBV_QPS_RTS;
		ext.whole.context.ops.post_send = keep_state;
		ext.send.cq.channel = channels ? &ext.send.channel : NULL;
		ext.recv.cq.channel = channels ? &ext.recv.channel : NULL;
		assert_fails(rdmax_drain(&ext.id, 0), ETIMEDOUT);
		assert_fails(rdmax_drain(&ext.id, 5), ETIMEDOUT);
		assert_int_equal(pthread_create(&thread, NULL, flush_later, NULL), 0);
		assert_succeeds(rdmax_drain(&ext.id, -1), 0);
		pthread_join(thread, NULL);
		assert_int_equal(ext.sq.posted, ext.sq.completed);
		ext.sq.posted = ext.sq.completed = 0;
		while (ext.send.added != ext.send.taken)
			ext.send.taken++;
	}
}

/* A queue pair that only reads, and one that only receives. */
static void drains_a_queue_pair_with_one_queue(void **state)
{
	(void)state;
	ext.rq.depth = 0;
	ext.qp.recv_cq = NULL;
	post_some(5, 0);
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_drained();
	assert_int_equal(ext.rq.calls, 0);

	ext.state = IBV_QPS_RTS;
	ext.rq.depth = EXT_DEPTH;
	ext.qp.recv_cq = &ext.recv.cq;
	ext.sq.depth = 0;
	ext.qp.send_cq = NULL;
	post_some(0, 5);
	ext.sq.calls = 0;
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_drained();
	assert_int_equal(ext.sq.calls, 0);
}

/* The queue pair's SRQ, or one that the program has given to the id. */
static void leaves_shared_receives(void **state)
{
	static const struct { struct ibv_srq *of_qp, *of_id; } shared[] = {
		{ &ext.srq, &ext.srq }, { &ext.srq, NULL }, { NULL, &ext.srq },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(shared); i++) {
		ext.state = IBV_QPS_RTS;
		ext.shared.posted = 0;
		ext.qp.srq = shared[i].of_qp;
		ext.id.srq = &ext.srq;
		post_some(5, 5);
		ext.id.srq = shared[i].of_id;
		assert_succeeds(rdmax_drain(&ext.id, 0), 0);
		assert_int_equal(ext.sq.posted, ext.sq.completed);
		assert_int_equal(ext.shared.posted, 5);
		assert_int_equal(ext.shared.completed, 0);
		assert_int_equal(ext.rq.calls, 0);
	}
}

/* Nothing is done twice while the device is slow. */
static void drain_waits_for_events(void **state)
{
	(void)state;
	ext.whole.context.ops.post_send = keep_state;
	assert_fails(rdmax_drain(&ext.id, 200), ETIMEDOUT);
	assert_int_equal(ext.states_set, 1);
	assert_int_equal(ext.sq.posted, 1);
	assert_between(ext.send.arms, 1, 5);
}

/* Without a channel it polls every millisecond, and sleeps in between. */
static void drain_sleeps(void **state)
{
	(void)state;
	ext.whole.context.ops.post_send = keep_state;
	ext.send.cq.channel = NULL;
	assert_fails(rdmax_drain(&ext.id, 200), ETIMEDOUT);
	assert_in_range(ext.send.polls, 5, 1000);
}

/* A full queue may get room again without a completion. */
static void *accept_later(void *unused)
{
	usleep(20000);
	*(volatile int *)&ext.sq.accept = -1;
	return unused;
}

static void drain_tries_again(void **state)
{
	double started = now_ms();
	pthread_t thread;

	(void)state;
	ext.sq.accept = 0;
	ext.sq.refusal = ENOMEM;
	assert_int_equal(pthread_create(&thread, NULL, accept_later, NULL), 0);
	assert_succeeds(rdmax_drain(&ext.id, LIMIT_SECONDS * 1000), 0);
	pthread_join(thread, NULL);
	assert_drained();
	assert_true(now_ms() - started < LIMIT_SECONDS * 1000 / 2);
}

/* A datagram cannot be posted without an address. */
static void resets_datagrams(void **state)
{
	(void)state;
	ext.qp.qp_type = IBV_QPT_UD;
	post_some(5, 5);
	assert_succeeds(rdmax_drain(&ext.id, 0), 0);
	assert_int_equal(ext.state, IBV_QPS_RESET);
	assert_int_equal(ext.sq.posted, 5);
	assert_int_equal(ext.rq.posted, 5);
	assert_int_equal(ext.send.polls + ext.recv.polls, 0);
}

static void drain_fails(void **state)
{
	(void)state;
	assert_fails(rdmax_drain(NULL, 0), EINVAL);
	ext.result = EPERM;
	assert_fails(rdmax_drain(&ext.id, 0), EPERM);
	ext.result = 0;
	ext.rq.accept = 0;
	ext.rq.refusal = EINVAL;
	assert_fails(rdmax_drain(&ext.id, 0), EINVAL);
	ext.rq.accept = -1;
	ext.sq.accept = 0;
	ext.sq.refusal = -EIO;
	assert_fails(rdmax_drain(&ext.id, 0), EIO);
	ext.sq.accept = -1;
	ext.qp.send_cq = NULL;
	assert_fails(rdmax_drain(&ext.id, 0), EINVAL);
	ext.id.qp = NULL;
	assert_fails(rdmax_drain(&ext.id, 0), EINVAL);
}

static void polling_fails(void **state)
{
	(void)state;
	ext.send.poll_result = -EINVAL;
	assert_fails(rdmax_drain(&ext.id, -1), EINVAL);
}

#define ONE(test) { #test, test, ext_begin, ext_end, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(drains),
		ONE(drains_in_error),
		ONE(drains_full_queues),
		ONE(drains_full_completion_queues),
		ONE(drains_one_queue_for_both),
		ONE(drains_queues_of_the_program),
		ONE(drains_slowly),
		ONE(drains_a_queue_pair_with_one_queue),
		ONE(leaves_shared_receives),
		ONE(drain_waits_for_events),
		ONE(drain_sleeps),
		ONE(drain_tries_again),
		ONE(resets_datagrams),
		ONE(drain_fails),
		ONE(polling_fails),
	};

	alarm(LIMIT_SECONDS);
	return cmocka_run_group_tests_name("ext_drain", tests, NULL, NULL);
}
