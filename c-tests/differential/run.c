/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "differential.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CALLS = 1000000, DEFAULT_SEED = 1 };

static int points, failed_points;

void report_point(bool passed, const char *format, ...)
{
	va_list arguments;

	tally.shown = 0;
	points++;
	failed_points += !passed;
	printf("%sok %d - ", passed ? "" : "not ", points);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf("\n");
	fflush(stdout);
}

int report_end(void)
{
	printf("1..%d\n", points);
	return failed_points ? 1 : 0;
}

/* --- all calls ----------------------------------------------------------------------- */

static const struct upstream *upstream;
static const struct helpers *ours;

/* The call as it is, and with every other value of up to this many axes at a time. */
static void vary(const struct scenario *s, int first_axis, int at_a_time)
{
	judge(upstream, ours, s);
	if (at_a_time == 0)
		return;
	for (int i = first_axis; i < axis_count; i++) {
		if (!is_one_of(s->helper, axes[i].helpers))
			continue;
		for (int value = 1; value < axes[i].values; value++) {
			struct scenario other = *s;

			axes[i].set(&other, value);
			vary(&other, i + 1, at_a_time - 1);
		}
	}
}

static void table_of(enum helper helper)
{
	const struct tally before = tally;
	struct scenario s;

	usual_scenario(&s, helper);
	vary(&s, 0, 3);
	report_point(tally.differences == before.differences, "%s: table, %lu calls",
		     helper_names[helper], tally.calls - before.calls);
}

static void random_calls(unsigned long calls, uint64_t seed)
{
	const struct tally before = tally;
	const uint64_t first_seed = seed;
	struct scenario s;

	for (unsigned long i = 0; i < calls; i++, seed = next_seed(seed)) {
		random_scenario(&s, seed);
		if (!judge(upstream, ours, &s) && tally.shown <= MAX_SHOWN)
			printf("#   call %lu of seed %#jx; alone: differential call %#jx\n",
			       i + 1, (uintmax_t)first_seed, (uintmax_t)seed);
	}
	report_point(tally.differences == before.differences,
		     "random: %lu calls, seed %#jx", calls, (uintmax_t)first_seed);
}

/* --- the report ---------------------------------------------------------------------- */

static void report_row(enum row row)
{
	if (row == UNNAMED_FIELDS && upstream->zeroes_unnamed_fields)
		report_point(tally.met[row] == 0, "%s: %s has no such difference",
			     row_name(row), upstream->name);
	else
		report_point(tally.met[row] > 0, "%s: met in %lu calls", row_name(row),
			     tally.met[row]);
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (!*text || *end) {
		fprintf(stderr, "arguments: [CALLS [SEED]] or: call SEED\n");
		exit(2);
	}
	return value;
}

static void all_calls(unsigned long calls, uint64_t seed)
{
	for (enum helper helper = 0; helper < HELPERS; helper++)
		table_of(helper);
	random_calls(calls, seed);
	for (enum row row = 0; row < ROWS; row++)
		report_row(row);
	report_point(tally.other_context > 0, "cq_context: asserted to be the id in %lu calls",
		     tally.other_context);
	printf("# compared with %s: %lu calls, %lu comparisons, %lu differences that are "
	       "no deviation\n", upstream->name, tally.calls, tally.comparisons,
	       tally.differences);
}

void differential(const struct upstream *compare_with, const struct helpers *helpers,
		  int argc, char **argv)
{
	upstream = compare_with;
	ours = helpers;
	catch_crashes();
	if (argc == 3 && !strcmp(argv[1], "call"))
		random_calls(1, number(argv[2]));
	else
		all_calls(argc > 1 ? number(argv[1]) : DEFAULT_CALLS,
			  argc > 2 ? number(argv[2]) : DEFAULT_SEED);
}
