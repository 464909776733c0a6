/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Posting on a device: full queues, inline data, a queue pair in error, shared receive
 * queues, datagrams, and requests without data.
 */
#include "device.h"

#include <string.h>

enum {
	BYTES = 32,		/* of an ordinary message */
	GRH_BYTES = 40,		/* the start of a received datagram */
};

static struct ibv_qp_cap real_capacity(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must(ibv_query_qp(id->qp, &attr, IBV_QP_CAP, &init));
	return init.cap;
}

/* The completion queue has the requested depth; the request queues may be deeper. */
static void make_room(struct ibv_cq *cq, uint32_t entries)
{
	if ((uint32_t)cq->cqe < entries)
		must(ibv_resize_cq(cq, entries));
}

/* --- full queues ------------------------------------------------------------------ */

/* With no receive posted on the other side, no send can leave the queue. */
static void full_send_queue(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->passive, BYTES);
	uint32_t capacity = real_capacity(link->active).max_send_wr;
	uint32_t receives = 0;

	assert_true(capacity >= SEND_DEPTH);
	make_room(link->active->send_cq, capacity);
	region_fill(from, 1);
	for (uint32_t i = 0; i < capacity; i++)
		assert_succeeds(rdma_post_send(link->active, context_of(i), from->data, BYTES,
					       from->mr, IBV_SEND_SIGNALED), 0);
	assert_fails(rdma_post_send(link->active, context_of(capacity), from->data, BYTES,
				    from->mr, IBV_SEND_SIGNALED), ENOMEM);

	/* Nothing was lost: once receives are posted, all sends arrive, in order. */
	for (uint32_t i = 0; i < capacity; i++) {
		for (; receives < capacity && receives < i + RECV_DEPTH; receives++)
			must(rdma_post_recv(link->passive, context_of(receives), to->data,
					    BYTES, to->mr));
		take_send(link->active, i, IBV_WC_SUCCESS);
		take_recv(link->passive, i, IBV_WC_SUCCESS);
	}
	region_holds(to, 1);

	must(rdma_post_recv(link->passive, context_of(capacity), to->data, BYTES, to->mr));
	assert_succeeds(rdma_post_send(link->active, context_of(capacity), from->data, BYTES,
				       from->mr, IBV_SEND_SIGNALED), 0);
	take_send(link->active, capacity, IBV_WC_SUCCESS);
	take_recv(link->passive, capacity, IBV_WC_SUCCESS);
}

static void full_receive_queue(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->passive, BYTES);
	uint32_t capacity = real_capacity(link->passive).max_recv_wr;

	assert_true(capacity >= RECV_DEPTH);
	make_room(link->passive->recv_cq, capacity);
	for (uint32_t i = 0; i < capacity; i++)
		assert_succeeds(rdma_post_recv(link->passive, context_of(i), to->data, BYTES,
					       to->mr), 0);
	assert_fails(rdma_post_recv(link->passive, context_of(capacity), to->data, BYTES,
				    to->mr), ENOMEM);

	for (uint32_t i = 0; i < capacity; i++) {
		assert_succeeds(rdma_post_send(link->active, context_of(i), from->data, BYTES,
					       from->mr, IBV_SEND_SIGNALED), 0);
		take_send(link->active, i, IBV_WC_SUCCESS);
		take_recv(link->passive, i, IBV_WC_SUCCESS);
	}
	assert_succeeds(rdma_post_recv(link->passive, context_of(capacity), to->data, BYTES,
				       to->mr), 0);
}

/* --- inline data ------------------------------------------------------------------ */

