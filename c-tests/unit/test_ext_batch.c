// SPDX-License-Identifier: MIT OR Apache-2.0
/* Batches: what reaches the provider in how many calls, and where a batch that fails stops. */
#include "../fake/ext_fake.h"

#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)
#define RKEY UINT32_C(0xfedcba98)

enum { MANY = 200, AT_ONCE = 64, QKEY = 0x01234567 };

static struct ibv_sge elements[MANY][2];
static struct rdmax_send_wr sends[MANY];
static struct rdmax_recv_wr recvs[MANY];

static int post_sends(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_sends(id, sends, sizeof(*sends), n, posted);
}

static int post_recvs(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_recvs(id, recvs, sizeof(*recvs), n, posted);
}

static int post_no_sends(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_sends(id, NULL, sizeof(*sends), n, posted);
}

static int post_no_recvs(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_recvs(id, NULL, sizeof(*recvs), n, posted);
}

static const struct batch {
	int (*post)(struct rdma_cm_id *id, int n, int *posted);
	int (*post_nothing)(struct rdma_cm_id *id, int n, int *posted);
	struct ext_work_queue *queue;
} send_batch = { post_sends, post_no_sends, &ext.sq },
  recv_batch = { post_recvs, post_no_recvs, &ext.rq };

static const struct batch *batch;

static const enum ibv_wr_opcode opcodes[] = {
	IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP,
	IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM,
};

/* Each entry differs from the others in each field. */
static void fill_entries(void)
{
	for (int i = 0; i < MANY; i++) {
		uint64_t number = (uint64_t)i;
		uint32_t number_32 = (uint32_t)i;

		for (uint32_t j = 0; j < 2; j++)
			elements[i][j] = (struct ibv_sge){ number * 2 + j, number_32, 5 + j };
		sends[i] = (struct rdmax_send_wr){
			.context = (void *)(uintptr_t)(1000 + number), .sgl = elements[i],
			.nsge = i % 3, .opcode = opcodes[i % (int)COUNT(opcodes)], .flags = i % 32,
			.imm_data = 7 + number_32, .remote_addr = REMOTE_ADDR + number,
			.rkey = RKEY + number_32, .remote_qpn = 9 + number_32,
			.compare_add = 11 + number, .swap = 13 + number,
			.ah = i % 2 ? NULL : (void *)(uintptr_t)(2000 + number),
		};
		recvs[i] = (struct rdmax_recv_wr){
			.context = (void *)(uintptr_t)(1000 + number), .sgl = elements[i],
			.nsge = i % 3,
		};
	}
}

static int begin(void **state)
{
	batch = *state;
	fill_entries();
	return ext_begin(state);
}

static int post(int n, int *posted)
{
	return batch->post(&ext.id, n, posted);
}

/* What the entry stands for, by the verbs; all that its opcode does not need is 0. */
static struct ibv_send_wr expected_send(int i)
{
	uint64_t number = (uint64_t)i;
	uint32_t number_32 = (uint32_t)i;
	struct ibv_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 1000 + number;
	wr.sg_list = elements[i];
	wr.num_sge = i % 3;
	wr.opcode = opcodes[i % (int)COUNT(opcodes)];
	wr.send_flags = number_32 % 32;
	wr.imm_data = 7 + number_32;
	switch (wr.opcode) {
	case IBV_WR_RDMA_READ:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		wr.wr.rdma.remote_addr = REMOTE_ADDR + number;
		wr.wr.rdma.rkey = RKEY + number_32;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr.wr.atomic.remote_addr = REMOTE_ADDR + number;
		wr.wr.atomic.rkey = RKEY + number_32;
		wr.wr.atomic.compare_add = 11 + number;
		wr.wr.atomic.swap = 13 + number;
		break;
	default:
		if (i % 2)
			break;
		wr.wr.ud.ah = (void *)(uintptr_t)(2000 + number);
		wr.wr.ud.remote_qpn = 9 + number_32;
		wr.wr.ud.remote_qkey = QKEY;
	}
	return wr;
}

