/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* cmocka, and assertions about the result and errno of a call. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* An errno value that nothing sets. */
#define UNTOUCHED 12345

/* cmocka's own has two names, depending on the release. */
#define assert_between(value, least, most) \
	assert_true((value) >= (least) && (value) <= (most))

/* The call returns the result and leaves errno alone. */
#define assert_succeeds(call, result)                                       \
	do {                                                                \
		errno = UNTOUCHED;                                          \
		assert_int_equal(call, result);                             \
		assert_int_equal(errno, UNTOUCHED);                         \
	} while (0)

/* The call returns -1 and sets errno. */
#define assert_fails(call, expected_errno)                                  \
	do {                                                                \
		errno = UNTOUCHED;                                          \
		assert_int_equal(call, -1);                                 \
		assert_int_equal(errno, expected_errno);                    \
	} while (0)

#endif
