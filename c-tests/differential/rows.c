/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The rows of docs/deviations.md. Each says when it applies, what upstream does then,
 * and what ours must do, worked out from the call and from what upstream did.
 */
#include "differential.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* --- what happened in a call --------------------------------------------------------- */

static const struct fake_call *last_call(const struct outcome *o)
{
	return o->calls ? &o->call[o->calls - 1] : NULL;
}

/* What the fake provider answered to a call other than ibv_ack_cq_events. */
static struct fake_reply reply_to(const struct scenario *s, const struct outcome *o,
				  const struct fake_call *call)
{
	int answered = 0;

	for (const struct fake_call *c = o->call; c < call; c++)
		answered += c->operation != FAKE_ACK_CQ_EVENTS;
	if (answered < s->replies)
		return s->reply[answered];
	return (struct fake_reply){ .result = call->operation == FAKE_POLL_CQ };
}

static int last_result(const struct scenario *s, const struct outcome *o)
{
	return o->calls ? reply_to(s, o, last_call(o)).result : 0;
}

/* errno as the provider's last answer left it. */
static int providers_errno(const struct scenario *s, const struct outcome *o)
{
	int error = s->errno_before;

	for (int i = 0; i < o->calls; i++) {
		if (o->call[i].operation != FAKE_ACK_CQ_EVENTS) {
			struct fake_reply reply = reply_to(s, o, &o->call[i]);

			error = reply.error ? reply.error : error;
		}
	}
	return error;
}

static bool last_call_is(const struct outcome *o, enum fake_operation operation)
{
	return o->calls && last_call(o)->operation == operation;
}

/* In the page that is never mapped, at the offset of a member. */
static bool crashed_at_null(const struct outcome *o)
{
	return o->ending == CRASHED && (uintptr_t)o->fault < 4096;
}

static bool failed_with(const struct outcome *o, int error)
{
	return o->ending == RETURNED && o->result == -1 && o->error == error;
}

static void fail(const struct scenario *s, struct outcome *expected, int error)
{
	expected->ending = RETURNED;
	expected->result = is_one_of(s->helper, REGISTRATIONS) ? (intptr_t)NULL : -1;
	expected->error = error;
}

/* What upstream did. */
struct observed {
	const struct upstream *upstream;
	const struct outcome *with_assert;
	const struct outcome *without;	/* the same as the first if there is no such build */
};

static bool has_both_builds(const struct observed *up)
{
	return up->upstream->without_assert != NULL;
}

/* --- null-pointer -------------------------------------------------------------------- */

static bool waits_on_null_channel(const struct outcome *o)
{
	return last_call_is(o, FAKE_GET_CQ_EVENT) && !last_call(o)->object;
}

static bool null_pointer_applies(const struct scenario *s, const struct outcome *upstream)
{
	const unsigned int needs_mr = ONLY(POST_RECV) | ONLY(POST_READ);

	if (s->helper == DEREG_MR)
		return !s->mr;
	if (!s->id)
		return true;
	if (is_one_of(s->helper, REGISTRATIONS))
		return !s->pd;
	if (is_one_of(s->helper, COMPLETIONS))
		return !s->cq || !s->wc || waits_on_null_channel(upstream);
	if (is_one_of(s->helper, needs_mr) && !s->mr)
		return true;
	if (is_one_of(s->helper, RECEIVES))
		return !s->qp && !s->srq;
	return !s->qp;
}

/*
 * The provider crashes on a NULL wc only when it has a completion to store. Until then
 * upstream polls, arms and waits as usual.
 */
static bool only_wc_is_null(const struct scenario *s)
{
	return is_one_of(s->helper, COMPLETIONS) && s->id && s->cq && !s->wc;
}

static bool had_a_completion(const struct scenario *s, const struct outcome *o)
{
	return last_call_is(o, FAKE_POLL_CQ) && last_result(s, o) == 1;
}

