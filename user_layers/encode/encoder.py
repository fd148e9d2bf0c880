"""The kernel API's encoder as an object: calls in, descriptors, ids and results out.

It runs the real C functions, compiled into a firmware of their own, on a device process that records.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from firmware_sim.chip import DDR_BASE, DESCRIPTOR_BYTES, L2_BASE
from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, DeviceError, UsageError
from firmware_sim.firmware.image import (
    DEBUG_NAME,
    FIRMWARE_NAME,
    FirmwareImage,
    Kind,
    find_firmware,
    usual_kind,
)
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.wire import CommandGroup
from user_layers.encode.calls import RESULT_WORDS, Calls, dispatcher_c
from user_layers.files import write_if_changed
from user_layers.kernel_api.prototypes import functions
from user_layers.toolchain import entries
from user_layers.toolchain.arm import arm_compiler, link_arm, write_images
from user_layers.toolchain.builtin import FIRMWARE_DEFINES, Builtin, builtin_artifacts
from user_layers.toolchain.compilers import Toolchain, choose
from user_layers.toolchain.ninja_file import NinjaFile, Objects
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.shared import build_shared, linked_sdk, shared

_RESULT_BYTES = 8 * RESULT_WORDS
_RENUMBERS = ("okk_initialize", "okk_set_id_node")  # and issue nothing
_OWN_FRAME = re.compile(r"^kernel call_api: | \[called at [^\]]*\]$")


def calls_firmware(report: Reporter | None = None, kind: Kind | None = None) -> FirmwareImage:
    """The firmware with the call_api kernel, built once per toolkit version and compiler."""
    kind = kind or usual_kind() or "native"
    toolchain, report = choose(), report or Reporter()
    builtin = builtin_artifacts(toolchain, report)
    text = dispatcher_c()
    version = hashlib.sha256(text.encode()).hexdigest()[:8]
    folder = entries.built_once(
        builtin.directory / f"calls-{kind}-{version}",
        lambda folder: _build(folder, kind, text, toolchain, builtin, report),
    )
    return find_firmware(folder, kind)


def _build(
    folder: Path, kind: Kind, dispatcher: str, toolchain: Toolchain, builtin: Builtin, report: Reporter
) -> None:
    sdk = linked_sdk(folder)
    dispatch = folder / "dispatch.c"
    write_if_changed(dispatch, dispatcher)
    ninja = NinjaFile(folder, folder)
    native = kind == "native"
    compiler = toolchain.c if native else arm_compiler(sdk.relative_to(folder))
    objects = ninja.objects(
        Objects(
            shared(compiler, folder),
            [sdk / "tools" / "call_api.c", dispatch],
            [folder, *(sdk / name for name in ("include", "generated", "firmware"))],
            "calls",
            FIRMWARE_DEFINES if native else (),
        )
    )
    if native:
        output = ninja.shared(toolchain.c, folder / FIRMWARE_NAME, objects, whole=[builtin.libtpufw])
    else:
        output = link_arm(ninja, folder / DEBUG_NAME, objects, [builtin.libtpufw_arm])
    build_shared(ninja, [output], f"{toolchain.identity} {kind}", report, "calls ")
    if not native:
        write_images(output, folder)


@dataclass(frozen=True)
class Issued:
    """What one call issued.

    ids: the numbers of BD and GDMA after it, in a parallel section those of its start; result: the 64-bit
    return value.
    """

    bd: tuple[bytes, ...]
    gdma: tuple[bytes, ...]
    ids: tuple[int, int]
    parallel: bool
    result: int

    def order(self) -> list[str]:
        """ "b" and "g" in the order of issue."""
        waits = [BD.decode(d)["cmd_id_gdma"] for d in self.bd]
        numbers = [GDMA.decode(d)["cmd_id"] for d in self.gdma]
        out: list[str] = []
        for wait in waits:  # a BD command waits for the GDMA commands that came before it
            while numbers and numbers[0] <= wait:
                out.append("g")
                numbers.pop(0)
            out.append("b")
        return out + ["g"] * len(numbers)


@dataclass(frozen=True)
class Encoded:
    """What calls issued, one after the other."""

    calls: tuple[Issued, ...]

    @property
    def bd(self) -> list[str]:
        """BD descriptors as hex digits; gdma: the same of the GDMA."""
        return [d.hex() for c in self.calls for d in c.bd]

    @property
    def gdma(self) -> list[str]:
        """GDMA descriptors as hex digits."""
        return [d.hex() for c in self.calls for d in c.gdma]

    @property
    def order(self) -> list[str]:
        """ "b" and "g" in the order of issue."""
        return [letter for c in self.calls for letter in c.order()]

    @property
    def ids(self) -> list[int]:
        """The ids of BD and GDMA at the end."""
        return list(self.calls[-1].ids) if self.calls else [0, 0]


class Encoder:
    """Context manager around a device process that records. kind: arm runs the controller's images."""

    def __init__(self, report: Reporter | None = None, kind: Kind | None = None) -> None:
        self._device = Device(calls_firmware(report, kind), check="off")  # it records
        self._results = self._device.malloc(_RESULT_BYTES * 65536)

    def __enter__(self) -> Encoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._device.close()

    def run(self, calls: Sequence[tuple[str, Mapping[str, Any] | None]]) -> Encoded:
        """Make the calls in one kernel. Raises DeviceError with the refused call's message, UsageError for
        arguments that do not fit."""
        block = Calls()
        for name, args in calls:
            block.call(name, args)
        if block.count > 65536:
            raise UsageError(f"{block.count} calls in one kernel: 65536 at most")
        groups = self._recorded(block)
        rows = self._read_results(block.count)

        def split(streams: Iterable[bytes]) -> list[bytes]:
            data = b"".join(streams)
            return [data[i : i + DESCRIPTOR_BYTES] for i in range(0, len(data), DESCRIPTOR_BYTES)]

        bd, gdma = split(g.bd for g in groups), split(g.gdma for g in groups)
        made, before = [], (0, 0)
        for (name, _), (bd_id, gdma_id, parallel, result, *newest) in zip(calls, rows, strict=True):
            count = (0, 0) if name in _RENUMBERS else (newest[0] - before[0], newest[1] - before[1])
            before = (newest[0], newest[1])
            own, bd = tuple(bd[: count[0]]), bd[count[0] :]
            other, gdma = tuple(gdma[: count[1]]), gdma[count[1] :]
            made.append(Issued(own, other, (bd_id, gdma_id), bool(parallel), result))
        if bd or gdma:
            raise UsageError(
                "the calls issue more commands than one numbering holds", hint="make fewer calls"
            )
        return Encoded(tuple(made))

    def _recorded(self, block: Calls) -> list[CommandGroup]:
        """Raises DeviceError: the call's message, without the place in this kernel, which nobody wrote."""
        try:
            return self._device.record_launch("call_api", block.encode(self._results))
        except DeviceCrash:
            raise
        except DeviceError as error:
            raise DeviceError(_OWN_FRAME.sub("", error.message), hint=error.hint) from None

    def utility(self, name: str, args: Mapping[str, Any]) -> int | list[int]:
        """A function's result; strides come as the list that they are written to; pointers as offsets from
        the beginning of their memory. Raises DeviceError when the call is refused."""
        bases: dict[str, tuple[str, dict[str, int]]] = {
            "okk_global_mem_addr": ("okk_global_mem_addr", {"addr": DDR_BASE}),
            "okk_local_mem_addr": ("okk_local_mem_addr", {"idx": 0, "addr": 0}),
            "okk_l2_sram_addr": ("okk_l2_sram_addr", {"addr": L2_BASE}),
        }
        if name in bases:
            block = Calls().call(*bases[name]).call(name, args)
            self._device.launch("call_api", block.encode(self._results))  # pointers: not while recording
            base, result = (row[3] for row in self._read_results(2))
            return result - base
        if name.endswith("_stride") or "_stride_for_" in name:
            return self._stride(name, args)
        value = self.run([(name, args)]).calls[0].result
        kind = functions()[name].result
        if kind == "int":
            return value - (1 << 32) if value & 0xFFFF_FFFF >= 1 << 31 else value & 0xFFFF_FFFF
        return value & 0xFF if kind == "bool" else value

    def _read_results(self, count: int) -> list[list[int]]:
        rows: list[list[int]] = self._device.read_array(
            self._results, (count, RESULT_WORDS), "uint64"
        ).tolist()
        return rows

    def _stride(self, name: str, args: Mapping[str, Any]) -> list[int]:
        out = self._device.malloc(16)
        try:
            self._recorded(Calls().call(name, args, out=out))
            found: list[int] = self._device.read_array(out, (4,), "int32").tolist()
            return found
        finally:
            self._device.free(out)
