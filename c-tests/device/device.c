/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "device.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RESOLVE_MS = 2000 };

static struct sockaddr_in address;
static const char *missing;	/* why there is no device, if there is none */

/* --- the device ------------------------------------------------------------------ */

static int has_active_port(struct ibv_context *context)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	if (ibv_query_device(context, &device))
		return 0;
	for (unsigned int i = 1; i <= device.phys_port_cnt; i++)
		if (!ibv_query_port(context, i, &port) && port.state == IBV_PORT_ACTIVE)
			return 1;
	return 0;
}

static int has_active_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int found = 0;

	for (size_t i = 0; list && list[i] && !found; i++) {
		struct ibv_context *context = ibv_open_device(list[i]);

		if (context) {
			found = has_active_port(context);
			ibv_close_device(context);
		}
	}
	if (list)
		ibv_free_device_list(list);
	return found;
}

/* Only the connection manager knows which addresses belong to a device. */
static int leads_to_device(struct rdma_event_channel *channel, struct sockaddr *addr)
{
	struct rdma_cm_id *id;
	struct ibv_port_attr port;
	int found;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		return 0;
	found = !rdma_bind_addr(id, addr) && id->verbs &&
		!ibv_query_port(id->verbs, id->port_num, &port) &&
		port.state == IBV_PORT_ACTIVE;
	rdma_destroy_id(id);
	return found;
}

static int find_address(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ifaddrs *all = NULL, *each = NULL;
	int found = 0;

	if (channel && !getifaddrs(&all))
		for (each = all; each && !found; each = each->ifa_next) {
			if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET ||
			    each->ifa_flags & IFF_LOOPBACK)
				continue;
			memcpy(&address, each->ifa_addr, sizeof(address));
			address.sin_port = 0;
			found = leads_to_device(channel, (struct sockaddr *)&address);
		}
	if (all)
		freeifaddrs(all);
	if (channel)
		rdma_destroy_event_channel(channel);
	return found;
}

const struct sockaddr *device_address(void)
{
	if (missing)
		skip_because("%s", missing);
	return (struct sockaddr *)&address;
}

int device_is_rxe(const struct rdma_cm_id *id)
{
	return !strncmp(ibv_get_device_name(id->verbs->device), "rxe", 3);
}

uint32_t device_max_message(const struct rdma_cm_id *id)
{
	struct ibv_port_attr port;

	must(ibv_query_port(id->verbs, id->port_num, &port));
	return port.max_msg_sz;
}

/* --- tests ----------------------------------------------------------------------- */

static void out_of_time(int signal)
{
	static const char text[] = "# the test has run out of time\n";

	(void)signal;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(2);
	_exit(1);
}

void device_tests_init(void)
{
	struct sigaction action = { .sa_handler = out_of_time };

	/* Output must not be lost if a test ends the process. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGALRM, &action, NULL);
	alarm(TEST_SECONDS);
	if (!has_active_device())
		missing = "no RDMA device with an active port";
	else if (!find_address())
		missing = "no IPv4 address leads to an RDMA device";
}

int device_test_begin(void **state)
{
	struct link *link = calloc(1, sizeof(*link));

	if (!link)
		return -1;
	link->parameter = *state;
	*state = link;
	alarm(TEST_SECONDS);
	return 0;
}

int device_test_end(void **state)
{
	struct link *link = *state;

	link_close(link);
	alarm(0);
	free(link);
	return 0;
}

void must_be_zero(int result, const char *call, const char *file, int line)
{
	int error = result == -1 ? errno : result;

	if (!result)
		return;
	print_error("%s: result %d, %s\n", call, result, strerror(error));
	_fail(file, line);
}

struct ibv_wc take_completion(int (*get)(struct rdma_cm_id *, struct ibv_wc *),
			      struct rdma_cm_id *id, uint64_t context,
			      enum ibv_wc_status status, const char *file, int line)
{
	struct ibv_wc wc = { 0 };
	int result;

	errno = UNTOUCHED;
	result = get(id, &wc);
	if (result == 1 && errno == UNTOUCHED && wc.wr_id == context &&
	    wc.status == status)
		return wc;
	print_error("completion: result %d, errno %d; wr_id %#llx, expected %#llx; "
		    "%s, expected %s\n",
		    result, errno, (unsigned long long)wc.wr_id,
		    (unsigned long long)context, ibv_wc_status_str(wc.status),
		    ibv_wc_status_str(status));
	_fail(file, line);
	return wc;
}

/* --- connections ----------------------------------------------------------------- */

struct rdma_cm_event *next_event(struct rdma_event_channel *channel,
				 enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;

	must(rdma_get_cm_event(channel, &event));
	if (event->event != type || event->status) {
		print_error("%s, status %d; expected %s\n", rdma_event_str(event->event),
			    event->status, rdma_event_str(type));
		rdma_ack_cm_event(event);
		fail();
	}
	return event;
}

void take_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	must(rdma_ack_cm_event(next_event(channel, type)));
}

