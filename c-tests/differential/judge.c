/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "differential.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct tally tally;

/* --- comparing ----------------------------------------------------------------------- */

/* The first thing in which two outcomes differ; NULL if there is none. */
static const char *first_difference;

static void compare(const char *what, const void *a, const void *b, size_t size)
{
	tally.comparisons++;
	if (memcmp(a, b, size) && !first_difference)
		first_difference = what;
}

#define COMPARE(member) compare(#member, &a->member, &b->member, sizeof(a->member))

static void compare_elements(const struct scenario *s, const struct fake_call *a,
			     const struct fake_call *b)
{
	COMPARE(sge_count);
	if (a->sge_count == b->sge_count)
		compare("sge", a->sge, b->sge, sizeof(*a->sge) * (size_t)a->sge_count);
	/* The one element of a one-buffer helper is on its stack. */
	if (is_one_of(s->helper, VECTORED)) {
		COMPARE(send.sg_list);
		COMPARE(recv.sg_list);
	}
}

static void compare_named_fields(const struct scenario *s, const struct fake_call *a,
				 const struct fake_call *b)
{
	COMPARE(send.wr_id);
	COMPARE(send.next);
	COMPARE(send.num_sge);
	COMPARE(send.opcode);
	COMPARE(send.send_flags);
	if (is_one_of(s->helper, READS | WRITES)) {
		COMPARE(send.wr.rdma.remote_addr);
		COMPARE(send.wr.rdma.rkey);
	}
	if (s->helper == POST_UD_SEND) {
		COMPARE(send.wr.ud.ah);
		COMPARE(send.wr.ud.remote_qpn);
		COMPARE(send.wr.ud.remote_qkey);
	}
}

static void compare_calls(const struct scenario *s, const struct fake_call *a,
			  const struct fake_call *b)
{
	COMPARE(operation);
	COMPARE(object);
	COMPARE(number);
	COMPARE(addr);
	COMPARE(length);
	if (a->operation == FAKE_POST_SEND)
		compare_named_fields(s, a, b);
	COMPARE(recv.wr_id);
	COMPARE(recv.next);
	COMPARE(recv.num_sge);
	compare_elements(s, a, b);
}

static const char *difference(const struct scenario *s, const struct outcome *a,
			      const struct outcome *b)
{
	first_difference = NULL;
	COMPARE(ending);
	COMPARE(result);
	COMPARE(error);
	COMPARE(wc);
	COMPARE(calls);
	for (int i = 0; i < a->calls && i < b->calls; i++)
		compare_calls(s, &a->call[i], &b->call[i]);
	return first_difference;
}

/* Whether a work request is 0 except for the fields that the helper sets. */
static bool unnamed_fields_are_zero(const struct scenario *s, const struct fake_call *call)
{
	static const struct ibv_send_wr zeros;
	struct ibv_send_wr rest = call->send;

	rest.wr_id = 0;
	rest.next = NULL;
	rest.sg_list = NULL;
	rest.num_sge = 0;
	rest.opcode = 0;
	rest.send_flags = 0;
	if (is_one_of(s->helper, READS | WRITES)) {
		rest.wr.rdma.remote_addr = 0;
		rest.wr.rdma.rkey = 0;
	}
	if (s->helper == POST_UD_SEND) {
		rest.wr.ud.ah = NULL;
		rest.wr.ud.remote_qpn = 0;
		rest.wr.ud.remote_qkey = 0;
	}
	return !memcmp(&rest, &zeros, sizeof(rest));
}

/* --- showing ------------------------------------------------------------------------- */

static const char *const operation_names[] = {
	[FAKE_REG_MR] = "ibv_reg_mr",
	[FAKE_DEREG_MR] = "ibv_dereg_mr",
	[FAKE_POST_SEND] = "post_send",
	[FAKE_POST_RECV] = "post_recv",
	[FAKE_POST_SRQ_RECV] = "post_srq_recv",
	[FAKE_POLL_CQ] = "poll_cq",
	[FAKE_REQ_NOTIFY_CQ] = "req_notify_cq",
	[FAKE_GET_CQ_EVENT] = "ibv_get_cq_event",
	[FAKE_ACK_CQ_EVENTS] = "ibv_ack_cq_events",
};

