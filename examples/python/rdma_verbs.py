# SPDX-License-Identifier: MIT OR Apache-2.0
"""RDMA from Python: connections of librdmacm, and the verbs helpers of librdma_verbs.

Needs the two libraries, and Python 3.9 or newer with only its standard library.

    with rdma_verbs.Endpoint("192.0.2.1", "7471") as endpoint:
        buffer = bytearray(4096)
        with endpoint.reg_msgs(buffer) as region:
            endpoint.connect()
            endpoint.post_read(region, remote_addr, rkey)
            endpoint.get_send_comp(timeout=10)

An ``Endpoint`` is an ``rdma_cm_id`` with a queue pair, a ``Region`` an ``ibv_mr``; the
methods are named after the C functions, whose manual pages apply: see rdma_verbs(7) and
rdma_cm(7). The differences:

- Failures raise ``RdmaError``, an ``OSError``. A failed completion raises
  ``CompletionError``. A wait that takes too long raises ``TimeoutError``.
- A buffer is an object with a writable, contiguous buffer: bytearray, mmap, array.array,
  a memoryview of them. While it is registered it is exported, so it can be neither
  resized nor freed.
- Timeouts are in seconds; None waits forever. Waiting for completions and events can be
  interrupted with Ctrl-C, as elsewhere in Python.

Several threads may use one endpoint, for example one per queue; close it only when no
other thread uses it.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import functools
import os
import select
import socket
import time
import warnings
from contextlib import ExitStack
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint, c_void_p
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypeVar, Union

if TYPE_CHECKING:
    from array import array
    from mmap import mmap

    Buffer = Union[bytearray, memoryview, mmap, "array[Any]", "ctypes.Array[Any]"]

__all__ = [
    "Completion",
    "CompletionError",
    "Endpoint",
    "Library",
    "Listener",
    "RdmaError",
    "Region",
    "SendFlags",
    "WcOpcode",
    "WcStatus",
]

# --- the C headers: constants and layouts ----------------------------------------------


class WcStatus(enum.IntEnum):
    """``enum ibv_wc_status``: the outcome of a work request."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_EEC_OP_ERR = 3
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    MW_BIND_ERR = 6
    BAD_RESP_ERR = 7
    LOC_ACCESS_ERR = 8
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    LOC_RDD_VIOL_ERR = 14
    REM_INV_RD_REQ_ERR = 15
    REM_ABORT_ERR = 16
    INV_EECN_ERR = 17
    INV_EEC_STATE_ERR = 18
    FATAL_ERR = 19
    RESP_TIMEOUT_ERR = 20
    GENERAL_ERR = 21
    TM_ERR = 22
    TM_RNDV_INCOMPLETE = 23


class WcOpcode(enum.IntEnum):
    """``enum ibv_wc_opcode``, as far as used here."""

    SEND = 0
    RDMA_WRITE = 1
    RDMA_READ = 2
    RECV = 128


class SendFlags(enum.IntFlag):
    """``enum ibv_send_flags``."""

    FENCE = 1
    SIGNALED = 2
    SOLICITED = 4
    INLINE = 8


_IBV_QPT_RC = 2
_IBV_TRANSPORT_IWARP = 1
_RDMA_PS_TCP = 0x0106
_RAI_PASSIVE = 1
_RDMA_MAX_RESP_RES = 0xFF
_RDMA_MAX_INIT_DEPTH = 0xFF


class _ibv_device(ctypes.Structure):
    _fields_ = [
        ("_ops", c_void_p * 2),
        ("node_type", c_int),
        ("transport_type", c_int),
        ("name", c_char * 64),
    ]


class _ibv_context(ctypes.Structure):
    _fields_ = [("device", POINTER(_ibv_device))]


class _ibv_mr(ctypes.Structure):
    _fields_ = [
        ("context", c_void_p),
        ("pd", c_void_p),
        ("addr", c_void_p),
        ("length", c_size_t),
        ("handle", c_uint32),
        ("lkey", c_uint32),
        ("rkey", c_uint32),
    ]


