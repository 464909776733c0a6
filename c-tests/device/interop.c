/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The exchange of librdmacm's rdma_server and rdma_client, either side of it: the client
 * sends 16 bytes, the server answers with 16. Our server sends back what it received.
 *
 * It is written for librdmacm's header and knows nothing of librdma_verbs.
 */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MESSAGE_BYTES = 16,
	SECONDS = 20,		/* time limit of the program */
};

struct endpoint {
	struct rdma_cm_id *listener;	/* NULL in the client */
	struct rdma_cm_id *id;
	struct ibv_mr *send_mr, *recv_mr;
	char sent[MESSAGE_BYTES], received[MESSAGE_BYTES];
};

static const char text[MESSAGE_BYTES] = "0123456789abcde";

static void check(int failed, const char *call)
{
	if (failed) {
		perror(call);
		exit(EXIT_FAILURE);
	}
}

static void create_endpoint(struct rdma_cm_id **id, const char *address, const char *port,
			    int flags)
{
	struct rdma_addrinfo *found, hints = {
		.ai_flags = flags,
		.ai_port_space = RDMA_PS_TCP,
	};
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};

	check(rdma_getaddrinfo(address, port, &hints, &found), "rdma_getaddrinfo");
	check(rdma_create_ep(id, found, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(found);
}

/* The receive is posted before the other side can send. */
static void prepare(struct endpoint *end)
{
	end->send_mr = rdma_reg_msgs(end->id, end->sent, MESSAGE_BYTES);
	check(!end->send_mr, "rdma_reg_msgs");
	end->recv_mr = rdma_reg_msgs(end->id, end->received, MESSAGE_BYTES);
	check(!end->recv_mr, "rdma_reg_msgs");
	check(rdma_post_recv(end->id, NULL, end->received, MESSAGE_BYTES, end->recv_mr),
	      "rdma_post_recv");
}

static void check_completion(const struct ibv_wc *wc, int result, const char *call)
{
	check(result != 1, call);
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "%s: %s\n", call, ibv_wc_status_str(wc->status));
		exit(EXIT_FAILURE);
	}
}

static void send_message(struct endpoint *end)
{
	struct ibv_wc wc;
	int result;

	check(rdma_post_send(end->id, NULL, end->sent, MESSAGE_BYTES, end->send_mr, 0),
	      "rdma_post_send");
	result = rdma_get_send_comp(end->id, &wc);
	check_completion(&wc, result, "rdma_get_send_comp");
}

static void receive_message(struct endpoint *end)
{
	struct ibv_wc wc;
	int result = rdma_get_recv_comp(end->id, &wc);

	check_completion(&wc, result, "rdma_get_recv_comp");
	printf("received %u bytes:", wc.byte_len);
	for (int i = 0; i < MESSAGE_BYTES; i++)
		printf(" %02x", (unsigned char)end->received[i]);
	printf("\n");
}

static void close_endpoint(struct endpoint *end)
{
	rdma_disconnect(end->id);
	check(rdma_dereg_mr(end->send_mr), "rdma_dereg_mr");
	check(rdma_dereg_mr(end->recv_mr), "rdma_dereg_mr");
	rdma_destroy_ep(end->id);
	if (end->listener)
		rdma_destroy_ep(end->listener);
}

static void serve(const char *address, const char *port)
{
	struct endpoint end = { .listener = NULL };

	create_endpoint(&end.listener, address, port, RAI_PASSIVE);
	check(rdma_listen(end.listener, 1), "rdma_listen");
	printf("port %u\n", ntohs(rdma_get_src_port(end.listener)));
	fflush(stdout);
	check(rdma_get_request(end.listener, &end.id), "rdma_get_request");
	prepare(&end);
	check(rdma_accept(end.id, NULL), "rdma_accept");
	receive_message(&end);
	memcpy(end.sent, end.received, MESSAGE_BYTES);
	send_message(&end);
	close_endpoint(&end);
}

static void ask(const char *address, const char *port)
{
	struct endpoint end = { .listener = NULL };

	create_endpoint(&end.id, address, port, 0);
	prepare(&end);
	check(rdma_connect(end.id, NULL), "rdma_connect");
	memcpy(end.sent, text, MESSAGE_BYTES);
	send_message(&end);
	receive_message(&end);
	close_endpoint(&end);
}

int main(int argc, char **argv)
{
	alarm(SECONDS);
	if (argc == 4 && !strcmp(argv[1], "server")) {
		serve(argv[2], argv[3]);
	} else if (argc == 4 && !strcmp(argv[1], "client")) {
		ask(argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: %s server|client ADDRESS PORT\n", argv[0]);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
