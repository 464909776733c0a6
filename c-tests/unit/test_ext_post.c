// SPDX-License-Identifier: MIT OR Apache-2.0
/* Posting by the extension helpers: what reaches the provider, and what is refused. */
#include "../fake/ext_fake.h"

#include <arpa/inet.h>

#define CONTEXT ((void *)0xc0ffee)
#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)	/* a multiple of 8 */
#define RKEY UINT32_C(0xfedcba98)
#define FLAGS (IBV_SEND_SIGNALED | IBV_SEND_FENCE)

enum { LENGTH = 100 };

/* The request that is expected: all that is not named is 0, to the last byte. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = (uintptr_t)CONTEXT;
	wr.opcode = opcode;
	wr.num_sge = 1;
	wr.send_flags = FLAGS;
	return wr;
}

static void expect_posted(struct ibv_send_wr expected, const void *addr, uint32_t length)
{
	const struct ext_request *posted = &ext.sq.request[0];

	assert_int_equal(ext.sq.calls, 1);
	assert_int_equal(ext.sq.posted, 1);
	expected.sg_list = posted->send.sg_list;
	assert_memory_equal(&posted->send, &expected, sizeof(expected));
	assert_int_equal(posted->sge.addr, (uintptr_t)addr);
	assert_int_equal(posted->sge.length, length);
	assert_int_equal(posted->sge.lkey, ext.mr.lkey);
}

/* --- one request ------------------------------------------------------------------------ */

/* On the wire the first byte is the highest, whatever the byte order is here. */
static const union {
	uint8_t bytes[4];
	uint32_t value;
} immediate = { { 0x01, 0x02, 0x03, 0x04 } };

static void post_send_imm(void **state)
{
	struct ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM);

	(void)state;
	wr.imm_data = immediate.value;
	assert_int_equal(wr.imm_data, htonl(0x01020304));
	assert_succeeds(rdmax_post_send_imm(&ext.id, CONTEXT, ext_memory, LENGTH, &ext.mr, FLAGS,
					    htonl(0x01020304)), 0);
	expect_posted(wr, ext_memory, LENGTH);
}

static void post_write_imm(void **state)
{
	struct ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM);

	(void)state;
	wr.imm_data = immediate.value;
	wr.wr.rdma.remote_addr = REMOTE_ADDR;
	wr.wr.rdma.rkey = RKEY;
	assert_succeeds(rdmax_post_write_imm(&ext.id, CONTEXT, ext_memory, LENGTH, &ext.mr, FLAGS,
					     REMOTE_ADDR, RKEY, htonl(0x01020304)), 0);
	expect_posted(wr, ext_memory, LENGTH);
}

static void post_atomic_cas(void **state)
{
	struct ibv_send_wr wr = request(IBV_WR_ATOMIC_CMP_AND_SWP);

	(void)state;
	wr.wr.atomic.remote_addr = REMOTE_ADDR;
	wr.wr.atomic.rkey = RKEY;
	wr.wr.atomic.compare_add = UINT64_C(0x1111111122222222);
	wr.wr.atomic.swap = UINT64_C(0x3333333344444444);
	assert_succeeds(rdmax_post_atomic_cas(&ext.id, CONTEXT, ext_memory + 8, &ext.mr, FLAGS,
					      REMOTE_ADDR, RKEY, UINT64_C(0x1111111122222222),
					      UINT64_C(0x3333333344444444)), 0);
	expect_posted(wr, ext_memory + 8, 8);
}

static void post_atomic_faa(void **state)
{
	struct ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD);

	(void)state;
	wr.wr.atomic.remote_addr = REMOTE_ADDR;
	wr.wr.atomic.rkey = RKEY;
	wr.wr.atomic.compare_add = UINT64_MAX;
	assert_succeeds(rdmax_post_atomic_faa(&ext.id, CONTEXT, ext_memory, &ext.mr, FLAGS,
					      REMOTE_ADDR, RKEY, UINT64_MAX), 0);
	expect_posted(wr, ext_memory, 8);
}

static int cas(char *addr, struct ibv_mr *mr, uint64_t remote_addr)
{
	return rdmax_post_atomic_cas(&ext.id, CONTEXT, addr, mr, 0, remote_addr, RKEY, 0, 0);
}

static int faa(char *addr, struct ibv_mr *mr, uint64_t remote_addr)
{
	return rdmax_post_atomic_faa(&ext.id, CONTEXT, addr, mr, 0, remote_addr, RKEY, 0);
}

