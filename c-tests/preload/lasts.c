// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: lasts ROUNDS
 *
 * A program that runs for long, on the provider of fake_ibverbs.c: requests and their
 * completions, regions that come and go, and now and then a queue pair. Ends with
 * status 1 if its memory has grown after the first tenth.
 */
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>

/* What malloc may need to settle. */
#define SLACK_KB 256

static void new_pair(void)
{
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
	};

	require(!ibv_destroy_qp(qp), "ibv_destroy_qp");
	require((qp = ibv_create_qp(pd, &attributes)) != NULL, "ibv_create_qp");
}

static void new_region(void)
{
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	require(mr != NULL, "ibv_reg_mr");
}

static void run(long rounds)
{
	for (long i = 1; i <= rounds; i++) {
		send_on(qp, mr->lkey);
		poll_one();
		if (i % 16 == 0)
			new_region();
		if (i % 1024 == 0)
			new_pair();
	}
}

static long resident_kb(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[256];
	long kb = -1;

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmRSS: %ld", &kb) == 1)
			break;
	require(status && kb >= 0, "/proc/self/status");
	fclose(status);
	return kb;
}

int main(int count, char **arguments)
{
	long rounds = count > 1 ? atol(arguments[1]) : 0, before, after;

	open_all();
	run(rounds / 10);
	before = resident_kb();
	run(rounds);
	after = resident_kb();
	require(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr), "destroy");
	printf("%ld rounds: %ld kB, before %ld kB\n", rounds, after, before);
	return after > before + SLACK_KB;
}
