/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The extension helpers on a device: operations, batches, registration, statuses and whole
 * transfers.
 */
#include "device.h"

#include <rdma/rdma_verbs_ext.h>

#include <arpa/inet.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	BYTES = 4096,
	CONTEXT = 77,
	BATCH = 16,
};

enum { SOURCE_SEED = 1, SINK_SEED = 2 };

static struct ibv_wc next_of(int (*get)(struct rdma_cm_id *, struct ibv_wc *, int),
			     struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	assert_succeeds(get(id, &wc, TEST_SECONDS * 1000), 1);
	return wc;
}

/* --- immediate data ----------------------------------------------------------------- */

static void send_with_immediate(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->passive, BYTES);
	struct ibv_wc wc;

	region_fill(source, SOURCE_SEED);
	must(rdma_post_recv(link->passive, context_of(1), sink->data, BYTES, sink->mr));
	assert_succeeds(rdmax_post_send_imm(link->active, context_of(2), source->data, BYTES,
					    source->mr, IBV_SEND_SIGNALED, htonl(0x12345678)),
			0);
	wc = next_of(rdmax_get_recv_comp, link->passive);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x12345678);
	assert_int_equal(wc.byte_len, BYTES);
	region_holds(sink, SOURCE_SEED);
	assert_int_equal(next_of(rdmax_get_send_comp, link->active).status, IBV_WC_SUCCESS);
}

static void write_with_immediate(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *sink = region_add(link, rdma_reg_write, link->passive, BYTES);
	struct ibv_wc wc;

	region_fill(source, SOURCE_SEED);
	must(rdma_post_recvv(link->passive, context_of(1), NULL, 0));
	assert_succeeds(rdmax_post_write_imm(link->active, context_of(2), source->data, BYTES,
					     source->mr, IBV_SEND_SIGNALED,
					     remote_address(sink), sink->mr->rkey,
					     htonl(0xfeedface)), 0);
	wc = next_of(rdmax_get_recv_comp, link->passive);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0xfeedface);
	assert_int_equal(wc.byte_len, BYTES);
	region_holds(sink, SOURCE_SEED);
	assert_int_equal(next_of(rdmax_get_send_comp, link->active).status, IBV_WC_SUCCESS);
}

/* --- registration and atomics ---------------------------------------------------------- */