static void show_arguments(const struct scenario *s)
{
	const enum helper h = s->helper;

	printf("#   %s(", helper_names[h]);
	if (h == DEREG_MR) {
		printf("%p)\n", (void *)s->mr);
		return;
	}
	printf("%p", (void *)s->id);
	if (is_one_of(h, POSTS))
		printf(", context %p", s->context);
	if (is_one_of(h, REGISTRATIONS | ONE_BUFFER))
		printf(", addr %p, length %zu", s->addr, s->length);
	if (is_one_of(h, ONE_BUFFER))
		printf(", mr %p", (void *)s->mr);
	if (is_one_of(h, VECTORED))
		printf(", sgl %p, nsge %d", (void *)s->sgl, s->nsge);
	if (is_one_of(h, SENDS))
		printf(", flags %d", s->flags);
	if (is_one_of(h, READS | WRITES))
		printf(", remote_addr %#jx, rkey %#x", (uintmax_t)s->remote_addr, s->rkey);
	if (h == POST_UD_SEND)
		printf(", ah %p, remote_qpn %#x", (void *)s->ah, s->remote_qpn);
	if (is_one_of(h, COMPLETIONS))
		printf(", wc %p", (void *)s->wc);
	printf(")\n");
}

static void show_scenario(const struct scenario *s)
{
	show_arguments(s);
	printf("#   with: pd %p, qp %p, srq %p, cq %p, channel %p, cq_context %p, "
	       "mr->addr %p, mr->length %zu, mr->lkey %#x, lacks %#x, errno %d\n",
	       (void *)s->pd, (void *)s->qp, (void *)s->srq, (void *)s->cq,
	       (void *)s->channel, s->cq_context, s->region_addr, s->region_length, s->lkey,
	       s->lacks, s->errno_before);
	printf("#   the provider answers:");
	for (int i = 0; i < s->replies; i++) {
		const struct fake_reply *r = &s->reply[i];

		printf(" %d", r->result);
		if (r->error)
			printf(" (errno %d)", r->error);
		if (r->event_cq)
			printf(" (of cq %p)", (void *)r->event_cq);
	}
	printf("\n");
}

static void show_call(const struct fake_call *c)
{
	printf("#     %s(%p", operation_names[c->operation], c->object);
	switch (c->operation) {
	case FAKE_REG_MR:
		printf(", addr %p, length %zu, access %#x", c->addr, c->length,
		       (unsigned int)c->number);
		break;
	case FAKE_DEREG_MR:
	case FAKE_GET_CQ_EVENT:
		break;
	case FAKE_POST_SEND:
		printf(", wr_id %#jx, next %p, sg_list %p, num_sge %d, opcode %d, "
		       "send_flags %#x, remote_addr or ah %#jx, rkey or remote_qpn %#x, "
		       "remote_qkey %#x", (uintmax_t)c->send.wr_id, (void *)c->send.next,
		       (void *)c->send.sg_list, c->send.num_sge, (int)c->send.opcode,
		       c->send.send_flags, (uintmax_t)c->send.wr.rdma.remote_addr,
		       c->send.wr.rdma.rkey, c->send.wr.ud.remote_qkey);
		break;
	case FAKE_POST_RECV:
	case FAKE_POST_SRQ_RECV:
		printf(", wr_id %#jx, next %p, sg_list %p, num_sge %d",
		       (uintmax_t)c->recv.wr_id, (void *)c->recv.next,
		       (void *)c->recv.sg_list, c->recv.num_sge);
		break;
	case FAKE_POLL_CQ:
	case FAKE_REQ_NOTIFY_CQ:
	case FAKE_ACK_CQ_EVENTS:
		printf(", %d", c->number);
		break;
	}
	if (c->sge_count)
		printf(", sge[0]: addr %#jx, length %u, lkey %#x", (uintmax_t)c->sge[0].addr,
		       c->sge[0].length, c->sge[0].lkey);
	printf(")\n");
}

