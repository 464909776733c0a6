/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * atomic_counter server ADDRESS CLIENTS
 * atomic_counter client ADDRESS PORT
 *
 * Several clients draw tickets from one counter in the server's memory with atomic
 * fetch-and-add: every ticket is drawn exactly once, without a lock and without the
 * server's CPU. The server starts the clients once CLIENTS have connected, and verifies
 * the result when all have disconnected.
 */
#define _DEFAULT_SOURCE 1
#include "ext_common.h"

#define DRAWS	16	/* in one batch */
#define BATCHES	125
#define TICKETS	(DRAWS * BATCHES)	/* for each client */

/*
 * What the server offers. Atomic operations work on numbers, not bytes, so there is no
 * conversion. Their addresses must be multiples of 8.
 */
struct counter {
	uint64_t next;		/* the next ticket */
	uint64_t sum;		/* of all tickets drawn */
};

/* --- client --------------------------------------------------------------------- */

struct client {
	struct peer peer;
	uint64_t tickets[DRAWS];
	struct ibv_mr *mr;
	uint64_t first, last, sum;
};

/* Adds to a field of the counter; its previous value goes to `old`. */
static int post_add(struct client *c, uint64_t *old, size_t field, uint64_t add,
		    int flags)
{
	const struct region_msg *region = &c->peer.region;

	if (rdmax_post_atomic_faa(c->peer.id, NULL, old, c->mr, flags,
				  region->addr + field, region->rkey, add))
		return failed_errno("rdmax_post_atomic_faa");
	return 0;
}

/* DRAWS operations in flight, each with a buffer for its result. */
static int draw(struct client *c)
{
	for (int i = 0; i < DRAWS; i++)
		if (post_add(c, &c->tickets[i], offsetof(struct counter, next),
			     1, i == DRAWS - 1 ? IBV_SEND_SIGNALED : 0))
			return -1;
	return await_batch(c->peer.id, "fetch-and-add");
}

/* A connection's operations execute in order, so its tickets ascend. */
static int take_tickets(struct client *c, int batch)
{
	for (int i = 0; i < DRAWS; i++) {
		if (!batch && !i)
			c->first = c->tickets[i];
		else if (c->tickets[i] <= c->last)
			return failed("NOT verified", "the tickets do not ascend");
		c->last = c->tickets[i];
		c->sum += c->tickets[i];
	}
	return 0;
}

static int draw_all(struct client *c)
{
	begin("draw the tickets");
	for (int batch = 0; batch < BATCHES; batch++)
		if (draw(c) || take_tickets(c, batch))
			return -1;
	if (post_add(c, &c->tickets[0], offsetof(struct counter, sum), c->sum,
		     IBV_SEND_SIGNALED) ||
	    await_batch(c->peer.id, "fetch-and-add"))
		return -1;
	printf("client: drew %d tickets from %" PRIu64 " to %" PRIu64
	       ", their sum is %" PRIu64 "\n", TICKETS, c->first, c->last,
	       c->sum);
	return 0;
}

/* The device writes the old values here, which needs local write access. */
static int use_counter(struct client *c, const char *address, const char *port)
{
	if (connect_region(&c->peer, address, port, DRAWS))
		return -1;
	if (c->peer.region.length != sizeof(struct counter))
		return failed("rdma_connect", "the server offers no counter");
	c->mr = rdmax_reg(c->peer.id, c->tickets, sizeof(c->tickets),
			  IBV_ACCESS_LOCAL_WRITE);
	if (!c->mr)
		return failed_errno("rdmax_reg");
	return draw_all(c);
}

static int run_client(const char *address, const char *port)
{
	static struct client client;
	int ret = use_counter(&client, address, port);

	if (leave_region(&client.peer))
		ret = -1;
	if (client.mr && rdma_dereg_mr(client.mr))
		ret = failed_errno("rdma_dereg_mr");
	release_peer(&client.peer);
	return ret;
}

/* --- server --------------------------------------------------------------------- */

static int check_device(const struct rdma_cm_id *id)
{
	struct ibv_device_attr attr;
	int ret = ibv_query_device(id->verbs, &attr);

	if (ret)
		return failed("ibv_query_device", strerror(ret));
	if (attr.atomic_cap == IBV_ATOMIC_NONE)
		return failed(ibv_get_device_name(id->verbs->device),
			      "the device has no atomic operations");
	return 0;
}

/*
 * If tickets 0 to n - 1 were each drawn once, the counter is n and their sum is
 * n (n - 1) / 2. The CPU must not look earlier: with most devices (IBV_ATOMIC_HCA) the
 * operations are atomic with respect to each other, but not to the CPU.
 */
static int verify(const volatile struct counter *counter, int clients)
{
	uint64_t n = (uint64_t)clients * TICKETS;
	uint64_t next = counter->next, sum = counter->sum;

	if (next != n || sum != n * (n - 1) / 2) {
		fprintf(stderr, "server: NOT verified: counter %" PRIu64
			", sum %" PRIu64 ", expected %" PRIu64 ", %" PRIu64
			"\n", next, sum, n, n * (n - 1) / 2);
		return -1;
	}
	printf("server: verified, %d clients have drawn %" PRIu64
	       " tickets, each once\n", clients, n);
	return 0;
}

static int offer_counter(struct offer *o, struct counter *counter,
			 const char *address, int clients)
{
	if (await_clients(o, address, clients) || check_device(o->clients[0]))
		return -1;
	o->mr = rdmax_reg(o->clients[0], counter, sizeof(*counter),
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!o->mr)
		return failed_errno("rdmax_reg");
	if (accept_clients(o) || await_disconnects(o))
		return -1;
	return verify(counter, clients);
}

static int run_server(const char *address, int clients)
{
	static struct counter counter;
	struct offer offer = { 0 };
	int ret = offer_counter(&offer, &counter, address, clients);

	if (release_offer(&offer))
		ret = -1;
	return ret;
}

int main(int argc, char **argv)
{
	return run_role(argc, argv, "atomic_counter", run_server, run_client);
}
