/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a call of each helper costs, on a provider that does nothing, for each variant:
 * a library made of loops.c.
 *
 *	calls time VARIANT.so...	nanoseconds; the variants alternate
 *	calls count VARIANT.so...	under callgrind: a dump of N calls for each, which is
 *					named after variant and helper
 *	calls threads VARIANT.so...	calls in a microsecond by one thread, and by two
 *
 * Prints lines of CSV: section, case, variant, unit, median, lower and upper quartile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <valgrind/callgrind.h>

#include "loops.h"
#include "statistics.h"

enum { ROUNDS = 101, CALLS = 20000, COUNTED_CALLS = 1000, MOST_VARIANTS = 16, THREADS = 2,
       CALLS_OF_A_THREAD = 2000000 };

struct variant {
	const char *name;
	const struct loop *loops;
};

static struct variant variants[MOST_VARIANTS];
static int variant_count;

/* The name of the file without its directory and what follows a dot. */
static void load(struct variant *variant, const char *path)
{
	const char *base = strrchr(path, '/');
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library || !(variant->loops = dlsym(library, "loops"))) {
		fprintf(stderr, "calls: %s\n", dlerror());
		exit(EXIT_FAILURE);
	}
	base = base ? base + 1 : path;
	if (strcmp(variant->loops[0].name, variants[0].loops[0].name) != 0) {
		fprintf(stderr, "calls: %s has other loops than the first\n", path);
		exit(EXIT_FAILURE);
	}
	variant->name = strndup(base, strcspn(base, "."));
	if (!variant->name)
		abort();
}

static void time_calls(size_t loop)
{
	static double each[MOST_VARIANTS][ROUNDS];
	struct bench *bench = bench_new(variants[0].loops[loop].queue);

	for (int round = -1; round < ROUNDS; round++)
		for (int v = 0; v < variant_count; v++) {
			double start = now_ns();

			variants[v].loops[loop].run(bench, CALLS);
			if (round >= 0)
				each[v][round] = (now_ns() - start) / CALLS;
		}
	for (int v = 0; v < variant_count; v++)
		print_row("calls", variants[v].loops[loop].name, variants[v].name, "ns", each[v],
			  ROUNDS);
}

/* The first call may be bound lazily, and is not counted. */
static void count_calls(size_t loop)
{
	struct bench *bench = bench_new(variants[0].loops[loop].queue);

	for (int v = 0; v < variant_count; v++) {
		char name[80];

		snprintf(name, sizeof(name), "%s;%s;%d", variants[v].loops[loop].name,
			 variants[v].name, COUNTED_CALLS);
		variants[v].loops[loop].run(bench, 1);
		CALLGRIND_ZERO_STATS;
		variants[v].loops[loop].run(bench, COUNTED_CALLS);
		CALLGRIND_DUMP_STATS_AT(name);
	}
}

/* --- threads, each with an id of its own ------------------------------------------------------- */

struct work {
	const struct loop *loop;
	struct bench *bench;
	double start, end;
};

static pthread_barrier_t barrier;

static void *post(void *argument)
{
	struct work *work = argument;

	pthread_barrier_wait(&barrier);
	work->start = now_ns();
	work->loop->run(work->bench, CALLS_OF_A_THREAD);
	work->end = now_ns();
	return NULL;
}

/* The system may take a while to notice that a processor is idle. */
static int pin(pthread_t thread, unsigned int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	return pthread_setaffinity_np(thread, sizeof(set), &set);
}

static double calls_in_a_microsecond(const struct loop *loop, unsigned int threads)
{
	pthread_t thread[THREADS];
	struct work work[THREADS];
	double start, end;

	pthread_barrier_init(&barrier, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		work[i] = (struct work){ .loop = loop, .bench = bench_new(loop->queue) };
		if (pthread_create(&thread[i], NULL, post, &work[i]) || pin(thread[i], i)) {
			fprintf(stderr, "calls: needs %u processors\n", threads);
			exit(EXIT_FAILURE);
		}
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&barrier);
	/* From the first start to the last end, by the threads' own clocks. */
	start = work[0].start;
	end = work[0].end;
	for (unsigned int i = 1; i < threads; i++) {
		start = work[i].start < start ? work[i].start : start;
		end = work[i].end > end ? work[i].end : end;
	}
	return (double)CALLS_OF_A_THREAD * threads / (end - start) * 1e3;
}

static void time_threads(size_t loop)
{
	enum { THREAD_ROUNDS = 31 };
	static double rate[THREADS][MOST_VARIANTS][THREAD_ROUNDS];

	for (int round = 0; round < THREAD_ROUNDS; round++)
		for (int v = 0; v < variant_count; v++)
			for (unsigned int t = 0; t < THREADS; t++)
				rate[t][v][round] = calls_in_a_microsecond(
					&variants[v].loops[loop], t + 1);
	for (unsigned int t = 0; t < THREADS; t++)
		for (int v = 0; v < variant_count; v++) {
			char name[80];

			snprintf(name, sizeof(name), "%s by %u thread%s",
				 variants[v].loops[loop].name, t + 1, t ? "s" : "");
			print_row("threads", name, variants[v].name, "calls/us", rate[t][v],
				  THREAD_ROUNDS);
		}
}

int main(int argc, char **argv)
{
	void (*measure)(size_t loop) = NULL;

	if (argc > 2 && argc <= MOST_VARIANTS + 2)
		measure = !strcmp(argv[1], "time") ? time_calls :
			  !strcmp(argv[1], "count") ? count_calls :
			  !strcmp(argv[1], "threads") ? time_threads : NULL;
	if (!measure) {
		fprintf(stderr, "usage: calls time|count|threads VARIANT.so...\n");
		return 2;
	}
	for (int i = 2; i < argc; i++)
		load(&variants[variant_count++], argv[i]);
	for (size_t loop = 0; variants[0].loops[loop].name; loop++)
		if (measure != time_threads ||
		    !strcmp(variants[0].loops[loop].name, "rdma_post_send"))
			measure(loop);
	return 0;
}
