// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the post helpers pass to the provider. */
#include "../lib/check.h"
#include "../fake/helpers.h"

static int reset(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static void expect_call(enum fake_operation operation, const void *object)
{
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake.call[0].operation, operation);
	assert_ptr_equal(fake.call[0].object, object);
}

static void expect_sge(int index, const void *addr, uint32_t length, uint32_t lkey)
{
	assert_true(index < fake.call[0].sge_count);
	assert_int_equal(fake.call[0].sge[index].addr, (uintptr_t)addr);
	assert_int_equal(fake.call[0].sge[index].length, length);
	assert_int_equal(fake.call[0].sge[index].lkey, lkey);
}

/* The whole request: fields not set in `expected` must be 0. */
static void expect_send(struct ibv_send_wr expected, const struct ibv_sge *sgl)
{
	expect_call(FAKE_POST_SEND, &fake.qp);
	expected.wr_id = (uintptr_t)CONTEXT;
	expected.sg_list = sgl ? (struct ibv_sge *)(uintptr_t)sgl : fake.call[0].send.sg_list;
	assert_memory_equal(&fake.call[0].send, &expected, sizeof(expected));
}

static void expect_recv(enum fake_operation operation, const void *queue, int nsge)
{
	expect_call(operation, queue);
	assert_int_equal(fake.call[0].recv.wr_id, (uintptr_t)CONTEXT);
	assert_null(fake.call[0].recv.next);
	assert_int_equal(fake.call[0].recv.num_sge, nsge);
}

/* Zeros to the last byte, padding too. */
static struct ibv_send_wr request(enum ibv_wr_opcode opcode, int nsge, int flags)
{
	struct ibv_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.opcode = opcode;
	wr.num_sge = nsge;
	wr.send_flags = (unsigned int)flags;
	return wr;
}

static struct ibv_send_wr rdma_request(enum ibv_wr_opcode opcode, int nsge, int flags)
{
	struct ibv_send_wr wr = request(opcode, nsge, flags);

	wr.wr.rdma.remote_addr = REMOTE_ADDR;
	wr.wr.rdma.rkey = RKEY;
	return wr;
}

static struct ibv_sge two[2] = {
	{ .addr = 0x1000, .length = 16, .lkey = 1 },
	{ .addr = 0x2000, .length = 32, .lkey = 2 },
};

static void expect_two(void)
{
	expect_sge(0, (void *)0x1000, 16, 1);
	expect_sge(1, (void *)0x2000, 32, 2);
}

static void post_recvv(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_recvv(&fake.id, CONTEXT, two, 2), 0);
	expect_recv(FAKE_POST_RECV, &fake.qp, 2);
	assert_ptr_equal(fake.call[0].recv.sg_list, two);
	expect_two();
}

static void post_sendv(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_sendv(&fake.id, CONTEXT, two, 2, FLAGS), 0);
	expect_send(request(IBV_WR_SEND, 2, FLAGS), two);
	expect_two();
}

static void post_readv(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_readv(&fake.id, CONTEXT, two, 2, FLAGS, REMOTE_ADDR, RKEY), 0);
	expect_send(rdma_request(IBV_WR_RDMA_READ, 2, FLAGS), two);
	expect_two();
}

static void post_writev(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_writev(&fake.id, CONTEXT, two, 2, FLAGS, REMOTE_ADDR, RKEY), 0);
	expect_send(rdma_request(IBV_WR_RDMA_WRITE, 2, FLAGS), two);
	expect_two();
}

static void post_recv(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_recv(&fake.id, CONTEXT, fake_memory + 8, 100, &fake.mr), 0);
	expect_recv(FAKE_POST_RECV, &fake.qp, 1);
	expect_sge(0, fake_memory + 8, 100, fake.mr.lkey);
}

