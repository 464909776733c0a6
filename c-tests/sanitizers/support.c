/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Linked into each program that c-tests/sanitizers/check-sanitizers builds. */
#include <string.h>
#include <sys/auxv.h>

/* The leak checker traces the process, which is not allowed for a set-user-ID program. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return getauxval(AT_SECURE) != 0;
}

/*
 * Rust's compiler may be newer than the C compiler's runtime, and call these. They are
 * what a newer runtime does: the C library's functions, which the runtime watches.
 */
void *__tsan_memset(void *to, int byte, size_t size);
__attribute__((weak)) void *__tsan_memset(void *to, int byte, size_t size)
{
	return memset(to, byte, size);
}

void *__tsan_memcpy(void *to, const void *from, size_t size);
__attribute__((weak)) void *__tsan_memcpy(void *to, const void *from, size_t size)
{
	return memcpy(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size);
__attribute__((weak)) void *__tsan_memmove(void *to, const void *from, size_t size)
{
	return memmove(to, from, size);
}
