"""What the emulated controller says of kernels that it cannot go on with."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_sim.arm.images import load_pair
from firmware_sim.chip import ITCM_BYTES
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, DeviceError
from firmware_sim.firmware.image import DDR_NAME, FirmwareImage
from user_layers.toolchain.kernel import kernel_firmware

_HEAD = """#include "okk.h"
#ifdef __arm__ /* the part for this machine is built, too */
#define ARM(text) __asm__ volatile(text)
#else
#define ARM(text)
#endif
static volatile unsigned word; static unsigned words[4];
static char *volatile at = (char *)words; /* the compiler does not see where it points */
"""
_KERNELS = {
    "undefined": 'ARM(".word 0xe7f123f4");',
    "software_interrupt": 'ARM("swi 5");',
    "breakpoint": 'ARM("bkpt 1");',
    "odd_word": "word = *(volatile unsigned *)(at + 1);",
    "odd_half": "word = *(volatile unsigned short *)(at + 3);",
    "odd_store": "*(volatile unsigned *)(at + 2) = 7;",
    "well": "word = words[1];",
}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> FirmwareImage:
    source = tmp_path_factory.mktemp("faults") / "faults.c"
    text = []
    for name, body in _KERNELS.items():
        text.append(f"void {name}(const void *args) {{ (void)args; {body} }}")
        text.append(f"OKKERNEL_FUNC_REGISTER({name})")
    source.write_text(_HEAD + "\n".join(text) + "\n")
    tcm = kernel_firmware([source], kind="arm")
    return FirmwareImage(tcm, tcm.with_name(DDR_NAME))


@pytest.fixture(scope="module")
def device(image: FirmwareImage) -> Iterator[Device]:
    with Device(image) as device:
        yield device


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        ("undefined", "undefined instruction"),
        ("software_interrupt", "software interrupt"),
        ("breakpoint", "breakpoint|prefetch abort"),
        ("odd_word", r"alignment fault: 4 bytes at 0x\w+[159d]"),
        ("odd_half", r"alignment fault: 2 bytes at 0x\w+[37bf]"),
        ("odd_store", r"alignment fault: 4 bytes at 0x\w+[26ae]"),
    ],
)
def test_a_fault_names_its_cause_and_line(device: Device, kernel: str, says: str) -> None:
    line = _HEAD.count("\n") + 1 + 2 * list(_KERNELS).index(kernel)
    with pytest.raises(DeviceCrash) as caught:
        device.launch(kernel)
    place = rf"at \S*faults\.c:{line} in {kernel}; device 0 was reset$"
    assert re.match(f"^kernel {kernel} crashed: (?:{says}).* {place}", caught.value.message), (
        caught.value.message
    )
    device.launch("well")


def test_an_image_that_is_larger_than_its_memory_is_refused(image: FirmwareImage, tmp_path: Path) -> None:
    """With a header and a checksum that are right, so that nothing but its size is wrong."""
    assert image.ddr is not None
    data = bytearray(image.path.read_bytes())
    data += bytes(ITCM_BYTES + 4 - len(data))
    struct.pack_into("<I", data, 0x40 + 20, len(data))
    struct.pack_into("<I", data, 0x40 + 32, 0)
    struct.pack_into("<I", data, 0x40 + 32, zlib.crc32(data))
    path = tmp_path / image.path.name
    path.write_bytes(data)
    with pytest.raises(DeviceError, match=f"{ITCM_BYTES + 4} bytes do not fit into the {ITCM_BYTES} for it"):
        load_pair(path, image.ddr)
