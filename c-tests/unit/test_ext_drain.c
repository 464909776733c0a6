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
		assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
		assert_drained();
	}
}

/* Disconnected or broken: in the error state, with everything flushed. */
static void drains_in_error(void **state)
{
	(void)state;
	post_some(3, 3);
	ext.state = IBV_QPS_ERR;
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
}

/* There is room for the markers only after something has been flushed. */
static void drains_full_queues(void **state)
{
	(void)state;
	ext.sq.depth = ext.rq.depth = 16;
	post_some(16, 16);
	assert_succeeds(rdmax_drain(&ext.id, 1000, NULL, NULL), 0);
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
		assert_succeeds(rdmax_drain(&ext.id, 1000, NULL, NULL), 0);
		assert_drained();
		assert_int_equal(ext.send.overruns + ext.recv.overruns, 0);
	}
}

static void drains_one_queue_for_both(void **state)
{
	(void)state;
	ext.qp.recv_cq = &ext.send.cq;
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
}

/* The completion queues are the queue pair's; the id need not know them. */
static void drains_queues_of_the_program(void **state)
{
	(void)state;
	ext.id.send_cq = ext.id.recv_cq = NULL;
	ext.id.send_cq_channel = ext.id.recv_cq_channel = NULL;
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
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

/* A slow device. Nothing is posted twice by a call, and no channel is touched. */
static void drains_slowly(void **state)
{
	pthread_t thread;

	(void)state;
	ext.slow = 1;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), ETIMEDOUT);
	assert_int_equal(ext.sq.posted + ext.rq.posted, 2);
	assert_fails(rdmax_drain(&ext.id, 5, NULL, NULL), ETIMEDOUT);
	assert_int_equal(ext.sq.posted + ext.rq.posted, 4);
	assert_int_equal(pthread_create(&thread, NULL, flush_later, NULL), 0);
	assert_succeeds(rdmax_drain(&ext.id, LIMIT_SECONDS * 1000, NULL, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ext.send.arms + ext.recv.arms, 0);
	assert_int_equal(ext.send.acknowledged + ext.recv.acknowledged, 0);
}

/* It polls every millisecond, and sleeps in between. */
static void drain_sleeps(void **state)
{
	(void)state;
	ext.slow = 1;
	assert_fails(rdmax_drain(&ext.id, 200, NULL, NULL), ETIMEDOUT);
	assert_in_range(ext.send.polls, 5, 250);
	assert_int_equal(ext.sq.posted, 1);
}

/* A queue pair that only reads, and one that only receives. */
static void drains_a_queue_pair_with_one_queue(void **state)
{
	(void)state;
	ext.rq.depth = 0;
	ext.qp.recv_cq = NULL;
	post_some(5, 0);
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
	assert_int_equal(ext.rq.calls, 0);

	ext.state = IBV_QPS_RTS;
	ext.rq.depth = EXT_DEPTH;
	ext.qp.recv_cq = &ext.recv.cq;
	ext.sq.depth = 0;
	ext.qp.send_cq = NULL;
	post_some(0, 5);
	ext.sq.calls = 0;
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
	assert_int_equal(ext.sq.calls, 0);
}

/* The provider says that there is room for nothing: it ends in the error state all the same. */
static void drains_a_queue_pair_without_queues(void **state)
{
	(void)state;
	ext.sq.depth = ext.rq.depth = 0;
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_int_equal(ext.state, IBV_QPS_ERR);
	assert_int_equal(ext.sq.calls + ext.rq.calls, 0);
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
		assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
		assert_int_equal(ext.sq.posted, ext.sq.completed);
		assert_int_equal(ext.shared.posted, 5);
		assert_int_equal(ext.shared.completed, 0);
		assert_int_equal(ext.rq.calls, 0);
	}
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
	assert_succeeds(rdmax_drain(&ext.id, LIMIT_SECONDS * 1000, NULL, NULL), 0);
	pthread_join(thread, NULL);
	assert_drained();
	assert_true(now_ms() - started < LIMIT_SECONDS * 1000 / 2);
}

