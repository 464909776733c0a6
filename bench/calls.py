# SPDX-License-Identifier: MIT OR Apache-2.0
"""usage: calls.py DIRECTORY-OF-THE-PROVIDER LIBRARY

What calls by ctypes cost, as lines of CSV. Of the id only the address is needed.
"""

import ctypes
import statistics
import sys
import time

CALLS, ROUNDS = 2000, 51


class Bench(ctypes.Structure):
    """struct bench of provider.h, up to its completion."""

    _fields_ = [
        ("id", ctypes.c_void_p),
        ("mr", ctypes.c_void_p),
        ("ah", ctypes.c_void_p),
        ("element", ctypes.c_uint64 * 2),
        ("wc", ctypes.c_uint64 * 6),
        ("buffer", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
    ]


def nanoseconds(call, *arguments):
    """Of one call, in each round."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _ in range(CALLS):
            call(*arguments)
        rounds.append((time.perf_counter_ns() - start) / CALLS)
    return rounds


def main():
    provider = ctypes.CDLL(sys.argv[1] + "/libprovider.so", mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(sys.argv[2])
    provider.bench_new.restype = ctypes.POINTER(Bench)
    bench = provider.bench_new(0).contents
    pointer = ctypes.c_void_p
    library.rdma_post_send.argtypes = [
        pointer, pointer, pointer, ctypes.c_size_t, pointer, ctypes.c_int,
    ]
    library.rdma_get_send_comp.argtypes = [pointer, pointer]
    wc = ctypes.byref(bench, Bench.wc.offset)
    for name, arguments in {
        "rdma_post_send": (bench.id, None, bench.buffer, bench.length, bench.mr, 2),
        "rdma_get_send_comp": (bench.id, wc),
    }.items():
        low, median, high = statistics.quantiles(
            nanoseconds(getattr(library, name), *arguments), n=4
        )
        print(f'languages,"{name}","ctypes",ns,{median:.2f},{low:.2f},{high:.2f}')


main()
