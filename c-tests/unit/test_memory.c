// SPDX-License-Identifier: MIT OR Apache-2.0
/* Registration. */
#include "../lib/check.h"
#include "../fake/helpers.h"

static int reset(void **state)
{
	(void)state;
	fake_reset();
	return 0;
}

static void registers(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		fake_reset();
		errno = UNTOUCHED;
		assert_ptr_equal(reg_helpers[i].reg(&fake.id, fake_memory, 77), &fake.mr);
		assert_int_equal(errno, UNTOUCHED);
		assert_int_equal(fake.calls, 1);
		assert_int_equal(fake.call[0].operation, FAKE_REG_MR);
		assert_ptr_equal(fake.call[0].object, &fake.pd);
		assert_ptr_equal(fake.call[0].addr, fake_memory);
		assert_int_equal(fake.call[0].length, 77);
		assert_int_equal(fake.call[0].number, reg_helpers[i].access);
	}
}

/* The manual of verbs(7) has the values 1, 2 and 4. */
static void access_values(void **state)
{
	static const int expected[] = { 1, 5, 3 };

	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++)
		assert_int_equal(reg_helpers[i].access, expected[i]);
}

/* A listening id has no queue pair; an id with a shared receive queue need not have one. */
static void needs_only_a_protection_domain(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		fake_reset();
		memset(&fake.id, 0, sizeof(fake.id));
		fake.id.pd = &fake.pd;
		assert_ptr_equal(reg_helpers[i].reg(&fake.id, fake_memory, 1), &fake.mr);
	}
}

static void passes_any_buffer(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		fake_reset();
		assert_ptr_equal(reg_helpers[i].reg(&fake.id, NULL, SIZE_MAX), &fake.mr);
		assert_null(fake.call[0].addr);
		assert_int_equal(fake.call[0].length, SIZE_MAX);
	}
}

static void registration_fails(void **state)
{
	static const int errors[] = { EFAULT, ENOMEM, EINVAL, EPERM };

	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		for (size_t j = 0; j < COUNT(errors); j++) {
			fake_reset();
			fake_answer((struct fake_reply){ .result = -1, .error = errors[j] });
			errno = UNTOUCHED;
			assert_null(reg_helpers[i].reg(&fake.id, fake_memory, 1));
			assert_int_equal(errno, errors[j]);
		}
	}
}

static void deregisters(void **state)
{
	(void)state;
	assert_succeeds(rdma_dereg_mr(&fake.mr), 0);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake.call[0].operation, FAKE_DEREG_MR);
	assert_ptr_equal(fake.call[0].object, &fake.mr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(registers, reset),
		cmocka_unit_test_setup(access_values, reset),
		cmocka_unit_test_setup(needs_only_a_protection_domain, reset),
		cmocka_unit_test_setup(passes_any_buffer, reset),
		cmocka_unit_test_setup(registration_fails, reset),
		cmocka_unit_test_setup(deregisters, reset),
	};

	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
