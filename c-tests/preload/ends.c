// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * usage: ends NAME
 *
 * Programs that end in all sorts of ways, on the provider of fake_ibverbs.c. Each posts
 * three requests, takes their completions and leaves a region registered; the exit
 * status is 7 unless a signal ends it.
 */
#define _GNU_SOURCE
#include "objects.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void send_three(void)
{
	for (int i = 0; i < 3; i++) {
		send_on(qp, mr->lkey);
		poll_one();
	}
}

static void work(void)
{
	open_all();
	send_three();
}

static void by_exit(void)
{
	work();
	exit(7);
}

static void by__exit(void)
{
	work();
	_exit(7);
}

static void by__Exit(void)
{
	work();
	_Exit(7);
}

static void by_quick_exit(void)
{
	work();
	quick_exit(7);
}

static pthread_t main_thread;

static void *outlives_main(void *nothing)
{
	pthread_join(main_thread, NULL);
	work();
	return nothing;
}

/* The status of a process whose last thread has ended is 0. */
static void by_last_thread(void)
{
	pthread_t thread;

	main_thread = pthread_self();
	require(!pthread_create(&thread, NULL, outlives_main, NULL), "pthread_create");
	pthread_exit(NULL);
}

static void leave(int number)
{
	(void)number;
	_exit(7);
}

/* What the handler has interrupted may hold any lock. */
static void by_handler(void)
{
	work();
	signal(SIGTERM, leave);
	raise(SIGTERM);
}

static void by_signal(void)
{
	work();
	raise(SIGTERM);
}

void *__libc_malloc(size_t size);
static volatile int must_not_allocate;

/* In place of the C library's: whoever interrupts it must not call it. */
void *malloc(size_t size)
{
	if (must_not_allocate)
		abort();
	return __libc_malloc(size);
}

static void *is_interrupted(void *nothing)
{
	must_not_allocate = 1;
	raise(SIGTERM);
	return nothing;
}

/* The signal comes to a thread that has used no verbs, while it allocates memory. */
static void by_signal_in_malloc(void)
{
	pthread_t thread;

	work();
	require(!pthread_create(&thread, NULL, is_interrupted, NULL), "pthread_create");
	pthread_join(thread, NULL);
}

static void by_handler_in_malloc(void)
{
	signal(SIGTERM, leave);
	by_signal_in_malloc();
}

static void wait_for(pid_t child)
{
	int status;

	require(waitpid(child, &status, 0) == child, "waitpid");
	require(WIFEXITED(status) && WEXITSTATUS(status) == 7, "child");
}

/* Only the child uses a device. */
static void in_child(void)
{
	pid_t child = fork();

	require(child >= 0, "fork");
	if (child == 0)
		by__exit();
	wait_for(child);
	exit(7);
}

/* The child uses what its parent has made; the parent does not use it itself. */
static void inherited(void)
{
	pid_t child;

	open_all();
	child = fork();
	require(child >= 0, "fork");
	if (child == 0) {
		send_three();
		exit(7);
	}
	wait_for(child);
	exit(7);
}

/* The child ends in the memory of its parent, which goes on. */
static void after_vfork(void)
{
	pid_t child;

	open_all();
	child = vfork();
	if (child == 0) {
		for (int i = 3; i < 2000; i++)
			close(i);
		dup2(1, 1000);
		_exit(7);
	}
	wait_for(child);
	send_three();
	exit(7);
}

/* --- descriptors --------------------------------------------------------------------- */

static void close_one_by_one(void)
{
	for (int i = 3; i < 2000; i++)
		close(i);
}

static void close_with_closefrom(void)
{
	closefrom(3);
}

static void close_with_range(void)
{
	require(!close_range(3, ~0U, 0), "close_range");
}

static void (*close_all)(void);

static void as_daemon(void)
{
	open_all();
	send_three();
	close_all();
	/* Nothing but the standard streams is open. */
	require(dup(1) == 3, "dup");
	send_three();
	exit(7);
}

/* All numbers become the program's own, and what is written to them. */
static void takes_all_numbers(void)
{
	FILE *file = tmpfile();
	int own = file ? fileno(file) : -1;
	char byte;

	open_all();
	require(file != NULL, "tmpfile");
	for (int i = own + 1; i < 1020; i++)
		require(dup2(own, i) == i, "dup2");
	send_three();
	require(pread(own, &byte, 1, 0) == 0, "the program's file");
	exit(7);
}