/* Both addresses must be multiples of 8. */
static void atomics_are_aligned(void **state)
{
	(void)state;
	for (int offset = 0; offset <= 16; offset++) {
		if (offset % 8 == 0) {
			assert_succeeds(cas(ext_memory + offset, &ext.mr, 0), 0);
			assert_succeeds(faa(ext_memory, &ext.mr, (uint64_t)offset), 0);
			continue;
		}
		assert_fails(cas(ext_memory + offset, &ext.mr, 0), EINVAL);
		assert_fails(cas(ext_memory, &ext.mr, (uint64_t)offset), EINVAL);
		assert_fails(faa(ext_memory + offset, &ext.mr, 0), EINVAL);
		assert_fails(faa(ext_memory, &ext.mr, (uint64_t)offset), EINVAL);
	}
	assert_int_equal(ext.sq.posted, 6);
}

static void null_pointers(void **state)
{
	(void)state;
	assert_fails(rdmax_post_send_imm(NULL, CONTEXT, ext_memory, 1, &ext.mr, 0, 0), EINVAL);
	assert_fails(rdmax_post_write_imm(NULL, CONTEXT, ext_memory, 1, &ext.mr, 0, 0, 0, 0),
		     EINVAL);
	assert_fails(rdmax_post_atomic_cas(NULL, CONTEXT, ext_memory, &ext.mr, 0, 0, 0, 0, 0),
		     EINVAL);
	assert_fails(rdmax_post_atomic_faa(NULL, CONTEXT, ext_memory, &ext.mr, 0, 0, 0, 0),
		     EINVAL);
	assert_fails(cas(ext_memory, NULL, 0), EINVAL);
	assert_fails(faa(ext_memory, NULL, 0), EINVAL);
	ext.id.qp = NULL;
	assert_fails(cas(ext_memory, &ext.mr, 0), EINVAL);
	assert_fails(rdmax_post_send_imm(&ext.id, CONTEXT, ext_memory, 1, &ext.mr, 0, 0), EINVAL);
	assert_int_equal(ext.sq.calls, 0);
}

/* Inline data needs no region. */
static void without_region(void **state)
{
	(void)state;
	assert_succeeds(rdmax_post_send_imm(&ext.id, CONTEXT, ext_memory, 8, NULL,
					    IBV_SEND_INLINE, 0), 0);
	assert_succeeds(rdmax_post_write_imm(&ext.id, CONTEXT, NULL, 0, NULL, 0, 0, 0, 0), 0);
	assert_int_equal(ext.sq.request[0].sge.lkey, 0);
	assert_int_equal(ext.sq.request[1].sge.lkey, 0);
}

static void long_lengths(void **state)
{
	static const size_t lengths[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
					  0x100000010, SIZE_MAX };

	(void)state;
	for (size_t i = 0; i < COUNT(lengths); i++) {
		if (lengths[i] <= UINT32_MAX) {
			assert_succeeds(rdmax_post_send_imm(&ext.id, CONTEXT, ext_memory,
							    lengths[i], &ext.mr, 0, 0), 0);
			continue;
		}
		assert_fails(rdmax_post_send_imm(&ext.id, CONTEXT, ext_memory, lengths[i],
						 &ext.mr, 0, 0), EINVAL);
		assert_fails(rdmax_post_write_imm(&ext.id, CONTEXT, ext_memory, lengths[i],
						  &ext.mr, 0, 0, 0, 0), EINVAL);
	}
	assert_int_equal(ext.sq.posted, 5);
}

/* --- registration ------------------------------------------------------------------------ */

/*
 * The plain function does for all access that every kernel knows; libibverbs leaves out what
 * a kernel does not know only in the other one.
 */
static void registers_with_any_access(void **state)
{
	static const struct { int access, extended; } accesses[] = {
		{ 0, 0 },
		{ IBV_ACCESS_REMOTE_READ, 0 },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC, 0 },
		{ IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND, 0 },
		{ IBV_ACCESS_RELAXED_ORDERING, 1 },
		{ IBV_ACCESS_LOCAL_WRITE | 1 << 20, 1 },
		{ 1 << 29, 1 },
		{ 1 << 30, 0 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(accesses); i++) {
		ext.registrations = ext.extended_registrations = 0;
		errno = UNTOUCHED;
		assert_ptr_equal(rdmax_reg(&ext.id, ext_memory + 1, 33, accesses[i].access),
				 &ext.mr);
		assert_int_equal(errno, UNTOUCHED);
		assert_int_equal(ext.access, accesses[i].access);
		assert_ptr_equal(ext.registered, ext_memory + 1);
		assert_int_equal(ext.registered_length, 33);
		assert_int_equal(ext.extended_registrations, accesses[i].extended);
		assert_int_equal(ext.registrations, !accesses[i].extended);
	}
}

