"""The controller's C library compiled for the ARM926EJ-S, called function by function on an emulated one."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from elftools.elf.elffile import ELFFile
from unicorn import arm_const

from tests.paths import SOURCES as SOURCE_FILES
from tests.support import libc_harness as lh
from tests.support import libc_math_harness as mh

IMAGE, DATA, STACK, RETURN = 0x100000, 0x1000000, 0x8000000, 0x7000000
IMAGE_BYTES, DATA_BYTES, STACK_BYTES = 0x100000, 0x2000000, 0x10000
LIMIT = 20_000_000  # microseconds of one call


def link(directory: Path, fixture: str, sources: Sequence[Path], *flags: str) -> Path:
    """Compile these sources with a fixture into an image that starts at IMAGE."""
    image = directory / f"{Path(fixture).stem}.elf"
    plain = [flag for flag in lh.FLAGS if flag != "-fPIC"]
    place = ["-Wl,--entry=functions", f"-Wl,--image-base={IMAGE:#x}"]
    files = map(str, [*sources, SOURCE_FILES / fixture])
    command = [*lh.ARM, *plain, *flags, *place, "-o", str(image), *files]
    subprocess.run(command, cwd=directory, check=True, timeout=lh.LIMIT)
    return image


class Arm:
    """A linked image in memory. Pointers are addresses; `place` puts bytes into the data memory."""

    def __init__(self, image: Path) -> None:
        self.machine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_ARM)
        self.machine.ctl_set_cpu_model(arm_const.UC_CPU_ARM_926)
        for start, size in ((IMAGE, IMAGE_BYTES), (DATA, DATA_BYTES), (STACK, STACK_BYTES), (RETURN, 4096)):
            self.machine.mem_map(start, size)
        with image.open("rb") as file:
            elf = ELFFile(file)
            for segment in elf.iter_segments():
                if segment["p_type"] == "PT_LOAD":
                    self.write(segment["p_vaddr"], segment.data())
            symbols = elf.get_section_by_name(".symtab").iter_symbols()
            self.symbols = {symbol.name: symbol["st_value"] for symbol in symbols}
        self.next = DATA
        self.unaligned: list[tuple[int, int, int]] = []
        self.functions: dict[str, int] = {}
        at = self.symbols["functions"]
        while name := struct.unpack("<I", self.read(at, 4))[0]:
            self.functions[self.text(name)] = struct.unpack("<I", self.read(at + 4, 4))[0]
            at += 8

    def watch_alignment(self) -> None:
        """Note every access from now on that an ARM926 would not make as it is written."""

        def access(_: Any, kind: int, address: int, size: int, value: int, data: Any) -> None:
            if address % size:
                self.unaligned.append((self.machine.reg_read(arm_const.UC_ARM_REG_PC), address, size))

        self.machine.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, access)

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.machine.mem_read(address, size))

    def write(self, address: int, data: bytes) -> None:
        self.machine.mem_write(address, data)

    def text(self, address: int) -> str:
        return self.read(address, 512).split(b"\0")[0].decode()

    def place(self, data: bytes, shift: int = 0) -> int:
        """The address of a copy of these bytes, `shift` above a multiple of 16."""
        address = self.next + shift
        self.next += (shift + len(data) + 31) & ~15
        assert self.next < DATA + DATA_BYTES
        self.write(address, data)
        return address

    def call(self, function: str | int, *arguments: int) -> int:
        """A function of words, by name or address; its result as an unsigned word."""
        registers, rest = arguments[:4], arguments[4:]
        sp = STACK + STACK_BYTES - 64 - len(rest) * 4 // 8 * 8
        self.write(sp, struct.pack(f"<{len(rest)}I", *(x % (1 << 32) for x in rest)))
        for i, value in enumerate(registers):
            self.machine.reg_write(arm_const.UC_ARM_REG_R0 + i, value % (1 << 32))
        self.machine.reg_write(arm_const.UC_ARM_REG_SP, sp)
        self.machine.reg_write(arm_const.UC_ARM_REG_LR, RETURN)
        start = self.functions[function] if isinstance(function, str) else function
        self.machine.emu_start(start, RETURN, LIMIT)
        assert self.machine.reg_read(arm_const.UC_ARM_REG_PC) == RETURN, "it did not return in time"
        return int(self.machine.reg_read(arm_const.UC_ARM_REG_R0))


class ArmMath(mh.Math):
    """The functions of tests/sources/libc_math_fixture.c on the emulated controller."""

    def __init__(self, image: Path) -> None:
        self.arm = Arm(image)

    def sweep(self, loop: str, function: str, inputs: list[mh.Array], *outputs: Any) -> list[mh.Array]:
        self.arm.next = DATA
        count = len(inputs[0])
        places = [self.arm.place(np.ascontiguousarray(a).tobytes()) for a in inputs]
        sizes = [count * np.dtype(dtype).itemsize for dtype in outputs]
        results = [self.arm.place(bytes(size)) for size in sizes]
        address = self.arm.functions[function]
        self.arm.call(self.arm.symbols[loop], address, *places, *results, count)
        found = zip(results, sizes, outputs, strict=True)
        return [np.frombuffer(self.arm.read(at, size), dtype) for at, size, dtype in found]
