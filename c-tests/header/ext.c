/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses every declaration of the extension helpers' header once. Valid C and C++. */
#include <rdma/rdma_verbs_ext.h>

#include <stdio.h>
#include <string.h>

static int failures;

static void expect(const char *what, int holds)
{
	if (!holds) {
		printf("not true: %s\n", what);
		failures++;
	}
}

/* With a NULL id, each of them fails. */
#define REFUSES(call) (errno = 0, expect(#call, (call) == -1 && errno == EINVAL))

static void waits(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;

	REFUSES(rdmax_get_send_comp(NULL, &wc, 0));
	REFUSES(rdmax_get_recv_comp(NULL, &wc, 0));
	REFUSES(rdmax_get_send_comps(NULL, &wc, 1, 0));
	REFUSES(rdmax_get_recv_comps(NULL, &wc, 1, 0));
	REFUSES(rdmax_get_send_comps_until(NULL, &wc, 1, NULL));
	REFUSES(rdmax_get_recv_comps_until(NULL, &wc, 1, NULL));
	REFUSES(rdmax_send_comp_fd(NULL));
	REFUSES(rdmax_recv_comp_fd(NULL));
	REFUSES(rdmax_get_cq_event(NULL, &cq, 0));
}

static void posts(void)
{
	uint64_t word = 0;
	struct ibv_mr mr;

	memset(&mr, 0, sizeof(mr));
	REFUSES(rdmax_post_send_imm(NULL, NULL, &word, 8, &mr, 0, 1));
	REFUSES(rdmax_post_write_imm(NULL, NULL, &word, 8, &mr, 0, 1, 2, 3));
	REFUSES(rdmax_post_atomic_cas(NULL, NULL, &word, &mr, 0, 8, 1, 2, 3));
	REFUSES(rdmax_post_atomic_faa(NULL, NULL, &word, &mr, 0, 8, 1, 2));
	errno = 0;
	expect("rdmax_reg", rdmax_reg(NULL, &word, 8, 0) == NULL && errno == EINVAL);
}

static void batches(void)
{
	struct rdmax_send_wr send;
	struct rdmax_recv_wr recv;
	int posted = -1;

	memset(&send, 0, sizeof(send));
	memset(&recv, 0, sizeof(recv));
	REFUSES(rdmax_post_sends(NULL, &send, sizeof(send), 1, &posted));
	REFUSES(rdmax_post_recvs(NULL, &recv, sizeof(recv), 1, &posted));
	expect("none are posted", posted == 0);
}

static void take(const struct ibv_wc *wc, void *arg)
{
	(void)wc;
	(void)arg;
}

static void others(void)
{
	rdmax_wc_handler handler = take;
	struct rdmax_limits limits;
	struct ibv_wc wc;

	memset(&wc, 0, sizeof(wc));
	wc.status = IBV_WC_WR_FLUSH_ERR;
	expect("rdmax_wc_strerror", strstr(rdmax_wc_strerror(&wc), "flushed") != NULL);
	expect("rdmax_wc_errno", rdmax_wc_errno(&wc) == ECANCELED);
	REFUSES(rdmax_query_limits(NULL, &limits, sizeof(limits)));
	REFUSES(rdmax_read(NULL, NULL, 0, NULL, 0, 0, 0, handler, &wc));
	REFUSES(rdmax_write(NULL, NULL, 0, NULL, 0, 0, 0, handler, &wc));
	REFUSES(rdmax_wait(NULL, 0, handler, &wc));
	REFUSES(rdmax_drain(NULL, 0, handler, &wc));
}

int main(void)
{
	waits();
	posts();
	batches();
	others();
	return failures != 0;
}
