/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the tests on a device share: finding the device, connected ids in one process,
 * memory with guard bytes, and a time limit for each test.
 *
 * A test with these fixtures is skipped where no device is found. Each one has a link
 * with ids of its own, whose destruction is part of the test.
 *
 * Compiled without -Iinclude and -lrdma_verbs, the same tests run against librdmacm's own
 * header. They pass there too, which shows that they expect the right things.
 */
#ifndef DEVICE_H
#define DEVICE_H

#include "../lib/check.h"

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
	TEST_SECONDS = 30,	/* time limit of one test */
	GUARD_BYTES = 64,
	MAX_REGIONS = 8,
	SEND_DEPTH = 16,	/* the requested depth; the queues may be deeper */
	RECV_DEPTH = 16,
	INLINE_BYTES = 64,
	MAX_SGE = 4,
};

/*
 * Data between guard bytes. The memory region covers the guards too, so that a
 * transfer of too many bytes changes them instead of failing.
 */
struct region {
	uint8_t *map;
	size_t map_length;
	uint8_t *data;
	size_t length;
	uint8_t guard;	/* differs in each region, so that a guard copied over a guard shows */
	struct ibv_mr *mr;
};

/*
 * A listener, the id that connects to it and, once it has asked, the one that accepts.
 * All their events come through one channel, so that one thread can play both sides.
 */
struct link {
	struct rdma_event_channel *channel;
	struct ibv_pd *pd;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *active;
	struct rdma_cm_id *passive;
	struct ibv_ah *ah;	/* for datagrams: the path to the passive side */
	uint32_t remote_qpn;
	uint32_t remote_qkey;
	struct region regions[MAX_REGIONS];
	size_t region_count;
	uint8_t ack_timeout;	/* as in ibv_qp_attr; 0: the default */
	const void *parameter;	/* the test's parameter, from its table */
};

typedef struct ibv_mr *registrar(struct rdma_cm_id *id, void *addr, size_t length);

/* Entries of a table of tests; the second takes a parameter. */
#define DEVICE_TEST(function) \
	{ #function, function, device_test_begin, device_test_end, NULL }
#define DEVICE_TEST_OF(name, function, parameter) \
	{ name, function, device_test_begin, device_test_end, (void *)(parameter) }

int device_test_begin(void **state);
int device_test_end(void **state);

/* Once, at the start of main. */
void device_tests_init(void);

#define skip_because(...)                            \
	do {                                         \
		print_message("# skipped: " __VA_ARGS__); \
		print_message("\n");                  \
		skip();                              \
	} while (0)

/* The address of the device, with port 0; skips the test where there is no device. */
const struct sockaddr *device_address(void);
int device_is_rxe(const struct rdma_cm_id *id);
uint32_t device_max_message(const struct rdma_cm_id *id);

/* Calls that return 0 on success; some fail with -1, some with an errno value. */
#define must(call) must_be_zero((call), #call, __FILE__, __LINE__)
void must_be_zero(int result, const char *call, const char *file, int line);

/*
 * The steps of a connection: open (which listens, and resolves the listener's address),
 * request (which asks for the connection, and takes the request on the other side),
 * connect. Each does the steps that are left, so a test can put something in between.
 */
void link_open(struct link *link, enum rdma_port_space space);
void link_resolve(struct link *link, enum rdma_port_space space, struct sockaddr *to);
void link_create_qp(struct link *link, struct rdma_cm_id *id);
void link_ask(struct link *link);
void link_request(struct link *link);
void link_connect(struct link *link);
void link_close(struct link *link);

/* A link that is open and connected, from the state of a test. */
struct link *connected(void **state);

struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
				 enum rdma_cm_event_type type);
void take_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type);
void disconnect(struct link *link);
void set_qp_error(struct rdma_cm_id *id);
enum ibv_qp_state qp_state(struct rdma_cm_id *id);

/* What the provider returns for a request that a helper would build: 0 or an errno. */
int post_directly(struct rdma_cm_id *id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
		  unsigned int flags, uint64_t remote_addr, uint32_t rkey);
/* The helper returned what the provider did. */
void assert_same_answer(int helper_result, int helper_errno, int direct);

/*
 * New memory, registered; the link frees it. region_try_add returns NULL if there is not
 * enough memory.
 */
struct region *region_add(struct link *link, registrar *reg, struct rdma_cm_id *id,
			  size_t length);
struct region *region_try_add(struct link *link, registrar *reg, struct rdma_cm_id *id,
			      size_t length);
void region_deregister(struct region *region);

/* Pseudo-random data that depends on the seed. */
void region_fill(struct region *region, uint64_t seed);
void region_holds(const struct region *region, uint64_t seed);
void region_guards_hold(const struct region *region);

static inline uint64_t remote_address(const struct region *region)
{
	return (uint64_t)(uintptr_t)region->data;
}

/* Waits for the next completion, which must have this context and status. */
#define take_send(id, context, status) \
	take_completion(rdma_get_send_comp, id, context, status, __FILE__, __LINE__)
#define take_recv(id, context, status) \
	take_completion(rdma_get_recv_comp, id, context, status, __FILE__, __LINE__)
struct ibv_wc take_completion(int (*get)(struct rdma_cm_id *, struct ibv_wc *),
			      struct rdma_cm_id *id, uint64_t context,
			      enum ibv_wc_status status, const char *file, int line);

static inline void *context_of(uint64_t number)
{
	return (void *)(uintptr_t)number;
}

#endif
