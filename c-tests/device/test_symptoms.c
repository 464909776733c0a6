/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Failures in docs/troubleshooting.md that no other test covers: who gets which errno or
 * status. The values are those of the manual pages and the kernel.
 */
#include "device.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 4096, SHORT = 16, NOBODY = 65534 };
enum { RECEIVE = 1, SEND = 2 };

/* --- completions ------------------------------------------------------------------- */

static void take_either(int (*get)(struct rdma_cm_id *, struct ibv_wc *),
			struct rdma_cm_id *id, uint64_t context,
			enum ibv_wc_status specified, enum ibv_wc_status rxe)
{
	take_completion(get, id, context, device_is_rxe(id) ? rxe : specified, __FILE__,
			__LINE__);
}

static void message_too_long(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->passive, BYTES);

	must(rdma_post_recv(link->passive, context_of(RECEIVE), to->data, SHORT, to->mr));
	must(rdma_post_send(link->active, context_of(SEND), from->data, BYTES, from->mr,
			    IBV_SEND_SIGNALED));
	/* Linux 6.1 reports everything that is wrong with a receive in the same way. */
	take_either(rdma_get_recv_comp, link->passive, RECEIVE, IBV_WC_LOC_LEN_ERR,
		    IBV_WC_LOC_QP_OP_ERR);
	take_either(rdma_get_send_comp, link->active, SEND, IBV_WC_REM_INV_REQ_ERR,
		    IBV_WC_REM_OP_ERR);
	region_guards_hold(to);
}

static void receive_deregistered(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->passive, BYTES);

	must(rdma_post_recv(link->passive, context_of(RECEIVE), to->data, BYTES, to->mr));
	region_deregister(to);
	must(rdma_post_send(link->active, context_of(SEND), from->data, BYTES, from->mr,
			    IBV_SEND_SIGNALED));
	take_either(rdma_get_recv_comp, link->passive, RECEIVE, IBV_WC_LOC_PROT_ERR,
		    IBV_WC_LOC_QP_OP_ERR);
	take_send(link->active, SEND, IBV_WC_REM_OP_ERR);
}

/* The accepting side determines how often a send is retried. */
static void no_receive(void **state)
{
	struct rdma_conn_param once = { .rnr_retry_count = 1 };
	struct link *link = *state;
	struct region *from;

	link_open(link, RDMA_PS_TCP);
	link_request(link);
	link_create_qp(link, link->passive);
	must(rdma_accept(link->passive, &once));
	take_event(link->channel, RDMA_CM_EVENT_ESTABLISHED);
	take_event(link->channel, RDMA_CM_EVENT_ESTABLISHED);
	from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	must(rdma_post_send(link->active, context_of(SEND), from->data, BYTES, from->mr,
			    IBV_SEND_SIGNALED));
	take_send(link->active, SEND, IBV_WC_RNR_RETRY_EXC_ERR);
}

/* --- errno ------------------------------------------------------------------------- */