class _ibv_wc(ctypes.Structure):
    _fields_ = [
        ("wr_id", c_uint64),
        ("status", c_int),
        ("opcode", c_int),
        ("vendor_err", c_uint32),
        ("byte_len", c_uint32),
        ("imm_data", c_uint32),
        ("qp_num", c_uint32),
        ("src_qp", c_uint32),
        ("wc_flags", c_uint),
        ("pkey_index", c_uint16),
        ("slid", c_uint16),
        ("sl", c_uint8),
        ("dlid_path_bits", c_uint8),
    ]


class _ibv_qp_cap(ctypes.Structure):
    _fields_ = [
        ("max_send_wr", c_uint32),
        ("max_recv_wr", c_uint32),
        ("max_send_sge", c_uint32),
        ("max_recv_sge", c_uint32),
        ("max_inline_data", c_uint32),
    ]


class _ibv_qp_init_attr(ctypes.Structure):
    _fields_ = [
        ("qp_context", c_void_p),
        ("send_cq", c_void_p),
        ("recv_cq", c_void_p),
        ("srq", c_void_p),
        ("cap", _ibv_qp_cap),
        ("qp_type", c_int),
        ("sq_sig_all", c_int),
    ]


class _rdma_addrinfo(ctypes.Structure):
    _fields_ = [
        ("ai_flags", c_int),
        ("ai_family", c_int),
        ("ai_qp_type", c_int),
        ("ai_port_space", c_int),
        ("ai_src_len", c_uint32),
        ("ai_dst_len", c_uint32),
        ("ai_src_addr", c_void_p),
        ("ai_dst_addr", c_void_p),
        ("ai_src_canonname", c_char_p),
        ("ai_dst_canonname", c_char_p),
        ("ai_route_len", c_size_t),
        ("ai_route", c_void_p),
        ("ai_connect_len", c_size_t),
        ("ai_connect", c_void_p),
        ("ai_next", c_void_p),
    ]


class _rdma_conn_param(ctypes.Structure):
    _fields_ = [
        ("private_data", c_void_p),
        ("private_data_len", c_uint8),
        ("responder_resources", c_uint8),
        ("initiator_depth", c_uint8),
        ("flow_control", c_uint8),
        ("retry_count", c_uint8),
        ("rnr_retry_count", c_uint8),
        ("srq", c_uint8),
        ("qp_num", c_uint32),
    ]


class _rdma_ib_addr(ctypes.Structure):
    # union ibv_gid is 16 bytes that are aligned as 64-bit numbers.
    _fields_ = [("sgid", c_uint64 * 2), ("dgid", c_uint64 * 2), ("pkey", c_uint16)]


class _rdma_addr(ctypes.Structure):
    # struct sockaddr_storage is 128 bytes with the alignment of a long.
    _fields_ = [
        ("src_storage", c_uint64 * 16),
        ("dst_storage", c_uint64 * 16),
        ("addr", _rdma_ib_addr),
    ]


class _rdma_route(ctypes.Structure):
    _fields_ = [("addr", _rdma_addr), ("path_rec", c_void_p), ("num_paths", c_int)]


class _rdma_event_channel(ctypes.Structure):
    _fields_ = [("fd", c_int)]


class _rdma_cm_id(ctypes.Structure):
    _fields_ = [
        ("verbs", POINTER(_ibv_context)),
        ("channel", POINTER(_rdma_event_channel)),
        ("context", c_void_p),
        ("qp", c_void_p),
        ("route", _rdma_route),
        ("ps", c_int),
        ("port_num", c_uint8),
    ]


if TYPE_CHECKING:
    _Id = ctypes._Pointer[_rdma_cm_id]
    _Mr = ctypes._Pointer[_ibv_mr]

# --- exceptions ------------------------------------------------------------------------


