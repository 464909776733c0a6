/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * read_client [--wrong-rkey] ADDRESS PORT
 *
 * Reads the memory that read_server offers and verifies it, linked with only the C
 * library. The exit status is 0 only if every byte is correct.
 */
#define _DEFAULT_SOURCE 1
#include <stdbool.h>
#include <time.h>

#include "../common.h"	/* only for what calls no library */
#include "verbs.h"

#define PIECE		(1ULL << 20)	/* every port allows this much per read */
#define LIMIT_MS	60000		/* limit for one completion */

static struct verbs verbs;

struct inbox {
	struct region_msg region;
	struct checksum_msg checksum;
};

/* Everything that must be released; NULL until it exists. */
struct client {
	struct rdma_cm_id *id;
	bool connected;
	struct inbox inbox;
	struct ibv_mr *inbox_mr;
	uint64_t length;
	unsigned char *data;
	struct ibv_mr *data_mr;
};

static int load_verbs(void)
{
	const char *missing = verbs_load(&verbs);

	return missing ? failed("no RDMA on this machine", missing) : 0;
}

static int open_endpoint(struct client *c, const char *address, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 2,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	int ret = verbs.rdma_getaddrinfo(address, port, &hints, &info);

	/* Either -1 and errno, or one of getaddrinfo's codes. */
	if (ret)
		return failed("rdma_getaddrinfo",
			      ret == -1 ? strerror(errno) : gai_strerror(ret));
	if (verbs.rdma_create_ep(&c->id, info, NULL, &attr))
		ret = failed_errno("rdma_create_ep");
	verbs.rdma_freeaddrinfo(info);
	return ret;
}

static int print_the_device(const struct rdma_cm_id *id)
{
	char host[256] = "";

	if (gethostname(host, sizeof(host) - 1))
		return failed_errno("gethostname");
	printf("client: device %s port %u on %s\n", id->verbs->device->name,
	       id->port_num, host);
	return 0;
}

/* A message that finds no receive is rejected, so post these before connecting. */
static int post_receives(struct client *c)
{
	struct inbox *inbox = &c->inbox;

	c->inbox_mr = verbs.rdma_reg_msgs(c->id, inbox, sizeof(*inbox));
	if (!c->inbox_mr)
		return failed_errno("rdma_reg_msgs");
	if (verbs.rdma_post_recv(c->id, NULL, &inbox->region,
				 sizeof(inbox->region), c->inbox_mr) ||
	    verbs.rdma_post_recv(c->id, NULL, &inbox->checksum,
				 sizeof(inbox->checksum), c->inbox_mr))
		return failed_errno("rdma_post_recv");
	return 0;
}

static int connect_server(struct client *c)
{
	struct rdma_conn_param param = read_param();

	if (verbs.rdma_connect(c->id, &param))
		return failed_errno("rdma_connect");
	c->connected = true;
	return 0;
}

/* Checks the result of rdmax_get_send_comp or rdmax_get_recv_comp for `what`. */
static int completed(const char *what, int ret, const struct ibv_wc *wc)
{
	if (ret < 0)
		return failed_errno(what);
	if (!ret)
		return failed(what, strerror(ETIMEDOUT));
	if (wc->status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "client: %s: %s (completion status %d)\n", what,
		verbs.rdmax_wc_strerror(wc), (int)wc->status);
	return -1;
}

static int receive(struct client *c, const char *what, size_t length)
{
	struct ibv_wc wc;

	if (completed(what, verbs.rdmax_get_recv_comp(c->id, &wc, LIMIT_MS), &wc))
		return -1;
	if (wc.byte_len != length)
		return failed(what, "the message has a wrong length");
	return 0;
}

static int receive_messages(struct client *c)
{
	const struct region_msg *region = &c->inbox.region;

	if (receive(c, "receive of the region", sizeof(*region)) ||
	    receive(c, "receive of the checksum", sizeof(c->inbox.checksum)))
		return -1;
	c->length = be64toh(region->length);
	if (c->length < REGION_MIN || c->length > REGION_MAX)
		return failed("receive of the region", "a bad length");
	printf("client: region 0x%" PRIx64 ", %" PRIu64 " bytes, rkey 0x%08"
	       PRIx32 "\n", be64toh(region->addr), c->length,
	       be32toh(region->rkey));
	return 0;
}

