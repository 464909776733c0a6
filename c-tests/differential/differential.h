/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The differential test: each call is made to upstream's helpers and to ours, on the same
 * fake provider, and every visible effect is compared.
 *
 *	values.c	which calls are made
 *	call.c		making one, and surviving it
 *	rows.c		where ours may differ, and how: docs/deviations.md
 *	judge.c		comparing, and showing a difference
 *	run.c		all calls, and the report
 */
#ifndef DIFFERENTIAL_H
#define DIFFERENTIAL_H

#include <stdbool.h>

#include "../fake/fake.h"
#include "oracle.h"

/* In the order of FOR_EACH_HELPER. */
enum helper {
	REG_MSGS,
	REG_READ,
	REG_WRITE,
	DEREG_MR,
	POST_RECVV,
	POST_SENDV,
	POST_READV,
	POST_WRITEV,
	POST_RECV,
	POST_SEND,
	POST_READ,
	POST_WRITE,
	POST_UD_SEND,
	GET_SEND_COMP,
	GET_RECV_COMP,
	HELPERS,
};

extern const char *const helper_names[HELPERS];

/* Sets of helpers. */
#define ONLY(helper) (1u << (helper))
enum {
	REGISTRATIONS = ONLY(REG_MSGS) | ONLY(REG_READ) | ONLY(REG_WRITE),
	RECEIVES = ONLY(POST_RECVV) | ONLY(POST_RECV),
	READS = ONLY(POST_READV) | ONLY(POST_READ),
	WRITES = ONLY(POST_WRITEV) | ONLY(POST_WRITE),
	SENDS = ONLY(POST_SENDV) | ONLY(POST_SEND) | ONLY(POST_UD_SEND) | READS | WRITES,
	POSTS = RECEIVES | SENDS,
	VECTORED = ONLY(POST_RECVV) | ONLY(POST_SENDV) | ONLY(POST_READV) |
		   ONLY(POST_WRITEV),
	ONE_BUFFER = POSTS & ~VECTORED,
	COMPLETIONS = ONLY(GET_SEND_COMP) | ONLY(GET_RECV_COMP),
};

static inline bool is_one_of(enum helper helper, unsigned int set)
{
	return (set & ONLY(helper)) != 0;
}

/* Operations that a provider can lack. */
enum {
	LACKS_POST_SEND = 1,
	LACKS_POST_RECV = 2,
	LACKS_POST_SRQ_RECV = 4,
	LACKS_POLL_CQ = 8,
	LACKS_REQ_NOTIFY_CQ = 16,
};

/* So many that the resulting calls are at most FAKE_MAX_CALLS. */
enum { MAX_REPLIES = 32 };

/* One call and everything it can depend on. */
struct scenario {
	enum helper helper;

	/* The arguments; those that the helper does not have are ignored. */
	struct rdma_cm_id *id;
	void *context;
	void *addr;
	size_t length;
	struct ibv_mr *mr;
	struct ibv_sge *sgl;
	int nsge;
	int flags;
	uint64_t remote_addr;
	uint32_t rkey;
	struct ibv_ah *ah;
	uint32_t remote_qpn;
	struct ibv_wc *wc;

	/* What they point to. The queue and channel are those of the helper's side. */
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	void *cq_context;
	void *region_addr;
	size_t region_length;
	uint32_t lkey;

	/* The provider and the thread. */
	unsigned int lacks;
	int replies;
	struct fake_reply reply[MAX_REPLIES];
	int errno_before;
};

enum ending { RETURNED, CRASHED, ABORTED };

/* Everything visible of one call. */
struct outcome {
	enum ending ending;
	const void *fault;	/* the address that it crashed at */
	intptr_t result;
	int error;		/* errno */
	struct ibv_wc wc;
	int calls;
	struct fake_call call[FAKE_MAX_CALLS];
};

/* The helpers that ours are compared with. */
struct upstream {
	const char *name;
	const struct helpers *with_assert;
	const struct helpers *without_assert;	/* NULL if there is no such build */
	bool aborts_without_operation;	/* where librdmacm's helpers jump to address 0 */
	bool zeroes_unnamed_fields;	/* as ours do */
};

/* --- values.c --- */

/* A value that one argument, or one thing that the call depends on, can have. */
struct axis {
	const char *name;
	unsigned int helpers;
	int values;		/* the first is the usual one */
	int odds;		/* in random calls, another one is chosen once in this many calls */
	void (*set)(struct scenario *s, int value);
	void (*draw)(struct scenario *s);	/* any value; may be NULL */
};

extern const struct axis axes[];
extern const int axis_count;

/* The default call: nothing is missing, and it succeeds. */
void usual_scenario(struct scenario *s, enum helper helper);

/* A random call; the same seed gives the same call. */
void random_scenario(struct scenario *s, uint64_t seed);
uint64_t next_seed(uint64_t seed);

/* --- call.c --- */

void catch_crashes(void);

/* Calls a function that may crash or abort; a second call may follow. */
enum ending attempt(void (*function)(const void *), const void *argument);
const void *fault_address(void);

/* Called by a function under attempt() in place of abort(). */
_Noreturn void attempt_aborted(void);

/* Where a scenario wants its completion, and the bytes that are there before, as on the
   stack. */
extern struct ibv_wc completion;
enum { PATTERN = 0xa5 };

void make_call(const struct helpers *helpers, const struct scenario *s, struct outcome *o);

/* --- rows.c --- */

enum row {
	NULL_POINTER,
	OUTSIDE_REGION,
	LONG_LENGTH,
	FOREIGN_EVENT,
	NO_OPERATION,
	POLL_ERROR,
	MINUS_ONE,
	NEGATIVE_ERRNO,
	UNNAMED_FIELDS,
	ROWS,
	NO_ROW = ROWS,
};

const char *row_name(enum row row);

/*
 * The row of docs/deviations.md that a call falls under, NO_ROW if there is none. With a
 * row, *expected, which is a copy of what upstream did without its assertions, becomes what
 * ours must do, and *as_stated tells whether upstream did what the row claims.
 */
enum row apply_rows(const struct upstream *upstream, const struct scenario *s,
		    const struct outcome *with_assert, const struct outcome *without,
		    struct outcome *expected, bool *as_stated);

/* The conditions of librdmacm's assertions. */
bool is_outside_region(const struct scenario *s);
bool ends_with_foreign_event(const struct scenario *s, const struct outcome *o);
bool ends_with_other_context(const struct scenario *s, const struct outcome *o);

/* Prints where the rows and the names in the document differ; true if they do not. */
bool rows_are_documented(const char *path);

/* --- judge.c --- */

struct tally {
	unsigned long calls;
	unsigned long comparisons;
	unsigned long differences;
	unsigned int shown;	/* differences of this line of TAP */
	unsigned long met[ROWS];
	unsigned long other_context;	/* aborts over an event's cq_context */
};

extern struct tally tally;

/* How many differences are printed for a line of TAP; all are counted. */
enum { MAX_SHOWN = 3 };

/* Makes one call to upstream's helpers and to ours; false if they differ without a row. */
bool judge(const struct upstream *upstream, const struct helpers *ours,
	   const struct scenario *s);

/* --- run.c --- */

/*
 * All calls, with a line of TAP for each helper, for the random calls and for each row.
 * Arguments: [CALLS [SEED]], the number of random calls and what makes them; or: call
 * SEED, the one random call that was shown with this seed.
 */
void differential(const struct upstream *upstream, const struct helpers *ours,
		  int argc, char **argv);

void report_point(bool passed, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The end of the report; the exit status. */
int report_end(void);

#endif
