// SPDX-License-Identifier: MIT OR Apache-2.0
/* What a completion status means, what a queue pair can carry, and what failures log. */
#define _GNU_SOURCE	/* pipe2 */
#include "../fake/ext_fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { LAST_STATUS = IBV_WC_TM_RNDV_INCOMPLETE };

/* The mapping in the manual, and a word that the text must contain. */
static const struct {
	int status, error;
	const char *word;
} meanings[] = {
	{ IBV_WC_SUCCESS, 0, "success" },
	{ IBV_WC_LOC_LEN_ERR, EMSGSIZE, "longer than" },
	{ IBV_WC_LOC_QP_OP_ERR, EBADR, "queue pair operation" },
	{ IBV_WC_LOC_EEC_OP_ERR, EBADR, "EE context" },
	{ IBV_WC_LOC_PROT_ERR, EFAULT, "local buffer" },
	{ IBV_WC_WR_FLUSH_ERR, ECANCELED, "flushed" },
	{ IBV_WC_MW_BIND_ERR, EBADR, "window" },
	{ IBV_WC_BAD_RESP_ERR, EPROTO, "response" },
	{ IBV_WC_LOC_ACCESS_ERR, EFAULT, "local access" },
	{ IBV_WC_REM_INV_REQ_ERR, EBADRQC, "receive buffer" },
	{ IBV_WC_REM_ACCESS_ERR, EACCES, "rkey" },
	{ IBV_WC_REM_OP_ERR, EREMOTEIO, "remote operation" },
	{ IBV_WC_RETRY_EXC_ERR, EHOSTUNREACH, "does not respond" },
	{ IBV_WC_RNR_RETRY_EXC_ERR, ENOBUFS, "no receive posted" },
	{ IBV_WC_LOC_RDD_VIOL_ERR, EBADR, "RDD" },
	{ IBV_WC_REM_INV_RD_REQ_ERR, EBADRQC, "RD request" },
	{ IBV_WC_REM_ABORT_ERR, ECONNABORTED, "aborted" },
	{ IBV_WC_INV_EECN_ERR, EBADR, "context number" },
	{ IBV_WC_INV_EEC_STATE_ERR, EBADR, "context state" },
	{ IBV_WC_FATAL_ERR, EIO, "device" },
	{ IBV_WC_RESP_TIMEOUT_ERR, EHOSTUNREACH, "timeout" },
	{ IBV_WC_GENERAL_ERR, EIO, "general" },
	{ IBV_WC_TM_ERR, EIO, "tag matching error" },
	{ IBV_WC_TM_RNDV_INCOMPLETE, EINPROGRESS, "fetch" },
};

static void each_status(void **state)
{
	(void)state;
	assert_int_equal(COUNT(meanings), LAST_STATUS + 1);
	for (int i = 0; i <= LAST_STATUS; i++) {
		struct ibv_wc wc = { .status = (enum ibv_wc_status)meanings[i].status };
		const char *text;

		assert_int_equal(meanings[i].status, i);
		assert_succeeds(rdmax_wc_errno(&wc), meanings[i].error);
		errno = UNTOUCHED;
		text = rdmax_wc_strerror(&wc);
		assert_int_equal(errno, UNTOUCHED);
		if (!strstr(text, meanings[i].word))
			fail_msg("'%s' has no '%s'", text, meanings[i].word);
		assert_ptr_equal(text, rdmax_wc_strerror(&wc));
	}
}

/* ETIMEDOUT is left to rdmax_read and rdmax_write: the request has not completed. */
static void none_is_a_timeout(void **state)
{
	(void)state;
	for (int i = 0; i <= LAST_STATUS; i++)
		assert_int_not_equal(meanings[i].error, ETIMEDOUT);
}

static void unknown_status(void **state)
{
	static const unsigned int statuses[] = { LAST_STATUS + 1, 1000, INT32_MAX, UINT32_MAX };

	(void)state;
	for (size_t i = 0; i < COUNT(statuses); i++) {
		struct ibv_wc wc = { .status = (enum ibv_wc_status)statuses[i] };

		assert_int_equal(rdmax_wc_errno(&wc), EIO);
		assert_string_equal(rdmax_wc_strerror(&wc), "unknown status");
	}
}

