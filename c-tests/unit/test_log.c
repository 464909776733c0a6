// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What the library writes to standard error. It reads RDMA_VERBS_LOG when it is loaded, so
 * each test starts this program again, with the name of the call to make.
 */
#define _GNU_SOURCE	/* pipe2, O_DIRECT */
#include "../lib/check.h"
#include "../fake/helpers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *self = "/proc/self/exe";

/* --- the calls, made in the child; each must fail with the errno it returns ---------- */

static int null_id(void)
{
	rdma_post_send(NULL, CONTEXT, fake_memory, 1, &fake.mr, 0);
	return EINVAL;
}

static int null_qp(void)
{
	fake.id.qp = NULL;
	rdma_post_read(&fake.id, CONTEXT, fake_memory, 1, &fake.mr, 0, 0, 0);
	return EINVAL;
}

static int long_buffer(void)
{
	rdma_post_write(&fake.id, CONTEXT, fake_memory, 4294967312, &fake.mr, 0, 0, 0);
	return EINVAL;
}

static int outside(void)
{
	fake.mr.addr = (void *)0x10000;
	rdma_post_recv(&fake.id, CONTEXT, (void *)0x10800, 4096, &fake.mr);
	return EINVAL;
}

static int refused(void)
{
	fake_answer((struct fake_reply){ .result = -ENOMEM });
	rdma_post_send(&fake.id, CONTEXT, fake_memory, 1, &fake.mr, 0);
	return ENOMEM;
}

static int no_poll(void)
{
	struct ibv_wc wc;

	fake.context.ops.poll_cq = NULL;
	rdma_get_recv_comp(&fake.id, &wc);
	return EOPNOTSUPP;
}

static int registration(void)
{
	fake_answer((struct fake_reply){ .result = -1, .error = EFAULT });
	rdma_reg_read(&fake.id, fake_memory, 1);
	return EFAULT;
}

static int wait_ends(int error, struct ibv_cq *event_cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 3; i++)
		fake_answer((struct fake_reply){ .result = 0 });
	fake_answer((struct fake_reply){ .result = error ? -1 : 0, .error = error,
					 .event_cq = event_cq });
	rdma_get_send_comp(&fake.id, &wc);
	return error ? error : EINVAL;
}

static int foreign_event(void)
{
	return wait_ends(0, &fake.other_cq);
}

static int interrupted(void)
{
	return wait_ends(EINTR, NULL);
}

static int would_block(void)
{
	return wait_ends(EAGAIN, NULL);
}

static int success(void)
{
	return rdma_post_send(&fake.id, CONTEXT, fake_memory, 1, &fake.mr, 0) ? -1 : UNTOUCHED;
}

static const struct {
	const char *name;
	int (*make)(void);
	const char *line;	/* NULL: no message at any level */
	int debug;		/* not an error: shown only at level debug */
} calls[] = {
	{ "null_id", null_id,
	  "rdma_verbs: rdma_post_send: id is NULL: EINVAL (errno 22)\n", 0 },
	{ "null_qp", null_qp,
	  "rdma_verbs: rdma_post_read: id->qp is NULL: EINVAL (errno 22)\n", 0 },
	{ "long_buffer", long_buffer,
	  "rdma_verbs: rdma_post_write: length 4294967312 exceeds the limit of one buffer "
	  "(4294967295): EINVAL (errno 22)\n", 0 },
	{ "outside", outside,
	  "rdma_verbs: rdma_post_recv: addr 0x10800 with length 4096 is not inside mr "
	  "(addr 0x10000, length 4096): EINVAL (errno 22)\n", 0 },
	{ "refused", refused,
	  "rdma_verbs: rdma_post_send: the provider's post_send returned -12: "
	  "ENOMEM (errno 12)\n", 0 },
	{ "no_poll", no_poll,
	  "rdma_verbs: rdma_get_recv_comp: the provider does not implement poll_cq: "
	  "EOPNOTSUPP (errno 95)\n", 0 },
	{ "registration", registration,
	  "rdma_verbs: rdma_reg_read: ibv_reg_mr failed: EFAULT (errno 14)\n", 0 },
	{ "foreign_event", foreign_event,
	  "rdma_verbs: rdma_get_send_comp: the event was for another completion queue "
	  "on the channel: EINVAL (errno 22)\n", 0 },
	{ "interrupted", interrupted,
	  "rdma_verbs: rdma_get_send_comp: ibv_get_cq_event failed: "
	  "EINTR (errno 4)\n", 1 },
	{ "would_block", would_block,
	  "rdma_verbs: rdma_get_send_comp: ibv_get_cq_event failed: "
	  "EAGAIN (errno 11)\n", 1 },
	{ "success", success, NULL, 0 },
};