static void registration_fails(void **state)
{
	static const int accesses[] = { 0, IBV_ACCESS_RELAXED_ORDERING };

	(void)state;
	for (size_t i = 0; i < COUNT(accesses); i++) {
		errno = ENOMEM;
		ext.result = -1;
		assert_null(rdmax_reg(&ext.id, ext_memory, 1, accesses[i]));
		assert_int_equal(errno, ENOMEM);
		errno = 0;
		assert_null(rdmax_reg(NULL, ext_memory, 1, accesses[i]));
		assert_int_equal(errno, EINVAL);
		ext.id.pd = NULL;
		errno = 0;
		assert_null(rdmax_reg(&ext.id, ext_memory, 1, accesses[i]));
		assert_int_equal(errno, EINVAL);
		ext.id.pd = &ext.pd;
	}
}

/* --- many at once -------------------------------------------------------------------------- */

enum { MANY = 200, AT_ONCE = 64 };

static struct rdmax_rdma rdmas[MANY];
static struct rdmax_send sends[MANY];
static struct rdmax_recv recvs[MANY];

static int all_reads(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_reads(id, rdmas, n, posted);
}

static int all_writes(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_writes(id, rdmas, n, posted);
}

static int all_sends(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_sends(id, sends, n, posted);
}

static int all_recvs(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_recvs(id, recvs, n, posted);
}

static int null_reads(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_reads(id, NULL, n, posted);
}

static int null_writes(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_writes(id, NULL, n, posted);
}

static int null_sends(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_sends(id, NULL, n, posted);
}

static int null_recvs(struct rdma_cm_id *id, int n, int *posted)
{
	return rdmax_post_recvs(id, NULL, n, posted);
}

static const struct batch {
	const char *name;
	int (*post)(struct rdma_cm_id *id, int n, int *posted);
	int (*post_null)(struct rdma_cm_id *id, int n, int *posted);
	struct ext_work_queue *queue;
	enum ibv_wr_opcode opcode;	/* of a send-side request */
	int needs_region;
} batches[] = {
	{ "reads", all_reads, null_reads, &ext.sq, IBV_WR_RDMA_READ, 1 },
	{ "writes", all_writes, null_writes, &ext.sq, IBV_WR_RDMA_WRITE, 0 },
	{ "sends", all_sends, null_sends, &ext.sq, IBV_WR_SEND, 0 },
	{ "recvs", all_recvs, null_recvs, &ext.rq, 0, 1 },
};

static const struct batch *batch;

/* Each entry differs from the others in each field. */
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

static int begin_batch(void **state, int index)
{
	batch = &batches[index];
	fill_entries();
	return ext_begin(state);
}

static int begin_reads(void **state) { return begin_batch(state, 0); }
static int begin_writes(void **state) { return begin_batch(state, 1); }
static int begin_sends(void **state) { return begin_batch(state, 2); }
static int begin_recvs(void **state) { return begin_batch(state, 3); }

/* What the provider got is what a loop over the helper for one would have given it. */
static void expect_entry(int i)
{
	const struct ext_request *posted = &batch->queue->request[i];
	struct ibv_send_wr wr = request(batch->opcode);

	assert_int_equal(posted->sge.addr, (uintptr_t)ext_memory + (uintptr_t)i);
	assert_int_equal(posted->sge.length, 2 * i);
	assert_int_equal(posted->sge.lkey, ext.mr.lkey);
	if (batch->queue != &ext.sq) {
		assert_int_equal(posted->recv.wr_id, 1000 + i);
		assert_int_equal(posted->recv.num_sge, 1);
		return;
	}
	wr.wr_id = (uint64_t)(1000 + i);
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
		assert_succeeds(batch->post(&ext.id, counts[i], &posted), 0);
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
	assert_succeeds(batch->post(&ext.id, 0, &posted), 0);
	assert_int_equal(posted, 0);
	posted = -1;
	assert_succeeds(batch->post_null(&ext.id, 0, &posted), 0);
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

		batch->queue->posted = batch->queue->completed = batch->queue->calls = 0;
		batch->queue->accept = accepted[i];
		batch->queue->refusal = i % 2 ? ENOMEM : -ENOMEM;
		assert_fails(batch->post(&ext.id, MANY, &posted), ENOMEM);
		assert_int_equal(posted, accepted[i]);
		assert_int_equal(batch->queue->posted, accepted[i]);
		assert_int_equal(batch->queue->calls, accepted[i] / AT_ONCE + 1);
		for (int j = 0; j < accepted[i]; j++)
			expect_entry(j);
	}
}

