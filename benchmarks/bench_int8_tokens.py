"""Nets of tokens in 8 bits beside the same in fp32: signal to noise, what is in 8 bits, modelled times.

    python benchmarks/bench_int8_tokens.py [NAME...] [--batch 1 --batch 4] [--spread 0.3] [--log]

Tables are what `calibrate` finds for 48 random samples; signal over noise is of the worst output on two
other ones, against our fp32 net.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.bench_vendor_cycles import measure
from benchmarks.int8_tokens import ALL_NETS, NETS
from firmware_sim.chip import CLOCK_HZ
from user_layers.onnx.build import build
from user_layers.onnx.load import Source, read_proto
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.quality import Sums
from user_layers.quantize.rewrite import Int8
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit

_SAMPLES = 48


def one(name: str, batch: int, spread: float, log: bool, folder: Path) -> tuple[float, float, float, float]:
    """dB, the share of MACs in 8 bits, modelled ms in 8 bits and in fp32."""
    path = folder / f"{name}.onnx"
    onnx.save(ALL_NETS[name](batch, spread), str(path))
    with Toolkit(check="off") as toolkit:
        model = Source.of(path).load(read_proto(path))
        graph = build(model, "net", toolkit=toolkit, integers=False).graph
        (given,) = graph.inputs
        shape, rng = graph.tensors[given].shape, np.random.default_rng(5)
        samples = [
            {given: rng.standard_normal(shape).astype(np.float32)} for _ in range(_SAMPLES // batch + 2)
        ]
        table = calibrate(graph, samples[:-2])
        done = build(model, "net", toolkit=toolkit, int8=Int8(table)).quantised
        assert done is not None
        outputs, times = [], []
        for kind, made in (("int8", done.graph), ("float", graph)):
            result = compile_net(made, directory=folder / kind, report=log)
            if log:
                print(*(done.lines() if kind == "int8" else ()), *result.log, sep="\n")
                print((folder / kind / "report.txt").read_text())
            bmodel = folder / kind / "compilation.bmodel"
            with BModelRuntime(toolkit.device) as runtime:
                (net,) = runtime.load(bmodel)
                outputs.append([runtime.launch(net, [sample[given]]) for sample in samples[-2:]])
            times.append(measure(bmodel).cycles / CLOCK_HZ * 1e3)
        sums = [Sums() for _ in graph.outputs]
        for got, wanted in zip(*outputs, strict=True):
            for total, a, b in zip(sums, wanted, got, strict=True):
                total.add(a, b.reshape(a.shape))
    return min(total.sqnr for total in sums), done.share, times[0], times[1]


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each net."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(NETS), metavar="NAME")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--spread", type=float, default=0.3, help="of channels' weights, in e-folds")
    parser.add_argument("--log", action="store_true", help="what became of each layer, too")
    given = parser.parse_args(words)
    print(f"{'net':14} batch     dB  in 8 bits  ms int8   fp32  faster")
    for batch in given.batch or [1, 4]:
        for name in given.names:
            with tempfile.TemporaryDirectory() as folder:
                noise, share, ours, plain = one(name, batch, given.spread, given.log, Path(folder))
            times = f"{ours:8.3f} {plain:6.3f} {plain / ours:6.2f}"
            print(f"{name:14} {batch:5} {noise:6.1f}  {share:8.1%} {times}", flush=True)


if __name__ == "__main__":
    main()
