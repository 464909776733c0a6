/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by the examples: error reporting, time limits, a checksum, and the two
 * messages that read_server sends to read_client.
 */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_verbs.h>

#define REGION_MIN	1ULL
#define REGION_MAX	(1ULL << 30)	/* 1 GiB */
#define EXIT_USAGE	2
#define STEP_LIMIT_S	300		/* limit for one step */
#define RETRIES		6		/* not 7: soft-RoCE takes that as forever */

/*
 * The two messages, in network byte order, since the machines' own may differ.
 * Anyone who knows address and rkey can read the region, without involving the
 * server's CPU.
 */
struct region_msg {
	uint64_t addr;
	uint64_t length;
	uint32_t rkey;
	uint32_t reserved;	/* explicit, so that no padding goes over the wire */
};

struct checksum_msg {
	uint64_t fnv1a;
};

static const char *program;		/* "server" or "client" */
static const char *volatile step;	/* current step, for SIGALRM */

/* Prints which call failed and why; returns -1. */
static inline int failed(const char *call, const char *why)
{
	fflush(stdout);
	fprintf(stderr, "%s: %s: %s\n", program, call, why);
	return -1;
}

static inline int failed_errno(const char *call)
{
	return failed(call, strerror(errno));
}

static inline void put(const char *text)
{
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		_exit(EXIT_FAILURE);
}

/* Calls only async-signal-safe functions. */
static inline void out_of_time(int signo)
{
	(void)signo;
	put(program);
	put(": gave up: it took too long to ");
	put(step);
	put("\n");
	_exit(EXIT_FAILURE);
}

/*
 * The verbs helpers wait without a time limit, and a peer that is gone may never
 * cause a completion. An alarm limits each step.
 */
static inline void begin(const char *what)
{
	step = what;
	alarm(STEP_LIMIT_S);
}

static inline int start(const char *name)
{
	struct sigaction action = { .sa_handler = out_of_time };

	program = name;
	step = "start";
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (sigaction(SIGALRM, &action, NULL))
		return failed_errno("sigaction");
	return 0;
}

/* Flags: RAI_PASSIVE to listen, 0 to connect. */
static inline int resolve(const char *address, const char *port, int flags,
			  struct rdma_addrinfo **result)
{
	struct rdma_addrinfo hints = {
		.ai_flags = flags,
		.ai_port_space = RDMA_PS_TCP,	/* reliable, connected */
	};
	int ret = rdma_getaddrinfo(address, port, &hints, result);

	/* Either -1 and errno, or one of getaddrinfo's codes. */
	if (ret == -1)
		return failed_errno("rdma_getaddrinfo");
	if (ret)
		return failed("rdma_getaddrinfo", gai_strerror(ret));
	return 0;
}

/*
 * As many concurrent reads as both devices allow: the connection uses the smaller
 * of what one side requests and the other grants. With 0 on either side no RDMA
 * read could ever complete.
 */
static inline struct rdma_conn_param read_param(void)
{
	return (struct rdma_conn_param){
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = RETRIES,
	};
}

/*
 * A post that returned 0 has only been queued. Only the status of its completion
 * tells the outcome.
 */
static inline int succeeded(const char *what, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	fflush(stdout);
	fprintf(stderr, "%s: %s: %s (completion status %d)\n", program, what,
		ibv_wc_status_str(wc->status), (int)wc->status);
	return -1;
}

/*
 * Wait until `fd`, of a completion channel, is readable, and watch the
 * connection meanwhile. A peer that is gone is told by an event within a second;
 * a request to it fails only when all retries have run out, and a receive
 * from it may never complete. The event is left in its channel: what is there after
 * the connection was made is its end, and rdma_disconnect takes it.
 */
static inline int await_readable(const struct rdma_cm_id *id, int fd)
{
	struct pollfd fds[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = id->channel->fd, .events = POLLIN },
	};
	int n;

	do
		n = poll(fds, 2, -1);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return failed_errno("poll");
	if (!fds[0].revents)
		return failed("wait for a completion", "the peer has disconnected");
	return 0;
}

/* Prints the device of a connection and the host name. */
static inline int print_device(const struct rdma_cm_id *id)
{
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1))
		return failed_errno("gethostname");
	printf("%s: device %s port %u on %s\n", program,
	       ibv_get_device_name(id->verbs->device), id->port_num, host);
	return 0;
}

/* FNV-1a, 64 bit: any changed byte changes the result. */
static inline uint64_t fnv1a(const void *data, size_t length)
{
	const unsigned char *byte = data;
	uint64_t hash = 0xcbf29ce484222325;	/* offset basis */

	for (size_t i = 0; i < length; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3;	/* prime */
	return hash;
}

#endif
