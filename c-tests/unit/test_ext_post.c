// SPDX-License-Identifier: MIT OR Apache-2.0
/* Posting by the extension helpers: what reaches the provider, and what is refused. */
#include "../fake/ext_fake.h"

#include <arpa/inet.h>

#define CONTEXT ((void *)0xc0ffee)
#define REMOTE_ADDR UINT64_C(0x123456789abcdef0)	/* a multiple of 8 */
#define RKEY UINT32_C(0xfedcba98)
#define FLAGS (IBV_SEND_SIGNALED | IBV_SEND_FENCE)

enum { LENGTH = 100 };

/* The expected request: everything not set here is 0, to the last byte. */
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

/* Network byte order, whatever the host's byte order. */
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
 * The plain function suffices for access flags that every kernel knows; only the other one
 * drops optional flags that the kernel lacks.
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

#define ONE(test) { #test, test, ext_begin, ext_end, NULL }

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
	};

	return cmocka_run_group_tests_name("ext_post", tests, NULL, NULL);
}
