"""Networks of many architectures: what the compiler makes of them, beside the roofline and other programs.

    python benchmarks/bench_models.py [NAME...] [--python PYTHON] [--opt N] [--json FILE] [--vendor]

One after the other, each in a process of its own with a limit of time; files are built once, into --folder,
by --python, which has the packages of the extra `models` (the tiny ones and the deep ones, equal_N, unequal_N
and large_N with about N layers, need none). With --json a table that was interrupted goes on where it was.

on host: ONNX nodes that run there; diff: the largest difference to onnxruntime's results, in parts of the
largest value; ms: modelled, of what runs on the TPU, without the launch; roofline: the least ms, by
user_layers/report/roofline.py; eff: roofline / ms; CPU s, MB: of compiling, with the processes it starts, and
the peak memory of the largest of them; emu: emulated time / onnxruntime's on one thread; vendor: ours / the
vendor's bmodel, cycles; latent: the same by the clock with another fit's latency of loads (timing.LATENT).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.models import deep
from benchmarks.models.table import GROUPS, MODELS, OTHER, TINY

if TYPE_CHECKING:
    from user_layers.net.compiled import CompiledNet
    from user_layers.toolkit import Toolkit

Row = dict[str, Any]
BUILD = Path(__file__).resolve().parent / "models" / "build.py"


# ---- one model, in a process of its own ----


def measure(path: Path, opts: Sequence[int], repeat: int, vendor: bool) -> Row:
    """What the table says of one file; the last of `opts` is the one that runs."""
    from benchmarks.bench_vendor_cycles import cycles
    from firmware_sim.chip import CLOCK_HZ
    from firmware_sim.isa import timing
    from tpulayer import Graph
    from user_layers.net.compiled import CpuBody, StaticBody
    from user_layers.report.model import total
    from user_layers.toolkit import Toolkit

    row: Row = {}
    net = None
    for opt in opts:
        before = _cpu_seconds()
        with Toolkit() as toolkit:
            graph = Graph.from_onnx(path, toolkit=toolkit)
            net = graph.compile(opt=opt, report=True)
        row[f"compile_cpu_s_opt{opt}"] = _cpu_seconds() - before
        (stage,) = net.report
        row[f"ms_opt{opt}"] = total(stage.recorded).cycles / CLOCK_HZ * 1e3
        row[f"traffic_mb_opt{opt}"] = total(stage.recorded).traffic.read / 1e6
        row["roofline_ms"] = stage.roofline / CLOCK_HZ * 1e3
        row["macs"] = sum(demand.macs for demand in stage.demands.values())
        row["layers"] = len(stage.nodes)
        row[f"groups_opt{opt}"] = sum(len(part.groups) for part in stage.parts)
    assert net is not None
    row["peak_mb"] = _peak_mb()
    row["ms"], row["compile_cpu_s"] = row[f"ms_opt{opts[-1]}"], row[f"compile_cpu_s_opt{opts[-1]}"]
    row["efficiency"] = row["roofline_ms"] / row["ms"] if row["ms"] else None
    bodies = [subnet.body for subnet in net.stages[0].subnets]
    row["host_nodes"] = sum(_nodes(body.model) for body in bodies if isinstance(body, CpuBody))
    row["host_parts"] = sum(isinstance(body, CpuBody) for body in bodies)
    with Toolkit() as toolkit:
        row |= _run(path, net, toolkit, repeat)
    groups = [group for body in bodies if isinstance(body, StaticBody) for group in body.groups]
    latent = cycles(groups, timing.LATENT)
    row["ms_latent"] = latent / CLOCK_HZ * 1e3
    if vendor:
        row |= _vendor(path, row["ms"] * CLOCK_HZ / 1e3, latent)
    return row


def _nodes(model: bytes) -> int:
    import onnx

    return len(onnx.load_from_string(model).graph.node)


def _run(path: Path, net: CompiledNet, toolkit: Toolkit, repeat: int) -> Row:
    """Differences to onnxruntime, and the time of both."""
    import onnxruntime

    from user_layers.bmodel import write
    from user_layers.onnx.check import compare, random_inputs
    from user_layers.onnx.load import load_model
    from user_layers.onnx.types import from_net, to_net
    from user_layers.runtime import BModelRuntime

    model = load_model(path)
    inputs, taken = random_inputs(model), {tensor.name for tensor in net.stages[0].inputs}
    fed = {value.name: to_net(inputs[value.name], value) for value in model.inputs if value.name in taken}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    want = session.run(None, dict(inputs))
    with BModelRuntime(toolkit.device) as runtime:
        runtime.load(write(net))
        results = runtime.launch(net.name, fed)
        got = [from_net(array, value) for array, value in zip(results, model.outputs, strict=True)]
        found = compare([value.name for value in model.outputs], got, want)
        ours = _best(lambda: runtime.launch(net.name, fed), repeat)
    theirs = _best(lambda: session.run(None, dict(inputs)), max(repeat, 3))
    return {
        "difference": max(one.relative for one in found),
        "emulated_s": ours,
        "onnxruntime_s": theirs,
        "emulated_ratio": ours / theirs,
    }


def _vendor(path: Path, cycles: float, latent: float) -> Row:
    """The vendor's bmodel of the same file, by the same clocks; why there is none."""
    from benchmarks.bench_vendor_cycles import measure as measure_bmodel
    from tests.oracle.client import Refused, Unavailable
    from tests.oracle.toolchain import Toolchain
    from user_layers.onnx.load import load_model

    try:
        shapes = [value.fixed for value in load_model(path).inputs]
        theirs = measure_bmodel(Toolchain().compile(path, shapes))  # type: ignore[arg-type]  # fixed shapes
    except (Refused, Unavailable, AssertionError) as error:
        return {"vendor_error": str(error)[:300]}
    except subprocess.TimeoutExpired as error:
        return {"vendor_error": f"no bmodel in {error.timeout:.0f} s"}
    return {
        "vendor_mcycles": theirs.cycles / 1e6,
        "vendor_ratio": cycles / theirs.cycles,
        "vendor_ratio_latent": latent / theirs.latent,
    }


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in _WHO]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_mb() -> float:
    """Of this process or the largest that it started. What rusage says of a process itself begins with the
    peak of the one that started it."""
    (own,) = (
        line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return max(int(own), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def _best(run: Callable[[], object], repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def _child(words: Sequence[str]) -> int:
    path, out, opts, repeat, vendor = words
    from firmware_sim.errors import TpulayerError

    os.chdir(Path(path).parent)  # outside of any workspace, whose firmware would be used
    try:
        row = measure(Path(path), [int(opt) for opt in opts.split(",")], int(repeat), vendor == "True")
    except TpulayerError as error:
        row = {"error": f"{type(error).__name__}: {error.message}"}
    Path(out).write_text(json.dumps(row))
    return 0


# ---- all of them ----


def build(name: str, folder: Path, python: str, limit: float) -> Path | str:
    """The model's file, made where it is not there yet; else why there is none."""
    path = folder / f"{name}.onnx"
    if path.exists():
        return path
    if deep.is_deep(name):
        deep.build(name, path)
        return path
    if name in TINY:
        from benchmarks.models import tiny

        tiny.build(name, path)
        return path
    words = [python, str(BUILD), name, str(path)]
    code, said = _in_time(words, limit, env={**os.environ, "PYTHONPATH": ""})
    return path if code == 0 else (said.strip().splitlines() or ["no file"])[-1]


def one(path: Path, given: argparse.Namespace) -> Row:
    """The row of a file."""
    out = path.with_suffix(f".{os.getpid()}.json")
    opts = ",".join(map(str, given.opt))
    words = [str(path), str(out), opts, str(given.repeat), str(given.vendor)]
    try:
        code, said = _in_time([sys.executable, __file__, "--child", *words], given.limit)
        if code == 0:
            found: Row = json.loads(out.read_text())
            return found
        return {"error": (said.strip().splitlines() or [f"exit code {code}"])[-1]}
    finally:
        out.unlink(missing_ok=True)


def _in_time(words: Sequence[str], limit: float, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and what a command says of errors; it and what it started end after `limit` seconds."""
    command = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True, env=env
    )
    try:
        _, said = command.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, signal.SIGKILL)
        command.communicate()
        return -1, f"no result in {limit:.0f} s"
    return command.returncode, said


_COLUMNS: tuple[tuple[str, str, int, str], ...] = (
    ("layers", "layers", 7, "d"),
    ("host_nodes", "on host", 8, "d"),
    ("difference", "diff", 8, ".0e"),
    ("ms", "ms", 9, ".3f"),
    ("roofline_ms", "roofline", 9, ".3f"),
    ("efficiency", "eff", 6, ".1%"),
    ("compile_cpu_s", "CPU s", 7, ".1f"),
    ("peak_mb", "MB", 6, ".0f"),
    ("emulated_ratio", "emu", 7, ".1f"),
    ("vendor_ratio", "vendor", 7, ".2f"),
    ("vendor_ratio_latent", "latent", 7, ".2f"),
)


def line(name: str, row: Row) -> str:
    """The row as text."""
    if "error" in row:
        return f"{name:19} {row['error'][:120]}"
    cells = (
        f"{row[key]:>{width}{form}}" if row.get(key) is not None else " " * (width - 1) + "-"
        for key, _, width, form in _COLUMNS
    )
    return f"{name:19}{''.join(cells)}"


def means(rows: dict[str, Row], groups: dict[str, str]) -> list[str]:
    """A line for each group, and for all: geometric means of what is known."""
    lines = []
    for group in (*GROUPS, "all"):
        names = [name for name in rows if group in ("all", groups[name])]
        found = [rows[name] for name in names if "error" not in rows[name]]
        if not found:
            continue
        said = [f"{group}: {len(found)} of {len(names)} measured"]
        for key, title, _, _ in _COLUMNS:
            if key not in ("efficiency", "emulated_ratio", "vendor_ratio", "vendor_ratio_latent"):
                continue
            values = [row[key] for row in found if row.get(key)]
            if values:
                said.append(
                    f"{title} {math.exp(sum(map(math.log, values)) / len(values)):.3g} of {len(values)}"
                )
        lines.append(", ".join(said))
    return lines


def main(words: Sequence[str] | None = None) -> int:
    from firmware_sim.cache_folder import cache_root
    from firmware_sim.isa import timing

    every = MODELS | TINY
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(every)}, or equal_N, unequal_N, large_N"
    )
    parser.add_argument("--python", default=sys.executable, help="builds the files; has the extra `models`")
    parser.add_argument("--folder", type=Path, default=None, help="of the files (default: in the cache)")
    parser.add_argument("--opt", type=int, action="append", help="levels; the last one runs (default 2)")
    parser.add_argument("--repeat", type=int, default=3, help="runs that count")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a model")
    parser.add_argument("--vendor", action="store_true", help="also the vendor's compiler")
    parser.add_argument("--json", type=Path, help="results, from which an interrupted table goes on")
    given = parser.parse_args(words)
    given.opt = given.opt or [2]
    every |= {name: OTHER for name in given.names if deep.is_deep(name)}
    if unknown := [name for name in given.names if name not in every]:
        parser.error(f"no model {unknown[0]!r}; there are {', '.join(every)}")
    folder = (given.folder or cache_root() / "models").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"opt": given.opt, "vendor": given.vendor}
    kept: dict[str, Any] = {"settings": settings, "models": {}}
    if given.json and given.json.exists():
        kept = json.loads(given.json.read_text())
        if kept["settings"] != settings:
            parser.error(f"{given.json} was begun with {kept['settings']}; give another file")
    print(f"ms: {timing.modelled()}; opt {given.opt[-1]}")
    print(f"{'model':19}{''.join(f'{title:>{width}}' for _, title, width, _ in _COLUMNS)}")
    rows: dict[str, Row] = {}
    for name in given.names or MODELS:
        path = build(name, folder, given.python, given.limit)
        if isinstance(path, str):
            rows[name] = {"error": path}
        else:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            old = kept["models"].get(name, {})
            if "error" in old or old.get("file") != digest:
                kept["models"][name] = {**one(path, given), "file": digest}
            rows[name] = kept["models"][name]
            if given.json:
                part = given.json.with_suffix(".part")
                part.write_text(json.dumps(kept, indent=1) + "\n")
                part.replace(given.json)
        print(line(name, rows[name]), flush=True)
    print("\ngeometric means")
    for text in means(rows, every):
        print(text)
    return int(any("error" in row for row in rows.values()))


if __name__ == "__main__":
    sys.exit(_child(sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main())