static bool null_pointer_as_stated(const struct scenario *s, const struct observed *up)
{
	if (only_wc_is_null(s) && !had_a_completion(s, up->without))
		return true;
	/* The assertion about the region comes before the id is dereferenced. */
	if (!has_both_builds(up) && is_outside_region(s) &&
	    up->with_assert->ending == ABORTED)
		return true;
	return crashed_at_null(up->without);
}

static void null_pointer_departs(const struct scenario *s, struct outcome *expected)
{
	/* A missing channel matters only when needed; all else is checked first. */
	if (s->id && s->cq && s->wc && waits_on_null_channel(expected))
		expected->calls--;
	else
		expected->calls = 0;
	fail(s, expected, EINVAL);
}

/* --- outside-region and long-length -------------------------------------------------- */

bool is_outside_region(const struct scenario *s)
{
	__extension__ typedef unsigned __int128 wide;
	wide begin = (uintptr_t)s->addr, end = begin + s->length;
	wide region_begin = (uintptr_t)s->region_addr;
	wide region_end = region_begin + s->region_length;

	return s->helper == POST_RECV && s->mr &&
	       (begin < region_begin || end > region_end);
}

static bool outside_region_applies(const struct scenario *s, const struct outcome *upstream)
{
	(void)upstream;
	return is_outside_region(s);
}

static bool is_too_long(const struct scenario *s, const struct outcome *upstream)
{
	(void)upstream;
	return is_one_of(s->helper, ONE_BUFFER) && s->length > UINT32_MAX;
}

static bool lacks_post(const struct scenario *s)
{
	if (is_one_of(s->helper, SENDS))
		return s->lacks & LACKS_POST_SEND;
	return s->lacks & (s->srq ? LACKS_POST_SRQ_RECV : LACKS_POST_RECV);
}

static bool stopped_without_operation(const struct upstream *upstream,
				      const struct outcome *o)
{
	return upstream->aborts_without_operation ? o->ending == ABORTED
						  : crashed_at_null(o);
}

/* Posted regardless, with whatever fits of its length. */
static bool posted_cut(const struct scenario *s, const struct upstream *upstream,
		       const struct outcome *o)
{
	const struct fake_call *call = last_call(o);

	if (lacks_post(s))
		return stopped_without_operation(upstream, o);
	return o->ending == RETURNED && call->sge_count == 1 &&
	       call->sge[0].length == (uint32_t)s->length &&
	       (o->result == 0) == (last_result(s, o) == 0);
}

static bool outside_region_as_stated(const struct scenario *s, const struct observed *up)
{
	bool wraps = s->length > UINTPTR_MAX - (uintptr_t)s->addr;
	bool aborted = up->with_assert->ending == ABORTED && up->with_assert->calls == 0;

	if (!aborted && !(wraps && posted_cut(s, up->upstream, up->with_assert)))
		return false;
	return !has_both_builds(up) || posted_cut(s, up->upstream, up->without);
}

static bool long_length_as_stated(const struct scenario *s, const struct observed *up)
{
	return posted_cut(s, up->upstream, up->with_assert) &&
	       posted_cut(s, up->upstream, up->without);
}

static void refused_at_once(const struct scenario *s, struct outcome *expected)
{
	expected->calls = 0;
	fail(s, expected, EINVAL);
}

/* --- foreign-event ------------------------------------------------------------------- */

/* The queue whose event a call has read; NULL if it read none. */
static const struct ibv_cq *event_queue(const struct scenario *s, const struct outcome *o,
					const struct fake_call *call)
{
	struct fake_reply reply;

	if (call->operation != FAKE_GET_CQ_EVENT || !call->object)
		return NULL;
	reply = reply_to(s, o, call);
	if (reply.result)
		return NULL;
	return reply.event_cq ? reply.event_cq : s->cq;
}

/* The call that read the first event of another queue; NULL if there is none. */
static const struct fake_call *foreign_event(const struct scenario *s,
					     const struct outcome *o)
{
	for (const struct fake_call *c = o->call; c < o->call + o->calls; c++) {
		const struct ibv_cq *queue = event_queue(s, o, c);

		if (queue && queue != s->cq)
			return c;
	}
	return NULL;
}