static struct ibv_mr *for_atomics(struct rdma_cm_id *id, void *addr, size_t length)
{
	return rdmax_reg(id, addr, length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
}

static uint64_t *word(const struct region *region)
{
	return (uint64_t *)(void *)region->data;
}

static enum ibv_wc_status cas(struct link *link, struct region *old, uint64_t addr, uint32_t rkey,
			      uint64_t compare, uint64_t swap)
{
	assert_succeeds(rdmax_post_atomic_cas(link->active, context_of(1), old->data, old->mr,
					      IBV_SEND_SIGNALED, addr, rkey, compare, swap), 0);
	return next_of(rdmax_get_send_comp, link->active).status;
}

static enum ibv_wc_status faa(struct link *link, struct region *old, uint64_t addr, uint32_t rkey,
			      uint64_t add)
{
	assert_succeeds(rdmax_post_atomic_faa(link->active, context_of(1), old->data, old->mr,
					      IBV_SEND_SIGNALED, addr, rkey, add), 0);
	return next_of(rdmax_get_send_comp, link->active).status;
}

static void atomics(void **state)
{
	struct link *link = connected(state);
	struct region *old = region_add(link, rdma_reg_msgs, link->active, 8);
	struct region *target = region_add(link, for_atomics, link->passive, 16);
	uint64_t addr = remote_address(target);
	uint32_t rkey = target->mr->rkey;

	word(target)[0] = 5;
	word(target)[1] = 99;
	assert_int_equal(cas(link, old, addr, rkey, 5, 7), IBV_WC_SUCCESS);
	assert_int_equal(*word(old), 5);
	assert_int_equal(*word(target), 7);
	assert_int_equal(cas(link, old, addr, rkey, 5, 8), IBV_WC_SUCCESS);
	assert_int_equal(*word(old), 7);
	assert_int_equal(*word(target), 7);
	assert_int_equal(faa(link, old, addr, rkey, 10), IBV_WC_SUCCESS);
	assert_int_equal(*word(old), 7);
	assert_int_equal(*word(target), 17);
	assert_int_equal(faa(link, old, addr, rkey, UINT64_MAX), IBV_WC_SUCCESS);
	assert_int_equal(*word(target), 16);
	assert_int_equal(word(target)[1], 99);
	region_guards_hold(target);
	region_guards_hold(old);
}

/* Memory that was not registered for them. */
static void atomics_need_their_access(void **state)
{
	struct link *link = connected(state);
	struct region *old = region_add(link, rdma_reg_msgs, link->active, 8);
	struct region *target = region_add(link, rdma_reg_write, link->passive, 8);
	enum ibv_wc_status status;

	*word(target) = 5;
	status = faa(link, old, remote_address(target), target->mr->rkey, 1);
	assert_int_equal(status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(*word(target), 5);
}

/* A read-only page, to be registered by itself; the caller unmaps it. */
static uint8_t *read_only_page(void)
{
	uint8_t *page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	memset(page, 0x3c, BYTES);
	must(mprotect(page, BYTES, PROT_READ));
	return page;
}

static void read_only_sources(void **state)
{
	struct link *link = connected(state);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, BYTES);
	uint8_t *page = read_only_page();
	struct ibv_mr *mr;

	/* The plain helpers cannot: they ask for write access. */
	errno = 0;
	assert_null(rdma_reg_read(link->passive, page, BYTES));
	assert_int_equal(errno, EFAULT);

	mr = rdmax_reg(link->passive, page, BYTES, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_succeeds(rdmax_read(link->active, sink->data, BYTES, sink->mr,
				   (uintptr_t)page, mr->rkey, -1, NULL, NULL), 0);
	assert_memory_equal(sink->data, page, BYTES);
	must(rdma_dereg_mr(mr));

	/* A local source of writes needs no access flag at all. */
	mr = rdmax_reg(link->passive, page, BYTES, 0);
	assert_non_null(mr);
	sink = region_add(link, rdma_reg_write, link->active, BYTES);
	assert_succeeds(rdmax_write(link->passive, page, BYTES, mr, remote_address(sink),
				    sink->mr->rkey, -1, NULL, NULL), 0);
	assert_memory_equal(sink->data, page, BYTES);
	must(rdma_dereg_mr(mr));
	munmap(page, BYTES);
}

/* Optional: the kernel or the device may ignore it. */
static void relaxed_ordering(void **state)
{
	struct link *link = connected(state);
	static uint8_t buffer[BYTES];
	struct ibv_mr *mr = rdmax_reg(link->active, buffer, BYTES,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);

	assert_non_null(mr);
	must(rdma_dereg_mr(mr));
}

/* --- many at once ------------------------------------------------------------------------ */

static struct ibv_sge elements[2][BATCH];

static struct ibv_sge *element(int side, struct region *local, int i)
{
	size_t length = BYTES / BATCH;

	elements[side][i] = (struct ibv_sge){ (uintptr_t)local->data + (size_t)i * length,
					      (uint32_t)length, local->mr->lkey };
	return &elements[side][i];
}

static struct rdmax_send_wr piece(enum ibv_wr_opcode opcode, struct region *local,
				  struct region *remote, int i, int flags)
{
	size_t length = BYTES / BATCH;

	return (struct rdmax_send_wr){
		.context = context_of((uint64_t)i),
		.opcode = opcode,
		.sgl = element(0, local, i),
		.nsge = 1,
		.remote_addr = remote_address(remote) + (uint64_t)i * length,
		.rkey = remote->mr->rkey,
		.flags = flags,
	};
}

static int last_signaled(int i)
{
	return i == BATCH - 1 ? IBV_SEND_SIGNALED : 0;
}

static void many_reads_and_writes(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_read, link->passive, BYTES);
	struct region *middle = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *sink = region_add(link, rdma_reg_write, link->passive, BYTES);
	struct rdmax_send_wr wr[BATCH];
	int posted = -1;

	region_fill(source, SOURCE_SEED);
	for (int i = 0; i < BATCH; i++)
		wr[i] = piece(IBV_WR_RDMA_READ, middle, source, i, last_signaled(i));
	assert_succeeds(rdmax_post_sends(link->active, wr, sizeof(*wr), BATCH, &posted), 0);
	assert_int_equal(posted, BATCH);
	take_send(link->active, BATCH - 1, IBV_WC_SUCCESS);
	region_holds(middle, SOURCE_SEED);

	for (int i = 0; i < BATCH; i++)
		wr[i] = piece(IBV_WR_RDMA_WRITE, middle, sink, i, last_signaled(i));
	assert_succeeds(rdmax_post_sends(link->active, wr, sizeof(*wr), BATCH, &posted), 0);
	take_send(link->active, BATCH - 1, IBV_WC_SUCCESS);
	region_holds(sink, SOURCE_SEED);
}

static void many_messages(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->passive, BYTES);
	struct rdmax_send_wr sends[BATCH];
	struct rdmax_recv_wr recvs[BATCH];
	struct ibv_wc wc[BATCH];
	int posted = -1, taken = 0;

