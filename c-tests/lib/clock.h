/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef CLOCK_H
#define CLOCK_H

#include <time.h>

static inline double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

#endif
