"""Launching free kernels in the words of bmlib_runtime.h; the handle is a Device.

    with Device(firmware) as handle:
        okkernel_launch_sync(handle, "scale", args)

args: the argument struct as bytes, a ctypes structure, or anything else whose memory is the struct's. Where
the C functions return a status, these raise: DeviceError, DeviceCrash, UsageError.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

from firmware_sim.device.client import Device
from firmware_sim.firmware.image import FirmwareImage

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["okkernel_launch_async", "okkernel_launch_sync", "okkernel_load_firmware", "okkernel_sync"]


def okkernel_load_firmware(
    handle: Device, firmware_tcm: str | PathLike[str], firmware_ddr: str | PathLike[str] = ""
) -> None:
    """Boot another firmware: the two images for the controller, or a firmware.so or folder alone.

    Images also stay for later processes that open the device, as on a card (see `recorded`).
    """
    from firmware_sim.arm.images import keep, named

    firmware = named(firmware_tcm, firmware_ddr)
    handle.load_firmware(firmware)
    if isinstance(firmware, FirmwareImage):
        keep(firmware, handle.dev_id)


def okkernel_launch_sync(handle: Device, func_name: str, args: Buffer = b"") -> None:
    """Run a kernel, after the asynchronous launches before it, and wait for its end."""
    handle.launch(func_name, memoryview(args).tobytes())


def okkernel_launch_async(handle: Device, func_name: str, args: Buffer = b"") -> None:
    """Start a kernel; launches run in the order given. Its error is raised by the next okkernel_sync."""
    handle.launch_async(func_name, memoryview(args).tobytes())


def okkernel_sync(handle: Device, limit: float | None = None) -> None:
    """Wait for all asynchronous launches, at most `limit` seconds; raises the first error among them."""
    handle.sync(limit)
