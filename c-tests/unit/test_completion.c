// SPDX-License-Identifier: MIT OR Apache-2.0
/* Waiting for a completion: what is called, in which order, and with which result. */
#include "../lib/check.h"
#include "../fake/helpers.h"

#include <stdarg.h>

static const struct wait_helper *helper;

/* Each test runs for both helpers. */
static int reset_send(void **state)
{
	(void)state;
	helper = &wait_helpers[0];
	fake_reset();
	return 0;
}

static int reset_recv(void **state)
{
	(void)state;
	helper = &wait_helpers[1];
	fake_reset();
	return 0;
}

static struct ibv_wc completion(void)
{
	struct ibv_wc wc;

	memset(&wc, 0x5a, sizeof(wc));
	wc.wr_id = 0xfeedface;
	wc.status = IBV_WC_SUCCESS;
	wc.opcode = IBV_WC_RDMA_READ;
	return wc;
}

/* An empty queue, or success. Acknowledging returns nothing, so it takes no reply. */
static const struct fake_reply nothing = { .result = 0 };

static struct fake_reply found(void)
{
	return (struct fake_reply){ .result = 1, .wc = completion() };
}

/* Calls made so far, in this order, on the queue and channel of the helper. */
static void expect_calls(int count, ...)
{
	va_list expected;

	assert_int_equal(fake.calls, count);
	va_start(expected, count);
	for (int i = 0; i < count; i++) {
		const struct fake_call *call = &fake.call[i];

		assert_int_equal(call->operation, va_arg(expected, enum fake_operation));
		switch (call->operation) {
		case FAKE_POLL_CQ:
			assert_ptr_equal(call->object, helper->cq);
			assert_int_equal(call->number, 1);
			break;
		case FAKE_REQ_NOTIFY_CQ:
			assert_ptr_equal(call->object, helper->cq);
			assert_int_equal(call->number, 0);	/* any completion */
			break;
		case FAKE_GET_CQ_EVENT:
			assert_ptr_equal(call->object, helper->channel);
			break;
		case FAKE_ACK_CQ_EVENTS:
			assert_ptr_equal(call->object, helper->cq);
			assert_int_equal(call->number, 1);
			break;
		default:
			fail_msg("call %d is %d", i, call->operation);
		}
	}
	va_end(expected);
}

static void expect_completion(const struct ibv_wc *wc)
{
	struct ibv_wc expected = completion();

	assert_memory_equal(wc, &expected, sizeof(expected));
}

static void ready_at_once(void **state)
{
	struct ibv_wc wc;

	(void)state;
	fake_answer(found());
	assert_succeeds(helper->wait(&fake.id, &wc), 1);
	expect_calls(1, FAKE_POLL_CQ);
	expect_completion(&wc);
}

static void arrives_while_arming(void **state)
{
	struct ibv_wc wc;

	(void)state;
	fake_answer(nothing);
	fake_answer(nothing);
	fake_answer(found());
	assert_succeeds(helper->wait(&fake.id, &wc), 1);
	expect_calls(3, FAKE_POLL_CQ, FAKE_REQ_NOTIFY_CQ, FAKE_POLL_CQ);
	expect_completion(&wc);
}

static void arrives_while_waiting(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 4; i++)
		fake_answer(nothing);
	fake_answer(found());
	assert_succeeds(helper->wait(&fake.id, &wc), 1);
	expect_calls(6, FAKE_POLL_CQ, FAKE_REQ_NOTIFY_CQ, FAKE_POLL_CQ, FAKE_GET_CQ_EVENT,
		     FAKE_ACK_CQ_EVENTS, FAKE_POLL_CQ);
	expect_completion(&wc);
}

static void a_stale_event_arms_again(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 8; i++)
		fake_answer(nothing);
	fake_answer(found());
	assert_succeeds(helper->wait(&fake.id, &wc), 1);
	expect_calls(11, FAKE_POLL_CQ, FAKE_REQ_NOTIFY_CQ, FAKE_POLL_CQ, FAKE_GET_CQ_EVENT,
		     FAKE_ACK_CQ_EVENTS, FAKE_POLL_CQ, FAKE_REQ_NOTIFY_CQ, FAKE_POLL_CQ,
		     FAKE_GET_CQ_EVENT, FAKE_ACK_CQ_EVENTS, FAKE_POLL_CQ);
}

/* Interrupted, or nothing there on a non-blocking channel: armed, nothing acknowledged. */
static void the_wait_ends_early(void **state)
{
	static const int errors[] = { EINTR, EAGAIN };
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(errors); i++) {
		fake_reset();
		for (int j = 0; j < 3; j++)
			fake_answer(nothing);
		fake_answer((struct fake_reply){ .result = -1, .error = errors[i] });
		assert_fails(helper->wait(&fake.id, &wc), errors[i]);
		expect_calls(4, FAKE_POLL_CQ, FAKE_REQ_NOTIFY_CQ, FAKE_POLL_CQ, FAKE_GET_CQ_EVENT);
		assert_ptr_equal(fake.armed, helper->cq);

		/* The completion is taken, but its event remains. */
		fake.calls = 0;
		fake_answer(found());
		assert_succeeds(helper->wait(&fake.id, &wc), 1);
		expect_calls(1, FAKE_POLL_CQ);
		expect_completion(&wc);

		/* The event ends the next wait, which acknowledges it once. */
		fake.calls = 0;
		for (int j = 0; j < 4; j++)
			fake_answer(nothing);
		fake_answer(found());
		assert_succeeds(helper->wait(&fake.id, &wc), 1);
		expect_calls(6, FAKE_POLL_CQ, FAKE_REQ_NOTIFY_CQ, FAKE_POLL_CQ, FAKE_GET_CQ_EVENT,
			     FAKE_ACK_CQ_EVENTS, FAKE_POLL_CQ);
	}
}

static void an_error_is_a_completion(void **state)
{
	(void)state;
	for (int status = IBV_WC_SUCCESS; status <= IBV_WC_TM_RNDV_INCOMPLETE; status++) {
		struct fake_reply reply = found();
		struct ibv_wc wc;

		fake_reset();
		reply.wc.status = (enum ibv_wc_status)status;
		reply.wc.opcode = (enum ibv_wc_opcode)0x7eadbeef;
		fake_answer(reply);
		assert_succeeds(helper->wait(&fake.id, &wc), 1);
		assert_memory_equal(&wc, &reply.wc, sizeof(wc));
	}
}

/* A channel is needed only to wait. */
static void no_channel_needed(void **state)
{
	struct ibv_wc wc;

	(void)state;
	*helper->id_channel = NULL;
	fake_answer(found());
	assert_succeeds(helper->wait(&fake.id, &wc), 1);

	fake_answer(nothing);
	fake_answer(nothing);
	fake_answer(found());
	assert_succeeds(helper->wait(&fake.id, &wc), 1);
}

#define BOTH(test) \
	{ #test " (send)", test, reset_send, NULL, NULL }, \
	{ #test " (recv)", test, reset_recv, NULL, NULL }

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(ready_at_once),
		BOTH(arrives_while_arming),
		BOTH(arrives_while_waiting),
		BOTH(a_stale_event_arms_again),
		BOTH(the_wait_ends_early),
		BOTH(an_error_is_a_completion),
		BOTH(no_channel_needed),
	};

	return cmocka_run_group_tests_name("completion", tests, NULL, NULL);
}
