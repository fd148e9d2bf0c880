"""`tpulayer compare`: what a result means, in words: equal, or what differs first, how, and what to try."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from firmware_sim.chip import NPU_NUM
from firmware_sim.shown import count
from firmware_sim.wire import DType
from user_layers.card.result import Difference, Output, Result, RunResult

_ROUNDING_ULP = 4  # neighbours of the right value, as another order of additions or another table gives
_SHOWN = 4
_MANY = 10
_BRIEFLY = 2  # lines of every difference but the first


@dataclass
class Explanation:
    """What to print. verdict: one line; differences: one for each run that is not good; missing: what should
    be in the result and is not; advice: what to try; send: what else would help."""

    good: bool
    verdict: str
    machine: list[str]
    differences: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    send: list[str] = field(default_factory=list)
    times: list[str] = field(default_factory=list)


def explain(result: Result) -> Explanation:
    """Result -> what it means."""
    found = Explanation(False, "", _machine(result))
    finished = result.end[0] == "finished"
    bad = {number: run for number, run in result.runs.items() if _is_bad(run, finished)}
    found.differences = [_difference(number, run) for number, run in sorted(bad.items())]
    found.missing = result.missing
    nothing_failed = not (result.failed or result.refused or bad)
    memory_good = result.memory is not None and result.memory[0] == 0 and result.memory[3] == 0
    whole = memory_good and finished and nothing_failed and not result.firmware and bool(result.runs)
    whole = whole and not result.missing and not result.foreign_pack
    found.good = whole and not result.skipped
    found.verdict = _verdict(result, bad, whole)
    found.advice = _advice(result, bad)
    if not found.good:
        found.send = _send(result)
    found.times = [_times(run) for run in result.runs.values() if run.what != "layer" and run.host_us]
    return found


def _is_bad(run: RunResult, finished: bool) -> bool:
    """Whether something went wrong in a run, which is more than that records of it are missing."""
    return bool(run.failed) or any(not o.equal for o in run.outputs) or not (run.outputs or finished)


def as_text(found: Explanation) -> str:
    """For the terminal."""
    lines = [found.verdict, *(f"  {line}" for line in found.machine)]
    for number, difference in enumerate(found.differences[:_MANY]):
        lines += ["", f"{difference['run']} ({_KIND.get(difference['what'], difference['what'])}):"]
        told = difference["lines"] if number == 0 else difference["lines"][:_BRIEFLY]
        lines += [f"  {line}" for line in told]
    if len(found.differences) > _MANY:
        lines += ["", f"and {len(found.differences) - _MANY} more runs; --json lists all"]
    shown, more = found.missing[:_MANY], len(found.missing) - _MANY
    missing = [*shown, f"and {more} more; --json lists all"] if more > 0 else shown
    for title, part in (
        ("missing", missing),
        ("times", found.times),
        ("what to try", found.advice),
        ("send back", found.send),
    ):
        if part:
            lines += ["", f"{title}:", *(f"  {line}" for line in part)]
    return "\n".join(lines)


def as_json(found: Explanation) -> str:
    """One object."""
    return json.dumps(
        {
            "equal": found.good,
            "verdict": found.verdict,
            "machine": found.machine,
            "differences": found.differences,
            "missing": found.missing,
            "times": found.times,
            "advice": found.advice,
            "send": found.send,
        },
        indent=2,
    )


_KIND = {
    "layer": "a layer by itself",
    "whole": "the whole net, layer by layer",
    "net": "the net as it was compiled",
}


def _machine(result: Result) -> list[str]:
    lines = [f"pack {result.pack} of {result.tool}, on {result.machine or 'an unknown machine'}"]
    lines += [
        f"{name}: {path}" + (f", SHA-256 {h[:16]}..." if h else "") for name, path, h in result.libraries
    ]
    lines += [f"{name}: {text}" for name, text in result.texts if name in _SHORT_TEXTS]
    if result.device is not None and result.device[1] == 0:
        said = [
            f"{call.removeprefix('bm_get_')} {_info(call, value)}" for call, value in result.infos.items()
        ]
        lines.append(f"device {result.device[0]}: {', '.join(said) or 'says nothing of itself'}")
    if result.firmware_path:
        lines.append(f"BMRUNTIME_FIRMWARE_PATH was {result.firmware_path}: the runtime may have loaded that")
    if result.firmware == 0:
        lines.append("the pack's firmware was loaded")
    return lines


_SHORT_TEXTS = ("libbmrt_version", "/proc/bmsophon/driver_version", "/proc/device-tree/model")


def _info(call: str, value: int | str) -> str:
    return f"{value:#x}" if call == "bm_get_chipid" and isinstance(value, int) else str(value)


# ---- the verdict ----


def _verdict(result: Result, bad: dict[int, RunResult], whole: bool) -> str:
    reason, number, step = result.end
    if result.foreign_pack:
        return f"not comparable: this result is of another pack than {result.foreign_pack}, in which it lies"
    if result.missing and not bad and not result.refused:
        missing = count(len(result.missing), "record")
        return f"incomplete: {missing} missing in {result.path.name}, first: {result.missing[0]}"
    if result.device is None or result.device[1] != 0:
        status = "" if result.device is None else f" (status {result.device[1]})"
        return f"not run: the device could not be opened{status}" + _ended(reason, number, step)
    if result.memory is None or result.memory[3] != 0:
        call, status_ = (result.memory[2], result.memory[3]) if result.memory else (step, 0)
        return f"not run: {call} failed (status {status_})" + _ended(reason, number, step)
    if result.memory[0]:
        wrong, size = result.memory[:2]
        return f"not run: {wrong} of {size} bytes came back wrong from the device's memory"
    first = _first(bad)
    if first is not None:
        what = "failed" if first.failed or not first.outputs else "differs"
        which = "the first layer that" if first.what == "layer" else "first"
        return f"{which} {what}: {first.title}" + _ended(reason, number, step)
    if result.refused:
        return f"not run: {', '.join(result.refused.values())} was not loaded" + _ended(reason, number, step)
    if result.failed or result.firmware:
        failed = result.failed or [("okkernel_load_firmware", result.firmware or 0)]
        return f"{failed[0][0]} failed (status {failed[0][1]})" + _ended(reason, number, step)
    if not result.runs:
        return "nothing was run" + _ended(reason, number, step)
    runs = count(len(result.runs), "run")
    if not whole:
        return f"{runs} of {result.planned} equal" + _ended(reason, number, step)
    if result.skipped:
        return f"equal: all bits of {runs}; dynamic nets were left out ({', '.join(result.skipped.values())})"
    return f"equal: all bits of {runs}"


def _ended(reason: str, number: int, step: str) -> str:
    if reason == "finished":
        return ""
    how = {
        "signal": f"crashed (signal {number})",
        "exit": f"ended by itself (exit code {number})",
        "step limit": "was stopped because one call did not return",
        "limit": "was stopped at the limit for everything",
        "interrupted": "was interrupted",
    }.get(reason, f"ended: {reason}")
    return f"; the check {how} in: {step}"


def _first(bad: dict[int, RunResult]) -> RunResult | None:
    return bad[min(bad)] if bad else None


# ---- how it differs ----


def _difference(number: int, run: RunResult) -> dict[str, Any]:
    lines = [f"{call} failed (status {status})" for call, status in run.failed]
    first = {output.name: output for output in run.outputs if not output.again}
    for output in run.outputs:
        earlier = first.get(output.name)
        if output.again and earlier is not None and earlier.sha256 == output.sha256:
            continue
        if output.again and earlier is not None:
            lines.append(f"{output.name}: other bits in a later launch of the same net on the same inputs")
        elif not output.equal:
            lines += _output_lines(output)
    if not run.outputs and not run.failed:
        lines.append("it did not come to an end")
    return {
        "number": number,
        "run": run.title,
        "what": run.what,
        "lines": lines,
        "outputs": [
            {
                "name": output.name,
                "different": output.different,
                "elements": output.elements,
                "kind": _kind(output.how, output),
                "lanes": _lanes(output),
            }
            for output in first.values()
            if not output.equal
        ],
        "varies": _varies(run),
    }


def _varies(run: RunResult) -> bool:
    hashes: dict[str, set[str]] = {}
    for output in run.outputs:
        hashes.setdefault(output.name, set()).add(output.sha256)
    return any(len(found) > 1 for found in hashes.values())


def _output_lines(output: Output) -> list[str]:
    title = f"output {output.name} {list(output.shape)} {output.dtype.numpy_name}"
    if not output.shape_fits:
        return [f"{title}: not the shape that was expected"]
    lines = [f"{title}: {output.different} of {output.elements} elements differ"]
    if output.how is None:
        return lines
    lines.append(f"how: {_SAYS[_kind(output.how, output)]}{_sizes(output.how, output)}")
    where = [_axis(output, axis) for axis in range(min(len(output.shape), len(output.how.axes)))]
    lines.append(f"where: {'; '.join(where)}")
    lanes = _lanes(output)
    if lanes:
        lines.append(f"lanes: {', '.join(map(str, lanes))} of {NPU_NUM}, if its channels begin in lane 0")
    for index, expected, got in output.how.first[:_SHOWN]:
        lines.append(
            f"at {list(_place(index, output.shape))}: expected {_value(expected, output.dtype)}, got "
            f"{_value(got, output.dtype)}"
        )
    return lines


_SAYS = {
    "shape": "another shape",
    "untouched": "nobody wrote there: the memory is as it was before the launch",
    "zero signs": "only the signs of zeros",
    "nan bits": "only the bits of NaN",
    "nan appeared": "NaN where numbers were expected",
    "nan missing": "numbers where NaN was expected",
    "infinite": "infinities on one side only, or of the other sign",
    "rounding": "rounding",
    "small": "small differences, more than rounding of one operation",
    "integers": "integers",
    "other data": "other values altogether",
}


def _kind(how: Difference | None, output: Output) -> str:
    """One of the words of _SAYS: what most needs to be explained."""
    if how is None:
        return "shape"
    if how.untouched * 2 > output.different:
        return "untouched"
    for word, number in (("zero signs", how.zero_signs), ("nan bits", how.nan_bits)):
        if number == output.different:
            return word
    for word, number in (
        ("nan appeared", how.nan_appeared),
        ("nan missing", how.nan_missing),
        ("infinite", how.infinite),
    ):
        if number:
            return word
    if output.dtype not in (DType.FP32, DType.FP16):
        return "integers"
    if how.max_ulp <= _ROUNDING_ULP:
        return "rounding"
    return "small" if how.max_abs <= 1e-3 * how.max_value else "other data"


def _sizes(how: Difference, output: Output) -> str:
    if output.dtype not in (DType.FP32, DType.FP16):
        return f", at most {how.max_abs:g} apart"
    if how.max_abs == 0:
        return ""
    return f", at most {how.max_ulp} ulp and {how.max_abs:.3g} apart (largest value {how.max_value:.3g})"


def _axis(output: Output, axis: int) -> str:
    assert output.how is not None
    number, indices = output.how.axes[axis]
    name = "nchw"[axis] if len(output.shape) == 4 else f"axis {axis}"
    if number == output.shape[axis]:
        return f"{name}: all {number}"
    listed = _ranges(indices) + ("..." if number > len(indices) else "")
    return f"{name}: {number} of {output.shape[axis]} ({listed})"


def _ranges(indices: Sequence[int]) -> str:
    """0-3, 7"""
    parts: list[list[int]] = []
    for index in indices:
        if parts and parts[-1][1] + 1 == index:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def _lanes(output: Output) -> list[int]:
    """The lanes that the channels concerned lie in, where these are some of many; else nothing."""
    if output.how is None or len(output.shape) < 2 or len(output.how.axes) < 2:
        return []
    number, channels = output.how.axes[1]
    if number > len(channels):
        return []
    lanes = sorted({channel % NPU_NUM for channel in channels})
    return lanes if len(lanes) < min(output.shape[1], NPU_NUM) else []


def _place(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    place: list[int] = []
    for extent in reversed(shape):
        place.append(index % extent if extent else 0)
        index //= extent or 1
    return tuple(reversed(place))


def _value(bits: int, dtype: DType) -> str:
    size = dtype.itemsize
    raw = (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    if dtype in (DType.FP32, DType.FP16):
        (real,) = struct.unpack("<f" if dtype == DType.FP32 else "<e", raw)
        return f"{real:.9g} (0x{bits:0{2 * size}x})"
    return str(int.from_bytes(raw, "little", signed=dtype.numpy_name.startswith("int")))


# ---- what to do ----


def _advice(result: Result, bad: dict[int, RunResult]) -> list[str]:
    reason, _, step = result.end
    advice = []
    if result.foreign_pack:
        return ["copy the result into its own pack, or give result.json alone"]
    if result.missing:
        advice.append("the check records all of that: copy result.json once more, or run the pack again")
        if result.device is None or result.memory is None:
            return advice
    if reason in ("step limit", "limit"):
        advice.append("give it more time: ./run.sh --step-limit 1200 --limit 14400")
    if reason in ("step limit", "signal", "exit"):
        advice.append(f"the last call was `{step}`; log.txt may say why it did not come back")
    if result.device is None or result.device[1] != 0:
        return [
            *advice,
            "look for the device: ls -l /dev/bm-sophon*; bm-smi; ./run.sh --device N for another one",
        ]
    if result.memory is None or result.memory[0] or result.memory[3]:
        return [
            *advice,
            "nothing can be told while copies fail: restart the machine, look at dmesg and bm-smi",
        ]
    if result.firmware:
        advice.append("the firmware was refused: run without --load-firmware, which runs the static nets")
    if result.refused:
        advice.append(
            "a model was refused: log.txt has the runtime's reason; older runtimes may need fewer nets"
        )
    if result.skipped:
        advice.append("./run.sh --load-firmware runs the dynamic nets too; read README.txt of the pack first")
    return advice + _advice_of_runs(result, bad)


def _advice_of_runs(result: Result, bad: dict[int, RunResult]) -> list[str]:
    advice = []
    by_what = {what: [run for run in result.runs.values() if run.what == what] for what in _KIND}
    wrong = {what: [run for run in bad.values() if run.what == what] for what in _KIND}
    kinds = {_kind(o.how, o) for run in bad.values() for o in run.outputs if not o.equal}
    if any(_varies(run) for run in bad.values()):
        advice.append(
            "the same launch gives different bits: commands that do not wait for each other, or memory that "
            "nobody set; compile with opt=0 and pack again"
        )
    if wrong["layer"]:
        names = ", ".join(run.title for run in wrong["layer"][:_SHOWN])
        advice.append(
            f"{count(len(wrong['layer']), 'layer')} of {len(by_what['layer'])} by itself: {names}"
            f"{' ...' if len(wrong['layer']) > _SHOWN else ''}; look at these kernels first, differences in "
            "the whole net follow from them"
        )
    elif by_what["layer"] and wrong["whole"]:
        advice.append(
            "each layer by itself is right: look at what passes between them, memory that two share"
        )
    elif by_what["layer"] and wrong["net"]:
        advice.append(
            "all layers and the net at opt 0 are right: look at groups in local memory (local functions, "
            "waits between the engines); compile with opt=0, then opt=1, and pack each"
        )
    elif not by_what["layer"] and bad:
        advice.append("compile with layers=True (or --layers) and pack again: then the layer can be named")
    for kind in sorted(kinds & _ADVICE.keys()):
        advice.append(_ADVICE[kind])
    return advice


_ADVICE = {
    "untouched": "memory that nobody wrote: the launch did not run to its end, or wrote elsewhere",
    "rounding": "rounding: another order of sums, or other tables for exp, log and the like",
    "zero signs": "signs of zeros: how the unit adds or compares zeros differs from the emulator",
    "nan bits": "which NaN comes out differs from the emulator; nothing else does",
    "nan appeared": "NaN: look for a division or a table that the device computes otherwise for these inputs",
    "other data": "other values altogether: another layout, other addresses, or commands that did not wait",
}


def _send(result: Result) -> list[str]:
    lines = [f"{result.path.name}, log.txt beside it, and the runN_outputM.bin files"]
    lines.append("the output of: uname -a; cat /proc/bmsophon/driver_version; bm-smi (where they are there)")
    if result.end[0] != "finished":
        lines.append("the last lines of dmesg after the run")
    return lines


def _times(run: RunResult) -> str:
    host = (
        f"{run.title}: {median(run.host_us) / 1000:.3g} ms on the host's clock, median of {len(run.host_us)}"
    )
    known = [us for us in run.device_us if us > 0]
    return host + (f"; {median(known) / 1000:.3g} ms on the device's" if known else "")
