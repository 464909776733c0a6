/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Helper names as arguments of macros, and as addresses. */
#include <rdma/rdma_verbs.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef void any_function(void);

#define CALL(helper, ...) helper(__VA_ARGS__)
#define ENTRY(helper) { #helper, (any_function *)&(helper) }

static const struct {
	const char *name;
	any_function *address;
} table[] = {
	ENTRY(rdma_reg_msgs),	   ENTRY(rdma_reg_read),      ENTRY(rdma_reg_write),
	ENTRY(rdma_dereg_mr),	   ENTRY(rdma_post_recvv),    ENTRY(rdma_post_sendv),
	ENTRY(rdma_post_readv),	   ENTRY(rdma_post_writev),   ENTRY(rdma_post_recv),
	ENTRY(rdma_post_send),	   ENTRY(rdma_post_read),     ENTRY(rdma_post_write),
	ENTRY(rdma_post_ud_send),  ENTRY(rdma_get_send_comp), ENTRY(rdma_get_recv_comp),
};

/* Each name has one address, no matter who asks. */
static int addresses_differ(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		void *address = dlsym(RTLD_DEFAULT, table[i].name);

		if (memcmp(&address, &table[i].address, sizeof(address))) {
			printf("%s: dlsym finds another\n", table[i].name);
			return 1;
		}
	}
	return 0;
}

int main(void)
{
	int (*wait)(struct rdma_cm_id *, struct ibv_wc *) = rdma_get_recv_comp;
	struct ibv_wc wc;

	errno = 0;
	if (CALL(rdma_post_recvv, NULL, NULL, NULL, 0) != -1 || errno != EINVAL)
		return 1;
	errno = 0;
	if (CALL(wait, NULL, &wc) != -1 || errno != EINVAL)
		return 1;
	return addresses_differ();
}
