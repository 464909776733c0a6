/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Compiles only if the prototypes are those of librdmacm's header, whose functions have
 * other names here. Valid C and C++. Compile it without -Iinclude.
 */
#define INLINE(name) librdmacm_##name
#include "../lib/inlines.h"

#undef RDMA_VERBS_H
/* The shared receive queue functions are now declared twice: the compiler compares. */
#include "../../include/rdma/rdma_verbs.h"

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
