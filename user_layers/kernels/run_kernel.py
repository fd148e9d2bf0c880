"""Running a free kernel with numpy arrays: the shortest way from a C file to a result."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import shown
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.device.client import Device
from firmware_sim.device.current_trace import NamedTensor, telling
from firmware_sim.device.findings import OnFindings, together
from firmware_sim.errors import UsageError
from firmware_sim.firmware.image import Kind, kind_named
from firmware_sim.isa import timing
from user_layers.kernels.arguments import find_arguments
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.toolchain.report import Reporter

Array = npt.NDArray[Any]

_FIRST = 8  # numbers of an output in a notebook


@dataclass(frozen=True)
class Output:
    """An array that the kernel writes: its shape and numpy dtype. What it leaves out is a finding, and 0."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class KernelResult:
    """outputs by the name of the address member; cycles: modelled time of the launch at 550 MHz;
    instructions: what the controller ran (0: a native firmware, where nobody counts)."""

    outputs: dict[str, Array]
    cycles: float
    instructions: int

    def __repr__(self) -> str:
        arrays = (f"{name} {shown.array(array)}" for name, array in self.outputs.items())
        micros = self.cycles / CLOCK_HZ * 1e6
        time = f"{self.cycles:.0f} cycles, {micros:.1f} us at 550 MHz ({timing.modelled()})"
        return f"<KernelResult {shown.listed(arrays)}; {time}>"

    def _repr_html_(self) -> str:
        """For Jupyter: each output with its extremes and its first numbers."""
        head = (
            "<tr><th>output</th><th>shape</th><th>type</th><th>least</th><th>greatest</th><th>first</th></tr>"
        )
        rows = []
        for name, array in self.outputs.items():
            extremes = (f"{array.min()!s}", f"{array.max()!s}") if array.size else ("", "")
            first = ", ".join(map(str, array.reshape(-1)[:_FIRST]))
            words = (name, str(list(array.shape)), array.dtype.name, *extremes, first)
            rows.append(f"<tr>{''.join(f'<td>{html.escape(word)}</td>' for word in words)}</tr>")
        micros = self.cycles / CLOCK_HZ * 1e6
        time = f"{self.cycles:,.0f} cycles, {micros:,.1f} us at 550 MHz ({timing.modelled()})"
        return f"<table>{head}{''.join(rows)}</table><p>{html.escape(time)}</p>"


def run_kernel(
    source: str | Path | Sequence[str | Path],
    name: str,
    inputs: Mapping[str, Array] | None = None,
    outputs: Mapping[str, Output] | None = None,
    arguments: Mapping[str, Any] | None = None,
    *,
    struct: str | None = None,
    includes: Sequence[str | Path] = (),
    report: Reporter | None = None,
    firmware: Kind = "native",
    time_limit: float | None = None,
    sanitize: bool = False,
    debug: bool = False,
    check: str | None = None,
    on_findings: OnFindings | None = None,
) -> KernelResult:
    """Build `source`, run its kernel `name` on the emulator, and give back the outputs.

    source: a C file, or several, with headers beside them or in the folders `includes`; `name` is registered
    there with OKKERNEL_FUNC_REGISTER.
    inputs and outputs name 64-bit members of the kernel's argument struct, which get the device addresses of
    the arrays; arguments name the other members. An array that is input and output is named in both. struct:
    the struct's name, where there are several.
    firmware: arm runs the images for the chip's controller. time_limit: seconds after which it is stopped, 0
    for any time; by default TPULAYER_TIME_LIMIT, else 60. sanitize: with checks of the C, see
    docs/free-kernels.md. debug: natively not optimized, for a debugger. check, on_findings: what is looked at
    while it runs, and who gets what is found, as of `Device`. report: gets what the build says, by default
    stderr.
    Editors find how the source is compiled in compile_commands.json beside it, if it is in no workspace.
    Raises UsageError for names and values that do not fit, BuildError, DeviceError; CheckError when it has
    run, checks found something and there is no on_findings.
    """
    kind = kind_named(firmware, "firmware")
    sources = [Path(p) for p in ([source] if isinstance(source, (str, Path)) else source)]
    folders = [Path(p) for p in includes]
    given, wanted, values = dict(inputs or {}), dict(outputs or {}), dict(arguments or {})
    image = kernel_firmware(
        sources, folders, report, kind="native", sanitize=sanitize, debug=debug, commands=True
    )
    some = bool(given or wanted or values)
    layout = find_arguments(image, name, sources, struct, guess=some)
    if layout is None and some:
        raise UsageError(
            f"{name} takes no argument struct, but values were given", hint="or say --struct NAME"
        )
    for member in (*given, *wanted):
        if member in values:
            raise UsageError(f"{member} is given as an array and as a value")
        assert layout is not None
        if layout.member(member).size != 8:
            raise UsageError(f"{member} cannot hold a device address", hint="addresses are 64-bit integers")
    if kind == "arm":
        image = kernel_firmware(sources, folders, report, kind="arm", sanitize=sanitize)
    with Device(image, time_limit=time_limit, check=check) as device, together(on_findings=on_findings):
        if name not in device.query().kernels:
            raise UsageError(
                f"{', '.join(p.name for p in sources)} registers no kernel {name}",
                hint=f"OKKERNEL_FUNC_REGISTER; there are: {', '.join(device.query().kernels) or 'none'}",
            )
        places: dict[str, int] = {}
        for member, array in given.items():
            places[member] = device.malloc(max(array.nbytes, 1), member)
            device.write(places[member], np.ascontiguousarray(array))
        for member, out in wanted.items():
            size = int(np.prod(out.shape)) * np.dtype(out.dtype).itemsize
            if member not in places:
                places[member] = device.malloc(max(size, 1), member)  # zeros: the device is new
            elif given[member].nbytes < size:
                raise UsageError(f"{member}: the output of {size} bytes is larger than the input there")
        packed = layout.argument_bytes({**values, **places}) if layout is not None else b""
        asked = device.instructions
        with telling(lambda: _named(places, given, wanted)):
            device.launch(name, packed)
        found = {m: device.read_array(places[m], o.shape, o.dtype).copy() for m, o in wanted.items()}
        return KernelResult(found, device.cycles, device.instructions - asked)


def _named(
    places: Mapping[str, int], given: Mapping[str, Array], wanted: Mapping[str, Output]
) -> Iterator[NamedTensor]:
    """The arrays in device memory, for those who look into it."""
    for member, array in given.items():
        yield NamedTensor(member, places[member], array.shape, array.dtype.name)
    for member, out in wanted.items():
        if member not in given:
            yield NamedTensor(member, places[member], tuple(out.shape), np.dtype(out.dtype).name)