static void post_send(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_send(&fake.id, CONTEXT, fake_memory, 100, &fake.mr, FLAGS), 0);
	expect_send(request(IBV_WR_SEND, 1, FLAGS), NULL);
	expect_sge(0, fake_memory, 100, fake.mr.lkey);
}

static void post_read(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_read(&fake.id, CONTEXT, fake_memory, 100, &fake.mr, FLAGS,
				       REMOTE_ADDR, RKEY), 0);
	expect_send(rdma_request(IBV_WR_RDMA_READ, 1, FLAGS), NULL);
	expect_sge(0, fake_memory, 100, fake.mr.lkey);
}

static void post_write(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_write(&fake.id, CONTEXT, fake_memory, 100, &fake.mr, FLAGS,
					REMOTE_ADDR, RKEY), 0);
	expect_send(rdma_request(IBV_WR_RDMA_WRITE, 1, FLAGS), NULL);
	expect_sge(0, fake_memory, 100, fake.mr.lkey);
}

static void post_ud_send(void **state)
{
	struct ibv_send_wr wr = request(IBV_WR_SEND, 1, FLAGS);

	(void)state;
	wr.wr.ud.ah = &fake.ah;
	wr.wr.ud.remote_qpn = REMOTE_QPN;
	wr.wr.ud.remote_qkey = 0x01234567;
	assert_succeeds(rdma_post_ud_send(&fake.id, CONTEXT, fake_memory, 100, &fake.mr, FLAGS,
					  &fake.ah, REMOTE_QPN), 0);
	expect_send(wr, NULL);
	expect_sge(0, fake_memory, 100, fake.mr.lkey);
}

/* Inline data needs no region: its local key is 0. */
static void without_mr(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		const struct buffer_helper *helper = &buffer_helpers[i];

		if (helper->needs_mr)
			continue;
		fake_reset();
		assert_succeeds(helper->post(&fake.id, fake_memory, 8, NULL, IBV_SEND_INLINE), 0);
		expect_sge(0, fake_memory, 8, 0);
		assert_int_equal(fake.call[0].send.send_flags, IBV_SEND_INLINE);
	}
}

/* Receives go to the shared receive queue if there is one, with or without a queue pair. */
static void receives_go_to_the_srq(void **state)
{
	(void)state;
	for (int with_qp = 0; with_qp < 2; with_qp++) {
		fake_reset();
		fake.id.srq = &fake.srq;
		if (!with_qp)
			fake.id.qp = NULL;
		assert_succeeds(rdma_post_recv(&fake.id, CONTEXT, fake_memory, 10, &fake.mr), 0);
		expect_recv(FAKE_POST_SRQ_RECV, &fake.srq, 1);
		expect_sge(0, fake_memory, 10, fake.mr.lkey);

		fake.calls = 0;
		assert_succeeds(rdma_post_recvv(&fake.id, CONTEXT, two, 2), 0);
		expect_recv(FAKE_POST_SRQ_RECV, &fake.srq, 2);
		expect_two();
	}
}

/* Up to the longest length that an element can have. */
static void lengths(void **state)
{
	static const size_t length[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff };

	(void)state;
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		for (size_t j = 0; j < COUNT(length); j++) {
			fake_reset();
			fake.mr.length = length[j];
			assert_succeeds(buffer_helpers[i].post(&fake.id, fake_memory, length[j],
							       &fake.mr, 0), 0);
			expect_call(buffer_helpers[i].operation, &fake.qp);
			expect_sge(0, fake_memory, (uint32_t)length[j], fake.mr.lkey);
		}
	}
}

/* Anywhere inside the region; an empty buffer may be at its end. */
static void receives_inside_the_region(void **state)
{
	static const struct { size_t offset, length; } inside[] = {
		{ 0, FAKE_MR_LENGTH }, { 0, 0 }, { 0, 1 }, { FAKE_MR_LENGTH - 1, 1 },
		{ FAKE_MR_LENGTH, 0 }, { 100, FAKE_MR_LENGTH - 100 },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(inside); i++) {
		fake_reset();
		assert_succeeds(rdma_post_recv(&fake.id, CONTEXT, fake_memory + inside[i].offset,
					       inside[i].length, &fake.mr), 0);
		expect_sge(0, fake_memory + inside[i].offset, (uint32_t)inside[i].length,
			   fake.mr.lkey);
	}
}

