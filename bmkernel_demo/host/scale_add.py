"""The host's side of the kernel: pack the arguments, launch it by name."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from tpulayer import Device

ARGUMENTS = struct.Struct("<QQQQf")  # scale_add_args_t in include/scale_add.h


def bm_api_scale_add(device: Device, out: int, a: int, b: int, count: int, factor: float) -> None:
    """out = factor * a + b over `count` fp32 elements; out, a, b are device addresses."""
    device.launch("scale_add", ARGUMENTS.pack(out, a, b, count, factor))


def scale_add(
    device: Device, a: NDArray[np.float32], b: NDArray[np.float32], factor: float
) -> NDArray[np.float32]:
    """The same for arrays on the host: copies them to the device and the result back."""
    if a.shape != b.shape:
        raise ValueError(f"a is {list(a.shape)}, b is {list(b.shape)}: they must be alike")
    addresses = []
    try:
        for array in (a, b, np.zeros_like(a)):
            addresses.append(device.malloc(max(4, array.nbytes)))
            device.write(addresses[-1], np.ascontiguousarray(array, dtype=np.float32))
        bm_api_scale_add(device, addresses[2], addresses[0], addresses[1], a.size, factor)
        return np.asarray(device.read_array(addresses[2], a.shape, np.float32), np.float32)
    finally:
        for address in addresses:
            device.free(address)
