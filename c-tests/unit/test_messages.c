// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Each way to fail, of each helper, names the helper and the reason in the log. test_log.c
 * tests what the logger does with the line; other tests check errno.
 */
#define _GNU_SOURCE	/* pipe2 */
#include "../lib/check.h"
#include "../fake/helpers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int standard_error, messages;

/* The pipe behind standard error holds nothing of the previous test. */
static int reset(void **state)
{
	char rest[4096];

	(void)state;
	while (read(messages, rest, sizeof(rest)) > 0)
		;
	fake_reset();
	return 0;
}

static int redirect(void **state)
{
	int fds[2];

	(void)state;
	standard_error = dup(STDERR_FILENO);
	if (standard_error < 0 || pipe2(fds, O_NONBLOCK) || dup2(fds[1], STDERR_FILENO) < 0)
		return -1;
	close(fds[1]);
	messages = fds[0];
	return 0;
}

static int restore(void **state)
{
	(void)state;
	close(messages);
	return dup2(standard_error, STDERR_FILENO) < 0 ? -1 : 0;
}

/* Exactly this line was written. */
static void expect_message(const char *helper, const char *reason)
{
	const int error = errno;
	char expected[256], line[1024];
	ssize_t length = read(messages, line, sizeof(line) - 1);

	line[length < 0 ? 0 : length] = '\0';
	snprintf(expected, sizeof(expected), "rdma_verbs: %s: %s: %s (errno %d)\n", helper, reason,
		 error ? strerrorname_np(error) : "unknown error", error);
	assert_string_equal(line, expected);
	fake_reset();
}

/* The post fails, and the reason names the provider's operation. */
static void expect_refusal(const char *helper, const char *operation, int result)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "the provider's %s returned %d", operation, result);
	expect_message(helper, reason);
}

static void expect_no_operation(const char *helper, const char *operation)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "the provider does not implement %s", operation);
	expect_message(helper, reason);
}

static void remove_operations(void)
{
	memset(&fake.context.ops, 0, sizeof(fake.context.ops));
}

/* --- posting ------------------------------------------------------------------------ */

static int post_buffer(size_t helper, struct rdma_cm_id *id, struct ibv_mr *mr)
{
	return buffer_helpers[helper].post(id, fake_memory, 1, mr, FLAGS);
}

static int post_list(size_t helper, struct rdma_cm_id *id)
{
	return list_helpers[helper].post(id, NULL, 0, FLAGS);
}

/* A receive needs one of the two. */
static const char *no_queue(enum fake_operation operation)
{
	return operation == FAKE_POST_RECV ? "id->qp (and id->srq) is NULL" : "id->qp is NULL";
}

static const char *post_name(enum fake_operation operation)
{
	return operation == FAKE_POST_RECV ? "post_recv" : "post_send";
}

static void posts_of_one_buffer(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(buffer_helpers); i++) {
		const char *name = buffer_helpers[i].name;
		const char *operation = post_name(buffer_helpers[i].operation);

		post_buffer(i, NULL, &fake.mr);
		expect_message(name, "id is NULL");

		fake.id.qp = NULL;
		post_buffer(i, &fake.id, &fake.mr);
		expect_message(name, no_queue(buffer_helpers[i].operation));

		if (buffer_helpers[i].needs_mr) {
			post_buffer(i, &fake.id, NULL);
			expect_message(name, "mr is NULL");
		}

		remove_operations();
		post_buffer(i, &fake.id, &fake.mr);
		expect_no_operation(name, operation);

		fake_answer((struct fake_reply){ .result = ENOMEM });
		post_buffer(i, &fake.id, &fake.mr);
		expect_refusal(name, operation, ENOMEM);
	}
}

static void posts_of_a_list(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(list_helpers); i++) {
		const char *name = list_helpers[i].name;
		const char *operation = post_name(list_helpers[i].operation);

		post_list(i, NULL);
		expect_message(name, "id is NULL");

		fake.id.qp = NULL;
		post_list(i, &fake.id);
		expect_message(name, no_queue(list_helpers[i].operation));

		remove_operations();
		post_list(i, &fake.id);
		expect_no_operation(name, operation);

		fake_answer((struct fake_reply){ .result = -1, .error = ENOMEM });
		post_list(i, &fake.id);
		expect_refusal(name, operation, -1);
	}
}

static void receives_into_the_shared_queue(void **state)
{
	(void)state;
	fake.id.srq = &fake.srq;
	remove_operations();
	rdma_post_recvv(&fake.id, CONTEXT, NULL, 0);
	expect_no_operation("rdma_post_recvv", "post_srq_recv");

	fake.id.srq = &fake.srq;
	fake_answer((struct fake_reply){ .result = ENOMEM });
	rdma_post_recvv(&fake.id, CONTEXT, NULL, 0);
	expect_refusal("rdma_post_recvv", "post_srq_recv", ENOMEM);
}

