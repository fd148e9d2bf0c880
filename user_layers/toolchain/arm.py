"""The firmware for the chip's controller: zig's compiler for the ARM926EJ-S, the link, the two images.

Both builds of the firmware, this one and the shared library for this machine, use the same switches for
arithmetic and for the layout of data (toolchain.SAME_RESULTS), so that they issue the same commands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from firmware_sim.errors import BuildError
from firmware_sim.firmware.image import DDR_NAME, DEBUG_NAME, TCM_NAME
from user_layers import __version__
from user_layers.files import write_if_changed
from user_layers.toolchain.compilers import C_FLAGS, SAME_RESULTS, UNMERGED_CLANG, Compiler, zig
from user_layers.toolchain.ninja_file import NinjaFile
from user_layers.workspace import sdk_dir

_TARGET = ("-target", "arm-freestanding-eabi", "-mcpu=arm926ej_s", "-marm")
_PROTECTED = ("-Xclang", "-stack-protector", "-Xclang", "2")  # strong; zig refuses the usual name here
_FLAGS = (
    "-O2",
    "-g",
    "-fno-omit-frame-pointer",  # firmware_sim/arm/machine.py follows the frames
    "-fno-optimize-sibling-calls",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fno-sanitize=all",
    "-UNDEBUG",
    *_PROTECTED,
    "-ffunction-sections",
    "-fdata-sections",
    *UNMERGED_CLANG,
    *SAME_RESULTS,
)
UNPROTECTED = ("-Xclang", "-stack-protector", "-Xclang", "0")  # for what the protection calls
_CHECKED_DIVISIONS = ("idiv", "uidiv", "idivmod", "uidivmod", "ldivmod", "uldivmod")
_OVERFLOW = re.compile(r"will not fit in region '(\w+)': overflowed by (\d+) bytes")
_SHOWN = 8


def arm_compiler(sdk: Path | None = None) -> Compiler:
    """Zig as C compiler for the controller. sdk: the toolkit's C, if a build calls it by another name.
    MissingError when it is not installed."""
    base = zig("c", "x86")
    sdk = sdk or sdk_dir()
    flags = (*_FLAGS, *C_FLAGS)
    return replace(
        base,
        argv=(base.argv[0], "cc", *_TARGET),
        flags=(*flags, f"-fmacro-prefix-map={sdk}=sdk", f"-isystem{sdk / 'libc' / 'include'}"),
        link_flags=_TARGET[1:],
        identity=f"zig {base.version} {' '.join((*_TARGET, *flags))}",
        note=" for the controller",
    )


def link_arm(ninja: NinjaFile, output: Path, objects: Sequence[Path], whole: Sequence[Path]) -> Path:
    """A statement that links the objects, and all of the archives `whole`, into the program `output`."""
    script = sdk_dir() / "arm" / "firmware.ld"
    wraps = [f"-Wl,--wrap=__aeabi_{name}" for name in _CHECKED_DIVISIONS]
    return ninja.program(
        arm_compiler(),
        output,
        objects,
        whole,
        ["-T", str(script), "-Wl,-e,_vectors", "-Wl,--gc-sections", *wraps],
        [script],
    )


def write_images(elf: Path, folder: Path) -> list[Path]:
    """firmware_tcm.bin, firmware_ddr.bin and firmware.elf, for messages, made from a linked program."""
    from firmware_sim.arm.images import from_elf

    images = from_elf(elf, __version__)
    files = {TCM_NAME: images.tcm, DDR_NAME: images.ddr, DEBUG_NAME: elf.read_bytes()}
    for name, data in files.items():
        write_if_changed(folder / name, data)
    return [folder / name for name in files]


def explain_overflow(error: BuildError, objects: Sequence[Path]) -> BuildError:
    """A full region in readable form, with what takes the most room there; other errors as they are."""
    found = _OVERFLOW.findall(error.message)
    if not found:
        return error
    lines = []
    for region, over in dict(found).items():
        sizes = sorted(_sizes(region, objects), reverse=True)[:_SHOWN]
        lines.append(
            f"the firmware does not fit: {region} is {int(over)} bytes too small. The largest there:"
        )
        lines += [f"  {size:8} bytes  {name}" for size, name in sizes]
    return BuildError(
        "\n".join(lines),
        hint="large tables belong into DDR memory of the device; code in files named bm_device_* goes to DDR",
    )


def _sizes(region: str, objects: Sequence[Path]) -> list[tuple[int, str]]:
    """(bytes, "symbol in file") of the sections of these objects that firmware.ld puts into the region."""
    from elftools.elf.elffile import ELFFile

    found = []
    for path in objects:
        with open(path, "rb") as stream:
            for section in ELFFile(stream).iter_sections():
                name, size = section.name, int(section["sh_size"])
                if section["sh_flags"] & 2 and size and _region(path.name, name) == region:
                    symbol = re.sub(r"^\.(text|rodata|data|bss|dtcm)\.?", "", name) or name
                    found.append((size, f"{symbol} in {path.name.removesuffix('.o')}"))
    return found


def _region(file: str, section: str) -> str:
    if section.startswith(".dtcm"):
        return "DTCM"
    rare = any(part in file for part in ("bm_device_", "ok_device_", "_device_entry"))
    if section.startswith((".data", ".bss", ".init_array")) or (rare and not section.startswith(".ARM")):
        return "DDR"
    return "ITCM"
