/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA reads and writes on a device: what arrives, what is refused, and what happens
 * when the rules of the manual are broken.
 */
#include "device.h"

#include <inttypes.h>
#include <string.h>

enum {
	BYTES = 4096,
	CONTEXT = 77,
	READS = 8,
};

enum { SOURCE_SEED = 1, SINK_SEED = 2 };

#define LARGEST SIZE_MAX	/* up to the device's limit */

static const size_t no_bytes = 0, one_byte = 1, one_page = 4096, one_mib = 1 << 20,
		    one_gib = 1 << 30, largest = LARGEST;

/* --- what arrives ----------------------------------------------------------------- */

static size_t wanted_length(const struct link *link)
{
	size_t length = *(const size_t *)link->parameter;
	uint32_t max = device_max_message(link->active);

	if (length == LARGEST)
		return max;
	if (length > max)
		skip_because("the device's longest message is %" PRIu32 " bytes", max);
	return length;
}

static struct region *add_or_skip(struct link *link, registrar *reg,
				  struct rdma_cm_id *id, size_t length)
{
	struct region *region = region_try_add(link, reg, id, length);

	if (!region && length > one_mib)
		skip_because("cannot register %zu bytes: %s", length, strerror(errno));
	assert_non_null(region);
	return region;
}

static void read_of(void **state)
{
	struct link *link = connected(state);
	size_t length = wanted_length(link);
	struct region *source = add_or_skip(link, rdma_reg_read, link->passive, length);
	struct region *sink = add_or_skip(link, rdma_reg_msgs, link->active, length);
	struct ibv_wc wc;

	region_fill(source, SOURCE_SEED);
	region_fill(sink, SINK_SEED);
	assert_succeeds(rdma_post_read(link->active, context_of(CONTEXT), sink->data, length,
				       sink->mr, IBV_SEND_SIGNALED, remote_address(source),
				       source->mr->rkey), 0);
	wc = take_send(link->active, CONTEXT, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	region_holds(sink, SOURCE_SEED);
	region_holds(source, SOURCE_SEED);
}

static void write_of(void **state)
{
	struct link *link = connected(state);
	size_t length = wanted_length(link);
	struct region *source = add_or_skip(link, rdma_reg_msgs, link->active, length);
	struct region *sink = add_or_skip(link, rdma_reg_write, link->passive, length);
	struct ibv_wc wc;

	region_fill(source, SOURCE_SEED);
	region_fill(sink, SINK_SEED);
	assert_succeeds(rdma_post_write(link->active, context_of(CONTEXT), source->data,
					length, source->mr, IBV_SEND_SIGNALED,
					remote_address(sink), sink->mr->rkey), 0);
	wc = take_send(link->active, CONTEXT, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	region_holds(sink, SOURCE_SEED);
	region_holds(source, SOURCE_SEED);
}

/* Pieces of a buffer, not in the order of their addresses, with gaps between them. */
static const struct piece {
	size_t offset, length;
} pieces[] = { { 5000, 37 }, { 5, 1 }, { 100, 4096 } };

enum {
	PIECES_SPAN = 6000,	/* all pieces and gaps */
	PIECES_BYTES = 37 + 1 + 4096,
};

static void list_pieces(const struct region *region, struct ibv_sge *list)
{
	for (size_t i = 0; i < COUNT(pieces); i++)
		list[i] = (struct ibv_sge){
			.addr = (uintptr_t)region->data + pieces[i].offset,
			.length = pieces[i].length,
			.lkey = region->mr->lkey,
		};
}

/* Copies the pieces into a whole, or a whole into the pieces. */
static void gather(uint8_t *whole, const uint8_t *parts)
{
	for (size_t i = 0; i < COUNT(pieces); whole += pieces[i++].length)
		memcpy(whole, parts + pieces[i].offset, pieces[i].length);
}

static void scatter(uint8_t *parts, const uint8_t *whole)
{
	for (size_t i = 0; i < COUNT(pieces); whole += pieces[i++].length)
		memcpy(parts + pieces[i].offset, whole, pieces[i].length);
}

static void read_into_pieces(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_read, link->passive, PIECES_BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, PIECES_SPAN);
	uint8_t expected[PIECES_SPAN];
	struct ibv_sge list[COUNT(pieces)];

	region_fill(source, SOURCE_SEED);
	region_fill(sink, SINK_SEED);
	memcpy(expected, sink->data, PIECES_SPAN);
	scatter(expected, source->data);
	list_pieces(sink, list);
	assert_succeeds(rdma_post_readv(link->active, context_of(CONTEXT), list,
					COUNT(pieces), IBV_SEND_SIGNALED,
					remote_address(source), source->mr->rkey), 0);
	take_send(link->active, CONTEXT, IBV_WC_SUCCESS);
	assert_memory_equal(sink->data, expected, PIECES_SPAN);
	region_guards_hold(sink);
	region_holds(source, SOURCE_SEED);
}

static void write_from_pieces(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_msgs, link->active, PIECES_SPAN);
	struct region *sink = region_add(link, rdma_reg_write, link->passive, PIECES_BYTES);
	uint8_t expected[PIECES_BYTES];
	struct ibv_sge list[COUNT(pieces)];

	region_fill(source, SOURCE_SEED);
	region_fill(sink, SINK_SEED);
	gather(expected, source->data);
	list_pieces(source, list);
	assert_succeeds(rdma_post_writev(link->active, context_of(CONTEXT), list,
					 COUNT(pieces), IBV_SEND_SIGNALED,
					 remote_address(sink), sink->mr->rkey), 0);
	take_send(link->active, CONTEXT, IBV_WC_SUCCESS);
	assert_memory_equal(sink->data, expected, PIECES_BYTES);
	region_guards_hold(sink);
	region_holds(source, SOURCE_SEED);
}