/* --- completions -------------------------------------------------------------------- */

/* A queue is reached by one field of the id, and called by its name here. */
static void expect_null_field(const char *helper, const char *field)
{
	char reason[128];

	snprintf(reason, sizeof(reason), "id->%s is NULL", field);
	expect_message(helper, reason);
}

static void answer_empty_polls(void)
{
	for (int i = 0; i < 3; i++)	/* poll, arm, poll */
		fake_answer((struct fake_reply){ .result = 0 });
}

static void waits_without_an_object(void **state)
{
	static const char *const fields[][2] = {
		{ "send_cq", "send_cq_channel" },
		{ "recv_cq", "recv_cq_channel" },
	};
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		const struct wait_helper *helper = &wait_helpers[i];

		helper->wait(NULL, &wc);
		expect_message(helper->name, "id is NULL");

		helper->wait(&fake.id, NULL);
		expect_message(helper->name, "wc is NULL");

		*helper->id_cq = NULL;
		helper->wait(&fake.id, &wc);
		expect_null_field(helper->name, fields[i][0]);

		*helper->id_channel = NULL;
		answer_empty_polls();
		helper->wait(&fake.id, &wc);
		expect_null_field(helper->name, fields[i][1]);
	}
}

static void waits_that_the_provider_ends(void **state)
{
	struct ibv_wc wc;

	(void)state;
	for (size_t i = 0; i < COUNT(wait_helpers); i++) {
		const struct wait_helper *helper = &wait_helpers[i];

		fake.context.ops.poll_cq = NULL;
		helper->wait(&fake.id, &wc);
		expect_no_operation(helper->name, "poll_cq");

		fake_answer((struct fake_reply){ .result = -2 });
		helper->wait(&fake.id, &wc);
		expect_refusal(helper->name, "poll_cq", -2);

		fake.context.ops.req_notify_cq = NULL;
		fake_answer((struct fake_reply){ .result = 0 });
		helper->wait(&fake.id, &wc);
		expect_no_operation(helper->name, "req_notify_cq");

		fake_answer((struct fake_reply){ .result = 0 });
		fake_answer((struct fake_reply){ .result = EPERM });
		helper->wait(&fake.id, &wc);
		expect_refusal(helper->name, "req_notify_cq", EPERM);

		answer_empty_polls();
		fake_answer((struct fake_reply){ .result = -1, .error = EBADF });
		helper->wait(&fake.id, &wc);
		expect_message(helper->name, "ibv_get_cq_event failed");

		answer_empty_polls();
		fake_answer((struct fake_reply){ .event_cq = &fake.other_cq });
		helper->wait(&fake.id, &wc);
		expect_message(helper->name,
			       "the event was for another completion queue on the channel");
	}
}

/* --- memory ------------------------------------------------------------------------- */

static void registrations(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(reg_helpers); i++) {
		const struct reg_helper *helper = &reg_helpers[i];

		helper->reg(NULL, fake_memory, 1);
		expect_message(helper->name, "id is NULL");

		fake.id.pd = NULL;
		helper->reg(&fake.id, fake_memory, 1);
		expect_message(helper->name, "id->pd is NULL");

		fake_answer((struct fake_reply){ .result = -1, .error = EFAULT });
		helper->reg(&fake.id, fake_memory, 1);
		expect_message(helper->name, "ibv_reg_mr failed");

		/* The refusal of a provider that gives no reason is passed on. */
		errno = 0;
		fake_answer((struct fake_reply){ .result = -1 });
		helper->reg(&fake.id, fake_memory, 1);
		expect_message(helper->name, "ibv_reg_mr failed");
	}
}

static void deregistration(void **state)
{
	(void)state;
	rdma_dereg_mr(NULL);
	expect_message("rdma_dereg_mr", "mr is NULL");

	fake_answer((struct fake_reply){ .result = EBUSY });
	rdma_dereg_mr(&fake.mr);
	expect_refusal("rdma_dereg_mr", "dereg_mr", EBUSY);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(posts_of_one_buffer, reset),
		cmocka_unit_test_setup(posts_of_a_list, reset),
		cmocka_unit_test_setup(receives_into_the_shared_queue, reset),
		cmocka_unit_test_setup(waits_without_an_object, reset),
		cmocka_unit_test_setup(waits_that_the_provider_ends, reset),
		cmocka_unit_test_setup(registrations, reset),
		cmocka_unit_test_setup(deregistration, reset),
	};

	(void)argc;
	/* The library has read the variable by now. */
	if (!getenv("RDMA_VERBS_LOG")) {
		setenv("RDMA_VERBS_LOG", "error", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	return cmocka_run_group_tests_name("messages", tests, redirect, restore);
}
