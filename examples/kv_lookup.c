/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kv_lookup server ADDRESS CLIENTS
 * kv_lookup client ADDRESS PORT
 *
 * The server fills a hash table and offers it for reading. Clients look up keys in it
 * with RDMA reads, many per call, and verify the values they find, and that absent keys
 * are not found. The server's CPU is not involved.
 */
#define _DEFAULT_SOURCE 1
#include <stdbool.h>

#include "ext_common.h"

#define KEYS		5000	/* in the table */
#define LOOKUPS		(2 * KEYS)	/* half of them of absent keys */
#define BUCKETS		2048
#define ENTRIES		4	/* in a bucket */
#define BATCH		64	/* reads in one call */

/* In network byte order, since the machines' own may differ. Key 0 means no entry. */
struct entry {
	uint64_t key;
	uint64_t value;
};

/* The unit of a read: 64 bytes, aligned to 64. */
struct bucket {
	struct entry entries[ENTRIES];
};

/* --- shared by both sides --------------------------------------------------------- */

/* The last steps of splitmix64: a bijection that maps 0 to 0. */
static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Keys with a number below KEYS are in the table; no key is 0. */
static uint64_t key_number(uint64_t number)
{
	return mix(number + 1);
}

static uint64_t value_of(uint64_t key)
{
	return mix(~key);
}

static uint64_t first_bucket(uint64_t key)
{
	return mix(key) % BUCKETS;
}

/* A key whose bucket is full goes to the next one with a free entry. */
static uint64_t next_bucket(uint64_t bucket)
{
	return (bucket + 1) % BUCKETS;
}

/*
 * The entry of a key in a bucket, or a free one, which means that no further bucket has
 * the key; NULL if the bucket is full of other keys.
 */
static struct entry *find(struct bucket *bucket, uint64_t key)
{
	for (int i = 0; i < ENTRIES; i++) {
		struct entry *entry = &bucket->entries[i];

		if (!entry->key || entry->key == htobe64(key))
			return entry;
	}
	return NULL;
}

/* --- client --------------------------------------------------------------------- */

struct lookup {
	uint64_t number;
	uint64_t bucket;	/* to read next */
};

struct client {
	struct peer peer;
	struct lookup lookups[BATCH];	/* in progress */
	int n_lookups;
	uint64_t started;
	struct bucket buckets[BATCH];	/* what was read for each */
	struct ibv_mr *mr;
	unsigned long reads, posts, found, absent;
};

/* One call posts all reads, and one completion reports that all are done. */
static int read_buckets(struct client *c)
{
	const struct region_msg *region = &c->peer.region;
	struct rdmax_send_wr reads[BATCH];
	struct ibv_sge elements[BATCH];
	int posted;

	for (int i = 0; i < c->n_lookups; i++) {
		elements[i] = (struct ibv_sge){
			.addr = (uintptr_t)&c->buckets[i],
			.length = sizeof(struct bucket),
			.lkey = c->mr->lkey,
		};
		reads[i] = (struct rdmax_send_wr){
			.opcode = IBV_WR_RDMA_READ,
			.sgl = &elements[i],
			.nsge = 1,
			.remote_addr = region->addr + c->lookups[i].bucket *
				       sizeof(struct bucket),
			.rkey = region->rkey,
			.flags = i == c->n_lookups - 1 ? IBV_SEND_SIGNALED : 0,
		};
	}
	if (rdmax_post_sends(c->peer.id, reads, sizeof(*reads), c->n_lookups, &posted))
		return failed_errno("rdmax_post_sends");
	c->posts++;
	c->reads += (unsigned long)posted;
	return await_batch(c->peer.id, "RDMA read");
}

static int check(struct client *c, uint64_t number, const struct entry *entry)
{
	uint64_t key = key_number(number);
	bool found = entry->key;

	if (found != (number < KEYS))
		return failed("NOT verified", found ?
			      "a key was found that is not in the table" :
			      "a key of the table was not found");
	if (found && be64toh(entry->value) != value_of(key))
		return failed("NOT verified", "a key has a wrong value");
	if (found)
		c->found++;
	else
		c->absent++;
	return 0;
}