/* It does not say which: none of its list counts. */
static void provider_does_not_say_which(void **state)
{
	int posted = -1;

	(void)state;
	batch->queue->keeps_bad = 1;
	batch->queue->refusal = EINVAL;
	batch->queue->accept = 0;
	assert_fails(batch->post(&ext.id, MANY, &posted), EINVAL);
	assert_int_equal(posted, 0);
	batch->queue->accept = AT_ONCE;
	assert_fails(batch->post(&ext.id, MANY, &posted), EINVAL);
	assert_int_equal(posted, AT_ONCE);
}

static void break_entry(int i, size_t length, struct ibv_mr *mr)
{
	rdmas[i].length = sends[i].length = recvs[i].length = length;
	rdmas[i].mr = sends[i].mr = recvs[i].mr = mr;
}

/* An entry that the helper for one would refuse: those before it are posted. */
static void an_entry_is_wrong(void **state)
{
	static const int places[] = { 0, 1, 63, 64, 65, 199 };

	(void)state;
	for (size_t i = 0; i < COUNT(places); i++) {
		int posted = -1;

		batch->queue->posted = batch->queue->completed = batch->queue->calls = 0;
		break_entry(places[i], 0x100000000, &ext.mr);
		assert_fails(batch->post(&ext.id, MANY, &posted), EINVAL);
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
		assert_fails(batch->post(&ext.id, MANY, &posted), EINVAL);
		assert_int_equal(posted, 5);
	} else {
		assert_succeeds(batch->post(&ext.id, MANY, &posted), 0);
		assert_int_equal(batch->queue->request[5].sge.lkey, 0);
	}
}

static void bad_arguments(void **state)
{
	int posted = -1;

	(void)state;
	assert_fails(batch->post(&ext.id, 1, NULL), EINVAL);
	assert_fails(batch->post(NULL, 1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	assert_fails(batch->post(NULL, 0, &posted), EINVAL);
	assert_fails(batch->post_null(&ext.id, 1, &posted), EINVAL);
	posted = -1;
	assert_fails(batch->post(&ext.id, -1, &posted), EINVAL);
	assert_int_equal(posted, 0);
	assert_fails(batch->post(&ext.id, INT32_MIN, &posted), EINVAL);
	assert_int_equal(batch->queue->calls, 0);
	ext.id.qp = NULL;
	assert_fails(batch->post(&ext.id, 1, &posted), EINVAL);
	ext.id.qp = &ext.qp;
	ext.whole.context.ops.post_send = NULL;
	ext.whole.context.ops.post_recv = NULL;
	assert_fails(batch->post(&ext.id, 1, &posted), EOPNOTSUPP);
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

#define ONE(test) { #test, test, ext_begin, ext_end, NULL }
#define EACH(test) \
	{ #test " (reads)", test, begin_reads, ext_end, NULL }, \
	{ #test " (writes)", test, begin_writes, ext_end, NULL }, \
	{ #test " (sends)", test, begin_sends, ext_end, NULL }, \
	{ #test " (recvs)", test, begin_recvs, ext_end, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(post_send_imm),
		ONE(post_write_imm),
		ONE(post_atomic_cas),
		ONE(post_atomic_faa),
		ONE(atomics_are_aligned),
		ONE(null_pointers),
		ONE(without_region),
		ONE(long_lengths),
		ONE(registers_with_any_access),
		ONE(registration_fails),
		EACH(posts_all),
		EACH(posts_none),
		EACH(provider_refuses_one),
		EACH(provider_does_not_say_which),
		EACH(an_entry_is_wrong),
		EACH(an_entry_has_no_region),
		EACH(bad_arguments),
		{ "receives_inside_the_region", receives_inside_the_region, begin_recvs, ext_end,
		  NULL },
		{ "receives_go_to_the_shared_queue", receives_go_to_the_shared_queue, begin_recvs,
		  ext_end, NULL },
	};

	return cmocka_run_group_tests_name("ext_post", tests, NULL, NULL);
}
