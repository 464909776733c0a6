# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of rdma_verbs.py: python3 -m unittest.

Those of connections need the address of an RDMA device in RDMA_ADDRESS.
"""

from __future__ import annotations

import array
import errno
import gc
import mmap
import os
import pickle
import signal
import threading
import unittest
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import rdma_verbs
from rdma_verbs import CompletionError, Endpoint, Listener, RdmaError, WcOpcode, WcStatus

ADDRESS = os.environ.get("RDMA_ADDRESS", "")
LIMIT = 60.0  # seconds
SIZE = 4096


class Errors(unittest.TestCase):
    """What needs no device."""

    def test_a_library_that_is_not_there_is_named(self) -> None:
        with self.assertRaisesRegex(OSError, "libnone.so.1"):
            rdma_verbs.Library("libnone.so.1")
        with self.assertRaisesRegex(OSError, "libnone.so.1"):
            rdma_verbs.Library(rdmacm="libnone.so.1")

    def test_a_failed_call_has_errno_text_and_name(self) -> None:
        library = rdma_verbs.Library()
        with self.assertRaises(RdmaError) as caught:
            library.rdma_post_send(None, 0, None, 0, None, 0)
        self.assertEqual(caught.exception.errno, errno.EINVAL)
        self.assertEqual(caught.exception.strerror, "Invalid argument")
        self.assertEqual(str(caught.exception), "rdma_post_send: Invalid argument")
        with self.assertRaisesRegex(RdmaError, "^rdma_reg_read: Invalid argument$"):
            library.rdma_reg_read(None, None, 1)

    def test_errors_can_be_pickled(self) -> None:
        error = CompletionError(errno.EACCES, "text", "function", 10, 136, 7)
        copy = pickle.loads(pickle.dumps(error))
        self.assertIsInstance(copy, CompletionError)
        self.assertEqual(vars(copy), vars(error))
        self.assertEqual(str(copy), "text (completion status 10, REM_ACCESS_ERR)")

    def test_a_status_of_the_future(self) -> None:
        self.assertEqual(CompletionError(errno.EIO, "", "", 99, 0, 0).status_name, "unknown")


@unittest.skipUnless(ADDRESS, "RDMA_ADDRESS is not set")
class Connections(unittest.TestCase):
    """Two connected endpoints in this process."""

    def setUp(self) -> None:
        self.stack = ExitStack()
        self.addCleanup(self.stack.close)
        self.server, self.client = self.connect()

    def connect(self) -> tuple[Endpoint, Endpoint]:
        with Listener(ADDRESS) as listener, ThreadPoolExecutor() as threads:
            client = self.stack.enter_context(Endpoint(ADDRESS, str(listener.port)))
            connected: Future[None] = threads.submit(client.connect)
            server = self.stack.enter_context(listener.get_request(LIMIT))
            server.accept()
            connected.result(LIMIT)
        self.stack.callback(self.end, server, client)
        return server, client

    @staticmethod
    def end(server: Endpoint, client: Endpoint) -> None:
        waiting = threading.Thread(target=server.wait_disconnected, args=(LIMIT,))
        waiting.start()
        client.disconnect()
        waiting.join(LIMIT)

    def test_messages(self) -> None:
        source, target = bytearray(b"0123456789"), bytearray(16)
        self.server.post_recv(self.server.reg_msgs(target), wr_id=3)
        self.client.post_send(self.client.reg_msgs(source), 2, 5, wr_id=4)
        sent = self.client.get_send_comp(LIMIT)
        received = self.server.get_recv_comp(LIMIT)
        self.assertEqual((sent.wr_id, sent.opcode), (4, WcOpcode.SEND))
        self.assertEqual(received, (3, WcOpcode.RECV, 5))
        self.assertEqual(target, b"23456" + bytes(11))

    def test_read_and_write_with_each_kind_of_buffer(self) -> None:
        far = bytearray(os.urandom(SIZE))
        readable = self.server.reg_read(far)
        buffers: list[rdma_verbs.Buffer] = [
            bytearray(SIZE),
            mmap.mmap(-1, SIZE),
            array.array("I", bytes(SIZE)),
            memoryview(bytearray(2 * SIZE))[SIZE:],
        ]
        for buffer in buffers:
            with self.client.reg_msgs(buffer) as region:
                self.client.post_read(region, readable.addr, readable.rkey)
                self.assertEqual(self.client.get_send_comp(LIMIT).opcode, WcOpcode.RDMA_READ)
            self.assertEqual(bytes(memoryview(buffer).cast("B")), far)

        target = bytearray(SIZE)
        writable = self.server.reg_write(target)
        with self.client.reg_msgs(bytearray(far)) as region:
            self.client.post_write(region, writable.addr + 8, writable.rkey, 100, 50)
            self.assertEqual(self.client.get_send_comp(LIMIT).opcode, WcOpcode.RDMA_WRITE)
        self.assertEqual(target, bytes(8) + far[100:150] + bytes(SIZE - 58))

    def test_a_wrong_rkey_is_a_completion_error(self) -> None:
        readable = self.server.reg_read(bytearray(SIZE))
        region = self.client.reg_msgs(bytearray(SIZE))
        for wr_id in 11, 12:
            self.client.post_read(region, readable.addr, readable.rkey ^ 0xFF, wr_id=wr_id)
        with self.assertRaises(CompletionError) as caught:
            self.client.get_send_comp(LIMIT)
        error = caught.exception
        self.assertEqual(error.status, WcStatus.REM_ACCESS_ERR)
        self.assertEqual((error.errno, error.wr_id), (errno.EACCES, 11))
        self.assertRegex(str(error), r"rkey.*\(completion status 10, REM_ACCESS_ERR\)$")
        with self.assertRaises(CompletionError) as caught:
            self.client.get_send_comp(LIMIT)
        self.assertEqual(caught.exception.status, WcStatus.WR_FLUSH_ERR)
        self.assertEqual((caught.exception.errno, caught.exception.wr_id), (errno.ECANCELED, 12))

    def test_registered_memory_is_fixed_until_it_is_released(self) -> None:
        buffer = bytearray(SIZE)
        with self.client.reg_msgs(buffer):
            with self.assertRaises(BufferError):
                buffer.extend(b"more")
        buffer.extend(b"more")
        view = memoryview(buffer)
        with self.client.reg_msgs(view):
            view.release()
            with self.assertRaises(BufferError):
                buffer.clear()
        buffer.clear()

    def test_buffers_that_cannot_be_registered(self) -> None:
        for buffer in bytes(SIZE), memoryview(bytearray(SIZE))[::2]:
            with self.assertRaises(TypeError):
                self.client.reg_msgs(buffer)  # type: ignore[arg-type]

    def test_parts_outside_the_region_and_closed_objects(self) -> None:
        region = self.client.reg_msgs(bytearray(SIZE))
        for offset, length in (0, SIZE + 1), (SIZE, 1), (-1, 1), (1, -1), (SIZE + 1, None):
            with self.assertRaises(ValueError):
                self.client.post_recv(region, offset, length)
        self.client.post_recv(region, SIZE, 0)
        region.close()
        region.close()
        with self.assertRaisesRegex(ValueError, "the region is closed"):
            self.client.post_recv(region)

    def test_time_outs(self) -> None:
        for wait in self.client.get_send_comp, self.client.get_recv_comp:
            with self.assertRaises(TimeoutError) as caught:
                wait(0.05)
            self.assertEqual(caught.exception.errno, errno.ETIMEDOUT)
        with self.assertRaises(TimeoutError):
            self.client.wait_disconnected(0)
        with Listener(ADDRESS) as listener, self.assertRaises(TimeoutError):
            listener.get_request(0)

    def test_a_signal_handler_ends_a_wait(self) -> None:
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            self.client.get_recv_comp(LIMIT)

    def test_closing_closes_the_regions_and_can_be_repeated(self) -> None:
        buffer = bytearray(SIZE)
        region = self.client.reg_msgs(buffer)
        self.end(self.server, self.client)
        self.client.close()
        self.client.close()
        buffer.extend(b"more")
        with self.assertRaisesRegex(ValueError, "the region is closed"):
            self.client.post_recv(region)
        with self.assertRaisesRegex(ValueError, "the endpoint is closed"):
            self.client.get_recv_comp(0)

    def test_what_is_forgotten_is_closed_with_a_warning(self) -> None:
        buffer = bytearray(SIZE)
        with Listener(ADDRESS) as listener:
            Endpoint(ADDRESS, str(listener.port)).reg_msgs(buffer)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                gc.collect()
        self.assertEqual([w.category for w in caught], [ResourceWarning])
        buffer.extend(b"more")

    def test_nobody_listens(self) -> None:
        with Listener(ADDRESS) as listener:
            port = listener.port
        with Endpoint(ADDRESS, str(port)) as endpoint:
            with self.assertRaisesRegex(RdmaError, "^rdma_connect: Connection refused$"):
                endpoint.connect()


if __name__ == "__main__":
    unittest.main()