class RdmaError(OSError):
    """A failed call: ``errno`` and ``strerror`` tell why, ``function`` which one."""

    function: str

    def __init__(self, code: int, text: str, function: str) -> None:
        super().__init__(code, text)
        self.function = function

    def __str__(self) -> str:
        return f"{self.function}: {self.strerror}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.errno, self.strerror, self.function)


class CompletionError(RdmaError):
    """A work request that was posted and failed.

    ``strerror`` has the likely cause, ``errno`` is the nearest errno value
    (rdmax_wc_strerror, rdmax_wc_errno), ``wr_id`` the one that was posted. After the first
    error the queue pair is of no more use: what is still posted ends as WR_FLUSH_ERR.
    """

    status: int
    vendor_err: int
    wr_id: int

    def __init__(
        self, code: int, text: str, function: str, status: int, vendor_err: int, wr_id: int
    ) -> None:
        super().__init__(code, text, function)
        self.status = status
        self.vendor_err = vendor_err
        self.wr_id = wr_id

    @property
    def status_name(self) -> str:
        """The name of the status, without its IBV_WC_."""
        try:
            return WcStatus(self.status).name
        except ValueError:
            return "unknown"

    def __str__(self) -> str:
        return f"{self.strerror} (completion status {self.status}, {self.status_name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.errno,
            self.strerror,
            self.function,
            self.status,
            self.vendor_err,
            self.wr_id,
        )


class Completion(NamedTuple):
    """A work request that succeeded."""

    wr_id: int
    opcode: int
    """See ``WcOpcode``."""
    byte_len: int
    """The number of bytes received; valid for receives only."""


# --- the libraries ---------------------------------------------------------------------

_Function = Callable[..., Any]


def _failed(function: _Function) -> RdmaError:
    code = ctypes.get_errno()
    return RdmaError(code, os.strerror(code), function.__name__)


def _not_negative(result: int, function: _Function, arguments: tuple[Any, ...]) -> int:
    if result < 0:
        raise _failed(function)
    return result


def _not_null(result: Any, function: _Function, arguments: tuple[Any, ...]) -> Any:
    if not result:
        raise _failed(function)
    return result