/* Ends the lookups that have a result; the others continue with the next bucket. */
static int take_buckets(struct client *c)
{
	int going_on = 0;

	for (int i = 0; i < c->n_lookups; i++) {
		struct lookup lookup = c->lookups[i];
		const struct entry *entry = find(&c->buckets[i],
						 key_number(lookup.number));

		if (!entry) {
			lookup.bucket = next_bucket(lookup.bucket);
			c->lookups[going_on++] = lookup;
		} else if (check(c, lookup.number, entry)) {
			return -1;
		}
	}
	c->n_lookups = going_on;
	return 0;
}

static void fill_batch(struct client *c)
{
	for (; c->n_lookups < BATCH && c->started < LOOKUPS; c->started++)
		c->lookups[c->n_lookups++] = (struct lookup){
			.number = c->started,
			.bucket = first_bucket(key_number(c->started)),
		};
}

static int look_up_all(struct client *c)
{
	begin("look up the keys");
	for (fill_batch(c); c->n_lookups; fill_batch(c))
		if (read_buckets(c) || take_buckets(c))
			return -1;
	if (c->found != KEYS || c->absent != LOOKUPS - KEYS)
		return failed("NOT verified", "lookups are missing");
	printf("client: verified, %lu keys found and %lu absent, by %lu reads "
	       "in %lu posts\n", c->found, c->absent, c->reads, c->posts);
	return 0;
}

/*
 * The device writes the data to local memory. On iWARP the response to a read arrives as
 * a write by the peer, so the memory must allow remote writes.
 */
static int register_sink(struct client *c)
{
	struct rdma_cm_id *id = c->peer.id;
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		access |= IBV_ACCESS_REMOTE_WRITE;
	c->mr = rdmax_reg(id, c->buckets, sizeof(c->buckets), access);
	return c->mr ? 0 : failed_errno("rdmax_reg");
}

static int use_table(struct client *c, const char *address, const char *port)
{
	if (connect_region(&c->peer, address, port, BATCH))
		return -1;
	if (c->peer.region.length != BUCKETS * sizeof(struct bucket))
		return failed("rdma_connect", "the server offers no such table");
	if (register_sink(c))
		return -1;
	return look_up_all(c);
}

static int run_client(const char *address, const char *port)
{
	static struct client client;
	int ret = use_table(&client, address, port);

	if (leave_region(&client.peer))
		ret = -1;
	if (client.mr && rdma_dereg_mr(client.mr))
		ret = failed_errno("rdma_dereg_mr");
	release_peer(&client.peer);
	return ret;
}

/* --- server --------------------------------------------------------------------- */

/* There are more entries than keys, so the search for a free one ends. */
static void insert(struct bucket *table, uint64_t key)
{
	uint64_t bucket = first_bucket(key);
	struct entry *entry;

	while (!(entry = find(&table[bucket], key)))
		bucket = next_bucket(bucket);
	entry->key = htobe64(key);
	entry->value = htobe64(value_of(key));
}

/*
 * The table does not change while clients read it. Reading a bucket that the CPU is
 * changing could return half of the change: such a table needs a version or a checksum in
 * each bucket.
 */
static int offer_table(struct offer *o, struct bucket *table,
		       const char *address, int clients)
{
	for (uint64_t number = 0; number < KEYS; number++)
		insert(table, key_number(number));
	if (await_clients(o, address, clients))
		return -1;
	o->mr = rdma_reg_read(o->clients[0], table, BUCKETS * sizeof(*table));
	if (!o->mr)
		return failed_errno("rdma_reg_read");
	if (accept_clients(o) || await_disconnects(o))
		return -1;
	printf("server: all clients have disconnected\n");
	return 0;
}

static int run_server(const char *address, int clients)
{
	static _Alignas(64) struct bucket table[BUCKETS];
	struct offer offer = { 0 };
	int ret = offer_table(&offer, table, address, clients);

	if (release_offer(&offer))
		ret = -1;
	return ret;
}

int main(int argc, char **argv)
{
	return run_role(argc, argv, "kv_lookup", run_server, run_client);
}
