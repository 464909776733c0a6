/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A peer that is killed with reads in flight: each read completes, nothing hangs, and
 * everything can be destroyed.
 *
 * The peer is this program, started as "test_peer peer ADDRESS".
 */
#include "device.h"

#include <rdma/rdma_verbs_ext.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BYTES = 1 << 20,
	READS = 8,		/* queued when the peer is killed */
	ACK_TIMEOUT = 14,	/* 4.096 us << 14 is 67 ms */
	PEER_FAILED = 2,
};

/* What the peer reports, through a pipe. */
struct greeting {
	in_port_t port;		/* in network byte order */
	uint32_t rkey;
	uint64_t addr;
};

/* --- the peer --------------------------------------------------------------------- */

/* Accepts one connection and lets its memory be read. */
static int be_peer(const char *address)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_conn_param param = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.rnr_retry_count = 7,	/* unlimited: it never posts a receive */
	};
	struct sockaddr_in any_port = { .sin_family = AF_INET };
	struct greeting greeting = { 0 };
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *mr;
	void *memory;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(TEST_SECONDS);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || !inet_aton(address, &any_port.sin_addr) ||
	    rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&any_port) ||
	    rdma_listen(listener, 1))
		return PEER_FAILED;
	mr = rdma_reg_read(listener, memory, BYTES);
	if (!mr)
		return PEER_FAILED;
	greeting.port = rdma_get_src_port(listener);
	greeting.addr = (uintptr_t)memory;
	greeting.rkey = mr->rkey;
	if (write(STDOUT_FILENO, &greeting, sizeof(greeting)) != sizeof(greeting) ||
	    rdma_get_request(listener, &id) || rdma_create_qp(id, NULL, &attr) ||
	    rdma_accept(id, &param))
		return PEER_FAILED;
	for (;;)
		pause();
}

/* --- its side here ---------------------------------------------------------------- */

struct peer {
	struct link *link;
	struct greeting greeting;
	struct region *sink;
};

static pid_t peer_pid;

static void start_peer(struct greeting *greeting)
{
	const struct sockaddr_in *address = (const void *)device_address();
	char *text = inet_ntoa(address->sin_addr);
	int ends[2];

	must(pipe(ends));
	fflush(NULL);
	peer_pid = fork();
	assert_int_not_equal(peer_pid, -1);
	if (!peer_pid) {
		dup2(ends[1], STDOUT_FILENO);
		execl("/proc/self/exe", "device_peer", "peer", text, (char *)NULL);
		_exit(PEER_FAILED);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], greeting, sizeof(*greeting)), sizeof(*greeting));
	close(ends[0]);
}

static void kill_peer(void)
{
	int status;

	must(kill(peer_pid, SIGKILL));
	assert_int_equal(waitpid(peer_pid, &status, 0), peer_pid);
	peer_pid = 0;
	assert_true(WIFSIGNALED(status));	/* it had not failed by itself */
}

static int end(void **state)
{
	if (peer_pid > 0)
		kill_peer();
	return device_test_end(state);
}

static void connect_to_peer(struct peer *peer, struct link *link)
{
	struct sockaddr_in to = *(const struct sockaddr_in *)device_address();

	peer->link = link;
	/* With the default timeout, the retries would take half a minute. */
	link->ack_timeout = ACK_TIMEOUT;
	start_peer(&peer->greeting);
	to.sin_port = peer->greeting.port;
	link_resolve(link, RDMA_PS_TCP, (struct sockaddr *)&to);
	link_ask(link);
	take_event(link->channel, RDMA_CM_EVENT_ESTABLISHED);
	peer->sink = region_add(link, rdma_reg_msgs, link->active, BYTES);
}

static int post_read(const struct peer *peer, uint64_t context)
{
	return rdma_post_read(peer->link->active, context_of(context), peer->sink->data,
			      BYTES, peer->sink->mr, IBV_SEND_SIGNALED,
			      peer->greeting.addr, peer->greeting.rkey);
}

/* A send for which the peer has no receive, and reads that have to wait behind it. */
static void post_waiting_reads(const struct peer *peer)
{
	must(rdma_post_sendv(peer->link->active, context_of(0), NULL, 0, IBV_SEND_SIGNALED));
	for (uint64_t i = 1; i <= READS; i++)
		assert_succeeds(post_read(peer, i), 0);
}

/* --- tests ------------------------------------------------------------------------ */

