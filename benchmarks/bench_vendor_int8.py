"""Nets in 8 bits: this compiler's and the vendor's, with the same calibration table, beside the float net.

    python benchmarks/bench_vendor_int8.py [NAME...] [--batch 1 --batch 4] [--spread 0.5]

Both compilers take the same thresholds: what `calibrate` finds for eight random batches, in the vendor's
format for its compiler; or with --vendor-table what its tools find for two. Both bmodels run on the emulator,
which gives the vendor's bits, on the same other random inputs. Per net: dB of signal over noise of its worst
output, ours and theirs; the share of our MACs in 8 bits; modelled ms of both and of our fp32, by the same
clock. Needs the vendor's tools (python -m tests.oracle.toolchain). Their matrix products of tokens are fp32
whatever the table says, only what lies between them is rounded to 8 bits.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_vendor_cycles import measure
from benchmarks.int8_tokens import ALL_NETS
from firmware_sim.chip import CLOCK_HZ
from tests.onnx_light import NAMES, randomized
from tests.oracle.client import Refused, Unavailable
from tests.oracle.toolchain import Toolchain
from user_layers.onnx.build import build
from user_layers.onnx.load import Source, read_proto
from user_layers.onnx.model import Model
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import Sums
from user_layers.quantize.rewrite import Int8
from user_layers.quantize.table import Table, read_table
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit

_SAMPLES = 4  # batches


def one(
    name: str, batch: int, spread: float, vendor: bool, toolchain: Toolchain, folder: Path
) -> tuple[float, ...]:
    """dB of ours and theirs, the share in 8 bits, ms of ours, theirs and our fp32. Refused."""
    if name in ALL_NETS:
        path = folder / f"{name}_{batch}.onnx"
        onnx.save(ALL_NETS[name](batch, spread), str(path))
    else:
        path = randomized(name, folder)
    with Toolkit(check="off") as toolkit:
        model = Source.of(path).load(read_proto(path))
        graph = build(model, "net", toolkit=toolkit, integers=False).graph
        (given,) = graph.inputs
        shape = graph.tensors[given].shape
        rng = np.random.default_rng(5)
        theirs = toolchain.compile(path, [shape], quantize="INT8")
        table = read_table(theirs.with_suffix(".table"))
        if not vendor:
            given_ = [{given: rng.standard_normal(shape).astype(np.float32)} for _ in range(8)]
            own = calibrate(graph, given_)
            theirs = toolchain.compile(
                path, [shape], quantize="INT8", table=_in_their_names(model, table, own)
            )
            table = own
        done = build(model, "net", toolkit=toolkit, int8=Int8(table)).quantised
        assert done is not None
        rng = np.random.default_rng(99)
        samples = [rng.standard_normal(shape).astype(np.float32) for _ in range(_SAMPLES)]
        bmodels = {}
        for kind, made in (("float", graph), ("ours", done.graph)):
            compile_net(made, directory=folder / kind)
            bmodels[kind] = folder / kind / "compilation.bmodel"
        bmodels["theirs"] = theirs
        outputs = {}
        for kind, bmodel in bmodels.items():
            with BModelRuntime(toolkit.device) as runtime:
                (net,) = runtime.load(bmodel)
                outputs[kind] = [runtime.launch(net, [sample]) for sample in samples]
        noise = []
        for kind in ("ours", "theirs"):
            sums = [Sums() for _ in graph.outputs]
            for wanted, got in zip(outputs["float"], outputs[kind], strict=True):
                for total, a, b in zip(sums, wanted, got, strict=True):
                    total.add(a, b.reshape(a.shape))
            noise.append(min(total.sqnr for total in sums))
        times = [measure(bmodels[kind]).cycles / CLOCK_HZ * 1e3 for kind in ("ours", "theirs", "float")]
    return *noise, done.share, *times


def _in_their_names(model: Model, theirs: Table, own: Table) -> str:
    """Lines of the vendor's table with our thresholds; what its compiler folds has the name of the first."""
    last = {node.inputs[0]: node.outputs[0] for node in model.nodes if node.op == "BatchNormalization"}
    lines = []
    for name, known in theirs.ranges.items():
        stem = re.sub(r"_[A-Z][A-Za-z0-9]*$", "", name)
        one = own.ranges.get(stem) or own.ranges.get(last.get(stem, "")) or known
        lines.append(f"{name} {one.threshold:.7f} {one.low:.7f} {one.high:.7f}")
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", default=list(ALL_NETS), metavar="NAME", help=f"also {', '.join(NAMES)}"
    )
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--spread", type=float, default=0.5, help="of channels' weights, in e-folds")
    parser.add_argument("--vendor-table", action="store_true")
    given = parser.parse_args(words)
    try:
        toolchain = Toolchain()
    except Unavailable as error:
        print(f"skipped: {error}")
        return
    print(f"{'net':14} batch   dB ours theirs  gain  in 8 bits  ms ours theirs ratio   fp32 faster")
    for batch in given.batch or [1, 4]:
        found = []
        for name in given.names:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    a, b, share, ours, theirs, plain = one(
                        name, batch, given.spread, given.vendor_table, toolchain, Path(folder)
                    )
                except Refused as error:
                    print(f"{name:14} {batch:5}   the vendor's: {error}", flush=True)
                    continue
            found.append((a - b, ours / theirs, plain / ours))
            print(
                f"{name:14} {batch:5}   {a:7.1f} {b:6.1f} {a - b:+5.1f}  {share:8.1%}  {ours:7.3f} "
                f"{theirs:6.3f} {ours / theirs:5.2f} {plain:6.3f} {plain / ours:6.2f}",
                flush=True,
            )
        if found:
            gain, ratio, faster = np.array(found).T
            print(
                f"batch {batch}: mean gain {gain.mean():+.1f} dB, least {gain.min():+.1f}; geometric means: "
                f"ours / theirs {_mean(ratio):.2f}, fp32 / ours {_mean(faster):.2f}"
            )


def _mean(ratios: npt.NDArray[np.float64]) -> float:
    return float(np.exp(np.log(ratios).mean()))


if __name__ == "__main__":
    main()