static void memory_that_cannot_be_registered(void **state)
{
	char *map = mmap(NULL, 2 * BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct link *link = *state;

	assert_ptr_not_equal(map, MAP_FAILED);
	link_open(link, RDMA_PS_TCP);
	assert_null(rdma_reg_msgs(link->listener, map, BYTES));
	assert_int_equal(errno, EFAULT);
	must(munmap(map, 2 * BYTES));
	assert_null(rdma_reg_msgs(link->listener, map, BYTES));
	assert_int_equal(errno, EFAULT);
}

/* The errno of a registration on any device, 0 if it succeeds; -1 for another failure. */
static int register_with_limit(rlim_t limit)
{
	static char memory[256 * BYTES];
	struct rlimit locked = { .rlim_cur = limit, .rlim_max = limit };
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct rdma_cm_id id = { 0 };

	if (setrlimit(RLIMIT_MEMLOCK, &locked) || (!getuid() && setuid(NOBODY)) ||
	    !devices || !devices[0])
		return -1;
	id.verbs = ibv_open_device(devices[0]);
	id.pd = id.verbs ? ibv_alloc_pd(id.verbs) : NULL;
	if (!id.pd)
		return -1;
	return rdma_reg_msgs(&id, memory, sizeof(memory)) ? 0 : errno;
}

/* What the call, which must not assert anything, returns in a separate process. */
#define in_child(call)                                        \
	({                                                    \
		int status = 0;                               \
		pid_t pid = fork();                           \
		assert_int_not_equal(pid, -1);                \
		if (!pid)                                     \
			_exit(call);                          \
		assert_int_equal(waitpid(pid, &status, 0), pid); \
		assert_true(WIFEXITED(status));               \
		WEXITSTATUS(status);                          \
	})

static void limit_of_locked_memory(void **state)
{
	(void)state;
	(void)device_address();
	assert_int_equal(in_child(register_with_limit(64 * 1024)), ENOMEM);
	assert_int_equal(in_child(register_with_limit(0)), EPERM);
}

static int errno_of_disconnect(struct rdma_cm_id *id)
{
	return rdma_disconnect(id) ? errno : 0;
}

/* The kernel refuses processes other than the one that opened the file. */
static void user_changed(void **state)
{
	struct link *link = connected(state);

	if (getuid())
		skip_because("only root can change the user");
	assert_int_equal(in_child(setuid(NOBODY) ? 0 : errno_of_disconnect(link->active)),
			 EACCES);
	disconnect(link);
}

static void still_in_use(void **state)
{
	struct link *link = *state;

	link_open(link, RDMA_PS_TCP);
	link_create_qp(link, link->active);
	region_add(link, rdma_reg_msgs, link->active, BYTES);
	assert_int_equal(ibv_destroy_cq(link->active->send_cq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(link->pd), EBUSY);
}

/* errno of rdma_bind_addr, 0 for success; *bound says whether it found a device. */
static int bind_to(struct link *link, struct sockaddr *addr, int *bound)
{
	struct rdma_cm_id *id;
	int error;

	must(rdma_create_id(link->channel, &id, NULL, RDMA_PS_TCP));
	error = rdma_bind_addr(id, addr) ? errno : 0;
	*bound = id->verbs != NULL;
	if (!*bound) {
		assert_null(rdma_reg_msgs(id, link, sizeof(*link)));
		assert_int_equal(errno, EINVAL);
	}
	must(rdma_destroy_id(id));
	return error;
}

static void addresses(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	struct link *link = *state;
	int bound;

	link_open(link, RDMA_PS_TCP);
	assert_int_equal(bind_to(link, rdma_get_local_addr(link->listener), &bound),
			 EADDRINUSE);
	/* An address of a network without RDMA can be bound, but has no device. */
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind_to(link, (struct sockaddr *)&addr, &bound), 0);
	assert_false(bound);
	inet_pton(AF_INET, "203.0.113.1", &addr.sin_addr);	/* RFC 5737: nobody's */
	assert_int_equal(bind_to(link, (struct sockaddr *)&addr, &bound), EADDRNOTAVAIL);
}

/* --- fork ------------------------------------------------------------------------- */

/* Even with a child that shares the pages, the parent's new data must be sent. */
static void data_after_fork(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_read, link->passive, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->active, BYTES);
	int pipes[2], status;
	pid_t pid;
	char end;

	if (ibv_is_fork_initialized() == IBV_FORK_DISABLED)
		skip_because("the kernel does not copy pinned pages at fork");
	region_fill(from, 1);
	must(pipe(pipes));
	pid = fork();
	if (!pid) {
		close(pipes[1]);
		_exit(read(pipes[0], &end, 1) != 0);
	}
	assert_int_not_equal(pid, -1);
	region_fill(from, 2);
	must(rdma_post_read(link->active, context_of(SEND), to->data, BYTES, to->mr,
			    IBV_SEND_SIGNALED, remote_address(from), from->mr->rkey));
	take_send(link->active, SEND, IBV_WC_SUCCESS);
	region_holds(to, 2);
	close(pipes[0]);
	close(pipes[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(message_too_long),
		DEVICE_TEST(receive_deregistered),
		DEVICE_TEST(no_receive),
		DEVICE_TEST(memory_that_cannot_be_registered),
		DEVICE_TEST(limit_of_locked_memory),
		DEVICE_TEST(user_changed),
		DEVICE_TEST(still_in_use),
		DEVICE_TEST(addresses),
		DEVICE_TEST(data_after_fork),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("symptoms on a device", tests, NULL, NULL);
}