static void expect_entry(int i)
{
	const struct ext_request *posted = &batch->queue->request[i];
	struct ibv_send_wr wr = expected_send(i);

	if (batch->queue != &ext.sq) {
		assert_int_equal(posted->recv.wr_id, 1000 + i);
		assert_ptr_equal(posted->recv.sg_list, elements[i]);
		assert_int_equal(posted->recv.num_sge, i % 3);
		return;
	}
	/* To the last byte. */
	wr.next = posted->send.next;
	assert_memory_equal(&posted->send, &wr, sizeof(wr));
}

static void empty_queue(void)
{
	batch->queue->posted = batch->queue->completed = batch->queue->calls = 0;
}

static void posts_all(void **state)
{
	static const int counts[] = { 1, 2, 63, 64, 65, 128, 129, MANY };

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++) {
		int posted = -1;

		empty_queue();
		assert_succeeds(post(counts[i], &posted), 0);
		assert_int_equal(posted, counts[i]);
		assert_int_equal(batch->queue->posted, counts[i]);
		assert_int_equal(batch->queue->calls, (counts[i] + AT_ONCE - 1) / AT_ONCE);
		for (int j = 0; j < counts[i]; j++)
			expect_entry(j);
	}
}

static void posts_none(void **state)
{
	int posted = -1;

	(void)state;
	assert_succeeds(post(0, &posted), 0);
	assert_int_equal(posted, 0);
	posted = -1;
	assert_succeeds(batch->post_nothing(&ext.id, 0, &posted), 0);
	assert_int_equal(posted, 0);
	assert_int_equal(batch->queue->calls, 0);
}

/* The queue is full after some of them: those are posted, and counted. */
static void provider_refuses_one(void **state)
{
	static const int accepted[] = { 0, 1, 2, 63, 64, 65, 127, 128, 199 };

	(void)state;
	for (size_t i = 0; i < COUNT(accepted); i++) {
		int posted = -1;

		empty_queue();
		batch->queue->accept = accepted[i];
		batch->queue->refusal = i % 2 ? ENOMEM : -ENOMEM;
		assert_fails(post(MANY, &posted), ENOMEM);
		assert_int_equal(posted, accepted[i]);
		assert_int_equal(batch->queue->posted, accepted[i]);
		assert_int_equal(batch->queue->calls, accepted[i] / AT_ONCE + 1);
		for (int j = 0; j < accepted[i]; j++)
			expect_entry(j);
	}
}

/* It does not say which: all of its list may be in flight, and what follows is not. */
static void provider_does_not_say_which(void **state)
{
	int posted = -1;

	(void)state;
	batch->queue->keeps_bad = 1;
	batch->queue->refusal = EINVAL;
	batch->queue->accept = 0;
	assert_fails(post(3, &posted), EINVAL);
	assert_int_equal(posted, 3);
	assert_fails(post(MANY, &posted), EINVAL);
	assert_int_equal(posted, AT_ONCE);
	batch->queue->accept = AT_ONCE;
	assert_fails(post(MANY, &posted), EINVAL);
	assert_int_equal(posted, 2 * AT_ONCE);
}

/* soft-RoCE, before there is a connection: it queues all, and fails to tell the device. */
static void provider_queues_and_fails(void **state)
{
	int posted = -1;

	(void)state;
	ext.sq.doorbell = EINVAL;
	assert_fails(post(3, &posted), EINVAL);
	assert_int_equal(posted, 3);
	assert_int_equal(ext.sq.posted, 3);
}

/* Those before the one that is no operation of a batch are posted. */
static void an_opcode_is_unknown(void **state)
{
	static const int places[] = { 0, 1, 63, 64, 65, 199 };
	static const enum ibv_wr_opcode unknown[] = {
		IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO, IBV_WR_DRIVER1,
		(enum ibv_wr_opcode)UINT32_MAX,
	};

	(void)state;
	for (size_t i = 0; i < COUNT(places); i++) {
		int posted = -1;

		empty_queue();
		sends[places[i]].opcode = unknown[i % COUNT(unknown)];
		assert_fails(post(MANY, &posted), EINVAL);
		assert_int_equal(posted, places[i]);
		assert_int_equal(batch->queue->posted, places[i]);
		assert_int_equal(batch->queue->calls, (places[i] + AT_ONCE - 1) / AT_ONCE);
		for (int j = 0; j < places[i]; j++)
			expect_entry(j);
		fill_entries();
	}
}

