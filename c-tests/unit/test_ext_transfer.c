// SPDX-License-Identifier: MIT OR Apache-2.0
/* Complete reads and writes: what is posted, waited for, and left behind. */
#include "../fake/ext_fake.h"

#include <unistd.h>

#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)
#define RKEY UINT32_C(0xfedcba98)
#define MARK UINT64_C(0x72646d78)	/* of the library's own requests */

enum { LENGTH = 100, LIMIT_SECONDS = 60 };

static const struct direction {
	int (*transfer)(struct rdma_cm_id *, void *, size_t, struct ibv_mr *, uint64_t, uint32_t,
			int, rdmax_wc_handler, void *);
	enum ibv_wr_opcode opcode;
	int needs_region;
} directions[] = {
	{ rdmax_read, IBV_WR_RDMA_READ, 1 },
	{ rdmax_write, IBV_WR_RDMA_WRITE, 0 },
};

static const struct direction *direction;

static int begin(void **state)
{
	direction = *state;
	return ext_begin(state);
}

static int transfer(size_t length, int timeout_ms)
{
	return direction->transfer(&ext.id, ext_memory, length, &ext.mr, REMOTE_ADDR, RKEY,
				   timeout_ms, NULL, NULL);
}

/* What the device does with requests: complete all at once, some, or none. */
static enum ibv_wc_status outcome;

static void complete_at_once(struct ext_request *request)
{
	(void)request;
	ext_complete_next(&ext.sq, outcome);
}

static void device_completes(enum ibv_wc_status status)
{
	outcome = status;
	ext.on_send = complete_at_once;
}

/* --- one piece ---------------------------------------------------------------------------- */

static void small(void **state)
{
	static const size_t lengths[] = { 0, 1, LENGTH, 1 << 20 };

	(void)state;
	device_completes(IBV_WC_SUCCESS);
	for (size_t i = 0; i < COUNT(lengths); i++) {
		const struct ext_request *posted = &ext.sq.request[i];

		assert_succeeds(transfer(lengths[i], -1), 0);
		assert_int_equal(ext.sq.posted, i + 1);
		assert_int_equal(posted->send.opcode, direction->opcode);
		assert_int_equal(posted->send.send_flags, IBV_SEND_SIGNALED);
		assert_int_equal(posted->send.wr.rdma.remote_addr, REMOTE_ADDR);
		assert_int_equal(posted->send.wr.rdma.rkey, RKEY);
		assert_int_equal(posted->sge.addr, (uintptr_t)ext_memory);
		assert_int_equal(posted->sge.length, lengths[i]);
		assert_int_equal(posted->sge.lkey, ext.mr.lkey);
		assert_int_equal(posted->send.wr_id >> 32, MARK);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(posted->send.wr_id, ext.sq.request[j].send.wr_id);
	}
	/* The port is not queried for what every device can carry. */
	assert_int_equal(ext.ports_queried, 0);
}

static void each_status_is_an_errno(void **state)
{
	(void)state;
	for (int status = 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++) {
		struct ibv_wc wc = { .status = (enum ibv_wc_status)status };

		device_completes(wc.status);
		assert_fails(transfer(LENGTH, -1), rdmax_wc_errno(&wc));
	}
}

static void refused(void **state)
{
	(void)state;
	ext.sq.accept = 0;
	ext.sq.refusal = ENOMEM;
	assert_fails(transfer(LENGTH, -1), ENOMEM);
	ext.sq.refusal = -EINVAL;
	assert_fails(transfer(LENGTH, -1), EINVAL);
	assert_int_equal(ext.send.polls, 0);
}

static void null_pointers(void **state)
{
	(void)state;
	assert_fails(direction->transfer(NULL, ext_memory, 1, &ext.mr, 0, 0, 0, NULL, NULL), EINVAL);
	ext.id.qp = NULL;
	assert_fails(transfer(1, 0), EINVAL);
	ext.id.qp = &ext.qp;
	ext.id.send_cq = ext.qp.send_cq = NULL;
	assert_fails(transfer(1, 0), EINVAL);
	ext.id.send_cq = ext.qp.send_cq = &ext.send.cq;
	assert_int_equal(ext.sq.posted, 0);
	device_completes(IBV_WC_SUCCESS);
	if (direction->needs_region)
		assert_fails(direction->transfer(&ext.id, ext_memory, 1, NULL, 0, 0, 0, NULL,
						 NULL), EINVAL);
	else
		assert_succeeds(direction->transfer(&ext.id, NULL, 0, NULL, 0, 0, 0, NULL,
						    NULL), 0);
}

