/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The input of the generator of src/verbs.rs: the system's headers as they are. */
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