static void bad_arguments(void **state)
{
	int posted = -1;

	(void)state;
	assert_fails(post(1, NULL), EINVAL);
	assert_fails(batch->post(NULL, 1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	assert_fails(batch->post(NULL, 0, &posted), EINVAL);
	assert_fails(batch->post_nothing(&ext.id, 1, &posted), EINVAL);
	posted = -1;
	assert_fails(post(-1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	assert_fails(post(INT32_MIN, &posted), EINVAL);
	assert_int_equal(batch->queue->calls, 0);
	ext.id.qp = NULL;
	posted = -1;
	assert_fails(post(1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	ext.id.qp = &ext.qp;
	ext.whole.context.ops.post_send = NULL;
	ext.whole.context.ops.post_recv = NULL;
	assert_fails(post(1, &posted), EOPNOTSUPP);
	assert_int_equal(posted, 0);
}

/* A program that was compiled with a later header, and one whose entries are none. */
static void entries_of_other_sizes(void **state)
{
	static struct { struct rdmax_send_wr known; uint64_t later; } newer[3];
	static struct { struct rdmax_recv_wr known; uint64_t later; } newer_recv[3];
	int posted = -1;

	(void)state;
	batch = &send_batch;
	for (int i = 0; i < 3; i++) {
		newer[i].known = sends[i];
		newer_recv[i].known = recvs[i];
	}
	assert_succeeds(rdmax_post_sends(&ext.id, &newer[0].known, sizeof(*newer), 3, &posted), 0);
	assert_int_equal(posted, 3);
	for (int i = 0; i < 3; i++)
		expect_entry(i);
	assert_succeeds(rdmax_post_recvs(&ext.id, &newer_recv[0].known, sizeof(*newer_recv), 3,
					 &posted), 0);
	batch = &recv_batch;
	for (int i = 0; i < 3; i++)
		expect_entry(i);
	newer[2].later = UINT64_C(1) << 63;
	newer_recv[2].later = 1;
	assert_fails(rdmax_post_sends(&ext.id, &newer[0].known, sizeof(*newer), 3, &posted), E2BIG);
	assert_int_equal(posted, 0);
	assert_fails(rdmax_post_recvs(&ext.id, &newer_recv[0].known, sizeof(*newer_recv), 3,
				      &posted), E2BIG);
	for (size_t size = 0; size < sizeof(*sends); size += 8)
		assert_fails(rdmax_post_sends(&ext.id, sends, size, 1, &posted), EINVAL);
	for (size_t size = sizeof(*sends) + 1; size < sizeof(*sends) + 8; size++)
		assert_fails(rdmax_post_sends(&ext.id, sends, size, 1, &posted), EINVAL);
	assert_fails(rdmax_post_recvs(&ext.id, recvs, sizeof(*recvs) - 8, 1, &posted), EINVAL);
	assert_int_equal(ext.sq.posted + ext.rq.posted, 6);
}

static void receives_go_to_the_shared_queue(void **state)
{
	int posted = -1;

	(void)state;
	ext.id.srq = &ext.srq;
	assert_succeeds(post_recvs(&ext.id, MANY, &posted), 0);
	assert_int_equal(ext.shared.posted, MANY);
	assert_int_equal(ext.rq.posted, 0);
	ext.id.qp = NULL;
	ext.shared.completed = ext.shared.posted;
	assert_succeeds(post_recvs(&ext.id, 1, &posted), 0);
	ext.whole.context.ops.post_srq_recv = NULL;
	assert_fails(post_recvs(&ext.id, 1, &posted), EOPNOTSUPP);
}

#define SENDS(test) { #test, test, begin, ext_end, (void *)&send_batch }
#define RECVS(test) { #test, test, begin, ext_end, (void *)&recv_batch }
#define BOTH(test) \
	{ #test " (sends)", test, begin, ext_end, (void *)&send_batch }, \
	{ #test " (recvs)", test, begin, ext_end, (void *)&recv_batch }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(posts_all),
		BOTH(posts_none),
		BOTH(provider_refuses_one),
		BOTH(provider_does_not_say_which),
		SENDS(provider_queues_and_fails),
		SENDS(an_opcode_is_unknown),
		BOTH(bad_arguments),
		SENDS(entries_of_other_sizes),
		RECVS(receives_go_to_the_shared_queue),
	};

	return cmocka_run_group_tests_name("ext_batch", tests, NULL, NULL);
}
