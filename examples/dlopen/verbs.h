/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA in a program that does not need it to start: the libraries are loaded when
 * they are wanted, and where they are missing the program goes on without.
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
 * Fills the table, once for the process; the libraries stay loaded. NULL, or what is
 * missing, as dlerror(3) says it.
 */
const char *verbs_load(struct verbs *verbs);

#endif