	region_fill(source, SOURCE_SEED);
	for (int i = 0; i < BATCH; i++) {
		recvs[i] = (struct rdmax_recv_wr){ .context = context_of((uint64_t)i),
						   .sgl = element(0, sink, i), .nsge = 1 };
		sends[i] = (struct rdmax_send_wr){ .context = context_of((uint64_t)i),
						   .opcode = IBV_WR_SEND_WITH_IMM,
						   .imm_data = htonl((uint32_t)i),
						   .sgl = element(1, source, i), .nsge = 1,
						   .flags = last_signaled(i) };
	}
	assert_succeeds(rdmax_post_recvs(link->passive, recvs, sizeof(*recvs), BATCH, &posted), 0);
	assert_int_equal(posted, BATCH);
	assert_succeeds(rdmax_post_sends(link->active, sends, sizeof(*sends), BATCH, &posted), 0);
	assert_int_equal(posted, BATCH);
	take_send(link->active, BATCH - 1, IBV_WC_SUCCESS);
	while (taken < BATCH) {
		int found = rdmax_get_recv_comps(link->passive, wc, BATCH, TEST_SECONDS * 1000);

		assert_between(found, 1, BATCH - taken);
		for (int i = 0; i < found; i++) {
			assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
			assert_int_equal(ntohl(wc[i].imm_data), taken);
			assert_int_equal(wc[i].wr_id, taken++);
		}
	}
	region_holds(sink, SOURCE_SEED);
}

/* More than the queue can hold: those that fit are posted, counted and completed. */
static void more_than_fit(void **state)
{
	enum { TOO_MANY = 4096 };
	static struct rdmax_send_wr wr[TOO_MANY];
	struct link *link = *state;
	struct region *source, *sink;
	int posted = -1;

	link_open(link, RDMA_PS_TCP);
	link_connect(link);
	source = region_add(link, rdma_reg_read, link->passive, BYTES);
	sink = region_add(link, rdma_reg_msgs, link->active, BYTES);
	for (int i = 0; i < TOO_MANY; i++)
		wr[i] = piece(IBV_WR_RDMA_READ, sink, source, 0, IBV_SEND_SIGNALED);
	for (int i = 0; i < TOO_MANY; i++)
		wr[i].context = context_of((uint64_t)i);
	assert_fails(rdmax_post_sends(link->active, wr, sizeof(*wr), TOO_MANY, &posted), ENOMEM);
	assert_between(posted, SEND_DEPTH, TOO_MANY - 1);
	for (int i = 0; i < posted; i++)
		take_send(link->active, (uint64_t)i, IBV_WC_SUCCESS);
	assert_succeeds(rdmax_post_sends(link->active, wr, sizeof(*wr), 1, &posted), 0);
	take_send(link->active, 0, IBV_WC_SUCCESS);
}

/* --- what a status says ---------------------------------------------------------------------- */

static void statuses(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_msgs, link->passive, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct ibv_wc wc;

	must(rdma_post_read(link->active, NULL, sink->data, BYTES, sink->mr, IBV_SEND_SIGNALED,
			    remote_address(source), source->mr->rkey));
	wc = next_of(rdmax_get_send_comp, link->active);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rdmax_wc_errno(&wc), EACCES);
	assert_non_null(strstr(rdmax_wc_strerror(&wc), "rkey"));
	must(rdma_post_send(link->active, NULL, NULL, 0, NULL, IBV_SEND_SIGNALED));
	wc = next_of(rdmax_get_send_comp, link->active);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rdmax_wc_errno(&wc), ECANCELED);
}

/* Inline data up to the limit fits; one byte more does not, on a device that checks. */
static void max_inline(void **state)
{
	struct link *link = connected(state);
	static uint8_t data[BYTES];
	struct rdmax_limits limits;
	int bytes;

	assert_succeeds(rdmax_query_limits(link->active, &limits, sizeof(limits)), 0);
	bytes = (int)limits.max_inline_data;
	assert_between(bytes, INLINE_BYTES, BYTES - 1);
	assert_true(limits.max_send_wr >= SEND_DEPTH && limits.max_recv_wr >= RECV_DEPTH);
	assert_true(limits.max_send_sge >= 1 && limits.max_recv_sge >= 1);
	assert_true(limits.max_rd_atomic >= 1);
	assert_int_equal(limits.max_msg_sz, device_max_message(link->active));
	must(rdma_post_recvv(link->passive, NULL, NULL, 0));
	assert_succeeds(rdma_post_write(link->active, context_of(1), data, 0, NULL,
					IBV_SEND_INLINE | IBV_SEND_SIGNALED, 0, 0), 0);
	take_send(link->active, 1, IBV_WC_SUCCESS);
	errno = 0;
	assert_int_equal(rdma_post_send(link->active, NULL, data, (size_t)bytes + 1, NULL,
					IBV_SEND_INLINE), -1);
	assert_int_equal(errno, EINVAL);
	assert_succeeds(rdma_post_send(link->active, NULL, data, (size_t)bytes, NULL,
				       IBV_SEND_INLINE), 0);
}