/* A listening id has a protection domain; registration needs no queue pair. */
static void registration_on_listener(void **state)
{
	static uint8_t buffer[BYTES];
	static registrar *const registrars[] = { rdma_reg_msgs, rdma_reg_read,
						 rdma_reg_write };
	struct link *link = *state;

	link_open(link, RDMA_PS_TCP);
	assert_null(link->listener->qp);
	for (size_t i = 0; i < COUNT(registrars); i++) {
		struct ibv_mr *mr = registrars[i](link->listener, buffer, BYTES);

		assert_non_null(mr);
		assert_ptr_equal(mr->pd, link->listener->pd);
		assert_ptr_equal(mr->addr, buffer);
		assert_int_equal(mr->length, BYTES);
		assert_succeeds(rdma_dereg_mr(mr), 0);
	}
}

/* --- what is refused -------------------------------------------------------------- */

enum mistake { NOT_READABLE, WRONG_RKEY, PAST_THE_END, DEREGISTERED, NOT_WRITABLE };

static const enum mistake not_readable = NOT_READABLE, wrong_rkey = WRONG_RKEY,
			  past_the_end = PAST_THE_END, deregistered = DEREGISTERED,
			  not_writable = NOT_WRITABLE;

struct remote {
	uint64_t addr;
	uint32_t rkey;
};

/* Memory of the passive side that may not be read (or written), for various reasons. */
static struct remote forbidden(struct link *link, enum mistake mistake)
{
	registrar *reg = mistake == NOT_READABLE ? rdma_reg_msgs : rdma_reg_read;
	struct region *region = region_add(link, reg, link->passive, BYTES);
	struct remote remote = { remote_address(region), region->mr->rkey };

	region_fill(region, SOURCE_SEED);
	if (mistake == WRONG_RKEY)
		remote.rkey ^= 0x55;
	if (mistake == PAST_THE_END)
		remote.addr = (uintptr_t)region->mr->addr + region->mr->length - BYTES / 2;
	if (mistake == DEREGISTERED)
		region_deregister(region);
	return remote;
}