class Library:
    """librdma_verbs and librdmacm, and their functions.

    The loader looks for the names as it does for all libraries (LD_LIBRARY_PATH,
    ldconfig); a path names one file. Raises OSError if one is not there.
    """

    def __init__(
        self, verbs: str = "librdma_verbs.so.1", rdmacm: str = "librdmacm.so.1"
    ) -> None:
        self._verbs = ctypes.CDLL(verbs, use_errno=True)
        self._cm = ctypes.CDLL(rdmacm, use_errno=True)
        self._declare_verbs()
        self._declare_cm()

    def _declare_verbs(self) -> None:
        cm_id, mr, wc = POINTER(_rdma_cm_id), POINTER(_ibv_mr), POINTER(_ibv_wc)
        call = functools.partial(self._declare, self._verbs)
        one_buffer = [cm_id, c_void_p, c_void_p, c_size_t, mr]
        remote = [*one_buffer, c_int, c_uint64, c_uint32]
        register = [cm_id, c_void_p, c_size_t]

        self.rdma_reg_msgs = call("rdma_reg_msgs", register, mr, _not_null)
        self.rdma_reg_read = call("rdma_reg_read", register, mr, _not_null)
        self.rdma_reg_write = call("rdma_reg_write", register, mr, _not_null)
        self.rdma_dereg_mr = call("rdma_dereg_mr", [mr])
        self.rdma_post_recv = call("rdma_post_recv", one_buffer)
        self.rdma_post_send = call("rdma_post_send", [*one_buffer, c_int])
        self.rdma_post_read = call("rdma_post_read", remote)
        self.rdma_post_write = call("rdma_post_write", remote)
        self.rdmax_get_send_comp = call("rdmax_get_send_comp", [cm_id, wc, c_int])
        self.rdmax_get_recv_comp = call("rdmax_get_recv_comp", [cm_id, wc, c_int])
        self.rdmax_send_comp_fd = call("rdmax_send_comp_fd", [cm_id])
        self.rdmax_recv_comp_fd = call("rdmax_recv_comp_fd", [cm_id])
        self.rdmax_wc_errno = call("rdmax_wc_errno", [wc])
        self.rdmax_wc_strerror = call("rdmax_wc_strerror", [wc], c_char_p, None)

    def _declare_cm(self) -> None:
        cm_id, info = POINTER(_rdma_cm_id), POINTER(_rdma_addrinfo)
        attr, param = POINTER(_ibv_qp_init_attr), POINTER(_rdma_conn_param)
        call = functools.partial(self._declare, self._cm)

        self.rdma_getaddrinfo = call(
            "rdma_getaddrinfo", [c_char_p, c_char_p, info, POINTER(info)], c_int, None
        )
        self.rdma_freeaddrinfo = call("rdma_freeaddrinfo", [info], None, None)
        self.rdma_create_ep = call("rdma_create_ep", [POINTER(cm_id), info, c_void_p, attr])
        self.rdma_destroy_ep = call("rdma_destroy_ep", [cm_id], None, None)
        self.rdma_connect = call("rdma_connect", [cm_id, param])
        self.rdma_disconnect = call("rdma_disconnect", [cm_id])
        self.rdma_listen = call("rdma_listen", [cm_id, c_int])
        self.rdma_get_request = call("rdma_get_request", [cm_id, POINTER(cm_id)])
        self.rdma_accept = call("rdma_accept", [cm_id, param])
        self.rdma_get_src_port = call("rdma_get_src_port", [cm_id], c_uint16, None)

    @staticmethod
    def _declare(
        library: ctypes.CDLL,
        name: str,
        arguments: list[Any],
        result: Any = c_int,
        check: Any = _not_negative,
    ) -> Any:
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
        if check is not None:
            function.errcheck = check
        return function


@functools.lru_cache(maxsize=None)
def _default_library() -> Library:
    return Library()


def _create_ep(
    library: Library, host: str, port: Optional[str], flags: int, attr: _ibv_qp_init_attr
) -> _Id:
    hints = _rdma_addrinfo(ai_flags=flags, ai_port_space=_RDMA_PS_TCP)
    found = POINTER(_rdma_addrinfo)()
    cm_id = POINTER(_rdma_cm_id)()
    code = library.rdma_getaddrinfo(
        host.encode(), port.encode() if port is not None else None, byref(hints), byref(found)
    )
    # Either -1 and errno, or one of getaddrinfo's codes.
    if code == -1:
        raise _failed(library.rdma_getaddrinfo)
    if code:
        raise socket.gaierror(code, f"rdma_getaddrinfo: {_gai_strerror(code)}")
    try:
        library.rdma_create_ep(byref(cm_id), found, None, byref(attr))
    finally:
        library.rdma_freeaddrinfo(found)
    return cm_id


def _gai_strerror(code: int) -> str:
    function = ctypes.CDLL(None).gai_strerror
    function.restype = c_char_p
    text: bytes = function(code)
    return text.decode()


def _qp_attr(max_send_wr: int, max_recv_wr: int) -> _ibv_qp_init_attr:
    cap = _ibv_qp_cap(max_send_wr, max_recv_wr, 1, 1, 0)
    return _ibv_qp_init_attr(cap=cap, qp_type=_IBV_QPT_RC)


class _Deadline:
    """When a wait must end; None: never."""

    def __init__(self, timeout: Optional[float]) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def await_readable(self, what: str, *fds: int) -> list[int]:
        """Waits until some of the file descriptors are readable. Signals do not end the wait."""
        poll = select.poll()
        for fd in fds:
            poll.register(fd, select.POLLIN)
        left = None if self._end is None else max(0.0, self._end - time.monotonic())
        ready = poll.poll(None if left is None else left * 1000)
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, f"{what}: {os.strerror(errno.ETIMEDOUT)}")
        return [fd for fd, _ in ready]