/* --- pieces --------------------------------------------------------------------------------- */

/* Two pieces are in flight if the queues can hold them. */
static int most_in_flight;

static void complete_the_one_before(struct ext_request *request)
{
	int in_flight = ext.sq.posted - ext.sq.completed;

	(void)request;
	if (in_flight > most_in_flight)
		most_in_flight = in_flight;
	if (in_flight > 1)
		ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
}

/* Completes the last piece some time after it was posted. */
static void *complete_the_rest(void *unused)
{
	usleep(20000);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	return unused;
}

static void transfer_in_pieces(size_t length, uint64_t piece, int pieces)
{
	uint64_t offset = 0;
	pthread_t thread;

	ext.sq.posted = ext.sq.completed = 0;
	ext.on_send = complete_the_one_before;
	most_in_flight = 0;
	assert_int_equal(pthread_create(&thread, NULL, complete_the_rest, NULL), 0);
	assert_succeeds(transfer(length, -1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ext.sq.posted, pieces);
	assert_int_equal(most_in_flight, pieces > 1 ? 2 : 1);
	for (int i = 0; i < pieces; i++, offset += piece) {
		const struct ext_request *posted = &ext.sq.request[i];
		uint64_t rest = length - offset;

		assert_int_equal(posted->sge.addr, (uintptr_t)ext_memory + offset);
		assert_int_equal(posted->sge.length, rest < piece ? rest : piece);
		assert_int_equal(posted->send.wr.rdma.remote_addr, REMOTE_ADDR + offset);
		assert_int_equal(posted->send.wr_id, ext.sq.request[0].send.wr_id);
	}
}

/* The port's limit, in whole pages. */
static void long_ones_in_pieces(void **state)
{
	static const struct { uint32_t max; uint64_t piece; } ports[] = {
		{ 1u << 30, 1u << 30 }, { 1u << 31, 1u << 31 }, { UINT32_MAX, UINT32_MAX - 4095 },
		{ 8 << 20, 8 << 20 }, { (8 << 20) + 5000, (8 << 20) + 4096 }, { 8192 + 1, 8192 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(ports); i++) {
		uint64_t piece = ports[i].piece;

		ext.max_msg_sz = ports[i].max;
		if (piece > 1 << 20)
			transfer_in_pieces(piece, piece, 1);
		if (piece >= 1 << 20) {
			transfer_in_pieces(piece + 1, piece, 2);
			transfer_in_pieces(3 * piece - 1, piece, 3);
			transfer_in_pieces(3 * piece, piece, 3);
		} else {
			transfer_in_pieces((1 << 20) + 1, piece, 129);
		}
	}
}

/* 3 GiB where a request carries 8 MiB, as on soft-RoCE. */
static void three_gib(void **state)
{
	(void)state;
	ext.max_msg_sz = 8 << 20;
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(transfer(UINT64_C(3) << 30, -1), 0);
	assert_int_equal(ext.sq.posted, 384);
}

/* A completion queue of one entry never gets two; a send queue of one request gets one. */
static void narrow_queues(void **state)
{
	(void)state;
	ext.max_msg_sz = 1 << 20;
	device_completes(IBV_WC_SUCCESS);
	ext.send.cq.cqe = 1;
	ext.on_send = complete_at_once;
	assert_succeeds(transfer(10 << 20, -1), 0);
	assert_int_equal(ext.sq.posted, 10);
}

static void *complete_each(void *unused)
{
	for (int i = 0; i < 10; i++) {
		while (*(volatile int *)&ext.sq.posted == i)
			usleep(100);
		ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	}
	return unused;
}

/* Some time after it was posted. */
static void *complete_when_posted(void *unused)
{
	while (*(volatile int *)&ext.sq.posted == *(volatile int *)&ext.sq.completed)
		usleep(100);
	usleep(20000);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	return unused;
}

static void send_queue_for_one(void **state)
{
	pthread_t thread;

	(void)state;
	ext.max_msg_sz = 1 << 20;
	ext.sq.depth = 1;
	assert_int_equal(pthread_create(&thread, NULL, complete_each, NULL), 0);
	assert_succeeds(transfer(10 << 20, -1), 0);
	pthread_join(thread, NULL);
	assert_int_equal(ext.sq.posted, 10);
}

/* After a piece fails no other is posted, and none is left in flight. */
static void fail_the_fifth(struct ext_request *request)
{
	(void)request;
	if (ext.sq.posted == 5) {
		ext_complete_next(&ext.sq, IBV_WC_REM_ACCESS_ERR);
		ext.state = IBV_QPS_ERR;	/* the rest is flushed */
		return;
	}
	if (ext.state != IBV_QPS_ERR && ext.sq.posted < 4)
		ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
}

static void a_piece_fails(void **state)
{
	(void)state;
	ext.max_msg_sz = 1 << 20;
	ext.on_send = fail_the_fifth;
	assert_fails(transfer(10 << 20, -1), EACCES);
	assert_int_equal(ext.sq.posted, 5);
	assert_int_equal(ext.sq.completed, 5);
	assert_int_equal(ext.send.added, ext.send.taken);
}

static void a_piece_is_refused(void **state)
{
	(void)state;
	ext.max_msg_sz = 1 << 20;
	device_completes(IBV_WC_SUCCESS);
	ext.sq.accept = 3;
	ext.sq.refusal = EINVAL;
	assert_fails(transfer(10 << 20, -1), EINVAL);
	assert_int_equal(ext.sq.posted, 3);
	assert_int_equal(ext.send.added, ext.send.taken);
}

static int (*next_poll_cq)(struct ibv_cq *cq, int entries, struct ibv_wc *wc);

static int poll_that_sets_errno(struct ibv_cq *cq, int entries, struct ibv_wc *wc)
{
	errno = EBADF;
	return next_poll_cq(cq, entries, wc);
}

/* The provider's errno is reported, not one set while the earlier pieces complete. */
static void a_piece_is_refused_by_errno(void **state)
{
	(void)state;
	ext.max_msg_sz = 1 << 20;
	device_completes(IBV_WC_SUCCESS);
	ext.sq.accept = 1;
	ext.sq.refusal = -1;
	next_poll_cq = ext.whole.context.ops.poll_cq;
	ext.whole.context.ops.poll_cq = poll_that_sets_errno;
	ext.sq.refusal_errno = ENOSPC;
	assert_int_equal(transfer(10 << 20, -1), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(ext.send.added, ext.send.taken);
}

static void port_is_unknown(void **state)
{
	int (*query_port)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t);

	(void)state;
	ext.result = EIO;
	assert_fails(transfer(2 << 20, -1), EIO);
	ext.result = 0;
	query_port = ext.whole.query_port;
	ext.whole.query_port = NULL;
	assert_fails(transfer(2 << 20, -1), EOPNOTSUPP);
	ext.whole.query_port = query_port;
	ext.whole.sz = sizeof(ext.whole) - 8;	/* an older version, which ends before this field */
	assert_fails(transfer(2 << 20, -1), EOPNOTSUPP);
	ext.whole.context.abi_compat = NULL;
	assert_fails(transfer(2 << 20, -1), EOPNOTSUPP);
	assert_int_equal(ext.sq.posted, 0);
	/* A newer version has more fields at the front. */
	ext.whole.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ext.whole.sz = sizeof(ext.whole) + 48;
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(transfer(2 << 20, -1), 0);
}

/* The queue may be the queue pair's; one without a channel is polled again and again. */
static void queue_of_the_program(void **state)
{
	(void)state;
	ext.id.send_cq = NULL;
	ext.id.send_cq_channel = NULL;
	for (int channels = 0; channels < 2; channels++) {
		pthread_t thread;

		ext.send.cq.channel = channels ? &ext.send.channel : NULL;
		assert_int_equal(pthread_create(&thread, NULL, complete_when_posted, NULL), 0);
		assert_succeeds(transfer(LENGTH, LIMIT_SECONDS * 1000), 0);
		pthread_join(thread, NULL);
	}
}

/* --- what is left in flight ------------------------------------------------------------------ */

static struct ibv_wc given[EXT_DEPTH];
static int n_given;

static void give(const struct ibv_wc *wc, void *arg)
{
	assert_ptr_equal(arg, given);
	given[n_given++] = *wc;
}

static int transfer_and_give(int timeout_ms)
{
	n_given = 0;
	return direction->transfer(&ext.id, ext_memory, LENGTH, &ext.mr, REMOTE_ADDR, RKEY,
				   timeout_ms, give, given);
}

static void times_out(void **state)
{
	(void)state;
	for (int timeout = 0; timeout < 20; timeout += 10)
		assert_fails(transfer(LENGTH, timeout), ETIMEDOUT);
	assert_int_equal(ext.sq.posted, 2);
}

/* Waiting fails for a reason of its own, which only the log tells: the request is in flight. */
static void waiting_fails(void **state)
{
	(void)state;
	ext.send.poll_result = -2;
	assert_fails(transfer(LENGTH, -1), ETIMEDOUT);
	ext.send.poll_result = 0;
	ext_raise(&ext.send, &ext.other);
	assert_fails(transfer(LENGTH, -1), ETIMEDOUT);
	assert_int_equal(ext.sq.posted, 2);
}

/* The provider fails without saying that it has refused the request, which it has queued. */
static void may_be_queued(void **state)
{
	(void)state;
	ext.sq.doorbell = EINVAL;
	assert_fails(transfer(LENGTH, -1), ETIMEDOUT);
	ext.sq.doorbell = 0;
	assert_int_equal(ext.sq.posted - ext.sq.completed, 1);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(transfer(LENGTH, -1), 0);
	assert_int_equal(ext.send.added, ext.send.taken);
}

/* A late completion is not mistaken for that of a later call. */
static void late_completions(void **state)
{
	(void)state;
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	assert_fails(transfer_and_give(0), ETIMEDOUT);
	assert_int_equal(ext.send.added, ext.send.taken);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(transfer_and_give(0), 0);
	assert_int_equal(ext.send.added, ext.send.taken);
	assert_int_equal(n_given, 0);	/* none of them is the program's */
}

/* The first failure is the reason, whosever it is; the others were flushed because of it. */
static void an_earlier_request_fails(void **state)
{
	(void)state;
	ext_complete(&ext.send, 0xc0ffee, IBV_WC_REM_ACCESS_ERR);
	device_completes(IBV_WC_WR_FLUSH_ERR);
	assert_fails(transfer_and_give(-1), EACCES);
	assert_int_equal(n_given, 1);
	assert_int_equal(given[0].wr_id, 0xc0ffee);

	ext.on_send = NULL;
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	ext_complete_next(&ext.sq, IBV_WC_RETRY_EXC_ERR);
	device_completes(IBV_WC_WR_FLUSH_ERR);
	assert_fails(transfer(LENGTH, -1), EHOSTUNREACH);
	assert_int_equal(ext.send.added, ext.send.taken);
}

/* They are given back, or the program is told that one is lost. Nothing is left in flight. */
static void completions_of_the_program(void **state)
{
	(void)state;
	device_completes(IBV_WC_SUCCESS);
	for (uint64_t i = 0; i < 5; i++)
		ext_complete(&ext.send, i, IBV_WC_SUCCESS);
	assert_succeeds(transfer_and_give(-1), 0);
	assert_int_equal(n_given, 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(given[i].wr_id, i);

	ext_complete(&ext.send, 0xc0ffee, IBV_WC_SUCCESS);
	assert_fails(transfer(LENGTH, -1), EBUSY);
	assert_int_equal(ext.sq.posted, ext.sq.completed);
	assert_int_equal(ext.send.added, ext.send.taken);
	assert_succeeds(transfer(LENGTH, -1), 0);
}

/* Another queue pair's failure says nothing about this one. */
static void completions_of_another_queue_pair(void **state)
{
	(void)state;
	ext.qp.qp_num = EXT_QP_NUM + 1;
	device_completes(IBV_WC_SUCCESS);
	ext_complete(&ext.send, 0xc0ffee, IBV_WC_REM_ACCESS_ERR);
	assert_succeeds(transfer_and_give(-1), 0);
	assert_int_equal(n_given, 1);
}

/* --- waiting for what was left ---------------------------------------------------------------- */

static void waits_for_what_was_left(void **state)
{
	pthread_t thread;

	(void)state;
	for (int left = 0; left < 3; left++) {
		for (int i = 0; i < left; i++)
			assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
		assert_fails(rdmax_wait(&ext.id, 0, NULL, NULL), ETIMEDOUT);
		while (ext.sq.completed < ext.sq.posted)
			ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
		assert_int_equal(pthread_create(&thread, NULL, complete_when_posted, NULL), 0);
		assert_succeeds(rdmax_wait(&ext.id, LIMIT_SECONDS * 1000, NULL, NULL), 0);
		pthread_join(thread, NULL);
		assert_int_equal(ext.sq.posted, ext.sq.completed);
	}
}

static void tells_how_they_ended(void **state)
{
	(void)state;
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	ext_complete_next(&ext.sq, IBV_WC_RETRY_EXC_ERR);
	device_completes(IBV_WC_WR_FLUSH_ERR);
	assert_fails(rdmax_wait(&ext.id, -1, NULL, NULL), EHOSTUNREACH);
	assert_int_equal(ext.sq.posted, ext.sq.completed);
}

/* The send queue is full: what completes makes room, and goes to the program. */
static void waits_behind_a_full_queue(void **state)
{
	pthread_t thread;

	(void)state;
	n_given = 0;
	ext.sq.depth = 1;
	assert_int_equal(rdma_post_sendv(&ext.id, NULL, NULL, 0, IBV_SEND_SIGNALED), 0);
	assert_fails(rdmax_wait(&ext.id, 5, give, given), ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, complete_when_posted, NULL), 0);
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(rdmax_wait(&ext.id, LIMIT_SECONDS * 1000, give, given), 0);
	pthread_join(thread, NULL);
	assert_int_equal(n_given, 1);
}

/* In the error state it cannot ask: what it would wait for may be in flight. */
static void wait_is_refused(void **state)
{
	(void)state;
	assert_fails(rdmax_wait(NULL, 0, NULL, NULL), EINVAL);
	ext.sq.refuses_in_error = -EIO;
	ext.state = IBV_QPS_ERR;
	assert_fails(rdmax_wait(&ext.id, -1, NULL, NULL), ETIMEDOUT);
	assert_int_equal(ext.sq.posted, 0);
}

#define BOTH(test) \
	{ #test " (read)", test, begin, ext_end, (void *)&directions[0] }, \
	{ #test " (write)", test, begin, ext_end, (void *)&directions[1] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(small),
		BOTH(each_status_is_an_errno),
		BOTH(refused),
		BOTH(null_pointers),
		BOTH(long_ones_in_pieces),
		BOTH(three_gib),
		BOTH(narrow_queues),
		BOTH(send_queue_for_one),
		BOTH(a_piece_fails),
		BOTH(a_piece_is_refused),
		BOTH(a_piece_is_refused_by_errno),
		BOTH(port_is_unknown),
		BOTH(waiting_fails),
		BOTH(times_out),
		BOTH(late_completions),
		BOTH(an_earlier_request_fails),
		BOTH(may_be_queued),
		BOTH(completions_of_the_program),
		BOTH(completions_of_another_queue_pair),
		BOTH(queue_of_the_program),
		BOTH(waits_for_what_was_left),
		BOTH(tells_how_they_ended),
		BOTH(waits_behind_a_full_queue),
		BOTH(wait_is_refused),
	};

	alarm(LIMIT_SECONDS);
	return cmocka_run_group_tests_name("ext_transfer", tests, NULL, NULL);
}
