/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The helpers as tables of functions: librdmacm's inline functions, compiled with and
 * without their assertions, and anything else that offers the same fifteen.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "../../include/rdma/rdma_verbs.h"

#define FOR_EACH_HELPER(do) \
	do(rdma_reg_msgs) \
	do(rdma_reg_read) \
	do(rdma_reg_write) \
	do(rdma_dereg_mr) \
	do(rdma_post_recvv) \
	do(rdma_post_sendv) \
	do(rdma_post_readv) \
	do(rdma_post_writev) \
	do(rdma_post_recv) \
	do(rdma_post_send) \
	do(rdma_post_read) \
	do(rdma_post_write) \
	do(rdma_post_ud_send) \
	do(rdma_get_send_comp) \
	do(rdma_get_recv_comp)

struct helpers {
#define MEMBER(name) __typeof__(name) *name;
	FOR_EACH_HELPER(MEMBER)
#undef MEMBER
};

extern const struct helpers oracle_with_assert;
extern const struct helpers oracle_without_assert;

#endif
