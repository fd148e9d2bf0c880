"""Small ONNX models, and what the vendor's tools and this project make of them, compared bit for bit.

    python -m tests.vendor_models [NAME...] [--light] [--int8] [--check WORDS]

Needs the vendor's tools (python -m tests.oracle.toolchain). Of each model: the vendor's bmodel runs on the
vendor's runtime and here; ours runs here and on the vendor's runtime. --light: the architectures of the onnx
package; --int8: both with 8-bit layers. --check: nothing is compared, the vendor's bmodels
run here under these checks, and what is found is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from firmware_sim.checks.finding import Finding
from firmware_sim.checks.text import told
from firmware_sim.device.api import DeviceApi
from firmware_sim.device.findings import together
from firmware_sim.errors import TpulayerError
from firmware_sim.wire import DType
from tests.onnx_light import NAMES as LIGHT
from tests.onnx_light import randomized
from tests.oracle.client import Refused
from tests.oracle.toolchain import Toolchain
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.bmodel.model import Net
from user_layers.bmrt.bmrt_test import open_device
from user_layers.onnx.build import build
from user_layers.onnx.load import Source, read_proto
from user_layers.product import compile_net
from user_layers.quantize.calibrate import calibrate
from user_layers.quantize.rewrite import Int8
from user_layers.runtime import BModelRuntime
from user_layers.toolkit import Toolkit

Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]
_PLAIN: Shape = (1, 20, 17, 19)
_RNG = np.random.default_rng(1684)


def _weight(*shape: int) -> Array:
    return _RNG.standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


def _one(
    op: str, *inputs: Shape | Array, **attributes: object
) -> tuple[str, tuple[Shape | Array, ...], dict]:  # type: ignore[type-arg]
    return op, inputs, attributes


_SAME = {"pads": [1, 1, 1, 1]}
_POOLED: Shape = (2, 70, 30, 31)
_UNARY = ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Elu", "LeakyRelu", "Softplus", "Neg")
_BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
NODES = {
    **{op.lower(): _one(op, _PLAIN) for op in _UNARY},
    **{op.lower(): _one(op, _PLAIN, _PLAIN) for op in _BINARY},
    "add_channels": _one("Add", _PLAIN, (1, 20, 1, 1)),
    "mul_constant": _one("Mul", _PLAIN, np.float32(1.7)),
    "prelu": _one("PRelu", _PLAIN, _weight(20, 1, 1)),
    "clip": _one("Clip", _PLAIN, np.float32(-0.5), np.float32(0.7)),
    "softmax_channels": _one("Softmax", _PLAIN, axis=1),
    "softmax_rows": _one("Softmax", (4, 20, 17, 19), axis=3),
    "average": _one("AveragePool", _POOLED, kernel_shape=[3, 3], strides=[2, 2], **_SAME),
    "maximum": _one("MaxPool", _POOLED, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]),
    "global_average": _one("GlobalAveragePool", (2, 70, 14, 14)),
    "conv_strided": _one(
        "Conv",
        _POOLED,
        _weight(33, 70, 5, 3),
        _weight(33),
        pads=[2, 1, 1, 0],
        strides=[2, 1],
        dilations=[1, 2],
    ),
    "conv_groups": _one("Conv", (1, 8, 30, 31), _weight(12, 2, 3, 3), _weight(12), group=4, **_SAME),
    "conv_depthwise": _one("Conv", (1, 70, 30, 31), _weight(70, 1, 3, 3), _weight(70), group=70, **_SAME),
    "conv_one_channel": _one("Conv", (1, 1, 30, 31), _weight(70, 1, 7, 7), pads=[3] * 4, strides=[2, 2]),
    "conv_large": _one("Conv", (1, 16, 600, 600), _weight(16, 16, 3, 3), _weight(16), **_SAME),
    "conv_transpose": _one(
        "ConvTranspose",
        (1, 24, 13, 15),
        _weight(24, 16, 4, 4),
        _weight(16),
        kernel_shape=[4, 4],
        strides=[2, 2],
        pads=[1] * 4,
    ),
    "conv_transpose_one": _one(
        "ConvTranspose", (1, 8, 9, 9), _weight(8, 1, 2, 2), _weight(1), kernel_shape=[2, 2], strides=[2, 2]
    ),
    "gemm": _one("Gemm", (5, 300), _weight(200, 300), _weight(200), transB=1),
    "matmul": _one("MatMul", (3, 40, 50), (3, 50, 60)),
    "matmul_constant": _one("MatMul", (3, 40, 50), _weight(50, 60)),
    "transpose": _one("Transpose", (2, 5, 17, 19), perm=[0, 2, 3, 1]),
    "concat": _one("Concat", _PLAIN, (1, 13, 17, 19), axis=1),
    "slice": _one("Slice", _PLAIN, _ints(1, 2), _ints(15, 19), _ints(1, 3), _ints(2, 3)),
    "pad": _one("Pad", _PLAIN, _ints(0, 0, 1, 2, 0, 0, 3, 4), np.float32(0.5), mode="constant"),
    "tile": _one("Tile", _PLAIN, _ints(1, 2, 1, 3)),
    "depth_to_space": _one("DepthToSpace", _PLAIN, blocksize=2),
    "mean": _one("ReduceMean", _PLAIN, axes=[2, 3]),
    "sum_channels": _one("ReduceSum", _PLAIN, _ints(1)),
    "lrn": _one("LRN", _PLAIN, size=5),
    "normalized": _one(
        "BatchNormalization", _PLAIN, *(np.abs(_weight(20)) + np.float32(0.1) for _ in range(4))
    ),
}
CHAIN = "chain"  # two convolutions with relu and pooling
TOKENS = "tokens"  # products, and attention between them


def write(name: str, folder: Path, batch: int = 1) -> tuple[Path, list[Shape]]:
    """A model by its name here, as a file, with the shapes of its inputs. `batch`: of chain and tokens."""
    if name in _NETS:
        nodes, shapes, constants = _NETS[name](batch)
    else:
        op, operands, attributes = NODES[name]
        names = [f"i{k}" for k in range(len(operands))]
        shapes = {n: o for n, o in zip(names, operands, strict=True) if isinstance(o, tuple)}
        constants = {
            n: np.asarray(o) for n, o in zip(names, operands, strict=True) if not isinstance(o, tuple)
        }
        nodes = [helper.make_node(op, names, ["y"], name=name, **attributes)]
    model = make_model(nodes, shapes, ["y"], constants, opset=13)
    path = folder / f"{name}.onnx"
    onnx.save(model, str(path))
    return path, list(shapes.values())


def _chain(batch: int) -> tuple[list[onnx.NodeProto], dict[str, Shape], dict[str, Array]]:
    rng = np.random.default_rng(3)
    constants: dict[str, Array] = {}
    for name, shape in (("w1", (16, 3, 3, 3)), ("b1", (16,)), ("w2", (24, 16, 3, 3)), ("b2", (24,))):
        constants[name] = (rng.standard_normal(shape) / 4).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["t1"], name="c1", pads=[1] * 4),
        helper.make_node("Relu", ["t1"], ["t2"], name="r"),
        helper.make_node("Conv", ["t2", "w2", "b2"], ["t3"], name="c2", pads=[1] * 4),
        helper.make_node("MaxPool", ["t3"], ["y"], name="p", kernel_shape=[2, 2], strides=[2, 2]),
    ]
    return nodes, {"x": (batch, 3, 32, 32)}, constants


def _tokens(batch: int) -> tuple[list[onnx.NodeProto], dict[str, Shape], dict[str, Array]]:
    """Two heads of 32 channels, 70 tokens."""
    rng = np.random.default_rng(4)
    constants: dict[str, Array] = {
        f"w{name}": (rng.standard_normal((64, 64)) / 8).astype(np.float32) for name in ("q", "k", "v", "o")
    }
    constants |= {"heads": _ints(batch, 70, 2, 32), "joined": _ints(batch, 70, 64), "factor": np.float32(0.2)}
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            helper.make_node("MatMul", ["x", f"w{name}"], [f"{name}1"], name=name),
            helper.make_node("Reshape", [f"{name}1", "heads"], [f"{name}2"], name=f"{name}h"),
            helper.make_node("Transpose", [f"{name}2"], [f"{name}3"], name=f"{name}t", perm=order),
        ]
    nodes += [
        helper.make_node("MatMul", ["q3", "k3"], ["s"], name="scores"),
        helper.make_node("Mul", ["s", "factor"], ["m"], name="scaled"),
        helper.make_node("Softmax", ["m"], ["p"], name="weights", axis=-1),
        helper.make_node("MatMul", ["p", "v3"], ["h"], name="weighted"),
        helper.make_node("Transpose", ["h"], ["t"], name="back", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "joined"], ["r"], name="together"),
        helper.make_node("MatMul", ["r", "wo"], ["y"], name="last"),
    ]
    return nodes, {"x": (batch, 70, 64)}, constants


_NETS = {CHAIN: _chain, TOKENS: _tokens}


def random_inputs(nets: Sequence[Net]) -> dict[str, list[Array]]:
    """Arrays for the inputs of each net, in the types and compiled shapes of the file."""
    rng = np.random.default_rng(5)
    given: dict[str, list[Array]] = {}
    for net in nets:
        given[net.name] = []
        for t in net.stages[0].inputs:
            dtype = np.dtype(DType(t.dtype).numpy_name)
            floating = dtype.kind == "f"
            values = rng.standard_normal(t.shape) if floating else rng.integers(0, 100, t.shape)
            given[net.name].append(values.astype(dtype))
    return given


def different(got: Mapping[str, Sequence[Array]], want: Mapping[str, Sequence[Array]]) -> str | None:
    """The first output that is not the same, bit for bit but for the payload of NaN; None when all are."""
    for name, outputs in want.items():
        for i, (a, b) in enumerate(zip(got[name], outputs, strict=True)):
            if a.shape != b.shape or a.dtype != b.dtype:
                return f"net {name} output {i}: {a.dtype} {list(a.shape)}, {b.dtype} {list(b.shape)}"
            wrong = a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")
            if a.dtype.kind == "f":
                wrong &= ~(np.isnan(a) & np.isnan(b))
            if wrong.any():
                where = f"net {name} output {i}: {int(wrong.sum())} of {a.size} elements"
                return f"{where}, the first {a[wrong][0]}, {b[wrong][0]}"
    return None


def run_here(device: DeviceApi, bmodel: Path, given: Mapping[str, Sequence[Array]]) -> dict[str, list[Array]]:
    """Outputs of each net on the emulator."""
    with BModelRuntime(device) as runtime:
        runtime.load(bmodel)
        return {name: runtime.launch(name, arrays) for name, arrays in given.items()}


def compare(toolchain: Toolchain, device: DeviceApi, bmodel: Path) -> str | None:
    """A bmodel on the vendor's runtime and here; what differs, or None."""
    given = random_inputs(read(bmodel).nets)
    return different(run_here(device, bmodel, given), toolchain.run(bmodel, given))


