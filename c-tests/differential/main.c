/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librdmacm's inline helpers against librdma_verbs.
 *
 * usage, at the top of the source tree:
 *	differential [CALLS [SEED]]
 *	differential call SEED
 */
#define _GNU_SOURCE	/* dlvsym */
#include "differential.h"

#include <dlfcn.h>
#include <stdio.h>

static const struct upstream librdmacm = {
	.name = "librdmacm",
	.with_assert = &oracle_with_assert,
	.without_assert = &oracle_without_assert,
};

static const struct helpers librdma_verbs = {
#define ENTRY(name) .name = name,
	FOR_EACH_HELPER(ENTRY)
};

/* --- libibverbs itself, whose place the fake provider takes --------------------------- */

#undef ibv_reg_mr
static struct {
	__typeof__(ibv_reg_mr) *reg_mr;
	__typeof__(ibv_dereg_mr) *dereg_mr;
	__typeof__(ibv_get_cq_event) *get_cq_event;
} libibverbs;

static void call_reg_mr(const void *pd)
{
	libibverbs.reg_mr((struct ibv_pd *)pd, fake_memory, FAKE_MR_LENGTH, 0);
}

static void call_dereg_mr(const void *mr)
{
	libibverbs.dereg_mr((struct ibv_mr *)mr);
}

static void call_get_cq_event(const void *channel)
{
	struct ibv_cq *cq;
	void *context;

	libibverbs.get_cq_event((struct ibv_comp_channel *)channel, &cq, &context);
}

static void libibverbs_crashes_at_null(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	bool found = library != NULL;

#define FIND(member, name) \
	(found = found && \
		 (*(void **)&libibverbs.member = dlvsym(library, name, "IBVERBS_1.1")))
	FIND(reg_mr, "ibv_reg_mr");
	FIND(dereg_mr, "ibv_dereg_mr");
	FIND(get_cq_event, "ibv_get_cq_event");
	if (!found)
		printf("# %s\n", dlerror());
	report_point(found && attempt(call_reg_mr, NULL) == CRASHED &&
			     attempt(call_dereg_mr, NULL) == CRASHED &&
			     attempt(call_get_cq_event, NULL) == CRASHED,
		     "libibverbs crashes at NULL where the fake provider does");
}

int main(int argc, char **argv)
{
	differential(&librdmacm, &librdma_verbs, argc, argv);
	report_point(rows_are_documented("docs/deviations.md"),
		     "the rows are those of docs/deviations.md");
	libibverbs_crashes_at_null();
	return report_end();
}
