/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Commits the error that its argument names, to show that it is caught. The errors are the
 * caller's, but the faulty accesses are in the library's code.
 */
#include "../fake/fake.h"

#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

/* The id ends before its fields. */
static int short_id(void)
{
	struct rdma_cm_id *volatile id = malloc(8);
	int result = rdma_post_send(id, NULL, NULL, 0, NULL, 0);

	free(id);
	return result;
}

static int freed_id(void)
{
	struct rdma_cm_id *volatile id = calloc(1, sizeof(*id));

	free(id);
	return rdma_post_send(id, NULL, NULL, 0, NULL, 0);
}

static int overflow(void)
{
	volatile int number = INT32_MAX;

	number = number + 1;
	return number;
}

static void *post_on_it(void *id)
{
	for (int i = 0; i < 1000; i++)
		rdma_post_send(id, NULL, NULL, 0, NULL, 0);
	return NULL;
}

/* One thread removes the queue pair while the other posts on it. */
static int race(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, post_on_it, &fake.id))
		abort();
	for (int i = 0; i < 1000; i++)
		fake.id.qp = NULL;
	return pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*commit)(void);
	} faults[] = {
		{ "short_id", short_id },
		{ "freed_id", freed_id },
		{ "overflow", overflow },
		{ "race", race },
	};

	fake.id.qp = NULL;
	for (size_t i = 0; argc == 2 && i < sizeof(faults) / sizeof(*faults); i++) {
		if (strcmp(faults[i].name, argv[1]) == 0) {
			faults[i].commit();
			return 0;
		}
	}
	return 2;
}
