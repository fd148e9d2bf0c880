"""What goes into the images, wherever they are built, and what a kernel may break in them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from firmware_sim.arm.images import from_elf
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash
from user_layers.files import write_atomic
from user_layers.toolchain.arm import arm_compiler, link_arm
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter


@pytest.mark.parametrize("folder", ["bm_device_cache", "my ok_device_entry.a"])
def test_no_name_of_a_folder_decides_where_code_lies(tmp_path: Path, folder: str) -> None:
    """firmware.ld looks for bm_device_* in the names of files, and a linker's pattern sees the whole path."""
    builtin = builtin_artifacts()
    place = tmp_path / folder
    place.mkdir()
    archive = place / builtin.libtpufw_arm.name
    archive.write_bytes(builtin.libtpufw_arm.read_bytes())
    (place / "empty.c").write_text("typedef int nothing;\n")
    ninja = NinjaFile(place, place)
    objects = ninja.objects(Objects(arm_compiler(), [place / "empty.c"], [], "arm-kernels"))
    program = link_arm(ninja, place / "firmware.elf", objects, [archive])
    write_atomic(ninja.identity_file, "")
    write_atomic(place / "build.ninja", ninja.text())
    run_ninja(place, place / "build.ninja", [program], Reporter())
    assert from_elf(program, "1") == from_elf(builtin.arm_program, "1")


HEAP = r"""
#include <stdlib.h>
#include <string.h>
#include "okk.h"

void spoils(const void *args) {
    char *block = malloc(16);
    memset(block, 1, *(const int *)args);
    free(block);
}
OKKERNEL_FUNC_REGISTER(spoils)
"""


def test_a_heap_that_was_written_over_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "heap.c").write_text(HEAP)
    with Device(kernel_firmware([tmp_path / "heap.c"], kind="arm")) as device:
        device.launch("spoils", struct.pack("<i", 16))
        with pytest.raises(DeviceCrash, match=r"what malloc gave at .*heap\.c:9 in spoils;"):
            device.launch("spoils", struct.pack("<i", 64))
        device.launch("spoils", struct.pack("<i", 16))