static void show_outcome(const struct scenario *s, const char *whose,
			 const struct outcome *o)
{
	printf("#   %s: ", whose);
	switch (o->ending) {
	case RETURNED:
		printf("returned %jd, errno %d", (intmax_t)o->result, o->error);
		break;
	case CRASHED:
		printf("crashed at address %p", o->fault);
		break;
	case ABORTED:
		printf("aborted");
		break;
	}
	if (is_one_of(s->helper, COMPLETIONS))
		printf(", wc: wr_id %#jx, status %d", (uintmax_t)o->wc.wr_id,
		       (int)o->wc.status);
	printf("\n");
	for (int i = 0; i < o->calls; i++)
		show_call(&o->call[i]);
}

/* --- judging ------------------------------------------------------------------------- */

static struct outcome with_assert, without_assert, expected, ours;

static void copy_outcome(struct outcome *to, const struct outcome *from)
{
	memcpy(to, from, offsetof(struct outcome, call) +
			 sizeof(*from->call) * (size_t)from->calls);
}

static bool differs(const struct scenario *s, const char *what, const char *where)
{
	tally.differences++;
	if (tally.shown++ >= MAX_SHOWN)
		return false;
	printf("# difference: %s: %s\n", what, where);
	show_scenario(s);
	show_outcome(s, "upstream with its assertions", &with_assert);
	show_outcome(s, "upstream without them", &without_assert);
	show_outcome(s, "expected of ours", &expected);
	show_outcome(s, "ours", &ours);
	return false;
}

/* Upstream's two builds behave alike, unless an assertion fails. */
static bool builds_agree(const struct scenario *s)
{
	const char *where = NULL;

	if (with_assert.ending == ABORTED) {
		if (ends_with_other_context(s, &with_assert))
			tally.other_context++;
		else if (!is_outside_region(s) && !ends_with_foreign_event(s, &with_assert))
			where = "aborted without a reason";
	} else {
		where = difference(s, &with_assert, &without_assert);
	}
	return !where || differs(s, "upstream with and without its assertions", where);
}

static bool unnamed_fields_as_stated(const struct upstream *upstream,
				     const struct scenario *s)
{
	bool met = false;

	for (int i = 0; i < ours.calls; i++) {
		if (ours.call[i].operation != FAKE_POST_SEND)
			continue;
		tally.comparisons++;
		if (!unnamed_fields_are_zero(s, &ours.call[i]))
			return differs(s, "ours", "a field that is not named is not 0");
		met = met || !unnamed_fields_are_zero(s, &without_assert.call[i]);
	}
	tally.met[UNNAMED_FIELDS] += met;
	if (met && upstream->zeroes_unnamed_fields)
		return differs(s, "upstream", "a field that is not named is not 0");
	return true;
}

bool judge(const struct upstream *upstream, const struct helpers *helpers,
	   const struct scenario *s)
{
	const char *where;
	bool as_stated;
	enum row row;

	tally.calls++;
	make_call(upstream->with_assert, s, &with_assert);
	if (upstream->without_assert)
		make_call(upstream->without_assert, s, &without_assert);
	else
		copy_outcome(&without_assert, &with_assert);
	make_call(helpers, s, &ours);
	copy_outcome(&expected, &without_assert);

	if (upstream->without_assert) {
		if (!builds_agree(s))
			return false;
	} else if (ends_with_other_context(s, &with_assert)) {
		/* What comes after the assertion cannot be seen. */
		tally.other_context++;
		return true;
	}
	row = apply_rows(upstream, s, &with_assert, &without_assert, &expected, &as_stated);
	if (row != NO_ROW)
		tally.met[row]++;
	if (!as_stated)
		return differs(s, "upstream does not do what the document says",
			       row_name(row));
	where = difference(s, &expected, &ours);
	if (where)
		return differs(s, row == NO_ROW ? "ours" : row_name(row), where);
	return unnamed_fields_as_stated(upstream, s);
}
