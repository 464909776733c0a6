/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Shared by epoll_server, atomic_counter and kv_lookup: the two roles of each program,
 * waits with a timeout, and a server that offers a region of its memory to several
 * clients without being involved in their accesses.
 */
#ifndef EXAMPLES_EXT_COMMON_H
#define EXAMPLES_EXT_COMMON_H

#include <ctype.h>
#include <stddef.h>

#include "common.h"

#include <rdma/rdma_verbs_ext.h>

#define MAX_CLIENTS	64
#define WAIT_MS		30000	/* limit for draining */

/* A number from 1 to `max`, or -1. */
static inline int parse_count(const char *text, int max)
{
	char *end;
	long count;

	if (!isdigit((unsigned char)*text))
		return -1;	/* strtol accepts blanks and signs */
	count = strtol(text, &end, 10);
	return *end || count < 1 || count > max ? -1 : (int)count;
}

static inline int usage(const char *name)
{
	fprintf(stderr, "usage: %s server ADDRESS CLIENTS | "
		"%s client ADDRESS PORT\n", name, name);
	return EXIT_USAGE;
}

/* Each program is both server and client. Returns the exit status. */
static inline int run_role(int argc, char **argv, const char *name,
			   int (*server)(const char *address, int clients),
			   int (*client)(const char *address, const char *port))
{
	int clients, ret;

	if (argc != 4 || (strcmp(argv[1], "server") && strcmp(argv[1], "client")))
		return usage(name);
	if (start(argv[1]))
		return EXIT_FAILURE;
	if (!strcmp(program, "client")) {
		ret = client(argv[2], argv[3]);
	} else {
		clients = parse_count(argv[3], MAX_CLIENTS);
		if (clients < 0) {
			fprintf(stderr, "server: bad number of clients '%s': "
				"1 to %d\n", argv[3], MAX_CLIENTS);
			return EXIT_USAGE;
		}
		ret = server(argv[2], clients);
	}
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* --- completions ---------------------------------------------------------------- */

/* Among the requests of a queue, only the first failure tells the cause. */
static inline int completed(const char *what, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	return failed(what, rdmax_wc_strerror(wc));
}

/*
 * Waits for the signaled request at the end of a batch. Requests of a send queue
 * complete in order, so all before it are done as well. A failed request produces a
 * completion even if it is unsignaled, so no failure is missed.
 */
static inline int await_batch(struct rdma_cm_id *id, const char *what)
{
	struct ibv_wc wc;
	int n;

	/* One that finds nothing has armed the queue. */
	while (!(n = rdmax_get_send_comp(id, &wc, 0)))
		if (await_readable(id, rdmax_send_comp_fd(id)))
			return -1;
	if (n < 0)
		return failed_errno("rdmax_get_send_comp");
	return completed(what, &wc);
}

/* --- the client of a region ------------------------------------------------------- */

struct peer {
	struct rdma_addrinfo *address;
	struct rdma_cm_id *id;
	int connected;
	struct region_msg region;	/* in host byte order */
};

/* The reply to a connection request carries a few bytes of data: the region. */
static inline int take_region(struct peer *p)
{
	const struct rdma_conn_param *param = &p->id->event->param.conn;

	if (param->private_data_len < sizeof(p->region))
		return failed("rdma_connect", "the server offers no region");
	memcpy(&p->region, param->private_data, sizeof(p->region));
	p->region.addr = be64toh(p->region.addr);
	p->region.length = be64toh(p->region.length);
	p->region.rkey = be32toh(p->region.rkey);
	return 0;
}

/* Up to `depth` requests can be outstanding. */
static inline int connect_region(struct peer *p, const char *address,
				 const char *port, uint32_t depth)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = depth,
			.max_recv_wr = 1,	/* unused, but 0 is not portable */
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_conn_param param = read_param();

	begin("connect");
	if (resolve(address, port, 0, &p->address))
		return -1;
	if (rdma_create_ep(&p->id, p->address, NULL, &attr))
		return failed_errno("rdma_create_ep");
	if (rdma_connect(p->id, &param))
		return failed_errno("rdma_connect");
	p->connected = 1;
	return take_region(p);
}