static void no_completion(void **state)
{
	(void)state;
	assert_int_equal(rdmax_wc_errno(NULL), EINVAL);
	assert_non_null(strstr(rdmax_wc_strerror(NULL), "NULL"));
}

static void limits(void **state)
{
	struct rdmax_limits limits;

	(void)state;
	ext.max_msg_sz = 99;
	memset(&limits, 0xee, sizeof(limits));
	assert_succeeds(rdmax_query_limits(&ext.id, &limits, sizeof(limits)), 0);
	assert_int_equal(limits.max_send_wr, EXT_DEPTH);
	assert_int_equal(limits.max_recv_wr, EXT_DEPTH);
	assert_int_equal(limits.max_send_sge, EXT_SEND_SGE);
	assert_int_equal(limits.max_recv_sge, EXT_RECV_SGE);
	assert_int_equal(limits.max_inline_data, EXT_MAX_INLINE);
	assert_int_equal(limits.max_rd_atomic, EXT_RD_ATOMIC);
	assert_int_equal(limits.max_dest_rd_atomic, EXT_DEST_RD_ATOMIC);
	assert_int_equal(limits.max_msg_sz, 99);
	ext.result = ENOMEM;
	assert_fails(rdmax_query_limits(&ext.id, &limits, sizeof(limits)), ENOMEM);
	ext.id.qp = NULL;
	assert_fails(rdmax_query_limits(&ext.id, &limits, sizeof(limits)), EINVAL);
	assert_fails(rdmax_query_limits(NULL, &limits, sizeof(limits)), EINVAL);
	assert_fails(rdmax_query_limits(&ext.id, NULL, sizeof(limits)), EINVAL);
}

/* A program that knows fewer fields, and one that knows more. */
static void limits_of_other_versions(void **state)
{
	struct { struct rdmax_limits known; uint64_t later; } newer;

	(void)state;
	memset(&newer, 0xee, sizeof(newer));
	assert_succeeds(rdmax_query_limits(&ext.id, &newer.known, 8), 0);
	assert_int_equal(newer.known.max_recv_wr, EXT_DEPTH);
	assert_int_equal(newer.known.max_send_sge, 0xeeeeeeee);
	assert_succeeds(rdmax_query_limits(&ext.id, &newer.known, sizeof(newer)), 0);
	assert_int_equal(newer.known.max_rd_atomic, EXT_RD_ATOMIC);
	assert_int_equal(newer.later, 0);
}

/* --- the log: the variable is read when the library is loaded ------------------------------ */

static void misaligned(void)
{
	rdmax_post_atomic_faa(&ext.id, NULL, ext_memory, &ext.mr, 0, 4, 0, 1);
}

static void counted(void)
{
	struct ibv_wc wc;

	rdmax_get_send_comps(&ext.id, &wc, -3, 0);
}

static void timed_out(void)
{
	rdmax_read(&ext.id, ext_memory, 8, &ext.mr, 0, 0, 0, NULL, NULL);
}

static void completed(void)
{
	ext.state = IBV_QPS_ERR;
	rdmax_write(&ext.id, ext_memory, 8, &ext.mr, 0, 0, 0, NULL, NULL);
}

static void foreign(void)
{
	ext_complete(&ext.send, 0x1234abcd, IBV_WC_SUCCESS);
	rdmax_read(&ext.id, ext_memory, 8, &ext.mr, 0, 0, 0, NULL, NULL);
}

static void foreign_and_done(void)
{
	ext_complete(&ext.send, 0x1234abcd, IBV_WC_SUCCESS);
	ext.state = IBV_QPS_ERR;
	rdmax_read(&ext.id, ext_memory, 8, &ext.mr, 0, 0, 0, NULL, NULL);
}

static void complete(struct ext_request *request)
{
	(void)request;
	ext_complete_next(&ext.sq, IBV_WC_SUCCESS);
}

/* The first piece completes after the second is refused; errno must be that of the refusal. */
static void refused_in_pieces(void)
{
	ext.max_msg_sz = 4096;
	ext.on_send = complete;
	ext.sq.accept = 1;
	ext.sq.refusal = -1;
	ext.sq.refusal_errno = ENODEV;
	rdmax_read(&ext.id, ext_memory, 2 << 20, &ext.mr, 0, 0, 0, NULL, NULL);
}

