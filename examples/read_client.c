/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * read_client [--wrong-rkey] ADDRESS PORT
 *
 * Reads the memory that read_server offers and verifies it. The exit status is 0 only
 * if every byte is correct. --wrong-rkey uses a key that the server did not send, to
 * show how that fails.
 */
#define _DEFAULT_SOURCE 1
#include <fcntl.h>
#include <stdbool.h>
#include <time.h>

#include "common.h"

#define MESSAGES	2	/* region, checksum */
#define READ_DEPTH	16	/* maximum reads in flight */

struct inbox {
	struct region_msg region;
	struct checksum_msg checksum;
};

/* The server's memory, from its message. */
struct region {
	uint64_t addr;
	uint64_t length;
	uint32_t rkey;
};

/* Everything that must be released; NULL until it exists. */
struct client {
	struct rdma_addrinfo *address;
	struct rdma_cm_id *id;
	bool connected;
	struct inbox inbox;
	struct ibv_mr *inbox_mr;
	struct region region;
	void *data;
	struct ibv_mr *data_mr;
};

/*
 * rdma_create_ep resolves address and route and creates a queue pair with its two
 * completion queues, which have one entry per request that can be outstanding.
 */
static int open_endpoint(struct client *c, const char *address,
			 const char *port)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = READ_DEPTH,
			.max_recv_wr = MESSAGES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};

	begin("resolve the address");
	if (resolve(address, port, 0, &c->address))
		return -1;
	if (rdma_create_ep(&c->id, c->address, NULL, &attr))
		return failed_errno("rdma_create_ep");
	return print_device(c->id);
}

/*
 * A message that finds no receive posted is rejected, and the sender may give up. So
 * post the receives before the server can send anything, that is, before
 * rdma_connect. They are consumed in the order of posting.
 */
static int post_receives(struct client *c)
{
	struct inbox *inbox = &c->inbox;

	c->inbox_mr = rdma_reg_msgs(c->id, inbox, sizeof(*inbox));
	if (!c->inbox_mr)
		return failed_errno("rdma_reg_msgs");
	if (rdma_post_recv(c->id, NULL, &inbox->region,
			   sizeof(inbox->region), c->inbox_mr) ||
	    rdma_post_recv(c->id, NULL, &inbox->checksum,
			   sizeof(inbox->checksum), c->inbox_mr))
		return failed_errno("rdma_post_recv");
	return 0;
}

/* So that a helper that finds no completion says EAGAIN, and does not wait. */
static int unblock(struct ibv_comp_channel *channel)
{
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK) ? failed_errno("fcntl") : 0;
}

static int connect_server(struct client *c)
{
	struct rdma_conn_param param = read_param();

	begin("connect");
	if (rdma_connect(c->id, &param))
		return failed_errno("rdma_connect");
	c->connected = true;
	return unblock(c->id->send_cq_channel) || unblock(c->id->recv_cq_channel);
}

static int receive(struct client *c, const char *what, size_t length)
{
	struct ibv_wc wc;

	/* One that says EAGAIN has armed the queue: the next completion raises an event. */
	while (rdma_get_recv_comp(c->id, &wc) < 0) {
		if (errno != EAGAIN)
			return failed_errno("rdma_get_recv_comp");
		if (await_readable(c->id, c->id->recv_cq_channel->fd))
			return -1;
	}
	if (succeeded(what, &wc))
		return -1;
	if (wc.byte_len != length)
		return failed(what, "the message has a wrong length");
	return 0;
}

static int receive_messages(struct client *c)
{
	const struct region_msg *msg = &c->inbox.region;
	struct region *region = &c->region;

	begin("receive the server's messages");
	if (receive(c, "receive of the region", sizeof(c->inbox.region)) ||
	    receive(c, "receive of the checksum", sizeof(c->inbox.checksum)))
		return -1;
	region->addr = be64toh(msg->addr);
	region->length = be64toh(msg->length);
	region->rkey = be32toh(msg->rkey);
	if (region->length < REGION_MIN || region->length > REGION_MAX)
		return failed("receive of the region", "a bad length");
	printf("client: region 0x%" PRIx64 ", %" PRIu64 " bytes, rkey 0x%08"
	       PRIx32 "\n", region->addr, region->length, region->rkey);
	return 0;
}

/*
 * The device writes the data to local memory, which needs local write access. On
 * iWARP the response to a read arrives as a write by the peer, so the memory must
 * allow remote writes.
 */
static int register_sink(struct client *c)
{
	bool iwarp = c->id->verbs->device->transport_type ==
		     IBV_TRANSPORT_IWARP;

	c->data_mr = iwarp ? rdma_reg_write(c->id, c->data, c->region.length) :
			     rdma_reg_msgs(c->id, c->data, c->region.length);
	if (!c->data_mr)
		return failed_errno(iwarp ? "rdma_reg_write" : "rdma_reg_msgs");
	return 0;
}