void link_open(struct link *link, enum rdma_port_space space)
{
	struct sockaddr *any_port = (struct sockaddr *)device_address();

	link->channel = rdma_create_event_channel();
	assert_non_null(link->channel);
	must(rdma_create_id(link->channel, &link->listener, NULL, space));
	must(rdma_bind_addr(link->listener, any_port));
	must(rdma_listen(link->listener, 1));
	link_resolve(link, space, rdma_get_local_addr(link->listener));
}

void link_resolve(struct link *link, enum rdma_port_space space, struct sockaddr *to)
{
	if (!link->channel)
		link->channel = rdma_create_event_channel();
	assert_non_null(link->channel);
	must(rdma_create_id(link->channel, &link->active, NULL, space));
	if (link->ack_timeout)
		must(rdma_set_option(link->active, RDMA_OPTION_ID,
				     RDMA_OPTION_ID_ACK_TIMEOUT, &link->ack_timeout,
				     sizeof(link->ack_timeout)));
	must(rdma_resolve_addr(link->active, NULL, to, RESOLVE_MS));
	take_event(link->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	must(rdma_resolve_route(link->active, RESOLVE_MS));
	take_event(link->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);

	/* Our own domain: it can be freed only when nothing is left in it. */
	link->pd = ibv_alloc_pd(link->active->verbs);
	assert_non_null(link->pd);
}

void link_create_qp(struct link *link, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = SEND_DEPTH,
			.max_recv_wr = RECV_DEPTH,
			.max_send_sge = MAX_SGE,
			.max_recv_sge = MAX_SGE,
			.max_inline_data = INLINE_BYTES,
		},
		.qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC,
	};

	must(rdma_create_qp(id, link->pd, &attr));
}

void link_ask(struct link *link)
{
	struct rdma_conn_param param = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.retry_count = 6,	/* soft-RoCE takes 7 to mean without limit */
		.rnr_retry_count = 7,	/* for ever */
	};

	if (!link->active->qp)
		link_create_qp(link, link->active);
	must(rdma_connect(link->active, &param));
}

void link_request(struct link *link)
{
	struct rdma_cm_event *event;

	link_ask(link);
	event = next_event(link->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	link->passive = event->id;
	must(rdma_ack_cm_event(event));
}

/* For datagrams, the event says how to reach the peer. */
static void learn_remote(struct link *link, const struct rdma_ud_param *ud)
{
	link->ah = ibv_create_ah(link->pd, (struct ibv_ah_attr *)&ud->ah_attr);
	assert_non_null(link->ah);
	link->remote_qpn = ud->qp_num;
	link->remote_qkey = ud->qkey;
}

void link_connect(struct link *link)
{
	struct rdma_conn_param param = {
		.responder_resources = RDMA_MAX_RESP_RES,
		.initiator_depth = RDMA_MAX_INIT_DEPTH,
		.rnr_retry_count = 7,
	};
	int datagrams = link->active->ps == RDMA_PS_UDP;
	struct rdma_cm_event *event;

	if (!link->passive)
		link_request(link);
	if (!link->passive->qp)
		link_create_qp(link, link->passive);
	if (datagrams)
		param.qp_num = link->passive->qp->qp_num;
	must(rdma_accept(link->passive, &param));

	event = next_event(link->channel, RDMA_CM_EVENT_ESTABLISHED);
	if (datagrams)
		learn_remote(link, &event->param.ud);
	must(rdma_ack_cm_event(event));
	/* A datagram's listener gets no event. */
	if (!datagrams)
		take_event(link->channel, RDMA_CM_EVENT_ESTABLISHED);
}

struct link *connected(void **state)
{
	struct link *link = *state;

	link_open(link, RDMA_PS_TCP);
	link_connect(link);
	return link;
}

void disconnect(struct link *link)
{
	must(rdma_disconnect(link->active));
	take_event(link->channel, RDMA_CM_EVENT_DISCONNECTED);
	must(rdma_disconnect(link->passive));
	take_event(link->channel, RDMA_CM_EVENT_DISCONNECTED);
}

void set_qp_error(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	must(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE));
}

