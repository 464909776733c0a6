// SPDX-License-Identifier: MIT OR Apache-2.0
/* Batches: what reaches the provider in how many calls, and where a batch that fails stops. */
#include "../fake/ext_fake.h"

#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)
#define RKEY UINT32_C(0xfedcba98)

enum { MANY = 200, AT_ONCE = 64 };

static struct rdmax_rdma rdmas[MANY];
static struct rdmax_send sends[MANY];
static struct rdmax_recv recvs[MANY];

static int post_reads(struct rdma_cm_id *id, void *v, int n, int *posted)
{
	return rdmax_post_reads(id, v, n, posted);
}

static int post_writes(struct rdma_cm_id *id, void *v, int n, int *posted)
{
	return rdmax_post_writes(id, v, n, posted);
}

static int post_sends(struct rdma_cm_id *id, void *v, int n, int *posted)
{
	return rdmax_post_sends(id, v, n, posted);
}

static int post_recvs(struct rdma_cm_id *id, void *v, int n, int *posted)
{
	return rdmax_post_recvs(id, v, n, posted);
}

static const struct batch {
	int (*post)(struct rdma_cm_id *id, void *v, int n, int *posted);
	void *entries;
	struct ext_work_queue *queue;
	enum ibv_wr_opcode opcode;	/* of a send-side request */
	int needs_region;
} batches[] = {
	{ post_reads, rdmas, &ext.sq, IBV_WR_RDMA_READ, 1 },
	{ post_writes, rdmas, &ext.sq, IBV_WR_RDMA_WRITE, 0 },
	{ post_sends, sends, &ext.sq, IBV_WR_SEND, 0 },
	{ post_recvs, recvs, &ext.rq, 0, 1 },
};

static const struct batch *batch;

/* Entries differ in every field. */
static void fill_entries(void)
{
	for (int i = 0; i < MANY; i++) {
		void *context = (void *)(uintptr_t)(1000 + i), *addr = ext_memory + i;
		size_t length = (size_t)(2 * i);
		int flags = i % 32;

		rdmas[i] = (struct rdmax_rdma){
			.context = context, .addr = addr, .length = length, .mr = &ext.mr,
			.remote_addr = REMOTE_ADDR + (uint64_t)i, .rkey = RKEY + (uint32_t)i,
			.flags = flags,
		};
		sends[i] = (struct rdmax_send){ context, addr, length, &ext.mr, flags };
		recvs[i] = (struct rdmax_recv){ context, addr, length, &ext.mr };
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
	return batch->post(&ext.id, batch->entries, n, posted);
}

/* The provider got what a loop over the single helper would have passed. */
static void expect_entry(int i)
{
	const struct ext_request *posted = &batch->queue->request[i];
	struct ibv_send_wr wr;

	assert_int_equal(posted->sge.addr, (uintptr_t)ext_memory + (uintptr_t)i);
	assert_int_equal(posted->sge.length, 2 * i);
	assert_int_equal(posted->sge.lkey, ext.mr.lkey);
	if (batch->queue != &ext.sq) {
		assert_int_equal(posted->recv.wr_id, 1000 + i);
		assert_int_equal(posted->recv.num_sge, 1);
		return;
	}
	/* Everything not set here is 0, to the last byte. */
	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uint64_t)(1000 + i);
	wr.opcode = batch->opcode;
	wr.num_sge = 1;
	wr.send_flags = (unsigned int)i % 32;
	if (batch->opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = REMOTE_ADDR + (uint64_t)i;
		wr.wr.rdma.rkey = RKEY + (uint32_t)i;
	}
	wr.sg_list = posted->send.sg_list;
	wr.next = posted->send.next;
	assert_memory_equal(&posted->send, &wr, sizeof(wr));
}