static int make_buffer(struct client *c)
{
	begin("register memory");
	c->data = calloc(1, c->region.length);
	if (!c->data)
		return failed_errno("calloc");
	return register_sink(c);
}

/* Posts the read of piece `index` of the region. */
static int post_read(struct client *c, uint64_t index, uint64_t piece)
{
	uint64_t offset = index * piece;
	uint64_t rest = c->region.length - offset;

	if (rdma_post_read(c->id, NULL, (char *)c->data + offset,
			   rest < piece ? rest : piece, c->data_mr,
			   IBV_SEND_SIGNALED, c->region.addr + offset,
			   c->region.rkey))
		return failed_errno("rdma_post_read");
	return 0;
}

static int await_read(struct client *c)
{
	struct ibv_wc wc;

	while (rdma_get_send_comp(c->id, &wc) < 0) {
		if (errno != EAGAIN)
			return failed_errno("rdma_get_send_comp");
		if (await_readable(c->id, c->id->send_cq_channel->fd))
			return -1;
	}
	return succeeded("RDMA read", &wc);
}

/*
 * Keeps the send queue filled, so that the next read is in flight while one
 * completes, but never posts more than it holds: a slot is free again only when the
 * completion of its read has been taken.
 */
static int read_pieces(struct client *c, uint64_t piece, uint64_t reads)
{
	uint64_t posted = 0;

	for (uint64_t done = 0; done < reads; done++) {
		for (; posted < reads && posted - done < READ_DEPTH; posted++)
			if (post_read(c, posted, piece))
				return -1;
		if (await_read(c))
			return -1;
	}
	return 0;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* A port limits the message size; longer transfers take several reads. */
static int read_region(struct client *c)
{
	struct ibv_port_attr port;
	uint64_t length = c->region.length;
	uint64_t reads;
	double us;
	int ret;

	begin("read the region");
	ret = ibv_query_port(c->id->verbs, c->id->port_num, &port);
	if (ret)
		return failed("ibv_query_port", strerror(ret));
	reads = (length + port.max_msg_sz - 1) / port.max_msg_sz;
	us = now_us();
	if (read_pieces(c, port.max_msg_sz, reads))
		return -1;
	us = now_us() - us;
	printf("client: read %" PRIu64 " bytes in %.0f us (%.1f MB/s), "
	       "RDMA reads: %" PRIu64 "\n", length, us, (double)length / us,
	       reads);
	return 0;
}

static int verify(const struct client *c)
{
	uint64_t expected = be64toh(c->inbox.checksum.fnv1a);
	uint64_t actual;

	begin("verify the data");
	actual = fnv1a(c->data, c->region.length);
	if (actual != expected) {
		fprintf(stderr, "client: NOT verified: FNV-1a of the data is "
			"%016" PRIx64 ", the server's is %016" PRIx64 "\n",
			actual, expected);
		return -1;
	}
	printf("client: verified, FNV-1a of the data %016" PRIx64
	       " is the server's\n", actual);
	return 0;
}

static int fetch(struct client *c, const char *address, const char *port,
		 bool wrong_rkey)
{
	if (open_endpoint(c, address, port) || post_receives(c) ||
	    connect_server(c) || receive_messages(c) || make_buffer(c))
		return -1;
	if (wrong_rkey)
		c->region.rkey ^= 0xff;	/* the low byte changes from key to key */
	if (read_region(c))
		return -1;
	return verify(c);
}

/*
 * In reverse order: first the connection, so that no device accesses the memory any
 * more, then the registrations, then the objects they belong to. rdma_disconnect waits
 * for an event that occurs only if there was a connection.
 */
static int release(struct client *c)
{
	int ret = 0;

	begin("release everything");
	if (c->connected && rdma_disconnect(c->id))
		ret = failed_errno("rdma_disconnect");
	if (c->data_mr && rdma_dereg_mr(c->data_mr))
		ret = failed_errno("rdma_dereg_mr");
	if (c->inbox_mr && rdma_dereg_mr(c->inbox_mr))
		ret = failed_errno("rdma_dereg_mr");
	if (c->id)
		rdma_destroy_ep(c->id);
	if (c->address)
		rdma_freeaddrinfo(c->address);
	free(c->data);
	return ret;
}

static int usage(void)
{
	fprintf(stderr, "usage: read_client [--wrong-rkey] ADDRESS PORT\n");
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static struct client client;
	bool wrong_rkey = argc > 1 && !strcmp(argv[1], "--wrong-rkey");
	int ret;

	if (start("client"))
		return EXIT_FAILURE;
	if (argc != (wrong_rkey ? 4 : 3))
		return usage();
	ret = fetch(&client, argv[argc - 2], argv[argc - 1], wrong_rkey);
	if (release(&client))
		ret = -1;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