static void good_read(struct link *link)
{
	struct region *source = region_add(link, rdma_reg_read, link->passive, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, BYTES);

	region_fill(source, SOURCE_SEED);
	must(rdma_post_read(link->active, context_of(CONTEXT), sink->data, BYTES, sink->mr,
			    IBV_SEND_SIGNALED, remote_address(source), source->mr->rkey));
	take_send(link->active, CONTEXT, IBV_WC_SUCCESS);
	region_holds(sink, SOURCE_SEED);
}

/*
 * The post succeeds, since only the other side can tell. Then the reader's queue pair is in
 * the error state; the processes on both sides continue and can reconnect.
 */
static void refused(void **state)
{
	struct link *link = connected(state);
	enum mistake mistake = *(const enum mistake *)link->parameter;
	struct region *local = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct remote remote = forbidden(link, mistake);

	region_fill(local, SINK_SEED);
	if (mistake == NOT_WRITABLE)
		assert_succeeds(rdma_post_write(link->active, context_of(CONTEXT),
						local->data, BYTES, local->mr,
						IBV_SEND_SIGNALED, remote.addr,
						remote.rkey), 0);
	else
		assert_succeeds(rdma_post_read(link->active, context_of(CONTEXT),
					       local->data, BYTES, local->mr,
					       IBV_SEND_SIGNALED, remote.addr,
					       remote.rkey), 0);
	take_send(link->active, CONTEXT, IBV_WC_REM_ACCESS_ERR);
	if (mistake == NOT_WRITABLE)
		region_holds(&link->regions[1], SOURCE_SEED);
	region_holds(local, SINK_SEED);
	assert_int_equal(qp_state(link->active), IBV_QPS_ERR);
	print_message("# the other side's queue pair is in state %d (3 ready, 6 error)\n",
		      qp_state(link->passive));

	link_close(link);
	connected(state);
	good_read(link);
}

/* --- what the manual forbids ------------------------------------------------------ */

/* Posts a read on an id that is not connected yet; directly, or by the helper. */
static int read_too_early(struct link *link, struct region **sink, int directly)
{
	struct region *source;

	link_open(link, RDMA_PS_TCP);
	link_create_qp(link, link->active);
	source = region_add(link, rdma_reg_read, link->active, BYTES);
	*sink = region_add(link, rdma_reg_msgs, link->active, BYTES);
	region_fill(source, SOURCE_SEED);
	region_fill(*sink, SINK_SEED);
	if (directly)
		return post_directly(link->active, IBV_WR_RDMA_READ,
				     (struct ibv_sge){ (uintptr_t)(*sink)->data, BYTES,
						       (*sink)->mr->lkey },
				     IBV_SEND_SIGNALED, remote_address(source),
				     source->mr->rkey);
	return rdma_post_read(link->active, context_of(CONTEXT), (*sink)->data, BYTES,
			      (*sink)->mr, IBV_SEND_SIGNALED, remote_address(source),
			      source->mr->rkey);
}

static void read_before_connection(void **state)
{
	struct link *link = *state;
	struct region *sink;
	int result, direct = read_too_early(link, &sink, 1);
	struct ibv_wc wc;

	link_close(link);
	errno = UNTOUCHED;
	result = read_too_early(link, &sink, 0);
	assert_same_answer(result, errno, direct);
	print_message("# read before the connection: the provider says %s\n",
		      direct ? strerror(direct) : "yes");

	/* Whatever was returned, the request may be in the queue. */
	link_connect(link);
	must(rdma_post_write(link->active, context_of(CONTEXT + 1), NULL, 0, NULL,
			     IBV_SEND_SIGNALED, 0, 0));
	assert_int_equal(rdma_get_send_comp(link->active, &wc), 1);
	if (wc.wr_id == CONTEXT) {
		print_message("# and does it once connected: %s\n",
			      ibv_wc_status_str(wc.status));
		assert_int_equal(rdma_get_send_comp(link->active, &wc), 1);
	} else {
		assert_int_not_equal(direct, 0);
	}
	assert_int_equal(wc.wr_id, CONTEXT + 1);
}