static void posts_all(void **state)
{
	static const int counts[] = { 1, 2, 63, 64, 65, 128, 129, MANY };

	(void)state;
	for (size_t i = 0; i < COUNT(counts); i++) {
		int posted = -1;

		batch->queue->posted = batch->queue->completed = batch->queue->calls = 0;
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
	assert_succeeds(batch->post(&ext.id, NULL, 0, &posted), 0);
	assert_int_equal(posted, 0);
	assert_int_equal(batch->queue->calls, 0);
}

/* The queue fills up: the requests before that are posted and counted. */
static void provider_refuses_one(void **state)
{
	static const int accepted[] = { 0, 1, 2, 63, 64, 65, 127, 128, 199 };

	(void)state;
	for (size_t i = 0; i < COUNT(accepted); i++) {
		int posted = -1;

		batch->queue->posted = batch->queue->completed = batch->queue->calls = 0;
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

/* It does not say which: none of that list counts as posted. */
static void provider_does_not_say_which(void **state)
{
	int posted = -1;

	(void)state;
	batch->queue->keeps_bad = 1;
	batch->queue->refusal = EINVAL;
	batch->queue->accept = 0;
	assert_fails(post(MANY, &posted), EINVAL);
	assert_int_equal(posted, 0);
	batch->queue->accept = AT_ONCE;
	assert_fails(post(MANY, &posted), EINVAL);
	assert_int_equal(posted, AT_ONCE);
}

static void break_entry(int i, size_t length, struct ibv_mr *mr)
{
	rdmas[i].length = sends[i].length = recvs[i].length = length;
	rdmas[i].mr = sends[i].mr = recvs[i].mr = mr;
}

/* An entry that the single helper would refuse: those before it are posted. */
static void an_entry_is_wrong(void **state)
{
	static const int places[] = { 0, 1, 63, 64, 65, 199 };

	(void)state;
	for (size_t i = 0; i < COUNT(places); i++) {
		int posted = -1;

		batch->queue->posted = batch->queue->completed = batch->queue->calls = 0;
		break_entry(places[i], 0x100000000, &ext.mr);
		assert_fails(post(MANY, &posted), EINVAL);
		assert_int_equal(posted, places[i]);
		assert_int_equal(batch->queue->posted, places[i]);
		assert_int_equal(batch->queue->calls, (places[i] + AT_ONCE - 1) / AT_ONCE);
		for (int j = 0; j < places[i]; j++)
			expect_entry(j);
		fill_entries();
	}
}

static void an_entry_has_no_region(void **state)
{
	int posted = -1;

	(void)state;
	break_entry(5, 10, NULL);
	if (batch->needs_region) {
		assert_fails(post(MANY, &posted), EINVAL);
		assert_int_equal(posted, 5);
	} else {
		assert_succeeds(post(MANY, &posted), 0);
		assert_int_equal(batch->queue->request[5].sge.lkey, 0);
	}
}

static void bad_arguments(void **state)
{
	int posted = -1;

	(void)state;
	assert_fails(post(1, NULL), EINVAL);
	assert_fails(batch->post(NULL, batch->entries, 1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	assert_fails(batch->post(NULL, batch->entries, 0, &posted), EINVAL);
	assert_fails(batch->post(&ext.id, NULL, 1, &posted), EINVAL);
	posted = -1;
	assert_fails(post(-1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	assert_fails(post(INT32_MIN, &posted), EINVAL);
	assert_int_equal(batch->queue->calls, 0);
	ext.id.qp = NULL;
	assert_fails(post(1, &posted), EINVAL);
	ext.id.qp = &ext.qp;
	ext.whole.context.ops.post_send = NULL;
	ext.whole.context.ops.post_recv = NULL;
	assert_fails(post(1, &posted), EOPNOTSUPP);
	assert_int_equal(posted, 0);
}

static void receives_inside_the_region(void **state)
{
	int posted = -1;

	(void)state;
	recvs[3].addr = ext_memory + EXT_MEMORY - 9;
	recvs[3].length = 10;
	assert_fails(rdmax_post_recvs(&ext.id, recvs, MANY, &posted), EINVAL);
	assert_int_equal(posted, 3);
	recvs[3].length = 9;
	assert_succeeds(rdmax_post_recvs(&ext.id, recvs, MANY, &posted), 0);
}

static void receives_go_to_the_shared_queue(void **state)
{
	int posted = -1;

	(void)state;
	ext.id.srq = &ext.srq;
	assert_succeeds(rdmax_post_recvs(&ext.id, recvs, MANY, &posted), 0);
	assert_int_equal(ext.shared.posted, MANY);
	assert_int_equal(ext.rq.posted, 0);
	ext.id.qp = NULL;
	ext.shared.completed = ext.shared.posted;
	assert_succeeds(rdmax_post_recvs(&ext.id, recvs, 1, &posted), 0);
	ext.whole.context.ops.post_srq_recv = NULL;
	assert_fails(rdmax_post_recvs(&ext.id, recvs, 1, &posted), EOPNOTSUPP);
}

#define RECVS(test) { #test, test, begin, ext_end, (void *)&batches[3] }
#define EACH(test) \
	{ #test " (reads)", test, begin, ext_end, (void *)&batches[0] }, \
	{ #test " (writes)", test, begin, ext_end, (void *)&batches[1] }, \
	{ #test " (sends)", test, begin, ext_end, (void *)&batches[2] }, \
	{ #test " (recvs)", test, begin, ext_end, (void *)&batches[3] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(posts_all),
		EACH(posts_none),
		EACH(provider_refuses_one),
		EACH(provider_does_not_say_which),
		EACH(an_entry_is_wrong),
		EACH(an_entry_has_no_region),
		EACH(bad_arguments),
		RECVS(receives_inside_the_region),
		RECVS(receives_go_to_the_shared_queue),
	};

	return cmocka_run_group_tests_name("ext_batch", tests, NULL, NULL);
}