/* --- channels, and the completions of others ----------------------------------------------- */

static int n_given;
static uint64_t sum_given;

static void count(const struct ibv_wc *wc, void *arg)
{
	assert_ptr_equal(arg, &n_given);
	n_given++;
	sum_given += wc->wr_id;
}

/* Both queues, and another id's, raise their events in one channel: none is taken. */
static void leaves_events_alone(void **state)
{
	(void)state;
	ext.recv.cq.channel = &ext.send.channel;
	ext.send.armed = ext.recv.armed = 1;
	ext_raise(&ext.send, &ext.other);
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
	assert_true(ext_readable(&ext.send));
	assert_int_equal(ext.other.acknowledged + ext.send.acknowledged, 0);
}

/* Each goes to the program, but not those of the library's own requests. */
static void gives_completions_back(void **state)
{
	(void)state;
	n_given = 0;
	sum_given = 0;
	for (uint64_t i = 1; i <= 20; i++) {
		assert_int_equal(rdma_post_sendv(&ext.id, (void *)(uintptr_t)i, &element, 1, 0), 0);
		assert_int_equal(rdma_post_recvv(&ext.id, (void *)(uintptr_t)(100 * i), &element,
						 1), 0);
	}
	assert_fails(rdmax_read(&ext.id, ext_memory, 8, &ext.mr, 0, 0, 0, NULL, NULL), ETIMEDOUT);
	ext_complete(&ext.recv, 1000000, IBV_WC_SUCCESS);
	assert_succeeds(rdmax_drain(&ext.id, 0, count, &n_given), 0);
	assert_drained();
	assert_int_equal(n_given, 41);
	assert_int_equal(sum_given, 101 * 210 + 1000000);
}

/* --- providers with ways of their own --------------------------------------------------------- */

/* erdma, cxgb4 and mana accept nothing in the error state: the markers come before it. */
static void provider_refuses_in_error(void **state)
{
	(void)state;
	ext.sq.refuses_in_error = -EIO;
	ext.rq.refuses_in_error = -EINVAL;
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
	/* In the error state from the start, nothing tells: but what has completed is taken. */
	ext.state = IBV_QPS_RTS;
	post_some(10, 10);
	ext.state = IBV_QPS_ERR;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EOPNOTSUPP);
	assert_drained();
	/* One queue is enough. */
	ext.sq.refuses_in_error = 0;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EOPNOTSUPP);
}

/* It may say so by a value that means something else, and leave bad_wr alone. */
static void provider_refuses_without_a_word(void **state)
{
	(void)state;
	ext.sq.refuses_in_error = ext.rq.refuses_in_error = -1;
	ext.sq.keeps_bad = ext.rq.keeps_bad = 1;
	ext.state = IBV_QPS_ERR;
	assert_fails(rdmax_drain(&ext.id, 5, NULL, NULL), ETIMEDOUT);
}

/* siw completes nothing that is posted in the error state. */
static void provider_swallows_in_error(void **state)
{
	(void)state;
	ext.sq.swallows_in_error = ext.rq.swallows_in_error = 1;
	post_some(10, 10);
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_drained();
	ext.state = IBV_QPS_RTS;
	post_some(10, 10);
	ext.state = IBV_QPS_ERR;
	assert_fails(rdmax_drain(&ext.id, 5, NULL, NULL), ETIMEDOUT);
	assert_drained();
}

/* Before there is a connection, requests are refused, or queued by one that says it failed. */
static void drains_before_the_connection(void **state)
{
	(void)state;
	for (enum ibv_qp_state from = IBV_QPS_RESET; from <= IBV_QPS_RTR; from++) {
		ext.state = from;
		post_some(0, 10);
		ext.sq.accept = 0;
		ext.sq.refusal = -ENOTCONN;
		assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
		assert_drained();

		ext.state = from;
		ext.sq.accept = -1;
		post_some(10, 10);
		ext.sq.doorbell = EINVAL;
		assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
		assert_drained();
		ext.sq.doorbell = 0;
	}
	ext.state = IBV_QPS_RESET;
	ext.rq.accept = 0;
	ext.rq.refusal = EINVAL;
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	ext.state = IBV_QPS_INIT;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EOPNOTSUPP);
}

