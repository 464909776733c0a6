// SPDX-License-Identifier: MIT OR Apache-2.0
/* The rows of docs/deviations.md, each in a test of that name. */
#include "../lib/check.h"
#include "../fake/helpers.h"

static int reset(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static void refuses_post(int result)
{
	int error = errno;

	assert_int_equal(result, -1);
	assert_int_equal(error, EINVAL);
	assert_int_equal(fake.calls, 0);
}

static void null_pointer_id(void **state)
{
	struct ibv_sge sge = { 0 };
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		errno = UNTOUCHED;
		assert_null(reg_helpers[i].reg(NULL, fake_memory, 1));
		assert_int_equal(errno, EINVAL);
	}
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		errno = UNTOUCHED;
		refuses_post(buffer_helpers[i].post(NULL, fake_memory, 1, &fake.mr, 0));
	}
	for (size_t i = 0; i < COUNT(list_helpers); i++) {
		errno = UNTOUCHED;
		refuses_post(list_helpers[i].post(NULL, &sge, 1, 0));
	}
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		errno = UNTOUCHED;
		refuses_post(wait_helpers[i].wait(NULL, &wc));
	}
}

static void null_pointer_pd(void **state)
{
	(void)state;
	fake.id.pd = NULL;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		errno = UNTOUCHED;
		assert_null(reg_helpers[i].reg(&fake.id, fake_memory, 1));
		assert_int_equal(errno, EINVAL);
		assert_int_equal(fake.calls, 0);
	}
}

/* A receive needs a queue pair or an SRQ; a send needs a queue pair. */
static void null_pointer_qp(void **state)
{
	struct ibv_sge sge = { 0 };

	(void)state;
	for (int with_srq = 0; with_srq < 2; with_srq++) {
		fake_reset();
		fake.id.qp = NULL;
		fake.id.srq = with_srq ? &fake.srq : NULL;
		for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
			if (with_srq && buffer_helpers[i].operation == FAKE_POST_RECV)
				continue;
			errno = UNTOUCHED;
			refuses_post(buffer_helpers[i].post(&fake.id, fake_memory, 1, &fake.mr, 0));
		}
		for (size_t i = 0; i < COUNT(list_helpers); i++) {
			if (with_srq && list_helpers[i].operation == FAKE_POST_RECV)
				continue;
			errno = UNTOUCHED;
			refuses_post(list_helpers[i].post(&fake.id, &sge, 1, 0));
		}
	}
}

static void null_pointer_mr(void **state)
{
	(void)state;
	errno = UNTOUCHED;
	refuses_post(rdma_dereg_mr(NULL));
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		if (!buffer_helpers[i].needs_mr)
			continue;
		errno = UNTOUCHED;
		refuses_post(buffer_helpers[i].post(&fake.id, fake_memory, 1, NULL, 0));
	}
}

static void null_pointer_wc(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		errno = UNTOUCHED;
		refuses_post(wait_helpers[i].wait(&fake.id, NULL));
	}
}

static void null_pointer_cq(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		*wait_helpers[i].id_cq = NULL;
		errno = UNTOUCHED;
		refuses_post(wait_helpers[i].wait(&fake.id, &wc));
	}
}

/* Only where the call would have to wait: poll, arm, poll, and then. */
static void null_pointer_channel(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		fake_reset();
		*wait_helpers[i].id_channel = NULL;
		for (int j = 0; j < 3; j++)
			fake_answer((struct fake_reply){ .result = 0 });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EINVAL);
		assert_int_equal(fake.calls, 3);
	}
}

static void long_length(void **state)
{
	static const size_t lengths[] = {
		(size_t)UINT32_MAX + 1, (size_t)UINT32_MAX + 17, SIZE_MAX,
	};

	(void)state;
	fake.mr.addr = NULL;
	fake.mr.length = SIZE_MAX;	/* so that only the length is wrong */
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		for (size_t j = 0; j < COUNT(lengths); j++) {
			errno = UNTOUCHED;
			refuses_post(buffer_helpers[i].post(&fake.id, NULL, lengths[j], &fake.mr,
							    0));
		}
	}
}

