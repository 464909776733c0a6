# SPDX-License-Identifier: MIT OR Apache-2.0
"""Calls the library from Python."""

import ctypes
import errno

library = ctypes.CDLL("librdma_verbs.so.1", use_errno=True)

ctypes.set_errno(0)
assert library.rdma_post_send(None, None, None, ctypes.c_size_t(0), None, 0) == -1
assert ctypes.get_errno() == errno.EINVAL

library.rdma_reg_read.restype = ctypes.c_void_p
ctypes.set_errno(0)
assert library.rdma_reg_read(None, None, ctypes.c_size_t(1)) is None
assert ctypes.get_errno() == errno.EINVAL
