"""The words of `tpulayer run_kernel` as arrays, numbers and text."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.checks import export
from firmware_sim.checks.finding import Finding
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.device.findings import OnFindings, together
from firmware_sim.errors import UsageError
from firmware_sim.firmware.image import kind_named, usual_kind
from firmware_sim.isa import timing
from firmware_sim.npy import read_npy
from user_layers.files import read_input, write_atomic
from user_layers.kernels.run_kernel import Output, run_kernel


def _split(text: str, option: str, form: str) -> tuple[str, str]:
    member, sign, rest = text.partition("=")
    if not sign or not member or not rest:
        raise UsageError(f"{option} {text}: expected {form}")
    return member, rest


def _number(member: str, text: str) -> Any:
    for kind in (lambda t: int(t, 0), float):
        try:
            return kind(text)
        except ValueError:
            continue
    if text in ("true", "false"):
        return text == "true"
    raise UsageError(f"--arg {member}={text}: {text!r} is not a number")


def _value(text: str) -> tuple[str, Any]:
    member, rest = _split(text, "--arg", "MEMBER=NUMBER")
    numbers = [_number(member, one) for one in rest.split(",")]
    return member, numbers if len(numbers) > 1 else numbers[0]


def _input(text: str) -> tuple[str, Any]:
    member, name = _split(text, "--in", "MEMBER=FILE.npy")
    try:
        data = read_input(Path(name))
    except OSError as error:
        raise UsageError(f"--in {text}: {name} cannot be read: {error.strerror or error}") from None
    if data.startswith(b"PK"):
        raise UsageError(
            f"--in {text}: {name} holds several arrays (.npz)", hint="save one array per .npy file"
        )
    try:
        array = read_npy(io.BytesIO(data))
    except ValueError as error:
        raise UsageError(f"--in {text}: {name} is not a .npy file of numbers: {error}") from None
    if array.dtype.kind not in "biuf" or not array.size:
        raise UsageError(
            f"--in {text}: {name} holds {array.dtype} {list(array.shape)}, not numbers for a device",
            hint="integers, floats or bools, at least one",
        )
    return member, array


def _by_member(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member, value in pairs:
        if member in found:
            raise UsageError(f"{option} {member} is given twice")
        found[member] = value
    return found


def _output(text: str) -> tuple[str, Output, Path | None]:
    form = "MEMBER=4x8:float32 or MEMBER=4x8:float32:FILE.npy"
    member, rest = _split(text, "--out", form)
    sizes, _, more = rest.partition(":")
    dtype, _, name = more.partition(":")
    try:
        shape = tuple(int(size) for size in sizes.split("x"))
        kind = np.dtype(dtype or "float32")
    except (ValueError, TypeError, SyntaxError):
        raise UsageError(f"--out {text}: expected {form}") from None
    if kind.kind not in "biuf" or kind.itemsize > 8:
        raise UsageError(
            f"--out {text}: {kind} is no type of numbers that memory of the device can hold",
            hint="float32, float16, int32, int16, int8, the same unsigned, float64, int64 or bool",
        )
    if any(size < 1 for size in shape):
        raise UsageError(f"--out {text}: sizes start at 1")
    return member, Output(shape, dtype or "float32"), Path(name) if name else None


def _plain(value: Any) -> Any:
    """What JSON can say: NaN and infinities become the texts "nan", "inf" and "-inf"."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _for_json(array: Any, path: Path | None) -> Any:
    """Its elements, or where they are: a file is for what is too much to print."""
    if path is None:
        return array.tolist()
    return {"file": str(path), "shape": list(array.shape), "dtype": str(array.dtype)}


def run(
    sources: Sequence[Path],
    name: str,
    args: Sequence[str],
    inputs: Sequence[str],
    outputs: Sequence[str],
    struct: str | None,
    includes: Sequence[Path],
    *,
    as_json: bool,
    kind: str | None = None,
    sanitize: bool = False,
    debug: bool = False,
    on_findings: OnFindings,
) -> str:
    """Run and write the outputs' files; the text for the terminal. on_findings: gets what checks find, which
    stands in JSON too."""
    usual = None if sanitize else usual_kind()
    known = kind_named(kind, "--firmware") if kind is not None else usual
    wanted = [_output(text) for text in outputs]
    seen: list[Finding] = []

    def take(findings: list[Finding]) -> None:
        seen.extend(findings)
        on_findings(findings)

    with together(on_findings=take):
        result = run_kernel(
            list(sources),
            name,
            _by_member("--in", map(_input, inputs)),
            _by_member("--out", ((member, out) for member, out, _ in wanted)),
            _by_member("--arg", map(_value, args)),
            struct=struct,
            includes=includes,
            firmware=known or "native",
            sanitize=sanitize,
            debug=debug,
        )
    lines = []
    for member, out, path in wanted:
        array = result.outputs[member]
        if path is not None:
            data = io.BytesIO()
            np.save(data, array)
            write_atomic(path, data.getvalue())
            lines.append(f"{member}: {list(out.shape)} {out.dtype} -> {path}")
        else:
            lines.append(f"{member}: {list(out.shape)} {out.dtype}\n{array}")
    seconds = result.cycles / CLOCK_HZ
    if as_json:
        found = {member: _for_json(result.outputs[member], path) for member, _, path in wanted}
        answer = {"kernel": name, "cycles": result.cycles, "seconds": seconds, "time": timing.modelled()}
        answer |= {"outputs": found, "controller_instructions": result.instructions}
        return json.dumps(_plain({**answer, "findings": export.as_json(seen)}))
    counted = f"; the controller ran {result.instructions} instructions" if result.instructions else ""
    time = f"{result.cycles:.0f} cycles, {seconds * 1e6:.1f} us at 550 MHz ({timing.modelled()})"
    lines.append(f"{name}: {time}{counted}")
    return "\n".join(lines)