/*
 * Flushes all requests, including those that a failure left outstanding, then
 * disconnects. After this no device accesses the caller's memory.
 */
static inline int leave_region(struct peer *p)
{
	int ret = 0;

	if (!p->connected)
		return 0;
	begin("disconnect");
	p->connected = 0;
	if (rdmax_drain(p->id, WAIT_MS, NULL, NULL))
		ret = failed_errno("rdmax_drain");
	if (rdma_disconnect(p->id))
		ret = failed_errno("rdma_disconnect");
	return ret;
}

static inline void release_peer(struct peer *p)
{
	if (p->id)
		rdma_destroy_ep(p->id);
	if (p->address)
		rdma_freeaddrinfo(p->address);
}

/* --- the server of a region ------------------------------------------------------- */

struct offer {
	struct rdma_addrinfo *address;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *clients[MAX_CLIENTS];
	int n_clients;
	struct ibv_mr *mr;
};

static inline int open_listener(struct offer *o, const char *address, int clients)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 1,	/* none of these is used */
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};

	begin("listen");
	if (resolve(address, NULL, RAI_PASSIVE, &o->address))
		return -1;
	if (rdma_create_ep(&o->listener, o->address, NULL, &attr))
		return failed_errno("rdma_create_ep");
	if (rdma_listen(o->listener, clients))
		return failed_errno("rdma_listen");
	printf("server: listening on %s port %u\n", address,
	       ntohs(rdma_get_src_port(o->listener)));
	return 0;
}

/*
 * Takes the connection requests of all clients without accepting any yet, so that all
 * start at once. Their ids share the device's default protection domain, so a region
 * registered with the first is accessible to all.
 */
static inline int await_clients(struct offer *o, const char *address, int clients)
{
	if (open_listener(o, address, clients))
		return -1;
	begin("wait for all clients");
	for (; o->n_clients < clients; o->n_clients++)
		if (rdma_get_request(o->listener, &o->clients[o->n_clients]))
			return failed_errno("rdma_get_request");
	return 0;
}

static inline int accept_clients(struct offer *o)
{
	struct region_msg region = {
		.addr = htobe64((uintptr_t)o->mr->addr),
		.length = htobe64(o->mr->length),
		.rkey = htobe32(o->mr->rkey),
	};
	struct rdma_conn_param param = read_param();

	begin("accept the clients");
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	for (int i = 0; i < o->n_clients; i++)
		if (rdma_accept(o->clients[i], &param))
			return failed_errno("rdma_accept");
	return 0;
}

/* Accesses to the region leave no trace here; only disconnects do. */
static inline int await_disconnect(struct rdma_cm_id *id)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	do {
		if (rdma_get_cm_event(id->channel, &event))
			return failed_errno("rdma_get_cm_event");
		type = event->event;
		if (rdma_ack_cm_event(event))
			return failed_errno("rdma_ack_cm_event");
	} while (type != RDMA_CM_EVENT_DISCONNECTED);
	return 0;
}

/* Destroying the endpoint completes the client's disconnect. */
static inline int await_disconnects(struct offer *o)
{
	begin("wait for the clients to end");
	for (; o->n_clients; o->n_clients--) {
		if (await_disconnect(o->clients[o->n_clients - 1]))
			return -1;
		rdma_destroy_ep(o->clients[o->n_clients - 1]);
	}
	return 0;
}

/* The listener comes last: it keeps the device, and so the region, open. */
static inline int release_offer(struct offer *o)
{
	int ret = 0;

	begin("release everything");
	for (; o->n_clients; o->n_clients--)
		rdma_destroy_ep(o->clients[o->n_clients - 1]);
	if (o->mr && rdma_dereg_mr(o->mr))
		ret = failed_errno("rdma_dereg_mr");
	if (o->listener)
		rdma_destroy_ep(o->listener);
	if (o->address)
		rdma_freeaddrinfo(o->address);
	return ret;
}

#endif