/* On iWARP the response to a read arrives as a write by the peer. */
static int make_buffer(struct client *c)
{
	bool iwarp = c->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;

	c->data = calloc(1, c->length);
	if (!c->data)
		return failed_errno("calloc");
	c->data_mr = iwarp ? verbs.rdma_reg_write(c->id, c->data, c->length) :
			     verbs.rdma_reg_msgs(c->id, c->data, c->length);
	if (!c->data_mr)
		return failed_errno(iwarp ? "rdma_reg_write" : "rdma_reg_msgs");
	return 0;
}

static int read_piece(struct client *c, uint64_t offset, uint32_t rkey)
{
	uint64_t rest = c->length - offset;
	struct ibv_wc wc;

	if (verbs.rdma_post_read(c->id, NULL, c->data + offset,
				 rest < PIECE ? rest : PIECE, c->data_mr,
				 IBV_SEND_SIGNALED,
				 be64toh(c->inbox.region.addr) + offset, rkey))
		return failed_errno("rdma_post_read");
	return completed("RDMA read",
			 verbs.rdmax_get_send_comp(c->id, &wc, LIMIT_MS), &wc);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Reads the pieces one after the other. */
static int read_region(struct client *c, bool wrong_rkey)
{
	uint32_t rkey = be32toh(c->inbox.region.rkey) ^ (wrong_rkey ? 0xff : 0);
	double us = now_us();
	int reads = 0;

	for (uint64_t offset = 0; offset < c->length; offset += PIECE, reads++)
		if (read_piece(c, offset, rkey))
			return -1;
	us = now_us() - us;
	printf("client: read %" PRIu64 " bytes in %.0f us (%.1f MB/s), "
	       "RDMA reads: %d\n", c->length, us, (double)c->length / us, reads);
	return 0;
}

static int verify(const struct client *c)
{
	uint64_t expected = be64toh(c->inbox.checksum.fnv1a);
	uint64_t actual = fnv1a(c->data, c->length);

	if (actual != expected)
		return failed("NOT verified",
			      "the FNV-1a of the data is not the server's");
	printf("client: verified, FNV-1a of the data %016" PRIx64
	       " is the server's\n", actual);
	return 0;
}

static int fetch(struct client *c, const char *address, const char *port,
		 bool wrong_rkey)
{
	if (load_verbs() || open_endpoint(c, address, port) ||
	    print_the_device(c->id) || post_receives(c) || connect_server(c) ||
	    receive_messages(c) || make_buffer(c) || read_region(c, wrong_rkey))
		return -1;
	return verify(c);
}

/* In reverse order: first the connection, so that no device accesses the memory. */
static int release(struct client *c)
{
	int ret = 0;

	if (c->connected && verbs.rdma_disconnect(c->id))
		ret = failed_errno("rdma_disconnect");
	if (c->data_mr && verbs.rdma_dereg_mr(c->data_mr))
		ret = failed_errno("rdma_dereg_mr");
	if (c->inbox_mr && verbs.rdma_dereg_mr(c->inbox_mr))
		ret = failed_errno("rdma_dereg_mr");
	if (c->id)
		verbs.rdma_destroy_ep(c->id);
	free(c->data);
	return ret;
}

int main(int argc, char **argv)
{
	static struct client client;
	bool wrong_rkey = argc > 1 && !strcmp(argv[1], "--wrong-rkey");
	int ret;

	program = "client";
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc != (wrong_rkey ? 4 : 3)) {
		fprintf(stderr, "usage: read_client [--wrong-rkey] ADDRESS PORT\n");
		return EXIT_USAGE;
	}
	ret = fetch(&client, argv[argc - 2], argv[argc - 1], wrong_rkey);
	if (release(&client))
		ret = -1;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
