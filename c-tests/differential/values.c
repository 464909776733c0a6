/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "differential.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof(*(array))))

/* --- random numbers: splitmix64 ------------------------------------------------------ */

static uint64_t random_state;

static uint64_t mixed(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

uint64_t next_seed(uint64_t seed)
{
	return mixed(seed + 0x9e3779b97f4a7c15);
}

static uint64_t random_64(void)
{
	random_state += 0x9e3779b97f4a7c15;
	return mixed(random_state);
}

static int random_below(int limit)
{
	return (int)(random_64() % (uint64_t)limit);
}

static bool once_in(int odds)
{
	return random_below(odds) == 0;
}

/* Of any magnitude: uniformly distributed ones would nearly all be large. */
static uint64_t random_size(void)
{
	return random_64() >> random_below(64);
}

/* --- arguments ----------------------------------------------------------------------- */

#define VALUES_OF(member, ...) \
	static const __typeof__(((struct scenario *)0)->member) member##_values[] = \
		{ __VA_ARGS__ }; \
	static void set_##member(struct scenario *s, int value) \
	{ \
		s->member = member##_values[value]; \
	}

static struct ibv_sge elements[FAKE_MAX_SGE] = {
	{ .addr = 0x1000, .length = 1, .lkey = 2 },
	{ .addr = 0x2000, .length = 3, .lkey = 4 },
};

VALUES_OF(id, &fake.id, NULL)
VALUES_OF(pd, &fake.pd, NULL)
VALUES_OF(qp, &fake.qp, NULL)
VALUES_OF(srq, NULL, &fake.srq)
VALUES_OF(mr, &fake.mr, NULL)
VALUES_OF(ah, &fake.ah, NULL)
VALUES_OF(wc, &completion, NULL)
VALUES_OF(sgl, elements, NULL)
VALUES_OF(nsge, 2, 0, 1, FAKE_MAX_SGE, -5, INT_MAX, INT_MIN)
VALUES_OF(flags, IBV_SEND_SIGNALED, 0, -1, IBV_SEND_INLINE, INT_MIN)
VALUES_OF(lkey, 0x3333, 0, UINT32_MAX)
VALUES_OF(rkey, 0x4444, 0, UINT32_MAX)
VALUES_OF(remote_addr, 0x123456789abc, 0, UINT64_MAX)
VALUES_OF(remote_qpn, 0x5555, 0, UINT32_MAX)
VALUES_OF(cq_context, &fake.id, NULL)
VALUES_OF(errno_before, ENOENT, 0)

/* An integer, a tagged pointer and NULL are all in use. */
static const uintptr_t contexts[] = { 0x123456789abcdef0, 0, 1, 3, UINTPTR_MAX };

static void set_context(struct scenario *s, int value)
{
	s->context = (void *)contexts[value];
}

/*
 * The region as registered; the other values are other kinds of regions: empty, larger than
 * one request, and implicit on-demand paging.
 */
static const size_t region_lengths[] = { FAKE_MR_LENGTH, 0, (size_t)1 << 34, SIZE_MAX };

static void set_region(struct scenario *s, int value)
{
	s->region_addr = region_lengths[value] == SIZE_MAX ? NULL : fake_memory;
	s->region_length = region_lengths[value];
}

static const ptrdiff_t offsets[] = {
	0, 1, FAKE_MR_LENGTH - 16, FAKE_MR_LENGTH, FAKE_MR_LENGTH + 1, -1,
};
static const uintptr_t addresses[] = { 0, UINTPTR_MAX, UINTPTR_MAX - 15 };

static void set_addr(struct scenario *s, int value)
{
	if (value < COUNT(offsets))
		s->addr = (void *)((uintptr_t)fake_memory + (uintptr_t)offsets[value]);
	else
		s->addr = (void *)addresses[value - COUNT(offsets)];
}

static const size_t lengths[] = {
	16, 0, 1, 17, FAKE_MR_LENGTH, FAKE_MR_LENGTH + 1,
	((size_t)1 << 31) - 1, (size_t)1 << 31,
	UINT32_MAX, (size_t)1 << 32, ((size_t)1 << 32) + 16,
	SIZE_MAX - FAKE_MR_LENGTH, SIZE_MAX - 15, SIZE_MAX,
};

static void set_length(struct scenario *s, int value)
{
	s->length = lengths[value];
}

static void draw_context(struct scenario *s)
{
	s->context = (void *)random_64();
}

static void draw_addr(struct scenario *s)
{
	s->addr = (void *)((uintptr_t)fake_memory + random_size() % (2 * FAKE_MR_LENGTH));
}

static void draw_length(struct scenario *s)
{
	s->length = random_size();
}

static void draw_flags(struct scenario *s)
{
	s->flags = (int)random_64();
}

static void draw_nsge(struct scenario *s)
{
	s->nsge = (int)random_64();
}

static void draw_lkey(struct scenario *s)
{
	s->lkey = (uint32_t)random_64();
}

static void draw_rkey(struct scenario *s)
{
	s->rkey = (uint32_t)random_64();
}

static void draw_remote_addr(struct scenario *s)
{
	s->remote_addr = random_64();
}

static void draw_remote_qpn(struct scenario *s)
{
	s->remote_qpn = (uint32_t)random_64();
}

static void draw_errno_before(struct scenario *s)
{
	s->errno_before = (int)random_64();
}

static void set_cq(struct scenario *s, int value)
{
	struct ibv_cq *own = s->helper == GET_SEND_COMP ? &fake.send_cq : &fake.recv_cq;

	s->cq = value == 0 ? own : NULL;
}

static void set_channel(struct scenario *s, int value)
{
	struct ibv_comp_channel *own = s->helper == GET_SEND_COMP ?
		&fake.send_channel : &fake.recv_channel;

	s->channel = value == 0 ? own : NULL;
}

/* --- the provider -------------------------------------------------------------------- */

static const unsigned int lacks_of_posts[] = {
	0, LACKS_POST_SEND, LACKS_POST_RECV, LACKS_POST_SRQ_RECV,
};
static const unsigned int lacks_of_completions[] = {
	0, LACKS_POLL_CQ, LACKS_REQ_NOTIFY_CQ,
};

static void set_lacks_of_posts(struct scenario *s, int value)
{
	s->lacks = lacks_of_posts[value];
}

static void set_lacks_of_completions(struct scenario *s, int value)
{
	s->lacks = lacks_of_completions[value];
}

/*
 * Results of operations that return 0 on success: the verbs' convention, and what providers
 * do.
 */
static const struct fake_reply results[] = {
	{ .result = 0 },
	{ .result = 0, .error = EAGAIN },
	{ .result = EPERM },	/* 1, which a completion also is */
	{ .result = ENOMEM },
	{ .result = EINVAL },
	{ .result = EOPNOTSUPP },
	{ .result = EINVAL, .error = EIO },
	{ .result = -ENOMEM },
	{ .result = -EINVAL },
	{ .result = -2 },
	{ .result = -EIO, .error = ENOMEM },
	{ .result = -1, .error = ENOMEM },
	{ .result = -1 },
	{ .result = INT_MAX },
	{ .result = -INT_MAX },
	{ .result = INT_MIN },	/* nothing that can be negated */
};

static void set_result(struct scenario *s, int value)
{
	s->replies = 1;
	s->reply[0] = results[value];
}

static int draw_number(void)
{
	return once_in(4) ? (int)random_64() : random_below(256) - 128;
}

static void draw_result(struct scenario *s)
{
	s->replies = 1;
	s->reply[0] = (struct fake_reply){
		.result = draw_number(),
		.error = once_in(2) ? random_below(134) : 0,
	};
}

/* --- waiting: scripts of poll, arm, poll, event -------------------------------------- */

struct script {
	int replies;
	struct fake_reply reply[16];
};

#define COMPLETION(of_status, of_opcode) { \
	.result = 1, \
	.wc = { \
		.wr_id = 0x1122334455667788, \
		.status = (enum ibv_wc_status)(of_status), \
		.opcode = (enum ibv_wc_opcode)(of_opcode), \
		.vendor_err = 0x99, \
		.byte_len = 0xaabb, \
		.imm_data = 0xccdd, \
		.qp_num = 0xee, \
		.src_qp = 0xff, \
		.wc_flags = 3, \
		.pkey_index = 4, \
		.slid = 5, \
		.sl = 6, \
		.dlid_path_bits = 7, \
	} }
