// SPDX-License-Identifier: MIT OR Apache-2.0
/* Whole reads and writes, and draining: what is posted, waited for, and left. */
#define _GNU_SOURCE
#include "../fake/ext_fake.h"

#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)
#define RKEY UINT32_C(0xfedcba98)
#define MARK UINT64_C(0x72646d78)	/* of the library's own requests */

enum { LENGTH = 100, TRIES = 10, LIMIT_SECONDS = 60 };

static const struct direction {
	int (*transfer)(struct rdma_cm_id *, void *, size_t, struct ibv_mr *, uint64_t, uint32_t,
			int);
	enum ibv_wr_opcode opcode;
	int needs_region;
} directions[] = {
	{ rdmax_read, IBV_WR_RDMA_READ, 1 },
	{ rdmax_write, IBV_WR_RDMA_WRITE, 0 },
};

static const struct direction *direction;

static int begin_read(void **state)
{
	direction = &directions[0];
	return ext_begin(state);
}

static int begin_write(void **state)
{
	direction = &directions[1];
	return ext_begin(state);
}

static int transfer(size_t length, int timeout_ms)
{
	return direction->transfer(&ext.id, ext_memory, length, &ext.mr, REMOTE_ADDR, RKEY,
				   timeout_ms);
}

/* What the device does with requests: complete them at once, or some, or none. */
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
	/* What each device can carry is not asked for. */
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
	assert_fails(direction->transfer(NULL, ext_memory, 1, &ext.mr, 0, 0, 0), EINVAL);
	ext.id.qp = NULL;
	assert_fails(transfer(1, 0), EINVAL);
	ext.id.qp = &ext.qp;
	ext.id.send_cq_channel = NULL;
	assert_fails(transfer(1, 0), EINVAL);
	ext.id.send_cq = NULL;
	assert_fails(transfer(1, 0), EINVAL);
	ext.id.send_cq = &ext.send.cq;
	ext.id.send_cq_channel = &ext.send.channel;
	assert_int_equal(ext.sq.posted, 0);
	device_completes(IBV_WC_SUCCESS);
	if (direction->needs_region)
		assert_fails(direction->transfer(&ext.id, ext_memory, 1, NULL, 0, 0, 0), EINVAL);
	else
		assert_succeeds(direction->transfer(&ext.id, NULL, 0, NULL, 0, 0, 0), 0);
}

/* --- pieces --------------------------------------------------------------------------------- */

/* Where the device has them, two pieces are in flight. */
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

/* The device completes the last piece a while after it was posted. */
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

/* What the port can carry, in whole pages. */
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

/* A completion queue for one is never given two; a send queue for one holds one. */
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

/* When one piece fails no other is posted, and none is left in flight. */
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

/* The provider's errno is told, not that of what is called while the pieces before it end. */
static void a_piece_is_refused_by_errno(void **state)
{
	(void)state;
	ext.max_msg_sz = 1 << 20;
	device_completes(IBV_WC_SUCCESS);
	ext.sq.accept = 1;
	ext.sq.refusal = -1;
	next_poll_cq = ext.whole.context.ops.poll_cq;
	ext.whole.context.ops.poll_cq = poll_that_sets_errno;
	errno = ENOSPC;
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
	ext.whole.sz = sizeof(ext.whole) - 8;	/* an older one, which ends before it */
	assert_fails(transfer(2 << 20, -1), EOPNOTSUPP);
	ext.whole.context.abi_compat = NULL;
	assert_fails(transfer(2 << 20, -1), EOPNOTSUPP);
	assert_int_equal(ext.sq.posted, 0);
	/* A newer one has more in front of what we know. */
	ext.whole.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	ext.whole.sz = sizeof(ext.whole) + 48;
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(transfer(2 << 20, -1), 0);
}

/* Waiting itself fails: no time is waited for then. */
static void waiting_fails(void **state)
{
	(void)state;
	ext.send.poll_result = -2;
	assert_fails(transfer(LENGTH, -1), EIO);
	ext.send.poll_result = 0;
	ext_raise(&ext.send, &ext.other);
	assert_fails(transfer(LENGTH, -1), EINVAL);
	ext.send.poll_result = -EINVAL;
	assert_fails(rdmax_drain(&ext.id, -1), EINVAL);
}

/* --- what is left in flight ------------------------------------------------------------------ */

static void times_out(void **state)
{
	(void)state;
	for (int timeout = 0; timeout < 20; timeout += 10)
		assert_fails(transfer(LENGTH, timeout), ETIMEDOUT);
	assert_int_equal(ext.sq.posted, 2);
}

/* A late completion is not taken for that of a later call. */
static void late_completions(void **state)
{
	(void)state;
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	assert_int_equal(ext.send.added, ext.send.taken);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	device_completes(IBV_WC_SUCCESS);
	assert_succeeds(transfer(LENGTH, 0), 0);
	assert_int_equal(ext.send.added, ext.send.taken);
}