static void outside_region(void **state)
{
	static const struct { ptrdiff_t offset; size_t length; } outside[] = {
		{ -1, 1 }, { -1, 0 }, { -8, 16 }, { 0, FAKE_MR_LENGTH + 1 },
		{ 1, FAKE_MR_LENGTH }, { FAKE_MR_LENGTH, 1 }, { FAKE_MR_LENGTH + 1, 0 },
		{ FAKE_MR_LENGTH - 1, 2 }, { 0, UINT32_MAX },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(outside); i++) {
		errno = UNTOUCHED;
		refuses_post(rdma_post_recv(&fake.id, CONTEXT, (void *)((uintptr_t)fake_memory +
					    (uintptr_t)outside[i].offset), outside[i].length,
					    &fake.mr));
	}
}

/* Here the end of the buffer, as an address, wraps to the start of the address space. */
static void outside_region_wraps(void **state)
{
	(void)state;
	fake.mr.addr = (void *)(UINTPTR_MAX - 99);
	fake.mr.length = 50;
	errno = UNTOUCHED;
	refuses_post(rdma_post_recv(&fake.id, CONTEXT, fake.mr.addr, 200, &fake.mr));
	assert_succeeds(rdma_post_recv(&fake.id, CONTEXT, fake.mr.addr, 50, &fake.mr), 0);
}

/* test_errno.c has these two rows for the other helpers. */
static void negative_errno(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		fake_reset();
		fake_answer((struct fake_reply){ .result = -ENOMEM });
		assert_fails(buffer_helpers[i].post(&fake.id, fake_memory, 1, &fake.mr, 0),
			     ENOMEM);
	}
}

static void minus_one(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		fake_reset();
		fake_answer((struct fake_reply){ .result = -1, .error = ENODEV });
		assert_fails(buffer_helpers[i].post(&fake.id, fake_memory, 1, &fake.mr, 0),
			     ENODEV);

		fake_answer((struct fake_reply){ .result = -1 });
		errno = 0;
		assert_int_equal(buffer_helpers[i].post(&fake.id, fake_memory, 1, &fake.mr, 0),
				 -1);
		assert_int_equal(errno, EIO);
	}
}

static void poll_error(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		fake_answer((struct fake_reply){ .result = -1, .error = ENODEV });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), ENODEV);
		fake_answer((struct fake_reply){ .result = -2 });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EIO);
		fake_answer((struct fake_reply){ .result = -EINVAL });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EINVAL);
	}
}

/* The acknowledgement goes to the queue that raised the event, or it could never be
 * destroyed. */
static void foreign_event(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		fake_reset();
		for (int j = 0; j < 3; j++)
			fake_answer((struct fake_reply){ .result = 0 });
		fake_answer((struct fake_reply){ .event_cq = &fake.other_cq });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EINVAL);
		assert_int_equal(fake.calls, 5);
		assert_int_equal(fake.call[4].operation, FAKE_ACK_CQ_EVENTS);
		assert_ptr_equal(fake.call[4].object, &fake.other_cq);
		assert_int_equal(fake.call[4].number, 1);
	}
}

/* A queue that the program created may have any cq_context. */
static void foreign_event_cq_context(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		fake_reset();
		wait_helpers[i].cq->cq_context = &wc;
		for (int j = 0; j < 4; j++)
			fake_answer((struct fake_reply){ .result = 0 });
		assert_succeeds(wait_helpers[i].wait(&fake.id, &wc), 1);
		assert_int_equal(fake.calls, 6);
	}
}

/* Fills the stack below the caller with something that is not 0. */
static __attribute__((noinline)) void dirty_stack(void)
{
	volatile unsigned char garbage[4096];

	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = 0xa5;
}