#define READY COMPLETION(IBV_WC_SUCCESS, IBV_WC_RECV)
#define EMPTY { .result = 0 }
#define ARMED { .result = 0 }
#define EVENT { .result = 0 }
#define FOREIGN { .result = 0, .event_cq = &fake.other_cq }
#define OF_SENDS { .result = 0, .event_cq = &fake.send_cq }
#define OF_RECEIVES { .result = 0, .event_cq = &fake.recv_cq }
#define FAILS(with_errno) { .result = -1, .error = (with_errno) }
#define GIVES(number) { .result = (number) }
#define IN_VAIN EMPTY, ARMED, EMPTY, EVENT	/* a round that an event ends */

#define SCRIPT(...) { \
	.replies = sizeof((struct fake_reply[]){ __VA_ARGS__ }) / \
		   sizeof(struct fake_reply), \
	.reply = { __VA_ARGS__ } }

static const struct script scripts[] = {
	/* At once, between poll and arm, after the event. */
	SCRIPT(READY),
	SCRIPT(EMPTY, ARMED, READY),
	SCRIPT(IN_VAIN, READY),
	/* Events whose completion has already been taken. */
	SCRIPT(IN_VAIN, EMPTY, ARMED, READY),
	SCRIPT(IN_VAIN, IN_VAIN, READY),
	SCRIPT(IN_VAIN, IN_VAIN, IN_VAIN, READY),
	/* The wait fails. */
	SCRIPT(EMPTY, ARMED, EMPTY, FAILS(EINTR)),
	SCRIPT(EMPTY, ARMED, EMPTY, FAILS(EAGAIN)),
	SCRIPT(EMPTY, ARMED, EMPTY, FAILS(EBADF)),
	SCRIPT(EMPTY, ARMED, EMPTY, FAILS(0)),
	SCRIPT(IN_VAIN, EMPTY, ARMED, EMPTY, FAILS(EINTR)),
	/* Arming fails: at first, and after an event. */
	SCRIPT(EMPTY, GIVES(EPERM)),
	SCRIPT(EMPTY, GIVES(ENOMEM)),
	SCRIPT(EMPTY, GIVES(-ENOMEM)),
	SCRIPT(EMPTY, GIVES(-2)),
	SCRIPT(EMPTY, FAILS(EIO)),
	SCRIPT(EMPTY, FAILS(0)),
	SCRIPT(EMPTY, GIVES(INT_MIN)),
	SCRIPT(IN_VAIN, EMPTY, GIVES(EPERM)),
	SCRIPT(IN_VAIN, EMPTY, GIVES(-EINVAL)),
	/* A poll fails: the first, the second, one after an event. */
	SCRIPT(FAILS(EIO)),
	SCRIPT(FAILS(0)),
	SCRIPT(GIVES(-2)),
	SCRIPT({ .result = -2, .error = ENOMEM }),
	SCRIPT(GIVES(-ENOMEM)),
	SCRIPT(GIVES(INT_MIN)),
	SCRIPT(EMPTY, ARMED, FAILS(ENOMEM)),
	SCRIPT(EMPTY, ARMED, FAILS(0)),
	SCRIPT(EMPTY, ARMED, GIVES(-2)),
	SCRIPT(EMPTY, ARMED, GIVES(-EINVAL)),
	SCRIPT(IN_VAIN, FAILS(0)),
	SCRIPT(IN_VAIN, GIVES(-2)),
	SCRIPT(IN_VAIN, GIVES(-ENODEV)),
	/* The event of another queue; one of these two is the other queue of the id. */
	SCRIPT(EMPTY, ARMED, EMPTY, FOREIGN, READY),
	SCRIPT(EMPTY, ARMED, EMPTY, OF_SENDS, READY),
	SCRIPT(EMPTY, ARMED, EMPTY, OF_RECEIVES, READY),
	SCRIPT(IN_VAIN, EMPTY, ARMED, EMPTY, FOREIGN, READY),
	SCRIPT(EMPTY, ARMED, EMPTY, FOREIGN, FAILS(EIO)),
	/* A completion counts as one whatever its status. */
	SCRIPT(COMPLETION(IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND)),
	SCRIPT(COMPLETION(IBV_WC_GENERAL_ERR, IBV_WC_DRIVER1)),
	SCRIPT(COMPLETION(IBV_WC_REM_ACCESS_ERR, IBV_WC_RDMA_READ)),
	SCRIPT(IN_VAIN, COMPLETION(IBV_WC_RETRY_EXC_ERR, IBV_WC_RDMA_WRITE)),
	SCRIPT(COMPLETION(999, 999)),
	/* libibverbs' stand-in for a missing poll. */
	SCRIPT(GIVES(EOPNOTSUPP)),
	SCRIPT(EMPTY, ARMED, GIVES(EOPNOTSUPP)),
	/* The provider may write errno, even on success. */
	SCRIPT({ .result = 0, .error = EAGAIN }, { .result = 0, .error = EINTR }, READY),
};