/* The first failure is the reason, whosever it is; the others were flushed for it. */
static void an_earlier_request_fails(void **state)
{
	(void)state;
	ext_complete(&ext.send, 0xc0ffee, IBV_WC_REM_ACCESS_ERR);
	device_completes(IBV_WC_WR_FLUSH_ERR);
	assert_fails(transfer(LENGTH, -1), EACCES);

	ext.on_send = NULL;
	assert_fails(transfer(LENGTH, 0), ETIMEDOUT);
	ext_complete_next(&ext.sq, IBV_WC_RETRY_EXC_ERR);
	device_completes(IBV_WC_WR_FLUSH_ERR);
	assert_fails(transfer(LENGTH, -1), EHOSTUNREACH);
	assert_int_equal(ext.send.added, ext.send.taken);
}

/* The program was told to have none outstanding. Nothing is left in flight. */
static void a_completion_of_the_program(void **state)
{
	(void)state;
	ext_complete(&ext.send, 0xc0ffee, IBV_WC_SUCCESS);
	device_completes(IBV_WC_SUCCESS);
	assert_fails(transfer(LENGTH, -1), EBUSY);
	assert_int_equal(ext.sq.posted, ext.sq.completed);
	assert_int_equal(ext.send.added, ext.send.taken);
	assert_succeeds(transfer(LENGTH, -1), 0);
}

/* --- signals ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals++;
}

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void every(int milliseconds)
{
	struct itimerval timer = {
		.it_interval.tv_usec = milliseconds * 1000,
		.it_value.tv_usec = milliseconds * 1000,
	};
	struct sigaction action = { .sa_handler = count_signal };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* They do not end the call. How long it took. */
static double time_with_signals(void)
{
	double started = now_ms();

	signals = 0;
	every(10);
	assert_fails(transfer(LENGTH, 100), ETIMEDOUT);
	every(0);
	return now_ms() - started;
}

/* They do not make it longer either. A busy machine may, or deliver few of them. */
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
	signal(SIGALRM, SIG_DFL);
	alarm(LIMIT_SECONDS);
}

/* Not before the waiting thread has met some signals. */
static void *complete_after_signals(void *unused)
{
	while (signals < 3)
		usleep(1000);
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
	return unused;
}

/* What a call has got over leaves no trace in errno. */
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
	assert_succeeds(transfer(LENGTH, -1), 0);
	every(0);
	pthread_join(thread, NULL);
	signal(SIGALRM, SIG_DFL);
	alarm(LIMIT_SECONDS);
}

/* --- draining ----------------------------------------------------------------------------------- */

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

/* Disconnected or broken: it is in the error state, and all has been flushed. */
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

/* There is room for the markers only when something has been flushed. */
static void drains_full_queues(void **state)
{
	(void)state;
	ext.sq.depth = ext.rq.depth = 16;
	post_some(16, 16);
	assert_succeeds(rdmax_drain(&ext.id, 1000), 0);
	assert_drained();
}

/*
 * Completions that nobody has taken, as many as there is room for; while requests that have
 * completed leave room in their own queues for markers.
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

/* The completion queues are the queue pair's, which the id need not know. */
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

/* A device that takes its time, with queues that have channels or have none. */
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

/* One that only reads, and one that only receives. */
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

/* The queue pair's, or one that the program has given to the id. */
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

/* Nothing is done twice while the device takes its time. */
static void drain_waits_for_events(void **state)
{
	(void)state;
	ext.whole.context.ops.post_send = keep_state;
	assert_fails(rdmax_drain(&ext.id, 200), ETIMEDOUT);
	assert_int_equal(ext.states_set, 1);
	assert_int_equal(ext.sq.posted, 1);
	assert_between(ext.send.arms, 1, 5);
}

/* Without a channel it looks each millisecond, and sleeps in between. */
static void drain_sleeps(void **state)
{
	(void)state;
	ext.whole.context.ops.post_send = keep_state;
	ext.send.cq.channel = NULL;
	assert_fails(rdmax_drain(&ext.id, 200), ETIMEDOUT);
	assert_in_range(ext.send.polls, 5, 1000);
}

/* A queue that is full may be free again without a completion. */
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

#define BOTH(test) \
	{ #test " (read)", test, begin_read, ext_end, NULL }, \
	{ #test " (write)", test, begin_write, ext_end, NULL }
#define ONE(test) { #test, test, ext_begin, ext_end, NULL }

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
		BOTH(a_completion_of_the_program),
		BOTH(signals_do_not_end_it),
		BOTH(signals_leave_errno_alone),
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
	};

	alarm(LIMIT_SECONDS);
	return cmocka_run_group_tests_name("ext_transfer", tests, NULL, NULL);
}
