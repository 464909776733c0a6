# SPDX-License-Identifier: MIT OR Apache-2.0
"""usage: python_readme.py ADDRESS: runs the Python of README.md on an RDMA device."""

import os
import re
import sys
import threading
from pathlib import Path

import rdma_verbs

LIMIT = 60.0  # seconds

address = sys.argv[1]
readme = Path(__file__).parents[2].joinpath("README.md").read_text(encoding="utf-8")
(example,) = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
memory = bytearray(os.urandom(4096))
names = {"rdma_verbs": rdma_verbs, "address": address, "buffer": bytearray(len(memory))}


def serve(listener: rdma_verbs.Listener) -> None:
    with listener.get_request(LIMIT) as endpoint:
        region = endpoint.reg_read(memory)
        names.update(remote_addr=region.addr, rkey=region.rkey)
        endpoint.accept()
        endpoint.wait_disconnected(LIMIT)


with rdma_verbs.Listener(address) as listener:
    names["port"] = str(listener.port)
    server = threading.Thread(target=serve, args=(listener,))
    server.start()
    exec(example, names)
    server.join(LIMIT)
assert names["buffer"] == memory
