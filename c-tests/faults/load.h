/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the two sides of the load have in common: the server's memory and the messages.
 */
#ifndef LOAD_H
#define LOAD_H

#include <rdma/rdma_verbs.h>
#include <rdma/rdma_verbs_ext.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	AREA_BYTES = 64 * 1024,
	DEPTH = 16,		/* requests in flight */
	PINGS = 4,		/* questions without an answer, of those */
	RNR_FOR_EVER = 7,
	SLICE_MS = 50,		/* the longest of the random waits */
};

/* What a client works on, one for each. The source does not change. */
struct area {
	uint8_t source[AREA_BYTES];
	uint8_t sink[AREA_BYTES];
	uint64_t counter;	/* for atomics: in the byte order of the machine */
};

/* Both sides run on machines of one kind. */
struct message {
	enum { HELLO, PING, END } kind;
	uint32_t rkey;
	uint64_t addr;		/* of the area */
	uint64_t number;	/* of the ping: from 0 */
	uint64_t value;		/* the answer's: of the number; of END: the counter's */
	uint64_t sink;		/* of END: checksum of the sink */
};

static inline uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* splitmix64: each number leads to the next, and looks like chance. */
static inline uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/* Each byte of the source is known to both sides. */
static inline uint8_t source_byte(size_t offset)
{
	return (uint8_t)mix(offset);
}

static inline uint64_t checksum(const uint8_t *data, size_t length)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < length; i++)
		sum = mix(sum ^ data[i]);
	return sum;
}

static inline int failed(const char *call)
{
	fprintf(stderr, "%s: %s\n", call, strerror(errno));
	return -1;
}

#endif