# --- memory ----------------------------------------------------------------------------


class Region:
    """Registered memory: an ``ibv_mr`` and its buffer.

    Made by the methods ``reg_*`` of an ``Endpoint``; ends with its ``with`` block, with
    ``close``, or with the endpoint. Until then the buffer cannot be resized.
    """

    def __init__(self, endpoint: Endpoint, register: _Function, buffer: Buffer) -> None:
        length = memoryview(buffer).nbytes
        # from_buffer refuses what is read-only or has gaps, and exports the buffer for
        # as long as this object lives.
        self._memory: Optional[ctypes.Array[c_char]] = (c_char * length).from_buffer(buffer)
        self._endpoint = endpoint
        self._mr: Optional[_Mr] = register(endpoint._handle(), self._memory, length)
        mr = self._mr.contents
        self.addr: int = ctypes.addressof(self._memory)
        self.length: int = length
        self.lkey: int = mr.lkey
        self.rkey: int = mr.rkey
        endpoint._regions.add(self)

    def _part(self, offset: int, length: Optional[int]) -> tuple[int, int, _Mr]:
        """Address, length and memory region of a part, for a post."""
        if self._mr is None:
            raise ValueError("the region is closed")
        if length is None:
            length = self.length - offset
        if offset < 0 or length < 0 or offset + length > self.length:
            raise ValueError(f"{length} bytes from {offset} are not in {self.length} bytes")
        return self.addr + offset, length, self._mr

    def close(self) -> None:
        """Deregisters the memory: no device accesses it any more."""
        if self._mr is not None:
            self._endpoint._library.rdma_dereg_mr(self._mr)
            self._mr = None
            self._memory = None
            self._endpoint._regions.discard(self)

    def __enter__(self) -> Region:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()


# --- connections -----------------------------------------------------------------------

_Self = TypeVar("_Self", bound="_CmId")


class _CmId:
    """Shared by endpoint and listener: an ``rdma_cm_id`` that must be destroyed."""

    def __init__(self, library: Library, cm_id: _Id) -> None:
        self._library = library
        self._id: Optional[_Id] = cm_id

    def _handle(self) -> _Id:
        if self._id is None:
            raise ValueError(f"the {type(self).__name__.lower()} is closed")
        return self._id

    def _destroy(self) -> None:
        if self._id is not None:
            self._library.rdma_destroy_ep(self._id)
            self._id = None

    def close(self) -> None:
        """Releases everything that belongs to it."""
        self._destroy()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_id", None) is not None:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            self.close()


