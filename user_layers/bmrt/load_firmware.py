"""`load_firmware`: a pair of images is checked, booted, and recorded as what a device runs from now on."""

from __future__ import annotations

import json
from pathlib import Path

from firmware_sim.arm.images import keep, load_pair
from firmware_sim.device.client import Device
from firmware_sim.errors import UsageError
from firmware_sim.firmware.image import FirmwareImage
from firmware_sim.firmware.recorded import Records

DEVICES = 64


def run(tcm: Path, ddr: Path, dev_id: int, *, as_json: bool) -> str:
    """Load and record; the text for the terminal: version, build, layers and kernels of the pair.

    Later processes of this workspace boot it on this device, or, loaded outside any, those that are outside
    any, unless --firmware or BMRUNTIME_FIRMWARE_PATH names another. Errors: MissingError for files that
    cannot be read; DeviceError for a pair that is damaged, swapped or mixed, or does not boot: then the
    record stays as it was.
    """
    check_device(dev_id)
    images = load_pair(tcm, ddr)
    image = FirmwareImage(tcm.resolve(), ddr.resolve())
    with Device(image, dev_id=dev_id) as device:
        info = device.query()
        boot = device.instructions
    keep(image, dev_id)
    answer = {
        "device": dev_id,
        "version": images.version,
        "build": f"{images.build:016x}",
        "abi": info.abi_version,
        "tcm_bytes": len(images.tcm),
        "ddr_bytes": len(images.ddr),
        "layers": [layer.op for layer in info.layers],
        "kernels": list(info.kernels),
        "controller_instructions": boot,
    }
    if as_json:
        return json.dumps(answer)
    return "\n".join(
        (
            f"device {dev_id}: tpulayer {images.version}, build {answer['build']}, ABI {info.abi_version}",
            f"  ITCM {len(images.tcm)} bytes, DDR {len(images.ddr)} bytes",
            f"  layers: {', '.join(layer.op for layer in info.layers) or 'none of the user'}",
            f"  kernels: {', '.join(info.kernels) or 'none'}",
        )
    )


def forget(dev_id: int) -> str:
    """Remove the record of a device; the text for the terminal."""
    check_device(dev_id)
    return f"device {dev_id}: {'forgotten' if Records.here().forget(dev_id) else 'nothing was recorded'}"


def check_device(dev_id: int) -> None:
    """Raise UsageError for a device number that cannot be."""
    if not 0 <= dev_id < DEVICES:
        raise UsageError(f"device {dev_id}: devices are numbered 0 to {DEVICES - 1}")
