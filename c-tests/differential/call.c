/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "differential.h"

#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(helper) #helper,
const char *const helper_names[HELPERS] = { FOR_EACH_HELPER(NAME) };
_Static_assert(sizeof(struct helpers) == HELPERS * sizeof(void (*)(void)),
	       "enum helper names them all");

/* --- surviving ----------------------------------------------------------------------- */

static sigjmp_buf before_attempt;
static volatile sig_atomic_t attempting;
static volatile enum ending ending;
static const void *volatile fault;

static void on_signal(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	if (!attempting) {
		/* Not the helper's crash: restore the default action and let it happen. */
		signal(signal_number, SIG_DFL);
		raise(signal_number);
		return;
	}
	fault = signal_number == SIGSEGV ? info->si_addr : NULL;
	ending = signal_number == SIGABRT ? ABORTED : CRASHED;
	siglongjmp(before_attempt, 1);
}

void attempt_aborted(void)
{
	if (!attempting)
		abort();
	ending = ABORTED;
	siglongjmp(before_attempt, 1);
}

/* Replaces the C library's, which would print to standard error. */
void __assert_fail(const char *assertion, const char *file, unsigned int line,
		   const char *function)
{
	if (!attempting)
		fprintf(stderr, "%s:%u: %s: %s\n", file, line, function, assertion);
	attempt_aborted();
}

void catch_crashes(void)
{
	static char stack[64 * 1024];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	/* SA_NODEFER: the handler is left by a jump that restores no signal mask,
	   which would cost a system call each time. */
	struct sigaction action = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER,
	};

	sigemptyset(&action.sa_mask);
	if (sigaltstack(&alternate, NULL) || sigaction(SIGSEGV, &action, NULL) ||
	    sigaction(SIGBUS, &action, NULL) || sigaction(SIGABRT, &action, NULL)) {
		perror("catch_crashes");
		exit(1);
	}
}

enum ending attempt(void (*function)(const void *), const void *argument)
{
	ending = RETURNED;
	fault = NULL;
	attempting = 1;
	if (sigsetjmp(before_attempt, 0) == 0)
		function(argument);
	attempting = 0;
	return ending;
}

const void *fault_address(void)
{
	return fault;
}

/* --- calling ------------------------------------------------------------------------- */

struct ibv_wc completion;

static struct {
	const struct helpers *helpers;
	intptr_t result;
	int error;
} call;

static void prepare(const struct scenario *s)
{
	struct ibv_context_ops *ops = &fake.context.ops;
	static struct ibv_context_ops all;
	bool send_side = s->helper == GET_SEND_COMP;

	if (!all.post_send) {
		fake_reset();
		all = *ops;
	}
	*ops = all;
	if (s->lacks & LACKS_POST_SEND)
		ops->post_send = NULL;
	if (s->lacks & LACKS_POST_RECV)
		ops->post_recv = NULL;
	if (s->lacks & LACKS_POST_SRQ_RECV)
		ops->post_srq_recv = NULL;
	if (s->lacks & LACKS_POLL_CQ)
		ops->poll_cq = NULL;
	if (s->lacks & LACKS_REQ_NOTIFY_CQ)
		ops->req_notify_cq = NULL;

	fake.id.pd = s->pd;
	fake.id.qp = s->qp;
	fake.id.srq = s->srq;
	fake.id.send_cq = send_side ? s->cq : &fake.send_cq;
	fake.id.recv_cq = send_side ? &fake.recv_cq : s->cq;
	fake.id.send_cq_channel = send_side ? s->channel : &fake.send_channel;
	fake.id.recv_cq_channel = send_side ? &fake.recv_channel : s->channel;
	fake.send_cq.cq_context = s->cq_context;
	fake.recv_cq.cq_context = s->cq_context;
	fake.mr.addr = s->region_addr;
	fake.mr.length = s->region_length;
	fake.mr.lkey = s->lkey;

	fake.armed = NULL;
	fake.calls = 0;
	fake.next_reply = 0;
	fake.replies = s->replies;
	memcpy(fake.reply, s->reply, sizeof(*s->reply) * (size_t)s->replies);
}

/* Makes visible what a function leaves unset on its stack. */
static __attribute__((noinline)) void paint_stack(void)
{
	unsigned char room[1024];

	memset(room, PATTERN, sizeof(room));
	__asm__ volatile("" : : "r"(room) : "memory");
}

static __attribute__((noinline)) intptr_t invoke(const struct helpers *h,
						 const struct scenario *s)
{
	switch (s->helper) {
	case REG_MSGS:
		return (intptr_t)h->rdma_reg_msgs(s->id, s->addr, s->length);
	case REG_READ:
		return (intptr_t)h->rdma_reg_read(s->id, s->addr, s->length);
	case REG_WRITE:
		return (intptr_t)h->rdma_reg_write(s->id, s->addr, s->length);
	case DEREG_MR:
		return h->rdma_dereg_mr(s->mr);
	case POST_RECVV:
		return h->rdma_post_recvv(s->id, s->context, s->sgl, s->nsge);
	case POST_SENDV:
		return h->rdma_post_sendv(s->id, s->context, s->sgl, s->nsge, s->flags);
	case POST_READV:
		return h->rdma_post_readv(s->id, s->context, s->sgl, s->nsge, s->flags,
					  s->remote_addr, s->rkey);
	case POST_WRITEV:
		return h->rdma_post_writev(s->id, s->context, s->sgl, s->nsge, s->flags,
					   s->remote_addr, s->rkey);
	case POST_RECV:
		return h->rdma_post_recv(s->id, s->context, s->addr, s->length, s->mr);
	case POST_SEND:
		return h->rdma_post_send(s->id, s->context, s->addr, s->length, s->mr,
					 s->flags);
	case POST_READ:
		return h->rdma_post_read(s->id, s->context, s->addr, s->length, s->mr,
					 s->flags, s->remote_addr, s->rkey);
	case POST_WRITE:
		return h->rdma_post_write(s->id, s->context, s->addr, s->length, s->mr,
					  s->flags, s->remote_addr, s->rkey);
	case POST_UD_SEND:
		return h->rdma_post_ud_send(s->id, s->context, s->addr, s->length, s->mr,
					    s->flags, s->ah, s->remote_qpn);
	case GET_SEND_COMP:
		return h->rdma_get_send_comp(s->id, s->wc);
	case GET_RECV_COMP:
		return h->rdma_get_recv_comp(s->id, s->wc);
	case HELPERS:
		break;
	}
	abort();
}

static void call_helper(const void *scenario)
{
	const struct scenario *s = scenario;

	paint_stack();
	errno = s->errno_before;
	call.result = invoke(call.helpers, s);
	call.error = errno;
}

void make_call(const struct helpers *helpers, const struct scenario *s, struct outcome *o)
{
	prepare(s);
	memset(&completion, PATTERN, sizeof(completion));
	call.helpers = helpers;
	call.result = 0;
	call.error = 0;
	o->ending = attempt(call_helper, s);
	o->fault = fault_address();
	o->result = call.result;
	o->error = call.error;
	o->wc = completion;
	o->calls = fake.calls;
	memcpy(o->call, fake.call, sizeof(*fake.call) * (size_t)fake.calls);
}
