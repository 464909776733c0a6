/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * read_server ADDRESS [SIZE]
 *
 * Offers SIZE bytes of pseudo-random data (default 1M) to one client, which reads
 * them with RDMA reads, without involving this process. ADDRESS is an IP address
 * of the RDMA device to use. The system chooses the port, which is printed.
 */
#define _DEFAULT_SOURCE 1
#include <ctype.h>
#include <stdbool.h>
#include <sys/random.h>

#include "common.h"

#define DEFAULT_SIZE	"1M"
#define SEND_DEPTH	2	/* both messages can be in flight */

struct outbox {
	struct region_msg region;
	struct checksum_msg checksum;
};

/* Everything that must be released; NULL until it exists. */
struct server {
	size_t length;
	void *data;
	uint64_t checksum;
	struct rdma_addrinfo *address;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id;
	bool connected;
	struct ibv_mr *data_mr;
	struct outbox outbox;
	struct ibv_mr *outbox_mr;
};

/* The factor of a suffix K, M or G; 0 if it is invalid. */
static unsigned long long unit(const char *suffix)
{
	if (!*suffix)
		return 1;
	if (suffix[1])
		return 0;
	switch (toupper((unsigned char)*suffix)) {
	case 'K':
		return 1ULL << 10;
	case 'M':
		return 1ULL << 20;
	case 'G':
		return 1ULL << 30;
	default:
		return 0;
	}
}

/* "4096", "64K", "8M", "1G"; 0 if the text is not a size from 1 to 1G. */
static size_t parse_size(const char *text)
{
	unsigned long long count, factor;
	char *suffix;

	if (!isdigit((unsigned char)*text))
		return 0;	/* strtoull accepts blanks and signs */
	errno = 0;
	count = strtoull(text, &suffix, 10);
	factor = unit(suffix);
	if (errno || !factor || count > REGION_MAX / factor)
		return 0;
	return (size_t)(count * factor);
}

/* splitmix64: each call turns the next value of a counter into 64 random bits. */
static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static void fill(unsigned char *data, size_t length, uint64_t seed)
{
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof(word) <= length; i += sizeof(word)) {
		word = splitmix64(&seed);
		memcpy(data + i, &word, sizeof(word));
	}
	word = splitmix64(&seed);
	memcpy(data + i, &word, length - i);
}

static int make_data(struct server *s)
{
	uint64_t seed;

	begin("make the data");
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return failed_errno("getrandom");
	s->data = malloc(s->length);
	if (!s->data)
		return failed_errno("malloc");
	fill(s->data, s->length, seed);
	s->checksum = fnv1a(s->data, s->length);
	printf("server: made %zu bytes of pseudo-random data, FNV-1a %016"
	       PRIx64 "\n", s->length, s->checksum);
	return 0;
}

/*
 * rdma_get_request creates the client's queue pair and completion queues with
 * these attributes.
 */
static int open_listener(struct server *s, const char *address)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = SEND_DEPTH,
			.max_recv_wr = 1,	/* unused, but 0 is not portable */
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};

	begin("listen");
	if (resolve(address, NULL, RAI_PASSIVE, &s->address))
		return -1;
	if (rdma_create_ep(&s->listener, s->address, NULL, &attr))
		return failed_errno("rdma_create_ep");
	if (rdma_listen(s->listener, 1))
		return failed_errno("rdma_listen");
	printf("server: listening on %s port %u\n", address,
	       ntohs(rdma_get_src_port(s->listener)));
	return 0;
}

/*
 * A device can only access registered memory: registration pins the pages and
 * creates the keys. rdma_reg_read grants the peer read access only; rdma_reg_msgs
 * grants it none.
 */
static int register_memory(struct server *s)
{
	begin("register memory");
	s->data_mr = rdma_reg_read(s->id, s->data, s->length);
	if (!s->data_mr)
		return failed_errno("rdma_reg_read");
	s->outbox_mr = rdma_reg_msgs(s->id, &s->outbox, sizeof(s->outbox));
	if (!s->outbox_mr)
		return failed_errno("rdma_reg_msgs");
	printf("server: region 0x%" PRIxPTR ", %zu bytes, rkey 0x%08" PRIx32
	       "\n", (uintptr_t)s->data, s->length, s->data_mr->rkey);
	return 0;
}