/* --- whole transfers ---------------------------------------------------------------------------- */

static const size_t no_bytes = 0, one_byte = 1, one_page = 4096, one_mib = 1 << 20,
		    some_mib = (20 << 20) + 12345, long_read = 64 << 20;

static void transfers(void **state)
{
	struct link *link = connected(state);
	size_t length = *(const size_t *)link->parameter;
	struct region *source = region_add(link, rdma_reg_read, link->passive, length);
	struct region *middle = region_add(link, rdma_reg_msgs, link->active, length);
	struct region *sink = region_add(link, rdma_reg_write, link->passive, length);

	region_fill(source, SOURCE_SEED);
	region_fill(middle, SINK_SEED);
	assert_succeeds(rdmax_read(link->active, middle->data, length, middle->mr,
				   remote_address(source), source->mr->rkey, -1, NULL, NULL), 0);
	region_holds(middle, SOURCE_SEED);
	assert_succeeds(rdmax_write(link->active, middle->data, length, middle->mr,
				    remote_address(sink), sink->mr->rkey, -1, NULL, NULL), 0);
	region_holds(sink, SOURCE_SEED);
	region_guards_hold(source);
}

static void transfer_is_refused(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_msgs, link->passive, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, BYTES);

	assert_fails(rdmax_read(link->active, sink->data, BYTES, sink->mr,
				remote_address(source), source->mr->rkey, -1, NULL, NULL), EACCES);
	assert_fails(rdmax_read(link->active, sink->data, BYTES, sink->mr,
				remote_address(source), source->mr->rkey, -1, NULL, NULL), ECANCELED);
}

/* If an unsignaled request of the program fails, its status is the reason, not the flush. */
static void an_earlier_request_is_refused(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_read, link->passive, BYTES);
	struct region *sink = region_add(link, rdma_reg_msgs, link->active, BYTES);

	must(rdma_post_write(link->active, NULL, sink->data, BYTES, sink->mr, 0,
			     remote_address(source), source->mr->rkey));
	assert_fails(rdmax_read(link->active, sink->data, BYTES, sink->mr,
				remote_address(source), source->mr->rkey, -1, NULL, NULL), EACCES);
}

/*
 * A long read times out but is still in flight. It completes while a later call waits,
 * which must not take that for its own completion.
 */
static void transfer_times_out(void **state)
{
	struct link *link = connected(state);
	struct region *source = region_add(link, rdma_reg_read, link->passive, long_read);
	struct region *first = region_add(link, rdma_reg_msgs, link->active, long_read);
	struct region *second = region_add(link, rdma_reg_msgs, link->active, BYTES);

	region_fill(source, SOURCE_SEED);
	for (int i = 0; i < 10; i++) {
		assert_fails(rdmax_read(link->active, first->data, long_read, first->mr,
					remote_address(source), source->mr->rkey, i % 3, NULL, NULL),
			     ETIMEDOUT);
		memset(second->data, 0, BYTES);
		assert_succeeds(rdmax_read(link->active, second->data, BYTES, second->mr,
					   remote_address(source), source->mr->rkey, -1, NULL, NULL), 0);
		assert_memory_equal(second->data, source->data, BYTES);
	}
	/* The pieces in flight have arrived; those after them were not posted. */
	assert_memory_equal(first->data, source->data, device_is_rxe(link->active) ? 8 << 20 : 1);
	region_guards_hold(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(send_with_immediate),
		DEVICE_TEST(write_with_immediate),
		DEVICE_TEST(atomics),
		DEVICE_TEST(atomics_need_their_access),
		DEVICE_TEST(read_only_sources),
		DEVICE_TEST(relaxed_ordering),
		DEVICE_TEST(many_reads_and_writes),
		DEVICE_TEST(many_messages),
		DEVICE_TEST(more_than_fit),
		DEVICE_TEST(statuses),
		DEVICE_TEST(max_inline),
		DEVICE_TEST_OF("transfers, no bytes", transfers, &no_bytes),
		DEVICE_TEST_OF("transfers, one byte", transfers, &one_byte),
		DEVICE_TEST_OF("transfers, one page", transfers, &one_page),
		DEVICE_TEST_OF("transfers, 1 MiB", transfers, &one_mib),
		DEVICE_TEST_OF("transfers, 20 MiB and some", transfers, &some_mib),
		DEVICE_TEST(transfer_is_refused),
		DEVICE_TEST(an_earlier_request_is_refused),
		DEVICE_TEST(transfer_times_out),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("ext_ops", tests, NULL, NULL);
}