/* The receive marker has an element, since siw accepts none without; it has no bytes. */
static void markers_carry_nothing(void **state)
{
	(void)state;
	assert_succeeds(rdmax_drain(&ext.id, 0, NULL, NULL), 0);
	assert_int_equal(ext.rq.request[0].recv.num_sge, 1);
	assert_int_equal(ext.rq.request[0].sge.length, 0);
	assert_int_equal(ext.sq.request[0].send.num_sge, 0);
	assert_int_equal(ext.sq.request[0].send.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(ext.sq.request[0].send.send_flags, IBV_SEND_SIGNALED);
}

/* --- its time -------------------------------------------------------------------------------- */

/* Another queue pair's completions come faster than they can be taken. */
static int never_empty(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	(void)cq;
	memset(wc, 0, sizeof(*wc) * (size_t)entries);
	return entries;
}

static void ends_in_time(void **state)
{
	enum { LATE_MS = 20, TRIES = 10 };

	(void)state;
	ext.slow = 1;
	ext.whole.context.ops.poll_cq = never_empty;
	for (int timeout = 0; timeout <= 100; timeout += 50) {
		int tries = 0;
		double took;

		do {
			double started = now_ms();

			assert_true(tries++ < TRIES);
			assert_fails(rdmax_drain(&ext.id, timeout, NULL, NULL), ETIMEDOUT);
			took = now_ms() - started;
			assert_true(took >= timeout);
		} while (took > timeout + LATE_MS);
	}
}

/* --- others ---------------------------------------------------------------------------------- */

/* A datagram cannot be posted without an address. */
static void resets_datagrams(void **state)
{
	(void)state;
	ext.qp.qp_type = IBV_QPT_UD;
	n_given = 0;
	post_some(5, 5);
	ext_complete(&ext.send, 1, IBV_WC_SUCCESS);
	ext_complete(&ext.recv, 1, IBV_WC_SUCCESS);
	assert_succeeds(rdmax_drain(&ext.id, 0, count, &n_given), 0);
	assert_drained();
	assert_int_equal(ext.states_set, 3);
	assert_int_equal(ext.sq.posted, 5);
	assert_int_equal(ext.rq.posted, 5);
	assert_int_equal(n_given, 2);
}

static void drain_fails(void **state)
{
	(void)state;
	assert_fails(rdmax_drain(NULL, 0, NULL, NULL), EINVAL);
	ext.result = EPERM;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EPERM);
	ext.result = 0;
	ext.qp.send_cq = NULL;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EINVAL);
	ext.qp.send_cq = &ext.send.cq;
	ext.qp.recv_cq = NULL;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EINVAL);
	ext.id.qp = NULL;
	assert_fails(rdmax_drain(&ext.id, 0, NULL, NULL), EINVAL);
}

static void polling_fails(void **state)
{
	(void)state;
	ext.send.poll_result = -EINVAL;
	assert_fails(rdmax_drain(&ext.id, -1, NULL, NULL), EINVAL);
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
		ONE(drain_sleeps),
		ONE(drains_a_queue_pair_with_one_queue),
		ONE(drains_a_queue_pair_without_queues),
		ONE(leaves_shared_receives),
		ONE(drain_tries_again),
		ONE(leaves_events_alone),
		ONE(gives_completions_back),
		ONE(provider_refuses_in_error),
		ONE(provider_refuses_without_a_word),
		ONE(provider_swallows_in_error),
		ONE(drains_before_the_connection),
		ONE(markers_carry_nothing),
		ONE(ends_in_time),
		ONE(resets_datagrams),
		ONE(drain_fails),
		ONE(polling_fails),
	};

	alarm(LIMIT_SECONDS);
	return cmocka_run_group_tests_name("ext_drain", tests, NULL, NULL);
}