static int accept_client(struct server *s)
{
	struct rdma_conn_param param = read_param();

	begin("wait for a client");
	if (rdma_get_request(s->listener, &s->id))
		return failed_errno("rdma_get_request");
	if (print_device(s->id) || register_memory(s))
		return -1;
	begin("accept the client");
	if (rdma_accept(s->id, &param))
		return failed_errno("rdma_accept");
	s->connected = true;
	return 0;
}

/*
 * The message must not change until its completion: the device may read it at any
 * time before.
 */
static int send_message(struct server *s, const char *what, void *message,
			size_t length)
{
	struct ibv_wc wc;

	if (rdma_post_send(s->id, NULL, message, length, s->outbox_mr,
			   IBV_SEND_SIGNALED))
		return failed_errno("rdma_post_send");
	if (rdma_get_send_comp(s->id, &wc) < 0)
		return failed_errno("rdma_get_send_comp");
	return succeeded(what, &wc);
}

/* The checksum is sent separately, not read from the memory it covers. */
static int send_messages(struct server *s)
{
	struct region_msg *region = &s->outbox.region;
	struct checksum_msg *checksum = &s->outbox.checksum;

	begin("send the messages");
	region->addr = htobe64((uintptr_t)s->data);
	region->length = htobe64(s->length);
	region->rkey = htobe32(s->data_mr->rkey);
	checksum->fnv1a = htobe64(s->checksum);
	if (send_message(s, "send of the region", region, sizeof(*region)))
		return -1;
	return send_message(s, "send of the checksum", checksum,
			    sizeof(*checksum));
}

/*
 * RDMA reads leave no trace on this side, neither completion nor event. The client
 * signals that it has finished by disconnecting, either with rdma_disconnect or
 * because its process ends.
 */
static int await_disconnect(struct server *s)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	begin("wait for the client to end");
	do {
		if (rdma_get_cm_event(s->id->channel, &event))
			return failed_errno("rdma_get_cm_event");
		type = event->event;
		if (rdma_ack_cm_event(event))
			return failed_errno("rdma_ack_cm_event");
	} while (type != RDMA_CM_EVENT_DISCONNECTED);
	s->connected = false;
	printf("server: the client has disconnected\n");
	return 0;
}

static int serve(struct server *s, const char *address)
{
	if (make_data(s) || open_listener(s, address) || accept_client(s) ||
	    send_messages(s))
		return -1;
	return await_disconnect(s);
}

/*
 * In reverse order: first the connection, so that no device accesses the memory any
 * more, then the registrations, then the objects they belong to. rdma_disconnect waits
 * for the event that await_disconnect takes; it occurs only once.
 */
static int release(struct server *s)
{
	int ret = 0;

	begin("release everything");
	if (s->connected && rdma_disconnect(s->id))
		ret = failed_errno("rdma_disconnect");
	if (s->outbox_mr && rdma_dereg_mr(s->outbox_mr))
		ret = failed_errno("rdma_dereg_mr");
	if (s->data_mr && rdma_dereg_mr(s->data_mr))
		ret = failed_errno("rdma_dereg_mr");
	if (s->id)
		rdma_destroy_ep(s->id);
	if (s->listener)
		rdma_destroy_ep(s->listener);
	if (s->address)
		rdma_freeaddrinfo(s->address);
	free(s->data);
	return ret;
}

static int usage(void)
{
	fprintf(stderr, "usage: read_server ADDRESS [SIZE]\n");
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	static struct server server;
	const char *size = argc > 2 ? argv[2] : DEFAULT_SIZE;
	int ret;

	if (start("server"))
		return EXIT_FAILURE;
	if (argc < 2 || argc > 3)
		return usage();
	server.length = parse_size(size);
	if (server.length < REGION_MIN) {
		fprintf(stderr,
			"server: bad size '%s': 1 to 1G, as in 4096, 64K, 8M\n",
			size);
		return EXIT_USAGE;
	}
	ret = serve(&server, argv[1]);
	if (release(&server))
		ret = -1;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