/* The connection manager's events are ignored: the helper alone must not hang. */
static void killed(void **state)
{
	struct peer peer;

	connect_to_peer(&peer, *state);
	post_waiting_reads(&peer);
	kill_peer();
	take_send(peer.link->active, 0, IBV_WC_RETRY_EXC_ERR);
	for (uint64_t i = 1; i <= READS; i++)
		take_send(peer.link->active, i, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(peer.link->active), IBV_QPS_ERR);
	region_guards_hold(peer.sink);
}

/* As the manual says: disconnect when the event reports that the peer is gone. */
static void killed_then_disconnected(void **state)
{
	struct peer peer;

	connect_to_peer(&peer, *state);
	post_waiting_reads(&peer);
	kill_peer();
	take_event(peer.link->channel, RDMA_CM_EVENT_DISCONNECTED);
	must(rdma_disconnect(peer.link->active));
	for (uint64_t i = 0; i <= READS; i++) {
		struct ibv_wc wc = { 0 };

		assert_succeeds(rdma_get_send_comp(peer.link->active, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		/* The retries may have been faster than the event. */
		if (wc.status != IBV_WC_RETRY_EXC_ERR || i)
			assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	region_guards_hold(peer.sink);
}

/* Reads are posted continuously, so that one is in flight when the peer is killed. */
static void killed_while_reading(void **state)
{
	struct ibv_wc wc = { 0 };
	uint64_t posted = 0, taken;
	struct peer peer;

	connect_to_peer(&peer, *state);
	while (posted < READS)
		must(post_read(&peer, posted++));
	take_send(peer.link->active, 0, IBV_WC_SUCCESS);
	kill_peer();
	for (taken = 1; taken < posted; taken++) {
		assert_succeeds(rdma_get_send_comp(peer.link->active, &wc), 1);
		assert_int_equal(wc.wr_id, taken);
		if (wc.status == IBV_WC_SUCCESS)
			must(post_read(&peer, posted++));
	}
	assert_int_not_equal(wc.status, IBV_WC_SUCCESS);
	region_guards_hold(peer.sink);
}

/* --- the extension helpers --------------------------------------------------------- */

static int read_whole(const struct peer *peer, int timeout_ms)
{
	return rdmax_read(peer->link->active, peer->sink->data, BYTES, peer->sink->mr,
			  peer->greeting.addr, peer->greeting.rkey, timeout_ms, NULL, NULL);
}

static atomic_int reads_done;

static void *kill_after_some_reads(void *unused)
{
	while (atomic_load(&reads_done) < READS)
		usleep(100);
	kill_peer();
	return unused;
}

/* A read without a time limit ends with an errno: the device gives up. */
static void killed_while_reading_whole(void **state)
{
	struct peer peer;
	pthread_t killer;
	int error;

	connect_to_peer(&peer, *state);
	atomic_store(&reads_done, 0);
	must(pthread_create(&killer, NULL, kill_after_some_reads, NULL));
	while (!read_whole(&peer, -1))
		atomic_fetch_add(&reads_done, 1);
	error = errno;
	must(pthread_join(killer, NULL));
	print_message("# rdmax_read: %s, after %d reads\n", strerror(error),
		      atomic_load(&reads_done));
	assert_true(atomic_load(&reads_done) >= READS);
	assert_int_equal(error, EHOSTUNREACH);
	assert_fails(read_whole(&peer, -1), ECANCELED);
	assert_succeeds(rdmax_drain(peer.link->active, -1, NULL, NULL), 0);
	region_guards_hold(peer.sink);
}

/* A timeout shorter than the retries: it ends in time, and is then drained. */
static void killed_and_given_up(void **state)
{
	struct peer peer;

	connect_to_peer(&peer, *state);
	assert_succeeds(read_whole(&peer, -1), 0);
	kill_peer();
	assert_fails(read_whole(&peer, 50), ETIMEDOUT);
	assert_fails(read_whole(&peer, 0), ETIMEDOUT);
	assert_succeeds(rdmax_drain(peer.link->active, -1, NULL, NULL), 0);
	region_deregister(peer.sink);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		{ "killed", killed, device_test_begin, end, NULL },
		{ "killed, then disconnected", killed_then_disconnected, device_test_begin,
		  end, NULL },
		{ "killed while reading", killed_while_reading, device_test_begin, end, NULL },
		{ "killed during rdmax_read", killed_while_reading_whole, device_test_begin, end,
		  NULL },
		{ "killed, and rdmax_read given up", killed_and_given_up, device_test_begin, end,
		  NULL },
	};

	if (argc == 3 && !strcmp(argv[1], "peer"))
		return be_peer(argv[2]);
	device_tests_init();
	return cmocka_run_group_tests_name("a peer that is killed", tests, NULL, NULL);
}
