/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * 3 GiB with one rdmax_read, more than a request can carry.
 *
 * The source is a smaller file that is mapped repeatedly, with a period that does not
 * divide the piece size: data in the wrong place is wrong data. So is the sink if there is
 * less memory than 3 GiB; then only what was written last can be checked.
 */
#define _GNU_SOURCE	/* memfd_create */
#include "device.h"
#include "../lib/clock.h"

#include <rdma/rdma_verbs_ext.h>

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH (UINT64_C(3) << 30)

enum {
	PAGE = 4096,
	SOURCE_PAGES = 15619,	/* primes: about 61 and 41 MiB */
	SINK_PAGES = 10501,
	LONG_SECONDS = 280,
};

/* The same pages, mapped repeatedly. */
static uint8_t *repeated(size_t pages)
{
	size_t period = pages * PAGE;
	int file = memfd_create("repeated", 0);
	uint8_t *map = mmap(NULL, LENGTH, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (file < 0 || map == MAP_FAILED || ftruncate(file, (off_t)period))
		skip_because("no address space of 3 GiB");
	for (uint64_t offset = 0; offset < LENGTH; offset += period) {
		uint64_t rest = LENGTH - offset;

		assert_ptr_not_equal(mmap(map + offset, rest < period ? rest : period,
					  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
				     MAP_FAILED);
	}
	close(file);
	return map;
}

/* A quarter of all memory stays free. */
static int has_memory(void)
{
	uint64_t pages = (uint64_t)sysconf(_SC_AVPHYS_PAGES);

	return pages * PAGE > LENGTH + LENGTH / 4;
}

/* Each 8 bytes hold their own index in the source. */
static void fill(uint8_t *source)
{
	uint64_t *word = (uint64_t *)(void *)source;

	for (uint64_t i = 0; i < (uint64_t)SOURCE_PAGES * PAGE / 8; i++)
		word[i] = i;
}

static void holds(const uint8_t *sink, uint64_t from)
{
	const uint64_t *word = (const uint64_t *)(const void *)sink;

	for (uint64_t i = from / 8; i < LENGTH / 8; i++)
		if (word[i] != i % ((uint64_t)SOURCE_PAGES * PAGE / 8))
			fail_msg("at byte %" PRIu64 " is what belongs to %" PRIu64, i * 8,
				 word[i] * 8);
}

static void three_gib(void **state)
{
	struct link *link = connected(state);
	int whole = has_memory();
	uint8_t *source = repeated(SOURCE_PAGES), *sink;
	struct ibv_mr *source_mr, *sink_mr;
	double started, seconds;

	alarm(LONG_SECONDS);
	sink = whole ? mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
		       repeated(SINK_PAGES);
	assert_ptr_not_equal(sink, MAP_FAILED);
	source_mr = rdmax_reg(link->passive, source, LENGTH, IBV_ACCESS_REMOTE_READ);
	sink_mr = rdma_reg_msgs(link->active, sink, LENGTH);
	assert_non_null(source_mr);
	assert_non_null(sink_mr);
	fill(source);
	started = now_ms();
	assert_succeeds(rdmax_read(link->active, sink, LENGTH, sink_mr, (uintptr_t)source,
				   source_mr->rkey, -1, NULL, NULL), 0);
	seconds = (now_ms() - started) / 1e3;
	print_message("# 3 GiB in %.1f s, where a request carries %" PRIu32 " bytes; %s was compared\n",
		      seconds, device_max_message(link->active),
		      whole ? "each byte" : "what was written last");
	holds(sink, whole ? 0 : LENGTH - (uint64_t)SINK_PAGES * PAGE);
	must(rdma_dereg_mr(sink_mr));
	must(rdma_dereg_mr(source_mr));
	munmap(source, LENGTH);
	munmap(sink, LENGTH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(three_gib),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("ext_large", tests, NULL, NULL);
}