static void inline_send(void **state)
{
	struct link *link = connected(state);
	uint32_t length = real_capacity(link->active).max_inline_data;
	struct region *to = region_add(link, rdma_reg_msgs, link->passive, length);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, length);

	assert_true(length >= INLINE_BYTES);
	region_fill(from, 1);
	region_deregister(from);
	assert_succeeds(rdma_post_recv(link->passive, context_of(1), to->data, length,
				       to->mr), 0);
	assert_succeeds(rdma_post_send(link->active, context_of(2), from->data, length, NULL,
				       IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
	region_fill(from, 2);	/* the caller may reuse inline data at once */
	take_send(link->active, 2, IBV_WC_SUCCESS);
	assert_int_equal(take_recv(link->passive, 1, IBV_WC_SUCCESS).byte_len, length);
	region_holds(to, 1);
}

static void inline_write(void **state)
{
	struct link *link = connected(state);
	struct region *to = region_add(link, rdma_reg_write, link->passive, INLINE_BYTES);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, INLINE_BYTES);

	region_fill(from, 1);
	region_deregister(from);
	assert_succeeds(rdma_post_write(link->active, context_of(2), from->data,
					INLINE_BYTES, NULL,
					IBV_SEND_SIGNALED | IBV_SEND_INLINE,
					remote_address(to), to->mr->rkey), 0);
	take_send(link->active, 2, IBV_WC_SUCCESS);
	region_holds(to, 1);
}

static void inline_too_long(void **state)
{
	struct link *link = connected(state);
	uint32_t length = real_capacity(link->active).max_inline_data + 1;
	struct region *to = region_add(link, rdma_reg_write, link->passive, length);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, length);
	struct ibv_sge sge = { (uintptr_t)from->data, length, from->mr->lkey };
	int flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	int direct = post_directly(link->active, IBV_WR_SEND, sge, flags, 0, 0);

	assert_int_not_equal(direct, 0);
	if (device_is_rxe(link->active))
		assert_int_equal(direct, EINVAL);
	assert_fails(rdma_post_send(link->active, context_of(1), from->data, length,
				    from->mr, flags), direct);
	assert_fails(rdma_post_sendv(link->active, context_of(1), &sge, 1, flags), direct);
	assert_fails(rdma_post_write(link->active, context_of(1), from->data, length,
				     from->mr, flags, remote_address(to), to->mr->rkey),
		     direct);

	/* Nothing was queued: the next completion belongs to the next request. */
	assert_succeeds(rdma_post_write(link->active, context_of(2), from->data, length,
					from->mr, IBV_SEND_SIGNALED, remote_address(to),
					to->mr->rkey), 0);
	take_send(link->active, 2, IBV_WC_SUCCESS);
}

/*
 * A read has nothing to send, so "inline" means nothing for it. The provider decides
 * whether to refuse or ignore it. The two are tried on separate connections, since accepted
 * requests may fail.
 */
static void inline_read(void **state)
{
	int flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_read, link->passive, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct ibv_sge sge = { (uintptr_t)to->data, BYTES, to->mr->lkey };
	int direct, result;
	struct ibv_wc wc;

	direct = post_directly(link->active, IBV_WR_RDMA_READ, sge, flags,
			       remote_address(from), from->mr->rkey);
	if (!direct)
		assert_int_equal(rdma_get_send_comp(link->active, &wc), 1);
	link_close(link);

	connected(state);
	from = region_add(link, rdma_reg_read, link->passive, BYTES);
	to = region_add(link, rdma_reg_msgs, link->active, BYTES);
	errno = UNTOUCHED;
	result = rdma_post_read(link->active, context_of(1), to->data, BYTES, to->mr, flags,
				remote_address(from), from->mr->rkey);
	assert_same_answer(result, errno, direct);
	if (!direct)
		take_send(link->active, 1, wc.status);
	print_message("# inline read: the provider says %s\n",
		      direct ? strerror(direct) : ibv_wc_status_str(wc.status));
	region_guards_hold(to);
}

/* --- errors ----------------------------------------------------------------------- */

