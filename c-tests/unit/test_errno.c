// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the caller sees when the provider refuses a call. */
#include "../lib/check.h"
#include "../fake/helpers.h"

/* One way in which a provider refuses, and what the caller must see. */
struct refusal {
	struct fake_reply reply;
	int errno_before;
	int expected;
};

static const struct refusal refusals[] = {
	{ { .result = ENOMEM }, UNTOUCHED, ENOMEM },
	{ { .result = -ENOMEM }, UNTOUCHED, ENOMEM },
	{ { .result = -1, .error = ENOMEM }, UNTOUCHED, ENOMEM },
	{ { .result = -1 }, 0, EIO },
	{ { .result = EPERM }, UNTOUCHED, EPERM },	/* 1: must not read as success */
	{ { .result = EINVAL }, UNTOUCHED, EINVAL },
	{ { .result = -EINVAL }, UNTOUCHED, EINVAL },
};

static int reset(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static void prepare(const struct refusal *refusal)
{
	fake_reset();
	fake_answer(refusal->reply);
	errno = refusal->errno_before;
}

static void expect_refusal(int result, const struct refusal *refusal)
{
	int error = errno;

	assert_int_equal(result, -1);
	assert_int_equal(error, refusal->expected);
	assert_int_equal(fake.calls, 1);
}

static void every_post_refused(void **state)
{
	struct ibv_sge sge = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(refusals); i++) {
		for (size_t j = 0; j < COUNT(buffer_helpers); j++) {
			prepare(&refusals[i]);
			expect_refusal(buffer_helpers[j].post(&fake.id, fake_memory, 1, &fake.mr,
							      0), &refusals[i]);
		}
		for (size_t j = 0; j < COUNT(list_helpers); j++) {
			prepare(&refusals[i]);
			expect_refusal(list_helpers[j].post(&fake.id, &sge, 1, 0), &refusals[i]);
		}
	}
}

static void receive_to_srq_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(refusals); i++) {
		prepare(&refusals[i]);
		fake.id.srq = &fake.srq;
		expect_refusal(rdma_post_recv(&fake.id, CONTEXT, fake_memory, 1, &fake.mr),
			       &refusals[i]);
	}
}

static void deregistration_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(refusals); i++) {
		prepare(&refusals[i]);
		expect_refusal(rdma_dereg_mr(&fake.mr), &refusals[i]);
	}
}

/* EPERM is 1, which a caller would take for one completion. */
static void arming_refused(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(refusals); i++) {
		for (size_t j = 0; j < COUNT(wait_helpers); j++) {
			int result, error;

			fake_reset();
			fake_answer((struct fake_reply){ .result = 0 });
			fake_answer(refusals[i].reply);
			errno = refusals[i].errno_before;
			result = wait_helpers[j].wait(&fake.id, &wc);
			error = errno;
			assert_int_equal(result, -1);
			assert_int_equal(error, refusals[i].expected);
			assert_int_equal(fake.calls, 2);
			assert_int_equal(fake.call[1].operation, FAKE_REQ_NOTIFY_CQ);
		}
	}
}

/* Of the values that polling returns, -1 and -2 are not errno values. */
static void polling_refused(void **state)
{
	static const struct refusal polls[] = {
		{ { .result = -1, .error = ENODEV }, UNTOUCHED, ENODEV },
		{ { .result = -1 }, 0, EIO },
		{ { .result = -2 }, UNTOUCHED, EIO },
		{ { .result = -EINVAL }, UNTOUCHED, EINVAL },
		{ { .result = -ENOMEM }, UNTOUCHED, ENOMEM },
	};
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(polls); i++) {
		for (size_t j = 0; j < COUNT(wait_helpers); j++) {
			/* The first poll, or the one after arming. */
			for (int before = 0; before <= 2; before += 2) {
				int result, error;

				fake_reset();
				for (int k = 0; k < before; k++)
					fake_answer((struct fake_reply){ .result = 0 });
				fake_answer(polls[i].reply);
				errno = polls[i].errno_before;
				result = wait_helpers[j].wait(&fake.id, &wc);
				error = errno;
				assert_int_equal(result, -1);
				assert_int_equal(error, polls[i].expected);
				assert_int_equal(fake.calls, before + 1);
			}
		}
	}
}

static void waiting_fails(void **state)
{
	static const int errors[] = { EBADF, EINTR, EAGAIN };
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(errors); i++) {
		for (size_t j = 0; j < COUNT(wait_helpers); j++) {
			fake_reset();
			for (int k = 0; k < 3; k++)
				fake_answer((struct fake_reply){ .result = 0 });
			fake_answer((struct fake_reply){ .result = -1, .error = errors[i] });
			assert_fails(wait_helpers[j].wait(&fake.id, &wc), errors[i]);
			assert_int_equal(fake.calls, 4);
			assert_int_equal(fake.call[3].operation, FAKE_GET_CQ_EVENT);
		}
	}
}

/* An inline function of the header: programs call it with values of their own. */
static void seterrno(void **state)
{
	(void)state;
	assert_succeeds(rdma_seterrno(0), 0);
	assert_fails(rdma_seterrno(EAGAIN), EAGAIN);
	assert_fails(rdma_seterrno(-EAGAIN), -EAGAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_post_refused, reset),
		cmocka_unit_test_setup(receive_to_srq_refused, reset),
		cmocka_unit_test_setup(deregistration_refused, reset),
		cmocka_unit_test_setup(arming_refused, reset),
		cmocka_unit_test_setup(polling_refused, reset),
		cmocka_unit_test_setup(waiting_fails, reset),
		cmocka_unit_test(seterrno),
	};

	return cmocka_run_group_tests_name("errno", tests, NULL, NULL);
}