bool ends_with_foreign_event(const struct scenario *s, const struct outcome *o)
{
	const struct fake_call *event = foreign_event(s, o);

	return event && event == last_call(o);
}

bool ends_with_other_context(const struct scenario *s, const struct outcome *o)
{
	return o->calls && event_queue(s, o, last_call(o)) == s->cq &&
	       s->cq_context != s->id;
}

static bool foreign_event_applies(const struct scenario *s, const struct outcome *upstream)
{
	return foreign_event(s, upstream) != NULL;
}

static bool foreign_event_as_stated(const struct scenario *s, const struct observed *up)
{
	const struct fake_call *ack = foreign_event(s, up->without) + 1;

	/* If not because of this event, then because of an earlier one's context. */
	if (up->with_assert->ending != ABORTED)
		return false;
	return !has_both_builds(up) ||
	       (ack->operation == FAKE_ACK_CQ_EVENTS && ack->object == s->cq);
}

static void foreign_event_departs(const struct scenario *s, struct outcome *expected)
{
	int event = (int)(foreign_event(s, expected) - expected->call);

	expected->call[event + 1] = (struct fake_call){
		.operation = FAKE_ACK_CQ_EVENTS,
		.object = event_queue(s, expected, &expected->call[event]),
		.number = 1,
	};
	expected->calls = event + 2;
	/* We do not take a completion that upstream took afterwards. */
	memset(&expected->wc, PATTERN, sizeof(expected->wc));
	fail(s, expected, EINVAL);
}

/* --- no-operation -------------------------------------------------------------------- */

/* libibverbs' stand-in for a missing poll says so with an errno value. */
static bool polled_stand_in(const struct scenario *s, const struct outcome *o)
{
	return last_call_is(o, FAKE_POLL_CQ) && last_result(s, o) == EOPNOTSUPP;
}

static bool no_operation_applies(const struct scenario *s, const struct outcome *upstream)
{
	if (is_one_of(s->helper, POSTS))
		return lacks_post(s);
	if (!is_one_of(s->helper, COMPLETIONS))
		return false;
	if (upstream->calls == 0)
		return s->lacks & LACKS_POLL_CQ;
	if (polled_stand_in(s, upstream))
		return true;
	/* After the first poll, unless that found a completion. */
	return (s->lacks & LACKS_REQ_NOTIFY_CQ) && last_result(s, upstream) == 0;
}

static bool no_operation_as_stated(const struct scenario *s, const struct observed *up)
{
	if (polled_stand_in(s, up->without))
		return up->without->ending == RETURNED && up->without->result == EOPNOTSUPP;
	return stopped_without_operation(up->upstream, up->with_assert) &&
	       stopped_without_operation(up->upstream, up->without);
}

static void no_operation_departs(const struct scenario *s, struct outcome *expected)
{
	fail(s, expected, EOPNOTSUPP);
}

/* --- poll-error, minus-one, negative-errno ------------------------------------------- */

static bool poll_error_applies(const struct scenario *s, const struct outcome *upstream)
{
	int result = last_result(s, upstream);

	/* INT_MIN is not a negated errno, so it is passed on as upstream does. */
	return last_call_is(upstream, FAKE_POLL_CQ) && result < 0 && result != INT_MIN;
}

static bool minus_one_applies(const struct scenario *s, const struct outcome *upstream)
{
	return upstream->calls && last_result(s, upstream) == -1 &&
	       !last_call_is(upstream, FAKE_GET_CQ_EVENT) &&
	       !last_call_is(upstream, FAKE_REG_MR);
}

static bool negative_errno_applies(const struct scenario *s, const struct outcome *upstream)
{
	int result = last_result(s, upstream);

	return upstream->calls && result < -1 && result != INT_MIN &&
	       !last_call_is(upstream, FAKE_REG_MR);
}