static void opcode(void)
{
	struct rdmax_send_wr wr = { .opcode = IBV_WR_TSO };
	int posted;

	rdmax_post_sends(&ext.id, &wr, sizeof(wr), 1, &posted);
}

static void small_entries(void)
{
	struct rdmax_recv_wr wr = { 0 };
	int posted;

	rdmax_post_recvs(&ext.id, &wr, 16, 1, &posted);
}

static void no_marker(void)
{
	ext.state = IBV_QPS_ERR;
	ext.sq.refuses_in_error = -EIO;
	rdmax_drain(&ext.id, 0, NULL, NULL);
}

static void may_be_in_flight(void)
{
	ext.sq.doorbell = EINVAL;
	rdmax_read(&ext.id, ext_memory, 8, &ext.mr, 0, 0, 0, NULL, NULL);
}

static const struct {
	const char *line;
	void (*call)(void);
} lines[] = {
	{ "rdma_verbs: rdmax_post_atomic_faa: remote_addr is not a multiple of 8: "
	  "EINVAL (errno 22)\n", misaligned },
	{ "rdma_verbs: rdmax_get_send_comps: n is -3: EINVAL (errno 22)\n",
	  counted },
	{ "rdma_verbs: rdmax_read: not completed in time: ETIMEDOUT "
	  "(errno 110)\n", timed_out },
	{ "rdma_verbs: rdmax_write: flushed: the connection was closed, or broken by an "
	  "earlier request: ECANCELED (errno 125)\n", completed },
	{ "rdma_verbs: rdmax_read: not completed in time: ETIMEDOUT "
	  "(errno 110)\n", foreign },
	{ "rdma_verbs: rdmax_read: took the completion of another request, "
	  "wr_id 0x1234abcd: EBUSY (errno 16)\n", foreign_and_done },
	{ "rdma_verbs: rdmax_read: the provider's post_send returned -1: ENODEV "
	  "(errno 19)\n", refused_in_pieces },
	{ "rdma_verbs: rdmax_post_sends: opcode 10 is not supported in a batch: "
	  "EINVAL (errno 22)\n", opcode },
	{ "rdma_verbs: rdmax_post_recvs: a size of 16 is not supported: "
	  "EINVAL (errno 22)\n", small_entries },
	{ "rdma_verbs: rdmax_drain: the provider accepts no requests in the error state: "
	  "cannot tell when the send queue is empty: EOPNOTSUPP (errno 95)\n", no_marker },
	{ "rdma_verbs: rdmax_read: requests may be in flight and cannot be waited for: "
	  "errno 22: ETIMEDOUT (errno 110)\n", may_be_in_flight },
};

/* What a call writes to standard error, which is redirected to a pipe. */
static void capture(void (*call)(void), char *text, size_t size)
{
	int standard_error = dup(STDERR_FILENO), fds[2];
	ssize_t length;

	assert_true(standard_error >= 0);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
	call();
	dup2(standard_error, STDERR_FILENO);
	length = read(fds[0], text, size - 1);
	text[length < 0 ? 0 : length] = '\0';
	close(standard_error);
	close(fds[0]);
	close(fds[1]);
}

static void explains_failures(void **state)
{
	for (size_t i = 0; i < COUNT(lines); i++) {
		char text[1024];

		ext_begin(state);
		capture(lines[i].call, text, sizeof(text));
		assert_string_equal(text, lines[i].line);
		assert_int_equal(ext_end(state), 0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_status),
		cmocka_unit_test(none_is_a_timeout),
		cmocka_unit_test(unknown_status),
		cmocka_unit_test(no_completion),
		cmocka_unit_test_setup_teardown(limits, ext_begin, ext_end),
		cmocka_unit_test_setup_teardown(limits_of_other_versions, ext_begin, ext_end),
		cmocka_unit_test(explains_failures),
	};

	(void)argc;
	/* The library reads the variable when it is loaded. */
	if (!getenv("RDMA_VERBS_LOG")) {
		setenv("RDMA_VERBS_LOG", "error", 1);
		execv("/proc/self/exe", argv);
		return 1;
	}
	return cmocka_run_group_tests_name("ext_status", tests, NULL, NULL);
}