/*
 * A send without a posted receive holds up later requests, so the read is certain to find
 * its buffer deregistered: a local error.
 */
static void deregistered_before_start(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_read, link->passive, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, BYTES);

	region_fill(source, SOURCE_SEED);
	region_fill(sink, SINK_SEED);
	must(rdma_post_sendv(link->active, context_of(1), NULL, 0, IBV_SEND_SIGNALED));
	assert_succeeds(rdma_post_read(link->active, context_of(CONTEXT), sink->data, BYTES,
				       sink->mr, IBV_SEND_SIGNALED, remote_address(source),
				       source->mr->rkey), 0);
	region_deregister(sink);
	must(rdma_post_recvv(link->passive, context_of(2), NULL, 0));
	take_send(link->active, 1, IBV_WC_SUCCESS);
	take_send(link->active, CONTEXT, IBV_WC_LOC_PROT_ERR);
	region_holds(sink, SINK_SEED);

	link_close(link);
	connected(state);
	good_read(link);
}

/* Here the status depends on how far the reads got; each has a completion. */
static void deregistered_in_flight(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_read, link->passive, one_mib);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, one_mib);
	struct ibv_wc wc = { 0 };
	uint64_t i, successes = 0;

	region_fill(source, SOURCE_SEED);
	for (i = 0; i < READS; i++)
		must(rdma_post_read(link->active, context_of(i), sink->data, one_mib,
				    sink->mr, IBV_SEND_SIGNALED, remote_address(source),
				    source->mr->rkey));
	region_deregister(sink);
	for (i = 0; i < READS; i++) {
		assert_succeeds(rdma_get_send_comp(link->active, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		successes += wc.status == IBV_WC_SUCCESS;
	}
	print_message("# deregistered in flight: %" PRIu64 " of %d reads succeed\n",
		      successes, READS);
	region_guards_hold(sink);
	region_holds(source, SOURCE_SEED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST_OF("read of nothing", read_of, &no_bytes),
		DEVICE_TEST_OF("read of one byte", read_of, &one_byte),
		DEVICE_TEST_OF("read of one page", read_of, &one_page),
		DEVICE_TEST_OF("read of 1 MiB", read_of, &one_mib),
		DEVICE_TEST_OF("read of 1 GiB", read_of, &one_gib),
		DEVICE_TEST_OF("read of the longest message", read_of, &largest),
		DEVICE_TEST_OF("write of nothing", write_of, &no_bytes),
		DEVICE_TEST_OF("write of one byte", write_of, &one_byte),
		DEVICE_TEST_OF("write of one page", write_of, &one_page),
		DEVICE_TEST_OF("write of 1 MiB", write_of, &one_mib),
		DEVICE_TEST_OF("write of 1 GiB", write_of, &one_gib),
		DEVICE_TEST_OF("write of the longest message", write_of, &largest),
		DEVICE_TEST(read_into_pieces),
		DEVICE_TEST(write_from_pieces),
		DEVICE_TEST(registration_on_listener),
		DEVICE_TEST_OF("read of memory for messages", refused, &not_readable),
		DEVICE_TEST_OF("read with a wrong rkey", refused, &wrong_rkey),
		DEVICE_TEST_OF("read past the end", refused, &past_the_end),
		DEVICE_TEST_OF("read of deregistered memory", refused, &deregistered),
		DEVICE_TEST_OF("write to memory for reads", refused, &not_writable),
		DEVICE_TEST(read_before_connection),
		DEVICE_TEST(deregistered_before_start),
		DEVICE_TEST(deregistered_in_flight),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("reads and writes on a device", tests, NULL,
					   NULL);
}
