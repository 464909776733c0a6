/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Compiles only if the prototypes are those of librdmacm's header, which stands here
 * beside ours under other names. Is C and C++. Compile it without -Iinclude.
 */
#define rdma_seterrno librdmacm_rdma_seterrno
#define rdma_reg_msgs librdmacm_rdma_reg_msgs
#define rdma_reg_read librdmacm_rdma_reg_read
#define rdma_reg_write librdmacm_rdma_reg_write
#define rdma_dereg_mr librdmacm_rdma_dereg_mr
#define rdma_post_recvv librdmacm_rdma_post_recvv
#define rdma_post_sendv librdmacm_rdma_post_sendv
#define rdma_post_readv librdmacm_rdma_post_readv
#define rdma_post_writev librdmacm_rdma_post_writev
#define rdma_post_recv librdmacm_rdma_post_recv
#define rdma_post_send librdmacm_rdma_post_send
#define rdma_post_read librdmacm_rdma_post_read
#define rdma_post_write librdmacm_rdma_post_write
#define rdma_post_ud_send librdmacm_rdma_post_ud_send
#define rdma_get_send_comp librdmacm_rdma_get_send_comp
#define rdma_get_recv_comp librdmacm_rdma_get_recv_comp
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
#error "this is not librdmacm's header"
#endif
#undef RDMA_VERBS_H
/* The shared receive queue functions are now declared twice: the compiler compares. */
#include "../include/rdma/rdma_verbs.h"

#ifdef __cplusplus
#include <type_traits>
#define SAME(name)                                                                  \
	static_assert(std::is_same<decltype(name), decltype(librdmacm_##name)>::value, \
		      #name " differs from librdmacm's")
#else
#define SAME(name)                                                                  \
	_Static_assert(__builtin_types_compatible_p(__typeof__(name),               \
						    __typeof__(librdmacm_##name)), \
		       #name " differs from librdmacm's")
#endif

SAME(rdma_seterrno);
SAME(rdma_reg_msgs);
SAME(rdma_reg_read);
SAME(rdma_reg_write);
SAME(rdma_dereg_mr);
SAME(rdma_post_recvv);
SAME(rdma_post_sendv);
SAME(rdma_post_readv);
SAME(rdma_post_writev);
SAME(rdma_post_recv);
SAME(rdma_post_send);
SAME(rdma_post_read);
SAME(rdma_post_write);
SAME(rdma_post_ud_send);
SAME(rdma_get_send_comp);
SAME(rdma_get_recv_comp);
