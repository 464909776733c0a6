/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses every declaration of the header once, on the fake provider. Valid C and C++. */
#include <rdma/rdma_verbs.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "../fake/fake.h"
#ifdef __cplusplus
}
#endif

static int failures;

static void expect(const char *what, int holds)
{
	if (!holds) {
		printf("not true: %s\n", what);
		failures++;
	}
}

#define EXPECT(condition) expect(#condition, condition)

static void memory(struct rdma_cm_id *id)
{
	EXPECT(rdma_reg_msgs(id, fake_memory, 1) == &fake.mr);
	EXPECT(rdma_reg_read(id, fake_memory, 1) == &fake.mr);
	EXPECT(rdma_reg_write(id, fake_memory, 1) == &fake.mr);
	EXPECT(rdma_dereg_mr(&fake.mr) == 0);
}

static void posts(struct rdma_cm_id *id)
{
	struct ibv_sge sge = { (uintptr_t)fake_memory, 1, fake.mr.lkey };

	EXPECT(rdma_post_recvv(id, NULL, &sge, 1) == 0);
	EXPECT(rdma_post_sendv(id, NULL, &sge, 1, 0) == 0);
	EXPECT(rdma_post_readv(id, NULL, &sge, 1, 0, 1, 2) == 0);
	EXPECT(rdma_post_writev(id, NULL, &sge, 1, 0, 1, 2) == 0);
	EXPECT(rdma_post_recv(id, NULL, fake_memory, 1, &fake.mr) == 0);
	EXPECT(rdma_post_send(id, NULL, fake_memory, 1, &fake.mr, 0) == 0);
	EXPECT(rdma_post_read(id, NULL, fake_memory, 1, &fake.mr, 0, 1, 2) == 0);
	EXPECT(rdma_post_write(id, NULL, fake_memory, 1, &fake.mr, 0, 1, 2) == 0);
	EXPECT(rdma_post_ud_send(id, NULL, fake_memory, 1, &fake.mr, 0, &fake.ah, 3) == 0);
}

static void completions(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	EXPECT(rdma_get_send_comp(id, &wc) == 1);
	EXPECT(rdma_get_recv_comp(id, &wc) == 1);
}

/* librdmacm's own functions exist, which is all that the header promises. */
static void shared_receive_queues(void)
{
	int (*volatile create)(struct rdma_cm_id *, struct ibv_pd *,
			       struct ibv_srq_init_attr *) = rdma_create_srq;
	int (*volatile create_ex)(struct rdma_cm_id *,
				  struct ibv_srq_init_attr_ex *) = rdma_create_srq_ex;
	void (*volatile destroy)(struct rdma_cm_id *) = rdma_destroy_srq;

	EXPECT(create != NULL);
	EXPECT(create_ex != NULL);
	EXPECT(destroy != NULL);
}

int main(void)
{
	fake_reset();
	memory(&fake.id);
	posts(&fake.id);
	completions(&fake.id);
	EXPECT(fake.calls == 15);
	shared_receive_queues();

	EXPECT(rdma_seterrno(0) == 0);
	EXPECT(rdma_seterrno(EBUSY) == -1 && errno == EBUSY);
	EXPECT(RDMA_VERBS_LIBRARY_VERSION >= 10000);
	return failures != 0;
}
