// SPDX-License-Identifier: MIT OR Apache-2.0

// What calls by cgo cost, as lines of CSV.
package main

// #include <rdma/rdma_verbs.h>
// #include "provider.h"
import "C"

import (
	"fmt"
	"sort"
	"time"
)

const calls, rounds = 20000, 51

func measure(name string, call func()) {
	var each []float64
	for round := 0; round < rounds; round++ {
		start := time.Now()
		for i := 0; i < calls; i++ {
			call()
		}
		each = append(each, float64(time.Since(start).Nanoseconds())/calls)
	}
	sort.Float64s(each)
	fmt.Printf("languages,\"%s\",\"cgo\",ns,%.2f,%.2f,%.2f\n",
		name, each[rounds/2], each[rounds/4], each[rounds-1-rounds/4])
}

func main() {
	bench := C.bench_new(C.BENCH_READY)
	measure("rdma_post_send", func() {
		if C.rdma_post_send(bench.id, nil, bench.buffer, bench.length, bench.mr,
			C.IBV_SEND_SIGNALED) != 0 {
			panic("rdma_post_send")
		}
	})
	measure("rdma_get_send_comp", func() {
		if C.rdma_get_send_comp(bench.id, &bench.wc) != 1 {
			panic("rdma_get_send_comp")
		}
	})
}