class Endpoint(_CmId):
    """One side of a reliable connection: an ``rdma_cm_id`` with a queue pair.

    The address is resolved and the queue pair made at once; memory can be registered and
    receives posted before ``connect``. ``max_send_wr`` and ``max_recv_wr`` say how many
    requests may be outstanding in each queue.
    """

    def __init__(
        self,
        host: str,
        port: str,
        *,
        max_send_wr: int = 16,
        max_recv_wr: int = 16,
        library: Optional[Library] = None,
    ) -> None:
        library = library or _default_library()
        attr = _qp_attr(max_send_wr, max_recv_wr)
        self._adopt(library, _create_ep(library, host, port, 0, attr))

    def _adopt(self, library: Library, cm_id: _Id) -> None:
        super().__init__(library, cm_id)
        self._connected = False
        self._regions: set[Region] = set()

    # The device.

    @property
    def device(self) -> str:
        """The name of the RDMA device."""
        name: bytes = self._handle().contents.verbs.contents.device.contents.name
        return name.decode()

    @property
    def port_num(self) -> int:
        """The port of the device."""
        return int(self._handle().contents.port_num)

    @property
    def is_iwarp(self) -> bool:
        """Whether the device is an iWARP device: see ``reg_write``."""
        device = self._handle().contents.verbs.contents.device.contents
        return bool(device.transport_type == _IBV_TRANSPORT_IWARP)

    # Connecting.

    def connect(self) -> None:
        """Connects to the endpoint's address, and waits until connected."""
        self._library.rdma_connect(self._handle(), byref(self._conn_param()))
        self._connected = True

    def accept(self) -> None:
        """Accepts the request that a ``Listener`` returned."""
        self._library.rdma_accept(self._handle(), byref(self._conn_param()))
        self._connected = True

    @staticmethod
    def _conn_param() -> _rdma_conn_param:
        # As many concurrent RDMA reads as both devices allow. Not 7 retries: soft-RoCE
        # takes that as forever.
        return _rdma_conn_param(
            responder_resources=_RDMA_MAX_RESP_RES,
            initiator_depth=_RDMA_MAX_INIT_DEPTH,
            retry_count=6,
            rnr_retry_count=6,
        )

    def wait_disconnected(self, timeout: Optional[float] = None) -> None:
        """Waits until the peer disconnects, then disconnects this side, too."""
        if self._connected:
            channel = self._handle().contents.channel.contents
            _Deadline(timeout).await_readable("waiting for the peer's end", channel.fd)
            # That answers the peer, and takes the event.
            self.disconnect()

    def disconnect(self) -> None:
        """Disconnects, if connected. Outstanding requests are flushed."""
        if self._connected:
            # It waits for an event that comes once.
            self._connected = False
            self._library.rdma_disconnect(self._handle())

    def close(self) -> None:
        """Disconnects, closes the regions, and destroys the endpoint, in this order."""
        with ExitStack() as stack:  # the last one first, and all of them
            stack.callback(self._destroy)
            for region in list(self._regions):
                stack.callback(region.close)
            stack.callback(self.disconnect)

    # Memory.

    def reg_msgs(self, buffer: Buffer) -> Region:
        """Registers a buffer for sends, receives, and as source or target of transfers.

        The peer has no access to it.
        """
        return Region(self, self._library.rdma_reg_msgs, buffer)

    def reg_read(self, buffer: Buffer) -> Region:
        """Registers a buffer that the peer may read."""
        return Region(self, self._library.rdma_reg_read, buffer)

    def reg_write(self, buffer: Buffer) -> Region:
        """Registers a buffer that the peer may write.

        On iWARP the target of an RDMA read needs that, too.
        """
        return Region(self, self._library.rdma_reg_write, buffer)

    # Posting: the request is queued, and its completion tells the outcome.

    def post_recv(
        self, region: Region, offset: int = 0, length: Optional[int] = None, wr_id: int = 0
    ) -> None:
        """Posts a receive into a part of the region, by default all of it."""
        addr, length, mr = region._part(offset, length)
        self._library.rdma_post_recv(self._handle(), wr_id, addr, length, mr)

    def post_send(
        self,
        region: Region,
        offset: int = 0,
        length: Optional[int] = None,
        wr_id: int = 0,
        flags: SendFlags = SendFlags.SIGNALED,
    ) -> None:
        """Posts a send of a part of the region."""
        addr, length, mr = region._part(offset, length)
        self._library.rdma_post_send(self._handle(), wr_id, addr, length, mr, flags)

    def post_read(
        self,
        region: Region,
        remote_addr: int,
        rkey: int,
        offset: int = 0,
        length: Optional[int] = None,
        wr_id: int = 0,
        flags: SendFlags = SendFlags.SIGNALED,
    ) -> None:
        """Posts an RDMA read of the peer's memory into a part of the region."""
        addr, length, mr = region._part(offset, length)
        self._library.rdma_post_read(
            self._handle(), wr_id, addr, length, mr, flags, remote_addr, rkey
        )

    def post_write(
        self,
        region: Region,
        remote_addr: int,
        rkey: int,
        offset: int = 0,
        length: Optional[int] = None,
        wr_id: int = 0,
        flags: SendFlags = SendFlags.SIGNALED,
    ) -> None:
        """Posts an RDMA write of a part of the region into the peer's memory."""
        addr, length, mr = region._part(offset, length)
        self._library.rdma_post_write(
            self._handle(), wr_id, addr, length, mr, flags, remote_addr, rkey
        )

    # Completions.

    def get_send_comp(self, timeout: Optional[float] = None) -> Completion:
        """Takes a completion of the send queue, waiting for it if necessary."""
        return self._get_comp(
            self._library.rdmax_get_send_comp, self.send_comp_fd(), "send queue", timeout
        )

    def get_recv_comp(self, timeout: Optional[float] = None) -> Completion:
        """Takes a completion of the receive queue, waiting for it if necessary."""
        return self._get_comp(
            self._library.rdmax_get_recv_comp, self.recv_comp_fd(), "receive queue", timeout
        )

    def send_comp_fd(self) -> int:
        """A file descriptor for an event loop: readable when ``get_send_comp`` is worth it.

        Before each wait for it, call ``get_send_comp(timeout=0)`` until that raises
        TimeoutError: this arms the queue.
        """
        return int(self._library.rdmax_send_comp_fd(self._handle()))

    def recv_comp_fd(self) -> int:
        """As ``send_comp_fd``, for the receive queue."""
        return int(self._library.rdmax_recv_comp_fd(self._handle()))

    def _get_comp(
        self, get: _Function, fd: int, what: str, timeout: Optional[float]
    ) -> Completion:
        # The C functions can wait, too, but a signal handler of Python would run only
        # when they return. One that found nothing has armed the queue.
        wc = _ibv_wc()
        deadline = _Deadline(timeout)
        events = self._handle().contents.channel.contents.fd
        while not get(self._handle(), byref(wc), 0):
            ready = deadline.await_readable(f"waiting for a completion of the {what}", fd, events)
            # Left in the channel, for disconnect(): what is there now is the connection's end.
            if fd not in ready:
                raise ConnectionResetError(
                    errno.ECONNRESET, f"the peer has disconnected; no completion of the {what}"
                )
        if wc.status != WcStatus.SUCCESS:
            raise self._completion_error(wc, get.__name__)
        return Completion(wc.wr_id, wc.opcode, wc.byte_len)

    def _completion_error(self, wc: _ibv_wc, function: str) -> CompletionError:
        code = self._library.rdmax_wc_errno(byref(wc))
        text = self._library.rdmax_wc_strerror(byref(wc)).decode()
        return CompletionError(code, text, function, wc.status, wc.vendor_err, wc.wr_id)