static void unnamed_fields(void **state)
{
	struct ibv_send_wr zero = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		const struct ibv_send_wr *wr = &fake.call[0].send;

		if (buffer_helpers[i].operation != FAKE_POST_SEND)
			continue;
		fake_reset();
		dirty_stack();
		assert_succeeds(buffer_helpers[i].post(&fake.id, fake_memory, 1, &fake.mr, 0), 0);
		assert_int_equal(wr->imm_data, 0);
		assert_int_equal(wr->qp_type.xrc.remote_srqn, 0);
		assert_memory_equal(&wr->bind_mw, &zero.bind_mw, sizeof(zero.bind_mw));
		/* The part of the union beyond what the helper sets: the rest of atomic. */
		assert_memory_equal((const char *)&wr->wr + sizeof(wr->wr.rdma), &zero,
				    sizeof(wr->wr) - sizeof(wr->wr.rdma));
		if (strcmp(buffer_helpers[i].name, "rdma_post_send") == 0)
			assert_memory_equal(&wr->wr, &zero, sizeof(wr->wr));
	}
}

static void no_operation(void **state)
{
	struct ibv_sge sge = { 0 };
	struct ibv_wc wc;

	(void)state;
	memset(&fake.context.ops, 0, sizeof(fake.context.ops));
	for (int with_srq = 0; with_srq < 2; with_srq++) {
		fake.id.srq = with_srq ? &fake.srq : NULL;
		for (size_t i = 0; i < COUNT(buffer_helpers); i++)
			assert_fails(buffer_helpers[i].post(&fake.id, fake_memory, 1, &fake.mr, 0),
				     EOPNOTSUPP);
		for (size_t i = 0; i < COUNT(list_helpers); i++)
			assert_fails(list_helpers[i].post(&fake.id, &sge, 1, 0), EOPNOTSUPP);
	}
	for (size_t i = 0; i < COUNT(wait_helpers); i++)
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EOPNOTSUPP);
}

static void no_operation_to_arm(void **state)
{
	struct ibv_wc wc;

	(void)state;
	fake.context.ops.req_notify_cq = NULL;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		fake_answer((struct fake_reply){ .result = 0 });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EOPNOTSUPP);
	}
}

/* libibverbs' stand-in for a missing poll_cq returns EOPNOTSUPP, which is no count. */
static void no_operation_but_a_stand_in(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		fake_answer((struct fake_reply){ .result = EOPNOTSUPP });
		assert_fails(wait_helpers[i].wait(&fake.id, &wc), EOPNOTSUPP);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(null_pointer_id, reset),
		cmocka_unit_test_setup(null_pointer_pd, reset),
		cmocka_unit_test_setup(null_pointer_qp, reset),
		cmocka_unit_test_setup(null_pointer_mr, reset),
		cmocka_unit_test_setup(null_pointer_wc, reset),
		cmocka_unit_test_setup(null_pointer_cq, reset),
		cmocka_unit_test_setup(null_pointer_channel, reset),
		cmocka_unit_test_setup(long_length, reset),
		cmocka_unit_test_setup(outside_region, reset),
		cmocka_unit_test_setup(outside_region_wraps, reset),
		cmocka_unit_test_setup(negative_errno, reset),
		cmocka_unit_test_setup(minus_one, reset),
		cmocka_unit_test_setup(poll_error, reset),
		cmocka_unit_test_setup(foreign_event, reset),
		cmocka_unit_test_setup(foreign_event_cq_context, reset),
		cmocka_unit_test_setup(unnamed_fields, reset),
		cmocka_unit_test_setup(no_operation, reset),
		cmocka_unit_test_setup(no_operation_to_arm, reset),
		cmocka_unit_test_setup(no_operation_but_a_stand_in, reset),
	};

	return cmocka_run_group_tests_name("deviations", tests, NULL, NULL);
}
