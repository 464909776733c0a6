# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints a C program that compiles if rdma_verbs.py is as the C headers are."""

import ctypes

import rdma_verbs

# The module declares only the first fields of these, and never creates one.
PREFIXES = {"ibv_context", "ibv_device", "rdma_cm_id"}

CONSTANTS = {
    "IBV_QPT_RC": rdma_verbs._IBV_QPT_RC,
    "IBV_TRANSPORT_IWARP": rdma_verbs._IBV_TRANSPORT_IWARP,
    "RAI_PASSIVE": rdma_verbs._RAI_PASSIVE,
    "RDMA_MAX_INIT_DEPTH": rdma_verbs._RDMA_MAX_INIT_DEPTH,
    "RDMA_MAX_RESP_RES": rdma_verbs._RDMA_MAX_RESP_RES,
    "RDMA_PS_TCP": rdma_verbs._RDMA_PS_TCP,
    **{f"IBV_WC_{item.name}": item.value for item in rdma_verbs.WcStatus},
    **{f"IBV_WC_{item.name}": item.value for item in rdma_verbs.WcOpcode},
    **{f"IBV_SEND_{item.name}": item.value for item in rdma_verbs.SendFlags},
}


def is_true(condition: str) -> None:
    print(f'_Static_assert({condition}, "{condition}");')


def compare(structure: type) -> None:
    name = structure.__name__[1:]
    tag = f"struct {name}"
    if name not in PREFIXES:
        is_true(f"sizeof({tag}) == {ctypes.sizeof(structure)}")
    for field, _ in structure._fields_:
        place = getattr(structure, field)
        is_true(f"offsetof({tag}, {field}) == {place.offset}")
        is_true(f"sizeof((({tag} *)0)->{field}) == {place.size}")


print("#include <stddef.h>\n#include <rdma/rdma_cma.h>")
structures = [
    item
    for item in vars(rdma_verbs).values()
    if isinstance(item, type) and issubclass(item, ctypes.Structure)
]
assert {rdma_verbs._ibv_wc, rdma_verbs._rdma_cm_id} < set(structures)
for item in structures:
    compare(item)
for constant, value in CONSTANTS.items():
    is_true(f"{constant} == {value}")