/* The peer is slow: queued requests are flushed, each with its own context. */
static void flushed(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct ibv_sge sge = { (uintptr_t)from->data, BYTES, from->mr->lkey };
	int direct, result;

	for (uint64_t i = 0; i < SEND_DEPTH / 2; i++) {
		must(rdma_post_send(link->active, context_of(i), from->data, BYTES, from->mr,
				    IBV_SEND_SIGNALED));
		must(rdma_post_recv(link->active, context_of(100 + i), from->data, BYTES,
				    from->mr));
	}
	set_qp_error(link->active);
	for (uint64_t i = 0; i < SEND_DEPTH / 2; i++) {
		take_send(link->active, i, IBV_WC_WR_FLUSH_ERR);
		take_recv(link->active, 100 + i, IBV_WC_WR_FLUSH_ERR);
	}

	/* And so are requests posted now, if they are accepted. */
	direct = post_directly(link->active, IBV_WR_SEND, sge, IBV_SEND_SIGNALED, 0, 0);
	errno = UNTOUCHED;
	result = rdma_post_send(link->active, context_of(200), from->data, BYTES, from->mr,
				IBV_SEND_SIGNALED);
	assert_same_answer(result, errno, direct);
	if (!direct) {
		take_send(link->active, 0, IBV_WC_WR_FLUSH_ERR);
		take_send(link->active, 200, IBV_WC_WR_FLUSH_ERR);
	}
	print_message("# send on a queue pair in error: the provider says %s\n",
		      direct ? strerror(direct) : "yes, and flushes it");
}

static void flushed_by_disconnect(void **state)
{
	struct link *link = connected(state);
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, link->passive, BYTES);

	must(rdma_post_recv(link->passive, context_of(1), to->data, BYTES, to->mr));
	must(rdma_post_recv(link->active, context_of(2), from->data, BYTES, from->mr));
	disconnect(link);
	take_recv(link->passive, 1, IBV_WC_WR_FLUSH_ERR);
	take_recv(link->active, 2, IBV_WC_WR_FLUSH_ERR);
	region_guards_hold(to);
}

/* --- shared receive queues -------------------------------------------------------- */

static void create_srq(struct rdma_cm_id *id, struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = RECV_DEPTH, .max_sge = MAX_SGE },
	};

	must(rdma_create_srq(id, pd, &attr));
}

/* A message, received with a request posted on the first id and reported to the second. */
static void receive_through_srq(struct link *link, struct rdma_cm_id *poster)
{
	struct region *from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	struct region *to = region_add(link, rdma_reg_msgs, poster, 2 * BYTES);
	struct ibv_sge halves[] = {
		{ (uintptr_t)to->data + BYTES, BYTES / 2, to->mr->lkey },
		{ (uintptr_t)to->data + BYTES + BYTES / 2, BYTES / 2, to->mr->lkey },
	};

	assert_succeeds(rdma_post_recv(poster, context_of(1), to->data, BYTES, to->mr), 0);
	assert_succeeds(rdma_post_recvv(poster, context_of(2), halves, 2), 0);
	region_fill(from, 1);
	for (uint64_t i = 1; i <= 2; i++) {
		must(rdma_post_send(link->active, context_of(i), from->data, BYTES, from->mr,
				    IBV_SEND_SIGNALED));
		take_send(link->active, i, IBV_WC_SUCCESS);
		assert_int_equal(take_recv(link->passive, i, IBV_WC_SUCCESS).byte_len,
				 BYTES);
	}
	assert_memory_equal(to->data, from->data, BYTES);
	assert_memory_equal(to->data + BYTES, from->data, BYTES);
	region_guards_hold(to);
}

static void srq_of_connection(void **state)
{
	struct link *link = *state;

	link_open(link, RDMA_PS_TCP);
	link_request(link);
	create_srq(link->passive, link->pd);
	link_connect(link);
	assert_ptr_equal(link->passive->qp->srq, link->passive->srq);
	receive_through_srq(link, link->passive);
}

