"""Nets in 8 bits on the emulator, beside onnxruntime's integers on one thread.

    python benchmarks/bench_int8_emulation.py [NAME...] [--batch 1 --batch 4] [--vendor] [--repeat 5]

Each net (light models of the onnx package with seeded weights) is quantised by onnxruntime (QDQ, int8,
weights by channel); the same file is compiled here and run by onnxruntime. Both run in turns; the least time
of each counts. --vendor: our bmodel on the vendor's functional model too, once (it is installed by
python -m tests.oracle.toolchain).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.onnx_light import randomized
from user_layers.onnx.build import build
from user_layers.onnx.load import Source, read_proto
from user_layers.product import compile_net
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit

_SAMPLES = 4


def quantised(source: Path, batch: int, folder: Path) -> tuple[Path, str, tuple[int, ...]]:
    """The model in 8 bits as onnxruntime makes it, its input and that one's shape."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static, shape_inference

    model = onnx.load(str(source))
    names = {one.name for one in model.graph.initializer}
    (given,) = (one for one in model.graph.input if one.name not in names)
    given.type.tensor_type.shape.dim[0].dim_value = batch
    for one in [one for one in model.graph.input if one.name in names]:
        model.graph.input.remove(one)
    del model.graph.value_info[:]
    for out in model.graph.output:
        out.type.tensor_type.ClearField("shape")
    for node in model.graph.node:  # shapes that hold a batch of one
        for one in model.graph.initializer:
            if node.op_type == "Reshape" and one.name == node.input[1]:
                array = onnx.numpy_helper.to_array(one).copy()
                array[0] = batch if array[0] == 1 else array[0]
                one.CopyFrom(onnx.numpy_helper.from_array(array, one.name))
    plain, made, ready = folder / "plain.onnx", folder / "int8.onnx", folder / "ready.onnx"
    model.ir_version = max(model.ir_version, 4)
    onnx.save(onnx.version_converter.convert_version(model, 13), str(plain))
    shape_inference.quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
    shape = (batch, *(dim.dim_value for dim in given.type.tensor_type.shape.dim[1:]))

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            rng = np.random.default_rng(7)
            self._left = [rng.standard_normal(shape).astype(np.float32) for _ in range(_SAMPLES)]

        def get_next(self) -> Any:
            return {given.name: self._left.pop()} if self._left else None

    quantize_static(str(ready), str(made), Reader(), per_channel=True)
    return made, given.name, shape


def _seconds(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def measured(
    source: Path, batch: int, repeat: int, vendor: bool, folder: Path
) -> tuple[float, float, float | None, float]:
    """Seconds here, by onnxruntime and by the vendor's model; the share of MACs in 8 bits."""
    import onnxruntime

    path, name, shape = quantised(source, batch, folder)
    x = np.random.default_rng(99).standard_normal(shape).astype(np.float32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options)
    with Toolkit(check="off") as toolkit:
        made = build(Source.of(path).load(read_proto(path)), "net", toolkit=toolkit)
        assert made.quantised is not None
        compile_net(made.graph, directory=folder / "out")
        bmodel = folder / "out" / "compilation.bmodel"
        with BModelRuntime(toolkit.device) as runtime:
            (net,) = runtime.load(bmodel)
            runtime.launch(net, [x])
            session.run(None, {name: x})
            times = [
                (_seconds(lambda: runtime.launch(net, [x])), _seconds(lambda: session.run(None, {name: x})))
                for _ in range(repeat)
            ]
        ours, theirs = np.min(times, 0)
        model = _on_vendors(bmodel, x) if vendor else None
    return float(ours), float(theirs), model, made.quantised.share


def _on_vendors(bmodel: Path, x: np.ndarray[Any, Any]) -> float | None:
    from tests.oracle.client import Unavailable
    from tests.oracle.toolchain import Toolchain

    try:
        toolchain = Toolchain()
    except Unavailable as error:
        print(f"skipped: {error}")
        return None
    return _seconds(lambda: toolchain.run(bmodel, {"net": [x]}))


def main(words: Sequence[str] | None = None) -> None:
    """Print a line for each net."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", default=["resnet50", "squeezenet"], metavar="NAME", help="of the light models"
    )
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--vendor", action="store_true")
    given = parser.parse_args(words)
    print("net            batch  in 8 bits  here ms  onnxruntime ms  ratio  vendor's model s")
    for batch in given.batch or [1, 4]:
        for name in given.names:
            with tempfile.TemporaryDirectory() as folder:
                source = randomized(name, Path(folder))
                ours, theirs, model, share = measured(source, batch, given.repeat, given.vendor, Path(folder))
            last = "" if model is None else f"{model:8.1f} ({model / ours:.0f} times)"
            times = f"{1e3 * ours:8.1f} {1e3 * theirs:15.1f} {ours / theirs:6.2f}"
            print(f"{name:14} {batch:5} {share:10.1%} {times}  {last}", flush=True)


if __name__ == "__main__":
    main()