class Listener(_CmId):
    """Waits for connections to an address of an RDMA device.

    Without a port the system chooses one. ``max_send_wr`` and ``max_recv_wr`` are those
    of the endpoints that ``get_request`` makes.
    """

    def __init__(
        self,
        host: str,
        port: Optional[str] = None,
        *,
        backlog: int = 16,
        max_send_wr: int = 16,
        max_recv_wr: int = 16,
        library: Optional[Library] = None,
    ) -> None:
        library = library or _default_library()
        attr = _qp_attr(max_send_wr, max_recv_wr)
        super().__init__(library, _create_ep(library, host, port, _RAI_PASSIVE, attr))
        library.rdma_listen(self._handle(), backlog)

    @property
    def port(self) -> int:
        """The TCP-like port number that it listens on."""
        return socket.ntohs(self._library.rdma_get_src_port(self._handle()))

    def get_request(self, timeout: Optional[float] = None) -> Endpoint:
        """Waits for the next request; the endpoint's ``accept`` accepts it."""
        channel = self._handle().contents.channel.contents
        _Deadline(timeout).await_readable("waiting for a connection", channel.fd)
        cm_id = POINTER(_rdma_cm_id)()
        self._library.rdma_get_request(self._handle(), byref(cm_id))
        endpoint = Endpoint.__new__(Endpoint)
        endpoint._adopt(self._library, cm_id)
        return endpoint
