"""The nine architectures of the onnx package with random weights, compared with onnxruntime.

    python -m tests.onnx_light [NAME...] [--dynamic]

Their files hold constants in place of weights, which would hide mistakes: each gets seeded random numbers.
What goes into a last Softmax is an output too, because Softmax hides differences.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import TOLERANCE, Difference, compare, random_inputs, reference
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(sorted(path.stem.removeprefix("light_") for path in FOLDER.glob("*.onnx")))


def randomized(name: str, folder: Path) -> Path:
    """The model with random weights, written into the folder."""
    model = onnx.load(str(FOLDER / f"light_{name}.onnx"))
    rng = np.random.default_rng(1684)
    known = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in known:
            shape = known[node.input[0]].astype(int).tolist()
            fan = int(np.prod(shape[1:]))
            values = (
                rng.standard_normal(shape) * (2 / fan) ** 0.5
                if len(shape) > 1
                else rng.random(shape) * 0.5 + 0.2
            )
            model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), node.output[0]))
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    if kept[-1].op_type == "Softmax":
        info = onnx.helper.make_tensor_value_info(kept[-1].input[0], onnx.TensorProto.FLOAT, None)
        model.graph.output.append(info)
    model.ir_version = 8
    path = folder / f"{name}.onnx"
    onnx.save(model, str(path))
    return path


def run(path: Path, toolkit: Toolkit, dynamic: bool, say: object = None) -> list[Difference]:
    """Compile and run; the differences of the outputs."""
    inputs = random_inputs(load_model(path))
    start = time.perf_counter()
    graph = Graph.from_onnx(path, toolkit=toolkit)
    graph.compile(dynamic=dynamic)
    compiled = time.perf_counter()
    graph.run(inputs)
    warm = time.perf_counter()
    got = graph.run(inputs)
    ran = time.perf_counter()
    want = reference(path, inputs)
    end = time.perf_counter()
    found = compare(list(graph.outputs), got, want)
    if callable(say):
        worst = max(d.relative for d in found)
        say(
            f"{path.stem:22} {'dynamic' if dynamic else 'static':8} compile {compiled - start:5.1f} s  "
            f"run {ran - warm:6.3f} s  onnxruntime with loading {end - ran:6.3f} s  worst {worst:.1e}"
            f"{'  TOO FAR' if worst > TOLERANCE else ''}"
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME")
    parser.add_argument("--dynamic", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, builtin_toolkit() as toolkit:
        for name in given.names:
            run(randomized(name, Path(folder)), toolkit, given.dynamic, print)


if __name__ == "__main__":
    main()