/* Counts and flags are checked by the provider only. */
static void counts_and_flags_pass(void **state)
{
	static const int counts[] = { -5, 0, 1, 16, INT32_MAX };
	static const int flags[] = { 0, -1 };
	static struct ibv_sge sgl[16];

	(void)state;
	for (size_t i = 0; i < COUNT(list_helpers); i++) {
		for (size_t j = 0; j < COUNT(counts); j++) {
			for (size_t k = 0; k < COUNT(flags); k++) {
				fake_reset();
				assert_succeeds(list_helpers[i].post(&fake.id, sgl, counts[j],
								     flags[k]), 0);
				expect_call(list_helpers[i].operation, &fake.qp);
				if (list_helpers[i].operation == FAKE_POST_RECV) {
					assert_int_equal(fake.call[0].recv.num_sge, counts[j]);
					continue;
				}
				assert_int_equal(fake.call[0].send.num_sge, counts[j]);
				assert_int_equal(fake.call[0].send.send_flags,
						 (unsigned int)flags[k]);
			}
		}
	}
}

static void receive_without_elements(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_recvv(&fake.id, CONTEXT, NULL, 0), 0);
	expect_recv(FAKE_POST_RECV, &fake.qp, 0);
	assert_null(fake.call[0].recv.sg_list);
}

/* Programs write 0 bytes to address 0 to see whether the peer is alive. */
static void write_of_nothing(void **state)
{
	(void)state;
	assert_succeeds(rdma_post_write(&fake.id, CONTEXT, NULL, 0, NULL, IBV_SEND_SIGNALED, 0, 0),
			0);
	expect_send(request(IBV_WR_RDMA_WRITE, 1, IBV_SEND_SIGNALED), NULL);
	expect_sge(0, NULL, 0, 0);
}

/* Programs put integers and tagged pointers into the context. */
static void any_context(void **state)
{
	const uintptr_t contexts[] = { 0, 1, 42, UINTPTR_MAX, (uintptr_t)two | 7 };

	(void)state;
	for (size_t i = 0; i < COUNT(contexts); i++) {
		fake_reset();
		assert_succeeds(rdma_post_sendv(&fake.id, (void *)contexts[i], two, 1, 0), 0);
		assert_succeeds(rdma_post_recvv(&fake.id, (void *)contexts[i], two, 1), 0);
		assert_int_equal(fake.call[0].send.wr_id, contexts[i]);
		assert_int_equal(fake.call[1].recv.wr_id, contexts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(post_recvv, reset),
		cmocka_unit_test_setup(post_sendv, reset),
		cmocka_unit_test_setup(post_readv, reset),
		cmocka_unit_test_setup(post_writev, reset),
		cmocka_unit_test_setup(post_recv, reset),
		cmocka_unit_test_setup(post_send, reset),
		cmocka_unit_test_setup(post_read, reset),
		cmocka_unit_test_setup(post_write, reset),
		cmocka_unit_test_setup(post_ud_send, reset),
		cmocka_unit_test_setup(without_mr, reset),
		cmocka_unit_test_setup(receives_go_to_the_srq, reset),
		cmocka_unit_test_setup(lengths, reset),
		cmocka_unit_test_setup(receives_inside_the_region, reset),
		cmocka_unit_test_setup(counts_and_flags_pass, reset),
		cmocka_unit_test_setup(receive_without_elements, reset),
		cmocka_unit_test_setup(write_of_nothing, reset),
		cmocka_unit_test_setup(any_context, reset),
	};

	return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