static void set_script(struct scenario *s, int value)
{
	s->replies = scripts[value].replies;
	memcpy(s->reply, scripts[value].reply, sizeof(*s->reply) * (size_t)s->replies);
}

static struct fake_reply draw_poll(void)
{
	struct fake_reply reply = { .result = 0 };

	if (once_in(3)) {
		reply.result = once_in(64) ? EOPNOTSUPP : 1;
		for (size_t i = 0; i < sizeof(reply.wc); i += sizeof(uint64_t))
			memcpy((char *)&reply.wc + i, &(uint64_t){ random_64() },
			       sizeof(uint64_t));
	} else if (once_in(6)) {
		reply.result = -1 - random_below(once_in(2) ? 2 : 133);
	}
	return reply;
}

static struct fake_reply draw_arm(void)
{
	return (struct fake_reply){ .result = once_in(8) ? draw_number() : 0 };
}

static struct fake_reply draw_event(void)
{
	struct ibv_cq *const foreign[] = { &fake.other_cq, &fake.send_cq, &fake.recv_cq };
	struct fake_reply reply = { .result = 0 };

	if (once_in(4))
		reply.result = -1;
	else if (once_in(6))
		reply.event_cq = foreign[random_below(COUNT(foreign))];
	return reply;
}

static void draw_script(struct scenario *s)
{
	static struct fake_reply (*const operations[])(void) = {
		draw_poll, draw_arm, draw_poll, draw_event,
	};

	s->replies = 1 + random_below(MAX_REPLIES);
	for (int i = 0; i < s->replies; i++) {
		s->reply[i] = operations[i % COUNT(operations)]();
		if (once_in(s->reply[i].result ? 2 : 16))
			s->reply[i].error = random_below(134);
	}
}