/* In the child: makes one call. 0 if errno is what it should be. */
static int make_call(const char *name)
{
	for (size_t i = 0; i < COUNT(calls); i++) {
		int expected;

		if (strcmp(calls[i].name, name) != 0)
			continue;
		fake_reset();
		errno = UNTOUCHED;
		expected = calls[i].make();
		return errno == expected ? 0 : 1;
	}
	return 2;
}

/* --- the parent ------------------------------------------------------------------- */

struct output {
	char text[2048];
	int writes;
};

/*
 * Runs a call with a value of the variable (NULL: unset) and takes what it writes. The
 * pipe is in packet mode: each read returns what one write(2) wrote.
 */
static void run(const char *program, const char *call, const char *level, struct output *output)
{
	size_t length = 0;
	ssize_t got;
	int fds[2], status;
	pid_t child;

	assert_int_equal(pipe2(fds, O_DIRECT), 0);
	child = fork();
	assert_int_not_equal(child, -1);
	if (child == 0) {
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		if (level)
			setenv("RDMA_VERBS_LOG", level, 1);
		else
			unsetenv("RDMA_VERBS_LOG");
		execl(program, program, call, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	output->writes = 0;
	while ((got = read(fds[0], output->text + length, sizeof(output->text) - 1 - length)) > 0) {
		length += (size_t)got;
		output->writes++;
	}
	output->text[length] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void expect(const char *call, const char *level, const char *line)
{
	struct output output;

	run(self, call, level, &output);
	assert_string_equal(output.text, line ? line : "");
	assert_int_equal(output.writes, line ? 1 : 0);
}

static void explains_each_failure(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++) {
		expect(calls[i].name, "trace", calls[i].line);
		expect(calls[i].name, "debug", calls[i].line);
		expect(calls[i].name, "info", calls[i].debug ? NULL : calls[i].line);
		expect(calls[i].name, "error", calls[i].debug ? NULL : calls[i].line);
	}
}

static void is_silent_unless_asked(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++) {
		expect(calls[i].name, NULL, NULL);
		expect(calls[i].name, "", NULL);
		expect(calls[i].name, "off", NULL);
	}
}

static void reads_any_other_value_as_error(void **state)
{
	(void)state;
	expect("null_id", "1", calls[0].line);
	expect("null_id", "ERROR", calls[0].line);
	expect("would_block", "yes", NULL);
}

/* The call must fail as it does otherwise. */
static void survives_a_closed_standard_error(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_int_not_equal(child, -1);
	if (child == 0) {
		close(STDERR_FILENO);
		setenv("RDMA_VERBS_LOG", "trace", 1);
		execl(self, self, "refused", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/*
 * A privileged program must not trust its caller's environment. Set-group-ID, since another
 * user might not be able to read the library.
 */
static void is_silent_with_rights_of_another(void **state)
{
	char directory[] = "/tmp/rdma-verbs-test-XXXXXX", program[64], command[256];
	struct output output;
	struct statvfs tmp;
	const gid_t nogroup = 65534;
	int unchanged;

	(void)state;
	if (geteuid() != 0) {
		print_message("# skipped: only root can make a program of another group\n");
		skip();
	}
	if (statvfs("/tmp", &tmp) || (tmp.f_flag & ST_NOSUID)) {
		print_message("# skipped: programs in /tmp get no rights of another\n");
		skip();
	}
	assert_non_null(mkdtemp(directory));
	snprintf(program, sizeof(program), "%s/program", directory);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", getpid(), program);
	assert_int_equal(system(command), 0);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(chown(program, 0, nogroup), 0);
	assert_int_equal(chmod(program, 02755), 0);

	run(program, "null_id", "trace", &output);
	unchanged = output.writes;
	assert_int_equal(chmod(program, 0755), 0);
	run(program, "null_id", "trace", &output);
	unlink(program);
	rmdir(directory);
	assert_int_equal(unchanged, 0);
	assert_string_equal(output.text, calls[0].line);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(explains_each_failure),
		cmocka_unit_test(is_silent_unless_asked),
		cmocka_unit_test(reads_any_other_value_as_error),
		cmocka_unit_test(survives_a_closed_standard_error),
		cmocka_unit_test(is_silent_with_rights_of_another),
	};

	if (argc == 2)
		return make_call(argv[1]);
	return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
