/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * librdmacm's inline functions under other names, so that the original names can be used
 * beside them. Define INLINE(name), the other name, first. Compile without -Iinclude. Valid
 * C and C++.
 */
#define rdma_seterrno INLINE(rdma_seterrno)
#define rdma_reg_msgs INLINE(rdma_reg_msgs)
#define rdma_reg_read INLINE(rdma_reg_read)
#define rdma_reg_write INLINE(rdma_reg_write)
#define rdma_dereg_mr INLINE(rdma_dereg_mr)
#define rdma_post_recvv INLINE(rdma_post_recvv)
#define rdma_post_sendv INLINE(rdma_post_sendv)
#define rdma_post_readv INLINE(rdma_post_readv)
#define rdma_post_writev INLINE(rdma_post_writev)
#define rdma_post_recv INLINE(rdma_post_recv)
#define rdma_post_send INLINE(rdma_post_send)
#define rdma_post_read INLINE(rdma_post_read)
#define rdma_post_write INLINE(rdma_post_write)
#define rdma_post_ud_send INLINE(rdma_post_ud_send)
#define rdma_get_send_comp INLINE(rdma_get_send_comp)
#define rdma_get_recv_comp INLINE(rdma_get_recv_comp)
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
#error "this is not librdmacm's <rdma/rdma_verbs.h>"
#endif
