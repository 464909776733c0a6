// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: unusual NAME
 *
 * Correct but unusual programs, on the provider of fake_ibverbs.c. They exit with 0, and
 * check finds nothing.
 */
#define _GNU_SOURCE
#include "fake_mlx5.h"
#include "objects.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_all(void)
{
	require(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq), "destroy");
	require(!mr || !ibv_dereg_mr(mr), "ibv_dereg_mr");
	require(!ibv_dealloc_pd(pd) && !ibv_close_device(context), "close");
}

static void post_send(void)
{
	send_on(qp, mr->lkey);
}

/* A region that a library deregisters in its destructor. */
static void late_destructor(void)
{
	open_all();
	fake_dereg_at_exit(mr);
}

/* On iWARP, the kernel connects queue pairs: libibverbs sees none of the state changes. */
static void iwarp(void)
{
	ibv_get_device_list(NULL)[0]->transport_type = IBV_TRANSPORT_IWARP;
	open_all();
	qp->state = IBV_QPS_INIT;
	post_send();
	poll_one();
	/* Then it is disconnected, and this one is flushed. */
	post_send();
	close_all();
}

/* Objects created by providers' own functions are used like any other. */
static void providers_objects(void)
{
	struct ibv_cq_init_attr_ex cq_attributes = { .cqe = 4 };
	struct ibv_qp_init_attr_ex extended = {
		.qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};
	struct ibv_qp_init_attr plain = { .qp_type = IBV_QPT_DRIVER, .cap = extended.cap };
	struct ibv_cq_ex *cqs[2];
	struct ibv_qp *qps[4];
	struct ibv_mr *device_mr;

	open_all();
	cqs[0] = mlx5dv_create_cq(context, &cq_attributes, NULL);
	cqs[1] = efadv_create_cq(context, &cq_attributes, NULL, 0);
	extended.pd = pd;
	extended.send_cq = extended.recv_cq = plain.send_cq = plain.recv_cq = cq;
	qps[0] = mlx5dv_create_qp(context, &extended, NULL);
	qps[1] = hnsdv_create_qp(context, &extended, NULL);
	qps[2] = efadv_create_qp_ex(context, &extended, NULL, 0);
	qps[3] = efadv_create_driver_qp(pd, &plain, 0);
	device_mr = mlx5dv_reg_dmabuf_mr(pd, 0, sizeof(memory), (uintptr_t)memory, 0, 0, 0);
	for (int i = 0; i < 4; i++) {
		send_on(qps[i], device_mr->lkey);
		poll_one();
		require(!ibv_destroy_qp(qps[i]), "ibv_destroy_qp");
	}
	for (int i = 0; i < 2; i++)
		require(!ibv_destroy_cq(ibv_cq_ex_to_cq(cqs[i])), "ibv_destroy_cq");
	require(!ibv_dereg_mr(device_mr), "ibv_dereg_mr");
	/* A key that the program made itself. */
	require(mlx5dv_create_mkey(NULL) != NULL, "mlx5dv_create_mkey");
	send_on(qp, 0x4711);
	poll_one();
	close_all();
}

/* Reads completions from the memory of the device. */
static void direct_polling(void)
{
	const uint64_t completion_queue = 2;

	open_all();
	mlx5dv_init_obj(cq, completion_queue);
	post_send();
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	mr = NULL;
	close_all();
}

static void *event_later(void *nothing)
{
	usleep(1500000);
	fake_event(cq);
	return nothing;
}

static void get_event(void)
{
	struct ibv_cq *which;
	void *of;

	require(!ibv_get_cq_event(channel, &which, &of), "ibv_get_cq_event");
	ibv_ack_cq_events(which, 1);
}

/* Three events come before the first one is read, and each arming raises one. */
static void armed_ahead(void)
{
	pthread_t thread;

	open_all();
	for (int i = 0; i < 3; i++) {
		require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		fake_event(cq);
	}
	get_event();
	require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	get_event();
	get_event();
	require(!pthread_create(&thread, NULL, event_later, NULL), "pthread_create");
	get_event();
	pthread_join(thread, NULL);
	close_all();
}

