/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librdmacm's inline helpers under other names, so that they and the functions of the
 * same names stand in one program. Compiled twice, without -Iinclude:
 *	-DORACLE=oracle_with_assert
 *	-DORACLE=oracle_without_assert -DNDEBUG
 */
#define rdma_seterrno sys_rdma_seterrno
#define rdma_reg_msgs sys_rdma_reg_msgs
#define rdma_reg_read sys_rdma_reg_read
#define rdma_reg_write sys_rdma_reg_write
#define rdma_dereg_mr sys_rdma_dereg_mr
#define rdma_post_recvv sys_rdma_post_recvv
#define rdma_post_sendv sys_rdma_post_sendv
#define rdma_post_readv sys_rdma_post_readv
#define rdma_post_writev sys_rdma_post_writev
#define rdma_post_recv sys_rdma_post_recv
#define rdma_post_send sys_rdma_post_send
#define rdma_post_read sys_rdma_post_read
#define rdma_post_write sys_rdma_post_write
#define rdma_post_ud_send sys_rdma_post_ud_send
#define rdma_get_send_comp sys_rdma_get_send_comp
#define rdma_get_recv_comp sys_rdma_get_recv_comp
#include <rdma/rdma_verbs.h>
#undef rdma_seterrno
#undef rdma_reg_msgs
#undef rdma_reg_read
#undef rdma_reg_write
#undef rdma_dereg_mr
#undef rdma_post_recvv
#undef rdma_post_sendv
#undef rdma_post_readv
#undef rdma_post_writev
#undef rdma_post_recv
#undef rdma_post_send
#undef rdma_post_read
#undef rdma_post_write
#undef rdma_post_ud_send
#undef rdma_get_send_comp
#undef rdma_get_recv_comp

#ifdef RDMA_VERBS_LIBRARY_VERSION
#error "this must be compiled with librdmacm's <rdma/rdma_verbs.h>"
#endif

/* The other header of that name. Its declarations that librdmacm also has must agree
   with those above, or this does not compile. */
#undef RDMA_VERBS_H
#include "oracle.h"

#define SAME_TYPE(name) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name), \
						    __typeof__(sys_##name)), \
		       #name " has librdmacm's prototype");
FOR_EACH_HELPER(SAME_TYPE)
SAME_TYPE(rdma_seterrno)

const struct helpers ORACLE = {
#define ENTRY(name) .name = sys_##name,
	FOR_EACH_HELPER(ENTRY)
};