enum ibv_qp_state qp_state(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

int post_directly(struct rdma_cm_id *id, enum ibv_wr_opcode opcode, struct ibv_sge sge,
		  unsigned int flags, uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = remote_addr, .rkey = rkey },
	};

	return ibv_post_send(id->qp, &wr, &bad);
}

void assert_same_answer(int helper_result, int helper_errno, int direct)
{
	assert_int_equal(helper_result, direct ? -1 : 0);
	if (direct)
		assert_int_equal(helper_errno, abs(direct));
}

static void close_id(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	if (id->srq)
		rdma_destroy_srq(id);
	must(rdma_destroy_id(id));
}

/*
 * Destroying a queue waits for unacknowledged events, and a protection domain in use cannot
 * be freed: whatever was forgotten shows here.
 */
void link_close(struct link *link)
{
	if (link->ah)
		must(ibv_destroy_ah(link->ah));
	close_id(link->active);
	close_id(link->passive);
	for (size_t i = 0; i < link->region_count; i++) {
		region_deregister(&link->regions[i]);
		munmap(link->regions[i].map, link->regions[i].map_length);
	}
	if (link->pd)
		must(ibv_dealloc_pd(link->pd));
	close_id(link->listener);
	if (link->channel)
		rdma_destroy_event_channel(link->channel);
	*link = (struct link){ .parameter = link->parameter };
}

/* --- memory ---------------------------------------------------------------------- */

struct region *region_try_add(struct link *link, registrar *reg, struct rdma_cm_id *id,
			      size_t length)
{
	struct region *region = &link->regions[link->region_count];
	size_t map_length = length + 2 * GUARD_BYTES;
	uint8_t *map;

	assert_true(link->region_count < MAX_REGIONS);
	map = mmap(NULL, map_length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	*region = (struct region){
		.map = map,
		.map_length = map_length,
		.data = map + GUARD_BYTES,
		.length = length,
		.guard = 0xa0 + link->region_count,
	};
	memset(map, region->guard, GUARD_BYTES);
	memset(region->data + length, region->guard, GUARD_BYTES);
	region->mr = reg(id, map, map_length);
	if (!region->mr) {
		int error = errno;

		munmap(map, map_length);
		errno = error;
		return NULL;
	}
	link->region_count++;
	return region;
}

struct region *region_add(struct link *link, registrar *reg, struct rdma_cm_id *id,
			  size_t length)
{
	struct region *region = region_try_add(link, reg, id, length);

	assert_non_null(region);
	return region;
}

void region_deregister(struct region *region)
{
	if (region->mr)
		must(rdma_dereg_mr(region->mr));
	region->mr = NULL;
}

/* Knuth's linear congruential generator; its high bits are the good ones. */
static uint8_t next_byte(uint64_t *random)
{
	*random = *random * 6364136223846793005 + 1442695040888963407;
	return *random >> 56;
}

void region_fill(struct region *region, uint64_t seed)
{
	for (size_t i = 0; i < region->length; i++)
		region->data[i] = next_byte(&seed);
}

void region_holds(const struct region *region, uint64_t seed)
{
	for (size_t i = 0; i < region->length; i++) {
		uint8_t expected = next_byte(&seed);

		if (region->data[i] != expected) {
			print_error("byte %zu of %zu is %#x, expected %#x\n", i,
				    region->length, region->data[i], expected);
			fail();
		}
	}
	region_guards_hold(region);
}

void region_guards_hold(const struct region *region)
{
	for (size_t i = 0; i < GUARD_BYTES; i++) {
		assert_int_equal(region->map[i], region->guard);
		assert_int_equal(region->data[region->length + i], region->guard);
	}
}