static void wait_not(void)
{
	struct ibv_cq *which;
	void *of;

	require(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
	for (int i = 0; i < 2000; i++)
		require(ibv_get_cq_event(channel, &which, &of) && errno == EAGAIN, "no event");
}

/* Whether there is an event is asked without waiting. That starts no thread. */
static void asks_for_events(void)
{
	struct stat tasks;

	open_all();
	wait_not();
	/* Two links, and one for each thread. */
	require(!stat("/proc/self/task", &tasks) && tasks.st_nlink == 3, "threads");
	close_all();
}

static void *arm_later(void *nothing)
{
	while (!fake_waits())
		usleep(1000);
	/* Longer than anybody could think that it hangs. */
	usleep(1200000);
	require(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
	fake_event(cq);
	return nothing;
}

/* One thread waits before another one arms the queue. */
static void armed_by_another(void)
{
	pthread_t thread;

	open_all();
	require(!pthread_create(&thread, NULL, arm_later, NULL), "pthread_create");
	get_event();
	pthread_join(thread, NULL);
	close_all();
}

/* The alternate signal stack is of the usual size, with nothing below it. */
static void small_signal_stack(void)
{
	const size_t size = 8192, page = (size_t)sysconf(_SC_PAGESIZE);
	char *area = mmap(NULL, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = area + page, .ss_size = size };

	require(area != MAP_FAILED, "mmap");
	require(!mprotect(area + page, size, PROT_READ | PROT_WRITE), "mprotect");
	require(!sigaltstack(&stack, NULL), "sigaltstack");
	open_all();
	post_send();
	poll_one();
	raise(SIGUSR1);
	close_all();
}

void *__libc_malloc(size_t size);
static volatile int must_not_allocate;

/* Replaces the C library's: a handler that interrupts it must not call it. */
void *malloc(size_t size)
{
	if (must_not_allocate)
		abort();
	return __libc_malloc(size);
}

static void *is_interrupted(void *nothing)
{
	must_not_allocate = 1;
	raise(SIGUSR1);
	must_not_allocate = 0;
	return nothing;
}

/* A signal reaches a thread that has used no verbs while it allocates memory. */
static void signal_in_malloc(void)
{
	pthread_t thread;

	open_all();
	require(!pthread_create(&thread, NULL, is_interrupted, NULL), "pthread_create");
	pthread_join(thread, NULL);
	close_all();
}

static volatile int enough;

/* Makes, uses and destroys regions and queue pairs, in a context of its own. */
static void use_verbs(int rounds)
{
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 4, .max_send_sge = 1 },
	};
	struct ibv_context *own = ibv_open_device(ibv_get_device_list(NULL)[0]);
	struct ibv_pd *own_pd = ibv_alloc_pd(own);
	struct ibv_cq *own_cq = ibv_create_cq(own, 16, NULL, NULL, 0);

	attributes.send_cq = attributes.recv_cq = own_cq;
	for (int i = 0; i < rounds && !enough; i++) {
		struct ibv_mr *own_mr = ibv_reg_mr(own_pd, memory, sizeof(memory), 0);
		struct ibv_qp *own_qp = ibv_create_qp(own_pd, &attributes);
		struct ibv_wc wc;

		send_on(own_qp, own_mr->lkey);
		require(ibv_poll_cq(own_cq, 1, &wc) == 1, "ibv_poll_cq");
		require(!ibv_destroy_qp(own_qp) && !ibv_dereg_mr(own_mr), "ibv_dereg_mr");
	}
	require(!ibv_destroy_cq(own_cq) && !ibv_dealloc_pd(own_pd) && !ibv_close_device(own),
		"ibv_close_device");
}

static void *use_until_enough(void *nothing)
{
	use_verbs(1 << 30);
	return nothing;
}

/* Whatever locks the other threads hold, the child must be able to continue. */
static void forks_among_threads(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		require(!pthread_create(&threads[i], NULL, use_until_enough, NULL), "thread");
	for (int i = 0; i < 150; i++) {
		pid_t child = fork();
		int status;

		require(child >= 0, "fork");
		if (child == 0) {
			alarm(20);
			use_verbs(5);
			_exit(0);
		}
		require(waitpid(child, &status, 0) == child, "waitpid");
		if (status)
			printf("child %d: status %#x\n", i, (unsigned int)status);
		require(status == 0, "child");
	}
	enough = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void leave(int number)
{
	(void)number;
	exit(0);
}

/*
 * The signal may arrive in the middle of a post, as many programs end. Unfinished work may
 * then be reported.
 */
static void exits_in_a_handler(void)
{
	struct itimerval soon = { .it_value.tv_usec = 20000 };

	open_all();
	signal(SIGALRM, leave);
	require(!setitimer(ITIMER_REAL, &soon, NULL), "setitimer");
	for (;;) {
		post_send();
		poll_one();
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} programs[] = {
	{ "late-destructor", late_destructor },
	{ "iwarp", iwarp },
	{ "direct-polling", direct_polling },
	{ "providers-objects", providers_objects },
	{ "armed-ahead", armed_ahead },
	{ "armed-by-another", armed_by_another },
	{ "asks-for-events", asks_for_events },
	{ "forks-among-threads", forks_among_threads },
	{ "exits-in-a-handler", exits_in_a_handler },
	{ "small-signal-stack", small_signal_stack },
	{ "signal-in-malloc", signal_in_malloc },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], programs[i].name)) {
			programs[i].run();
			return 0;
		}
	}
	return 2;
}