static bool errno_is_the_result(const struct scenario *s, const struct observed *up)
{
	return failed_with(up->without, last_result(s, up->without));
}

static void minus_one_departs(const struct scenario *s, struct outcome *expected)
{
	int error = providers_errno(s, expected);

	fail(s, expected, error ? error : EIO);
}

static void negative_errno_departs(const struct scenario *s, struct outcome *expected)
{
	fail(s, expected, -last_result(s, expected));
}

static void poll_error_departs(const struct scenario *s, struct outcome *expected)
{
	switch (last_result(s, expected)) {
	case -1:
		minus_one_departs(s, expected);
		break;
	case -2:
		fail(s, expected, EIO);
		break;
	default:
		negative_errno_departs(s, expected);
	}
}

/* --- all of them --------------------------------------------------------------------- */

/*
 * The first that applies counts: arguments are checked before the provider. Fields that are
 * not mentioned are left to the comparison.
 */
static const struct {
	const char *name;
	bool (*applies)(const struct scenario *s, const struct outcome *upstream);
	bool (*as_stated)(const struct scenario *s, const struct observed *up);
	void (*departs)(const struct scenario *s, struct outcome *expected);
} rows[ROWS] = {
	[NULL_POINTER] = {
		"null-pointer", null_pointer_applies, null_pointer_as_stated,
		null_pointer_departs,
	},
	[OUTSIDE_REGION] = {
		"outside-region", outside_region_applies, outside_region_as_stated,
		refused_at_once,
	},
	[LONG_LENGTH] = {
		"long-length", is_too_long, long_length_as_stated, refused_at_once,
	},
	[FOREIGN_EVENT] = {
		"foreign-event", foreign_event_applies, foreign_event_as_stated,
		foreign_event_departs,
	},
	[NO_OPERATION] = {
		"no-operation", no_operation_applies, no_operation_as_stated,
		no_operation_departs,
	},
	[POLL_ERROR] = {
		"poll-error", poll_error_applies, errno_is_the_result, poll_error_departs,
	},
	[MINUS_ONE] = {
		"minus-one", minus_one_applies, errno_is_the_result, minus_one_departs,
	},
	[NEGATIVE_ERRNO] = {
		"negative-errno", negative_errno_applies, errno_is_the_result,
		negative_errno_departs,
	},
	[UNNAMED_FIELDS] = { .name = "unnamed-fields" },
};

const char *row_name(enum row row)
{
	return rows[row].name;
}

enum row apply_rows(const struct upstream *upstream, const struct scenario *s,
		    const struct outcome *with_assert, const struct outcome *without,
		    struct outcome *expected, bool *as_stated)
{
	const struct observed observed = { upstream, with_assert, without };

	*as_stated = true;
	for (enum row row = 0; row < ROWS; row++) {
		if (rows[row].applies && rows[row].applies(s, without)) {
			*as_stated = rows[row].as_stated(s, &observed);
			rows[row].departs(s, expected);
			return row;
		}
	}
	return NO_ROW;
}

static bool is_row(const char *name)
{
	for (enum row row = 0; row < ROWS; row++)
		if (!strcmp(rows[row].name, name))
			return true;
	return false;
}

bool rows_are_documented(const char *path)
{
	char line[1024], name[64];
	int documented = 0;
	bool same = true;
	FILE *file = fopen(path, "r");

	if (!file) {
		printf("# cannot open %s; this runs at the top of the source tree\n", path);
		return false;
	}
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "| `%63[^`]` |", name) != 1)
			continue;
		documented++;
		if (!is_row(name)) {
			printf("# %s: the row %s is not tested\n", path, name);
			same = false;
		}
	}
	fclose(file);
	/* The document names no row twice, so equal numbers mean equal names. */
	if (documented != ROWS) {
		printf("# %s: %d rows, tested are %d\n", path, documented, ROWS);
		same = false;
	}
	return same;
}