/* --- all of them --------------------------------------------------------------------- */

enum { USUAL = 2, RARE = 24 };	/* odds */

const struct axis axes[] = {
	{ "errno", ~0u, COUNT(errno_before_values), USUAL,
	  set_errno_before, draw_errno_before },
	{ "id", ~ONLY(DEREG_MR), COUNT(id_values), RARE, set_id, NULL },
	{ "pd", REGISTRATIONS, COUNT(pd_values), RARE, set_pd, NULL },
	{ "qp", POSTS, COUNT(qp_values), RARE, set_qp, NULL },
	{ "srq", POSTS, COUNT(srq_values), USUAL, set_srq, NULL },
	{ "context", POSTS, COUNT(contexts), USUAL, set_context, draw_context },
	{ "region", ONE_BUFFER, COUNT(region_lengths), USUAL, set_region, NULL },
	{ "addr", REGISTRATIONS | ONE_BUFFER, COUNT(offsets) + COUNT(addresses), USUAL,
	  set_addr, draw_addr },
	{ "length", REGISTRATIONS | ONE_BUFFER, COUNT(lengths), USUAL,
	  set_length, draw_length },
	{ "mr", ONLY(DEREG_MR) | ONE_BUFFER, COUNT(mr_values), RARE / 4, set_mr, NULL },
	{ "lkey", ONE_BUFFER, COUNT(lkey_values), USUAL, set_lkey, draw_lkey },
	{ "sgl", VECTORED, COUNT(sgl_values), USUAL, set_sgl, NULL },
	{ "nsge", VECTORED, COUNT(nsge_values), USUAL, set_nsge, draw_nsge },
	{ "flags", SENDS, COUNT(flags_values), USUAL, set_flags, draw_flags },
	{ "remote_addr", READS | WRITES, COUNT(remote_addr_values), USUAL,
	  set_remote_addr, draw_remote_addr },
	{ "rkey", READS | WRITES, COUNT(rkey_values), USUAL, set_rkey, draw_rkey },
	{ "ah", ONLY(POST_UD_SEND), COUNT(ah_values), USUAL, set_ah, NULL },
	{ "remote_qpn", ONLY(POST_UD_SEND), COUNT(remote_qpn_values), USUAL,
	  set_remote_qpn, draw_remote_qpn },
	{ "cq", COMPLETIONS, 2, RARE, set_cq, NULL },
	{ "channel", COMPLETIONS, 2, RARE, set_channel, NULL },
	{ "cq_context", COMPLETIONS, COUNT(cq_context_values), RARE / 4,
	  set_cq_context, NULL },
	{ "wc", COMPLETIONS, COUNT(wc_values), RARE, set_wc, NULL },
	{ "lacks", POSTS, COUNT(lacks_of_posts), RARE, set_lacks_of_posts, NULL },
	{ "lacks", COMPLETIONS, COUNT(lacks_of_completions), RARE,
	  set_lacks_of_completions, NULL },
	{ "result", ~COMPLETIONS, COUNT(results), USUAL, set_result, draw_result },
	{ "script", COMPLETIONS, COUNT(scripts), 1, set_script, draw_script },
};
const int axis_count = COUNT(axes);

void usual_scenario(struct scenario *s, enum helper helper)
{
	memset(s, 0, sizeof(*s));
	s->helper = helper;
	/* Everything in the id and the region, whether the helper uses it or not. */
	s->id = &fake.id;
	s->pd = &fake.pd;
	s->qp = &fake.qp;
	set_cq(s, 0);
	set_channel(s, 0);
	set_region(s, 0);
	for (int i = 0; i < axis_count; i++)
		if (is_one_of(helper, axes[i].helpers))
			axes[i].set(s, 0);
}

void random_scenario(struct scenario *s, uint64_t seed)
{
	random_state = seed;
	usual_scenario(s, (enum helper)random_below(HELPERS));
	for (int i = 0; i < axis_count; i++) {
		const struct axis *axis = &axes[i];

		if (!is_one_of(s->helper, axis->helpers) || !once_in(axis->odds))
			continue;
		if (axis->draw && once_in(2))
			axis->draw(s);
		else
			axis->set(s, random_below(axis->values));
	}
}
