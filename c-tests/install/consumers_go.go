// SPDX-License-Identifier: MIT OR Apache-2.0

// Calls the library from Go; the compiler's flags come from pkg-config.
package main

// #include <rdma/rdma_verbs.h>
import "C"

import (
	"log"
	"syscall"
)

func main() {
	result, err := C.rdma_post_send(nil, nil, nil, 0, nil, 0)
	if result != -1 || err != syscall.EINVAL {
		log.Fatalf("rdma_post_send: %d, %v", result, err)
	}
	mr, err := C.rdma_reg_read(nil, nil, 1)
	if mr != nil || err != syscall.EINVAL {
		log.Fatalf("rdma_reg_read: %v, %v", mr, err)
	}
}
