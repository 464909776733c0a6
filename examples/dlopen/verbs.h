/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA in a program that can start without it: the libraries are loaded on demand, and
 * if they are missing the program can continue without RDMA.
 */
#ifndef EXAMPLES_DLOPEN_VERBS_H
#define EXAMPLES_DLOPEN_VERBS_H

#include <rdma/rdma_verbs_ext.h>

#define VERBS_FUNCTIONS(function)	\
	function(rdma_dereg_mr)		\
	function(rdma_post_read)	\
	function(rdma_post_recv)	\
	function(rdma_reg_msgs)		\
	function(rdma_reg_write)	\
	function(rdmax_get_recv_comp)	\
	function(rdmax_get_send_comp)	\
	function(rdmax_wc_strerror)

#define CM_FUNCTIONS(function)		\
	function(rdma_connect)		\
	function(rdma_create_ep)	\
	function(rdma_destroy_ep)	\
	function(rdma_disconnect)	\
	function(rdma_freeaddrinfo)	\
	function(rdma_getaddrinfo)

/* Pointers with the types that the headers declare. */
#define VERBS_POINTER(name) __typeof__(name) *name;

struct verbs {
	VERBS_FUNCTIONS(VERBS_POINTER)
	CM_FUNCTIONS(VERBS_POINTER)
};

/*
 * Fills the table, once per process; the libraries stay loaded. Returns NULL, or what
 * is missing, as reported by dlerror(3).
 */
const char *verbs_load(struct verbs *verbs);

#endif