/* An id that has only the shared queue, as a server keeps for all its connections. */
static void srq_without_qp(void **state)
{
	struct link *link = *state;
	struct rdma_cm_id *listener;

	link_open(link, RDMA_PS_TCP);
	/* All use librdmacm's protection domain, which such an id has. */
	must(ibv_dealloc_pd(link->pd));
	link->pd = NULL;
	listener = link->listener;
	create_srq(listener, NULL);
	assert_null(listener->qp);
	link_request(link);
	link->passive->srq = listener->srq;
	link_create_qp(link, link->passive);
	link->passive->srq = NULL;	/* it is the listener's */
	link_connect(link);
	receive_through_srq(link, listener);

	rdma_destroy_qp(link->passive);
	rdma_destroy_srq(listener);
}

/* --- datagrams -------------------------------------------------------------------- */

static void datagram(void **state)
{
	struct link *link = *state;
	struct region *from, *to;
	struct ibv_wc wc;

	link_open(link, RDMA_PS_UDP);
	link_connect(link);
	assert_int_equal(link->remote_qpn, link->passive->qp->qp_num);
	assert_int_equal(link->remote_qkey, RDMA_UDP_QKEY);

	from = region_add(link, rdma_reg_msgs, link->active, BYTES);
	to = region_add(link, rdma_reg_msgs, link->passive, GRH_BYTES + BYTES);
	region_fill(from, 1);
	/* With a region, and without one. */
	for (uint64_t i = 0; i < 2; i++) {
		memset(to->data, 0, to->length);
		must(rdma_post_recv(link->passive, context_of(i), to->data, to->length,
				    to->mr));
		assert_succeeds(rdma_post_ud_send(link->active, context_of(10 + i), from->data,
						  BYTES, i ? NULL : from->mr,
						  IBV_SEND_SIGNALED |
							  (i ? IBV_SEND_INLINE : 0),
						  link->ah, link->remote_qpn), 0);
		take_send(link->active, 10 + i, IBV_WC_SUCCESS);
		wc = take_recv(link->passive, i, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, GRH_BYTES + BYTES);
		assert_int_equal(wc.src_qp, link->active->qp->qp_num);
		assert_int_not_equal(wc.wc_flags & IBV_WC_GRH, 0);
		assert_memory_equal(to->data + GRH_BYTES, from->data, BYTES);
		region_guards_hold(to);
	}
}

/* --- requests without data -------------------------------------------------------- */

static void receive_without_buffer(void **state)
{
	struct link *link = connected(state);

	assert_succeeds(rdma_post_recvv(link->passive, context_of(1), NULL, 0), 0);
	assert_succeeds(rdma_post_sendv(link->active, context_of(2), NULL, 0,
					IBV_SEND_SIGNALED), 0);
	take_send(link->active, 2, IBV_WC_SUCCESS);
	assert_int_equal(take_recv(link->passive, 1, IBV_WC_SUCCESS).byte_len, 0);
}

/* Some programs check this way whether the peer is alive. */
static void write_of_nothing(void **state)
{
	struct link *link = connected(state);

	assert_succeeds(rdma_post_write(link->active, context_of(1), NULL, 0, NULL,
					IBV_SEND_SIGNALED, 0, 0), 0);
	take_send(link->active, 1, IBV_WC_SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(full_send_queue),
		DEVICE_TEST(full_receive_queue),
		DEVICE_TEST(inline_send),
		DEVICE_TEST(inline_write),
		DEVICE_TEST(inline_too_long),
		DEVICE_TEST(inline_read),
		DEVICE_TEST(flushed),
		DEVICE_TEST(flushed_by_disconnect),
		DEVICE_TEST(srq_of_connection),
		DEVICE_TEST(srq_without_qp),
		DEVICE_TEST(datagram),
		DEVICE_TEST(receive_without_buffer),
		DEVICE_TEST(write_of_nothing),
	};

	device_tests_init();
	return cmocka_run_group_tests_name("posting on a device", tests, NULL, NULL);
}