/* --- two things at a time ------------------------------------------------------------ */

static volatile int stage;

static void *post_faulty(void *nothing)
{
	stage = 1;
	send_on(qp, 0x4711);
	poll_one();
	return nothing;
}

/* The program ends while another thread is told of its fault. */
static void during_finding(void)
{
	pthread_t thread;

	open_all();
	require(!pthread_create(&thread, NULL, post_faulty, NULL), "pthread_create");
	while (!stage)
		;
	exit(7);
}

/* Whether a thread runs a handler: all signals are blocked there. */
static int is_in_handler(pid_t thread)
{
	char name[64], line[128];
	int blocked = 0;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", thread);
	file = fopen(name, "r");
	while (file && fgets(line, sizeof(line), file))
		blocked |= !strncmp(line, "SigBlk:\tfffffff", 15);
	if (file)
		fclose(file);
	return blocked;
}

static void *first_signal(void *nothing)
{
	stage = gettid();
	raise(SIGTERM);
	return nothing;
}

/* The second signal comes while the first one's handler writes the table. */
static void two_signals(void)
{
	pthread_t thread;

	work();
	require(!pthread_create(&thread, NULL, first_signal, NULL), "pthread_create");
	while (!stage || !is_in_handler(stage))
		usleep(1000);
	puts("second");
	fflush(stdout);
	raise(SIGTERM);
}

static void *wait_unarmed(void *nothing)
{
	struct ibv_cq *which;
	void *of;

	ibv_get_cq_event(channel, &which, &of);
	return nothing;
}

/* A thread waits for an event that nobody asks for. */
static void while_waiting(void)
{
	pthread_t thread;

	work();
	require(!pthread_create(&thread, NULL, wait_unarmed, NULL), "pthread_create");
	while (!fake_waits())
		usleep(1000);
	raise(SIGTERM);
}

/* There is no other thread that could ask for it. */
static void waiting_alone(void)
{
	work();
	alarm(1);
	wait_unarmed(NULL);
}

/* A region gets another length; another one comes from elsewhere, and goes. */
static void registered_again(void)
{
	struct ibv_mr *imported;

	open_all();
	require(!ibv_dereg_mr(mr), "ibv_dereg_mr");
	mr = ibv_reg_mr(pd, memory, 1000, IBV_ACCESS_LOCAL_WRITE);
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 3000, 0), "rereg");
	require(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), "rereg");
	imported = ibv_import_mr(pd, 1);
	ibv_unimport_mr(imported);
	exit(7);
}

/* The address space as one region: implicit ODP. */
static void all_memory(void)
{
	open_all();
	require(ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND) != NULL, "ibv_reg_mr");
	exit(7);
}

static const struct {
	const char *name;
	void (*run)(void);
	void (*close_all)(void);
} programs[] = {
	{ "exit", by_exit, NULL },
	{ "_exit", by__exit, NULL },
	{ "_Exit", by__Exit, NULL },
	{ "quick_exit", by_quick_exit, NULL },
	{ "last-thread", by_last_thread, NULL },
	{ "handler", by_handler, NULL },
	{ "signal", by_signal, NULL },
	{ "signal-in-malloc", by_signal_in_malloc, NULL },
	{ "handler-in-malloc", by_handler_in_malloc, NULL },
	{ "in-child", in_child, NULL },
	{ "inherited", inherited, NULL },
	{ "after-vfork", after_vfork, NULL },
	{ "daemon-close", as_daemon, close_one_by_one },
	{ "daemon-closefrom", as_daemon, close_with_closefrom },
	{ "daemon-close_range", as_daemon, close_with_range },
	{ "takes-all-numbers", takes_all_numbers, NULL },
	{ "during-finding", during_finding, NULL },
	{ "two-signals", two_signals, NULL },
	{ "while-waiting", while_waiting, NULL },
	{ "waiting-alone", waiting_alone, NULL },
	{ "registered-again", registered_again, NULL },
	{ "all-memory", all_memory, NULL },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		if (argc == 2 && !strcmp(argv[1], programs[i].name)) {
			close_all = programs[i].close_all;
			programs[i].run();
		}
	}
	return 2;
}