def checked(device: DeviceApi, bmodel: Path, words: str) -> list[Finding]:
    """What the checks find while the bmodel's nets run on the emulator."""
    found: list[Finding] = []
    with together(check=words, on_findings=found.extend):
        run_here(device, bmodel, random_inputs(read(bmodel).nets))
    return found


def made_here(path: Path, folder: Path, toolkit: Toolkit, *, int8: bool = False) -> Path:
    """The bmodel that this project makes. int8: in 8 bits, by the ranges of two random inputs."""
    if not int8:
        Graph.from_onnx(path, toolkit=toolkit).compile(directory=folder)
        return folder / "compilation.bmodel"
    model = Source.of(path).load(read_proto(path))
    plain = build(model, "net", toolkit=toolkit, integers=False).graph
    shapes = {name: plain.tensors[name].shape for name in plain.inputs}
    samples = [
        {name: _RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(2)
    ]
    made = build(model, "net", toolkit=toolkit, int8=Int8(calibrate(plain, samples)))
    compile_net(made.graph, directory=folder)
    return folder / "compilation.bmodel"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--check", metavar="WORDS")
    given = parser.parse_args()
    known = LIGHT if given.light else (*_NETS, *NODES)
    toolchain = Toolchain()
    with tempfile.TemporaryDirectory() as scratch, Toolkit() as toolkit, open_device(0) as device:
        for name in given.names or known:
            if given.light:
                path = randomized(name, Path(scratch))
                shapes: list[Shape] = [(1, 3, 224, 224)]
            else:
                path, shapes = write(name, Path(scratch))
            said = []
            try:
                theirs = toolchain.compile(path, shapes, quantize="INT8" if given.int8 else "F32")
                if given.check:
                    found = checked(device, theirs, given.check)
                    print(f"{name:18} {len(found)} findings", *map(told, found), sep="\n", flush=True)
                    continue
                said.append(f"theirs: {compare(toolchain, device, theirs) or 'equal'}")
            except (Refused, TpulayerError) as error:
                said.append(f"theirs: {error}")
            try:
                ours = made_here(path, Path(scratch, name), toolkit, int8=given.int8)
                said.append(f"ours: {compare(toolchain, device, ours) or 'equal'}")
            except (Refused, TpulayerError) as error:
                said.append(f"ours: {error}")
            print(f"{name:18} {'; '.join(said)}", flush=True)


if __name__ == "__main__":
    main()
