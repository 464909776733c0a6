/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Times, and their medians and quartiles as lines of CSV. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts the values. Names may have commas, so they are quoted. */
static inline void print_row(const char *section, const char *name, const char *variant,
			     const char *unit, double *values, size_t count)
{
	qsort(values, count, sizeof(*values), ascending);
	printf("%s,\"%s\",\"%s\",%s,%.2f,%.2f,%.2f\n", section, name, variant, unit,
	       values[count / 2], values[count / 4], values[count - 1 - count / 4]);
}

#endif
