#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fetches the memory that read_server offers by RDMA read, and verifies every byte."""

from __future__ import annotations

import argparse
import socket
import struct
import sys
import time

import rdma_verbs

REGION = struct.Struct("!QQII")  # address, length, rkey, 0; in network byte order
CHECKSUM = struct.Struct("!Q")  # FNV-1a of the memory
LENGTH_MAX = 1 << 30
PIECE = 1 << 20  # every port allows this much per read
TIMEOUT = 60.0  # seconds for one step

# The wr_id of each kind of request: a failed completion has nothing else to tell it by.
RECV_REGION, RECV_CHECKSUM, READ = range(3)
REQUESTS = ("receive of the region", "receive of the checksum", "RDMA read")


def fnv1a(data: bytes | bytearray) -> int:
    """FNV-1a, 64 bit: any changed byte changes the result."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def receive(endpoint: rdma_verbs.Endpoint, size: int) -> None:
    """Waits for the next message, which must have the right size."""
    completion = endpoint.get_recv_comp(TIMEOUT)
    if completion.byte_len != size:
        raise ValueError(f"{REQUESTS[completion.wr_id]}: the message has a wrong length")


def read_region(
    endpoint: rdma_verbs.Endpoint, target: rdma_verbs.Region, address: int, rkey: int
) -> None:
    """Reads piece by piece, each when the one before has come."""
    started = time.perf_counter()
    offsets = range(0, target.length, PIECE)
    for offset in offsets:
        length = min(PIECE, target.length - offset)
        endpoint.post_read(target, address + offset, rkey, offset, length, READ)
        endpoint.get_send_comp(TIMEOUT)
    us = (time.perf_counter() - started) * 1e6
    print(
        f"client: read {target.length} bytes in {us:.0f} us ({target.length / us:.1f} MB/s),"
        f" RDMA reads: {len(offsets)}"
    )


def verify(data: bytearray, expected: int) -> None:
    """Compares the checksum of what came with the server's."""
    actual = fnv1a(data)
    if actual != expected:
        raise ValueError(
            f"NOT verified: FNV-1a of the data is {actual:016x}, the server's is {expected:016x}"
        )
    print(f"client: verified, FNV-1a of the data {actual:016x} is the server's")


def fetch(host: str, port: str, wrong_rkey: bool) -> None:
    """Connects, takes the two messages, and reads what they describe."""
    with rdma_verbs.Endpoint(host, port, max_send_wr=1, max_recv_wr=2) as endpoint:
        print(f"client: device {endpoint.device} port {endpoint.port_num} on {socket.gethostname()}")

        # A message that finds no receive is refused: so these come before the connection.
        inbox = bytearray(REGION.size + CHECKSUM.size)
        messages = endpoint.reg_msgs(inbox)
        endpoint.post_recv(messages, 0, REGION.size, RECV_REGION)
        endpoint.post_recv(messages, REGION.size, CHECKSUM.size, RECV_CHECKSUM)
        endpoint.connect()
        receive(endpoint, REGION.size)
        receive(endpoint, CHECKSUM.size)

        address, length, rkey, _ = REGION.unpack_from(inbox)
        (checksum,) = CHECKSUM.unpack_from(inbox, REGION.size)
        if not 1 <= length <= LENGTH_MAX:
            raise ValueError("receive of the region: a bad length")
        print(f"client: region 0x{address:x}, {length} bytes, rkey 0x{rkey:08x}")

        data = bytearray(length)
        target = endpoint.reg_write(data) if endpoint.is_iwarp else endpoint.reg_msgs(data)
        read_region(endpoint, target, address, rkey ^ 0xFF if wrong_rkey else rkey)
        verify(data, checksum)


def main() -> int:
    """The command: exit status 0 only if every byte is as the server made it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--wrong-rkey", action="store_true", help="read with a key that the server did not give"
    )
    parser.add_argument("address", metavar="ADDRESS")
    parser.add_argument("port", metavar="PORT")
    arguments = parser.parse_args()
    try:
        fetch(arguments.address, arguments.port, arguments.wrong_rkey)
    except rdma_verbs.CompletionError as error:
        return failed(f"{REQUESTS[error.wr_id]}: {error}")
    except (OSError, ValueError) as error:
        return failed(str(error))
    return 0


def failed(why: str) -> int:
    """Says why, below what has been printed before."""
    sys.stdout.flush()
    print(f"client: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
