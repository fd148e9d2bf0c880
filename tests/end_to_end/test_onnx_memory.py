"""What compiling takes of the machine's memory: so many copies of a model's weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

_SIDE = 2048
_LAYERS = 6
_PROGRAM = """
import sys
from pathlib import Path
from user_layers.cli.main import main

sys.argv = ["tpulayer", "compile", *sys.argv[1:]]
try:
    main()
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    print("memory", next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM")))
"""


def model(path: Path, side: int) -> int:
    """A few products with weights of their own; the bytes of all of them."""
    draw = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(draw.standard_normal((side, side), np.float32) / side, f"w{i}")
        for i in range(_LAYERS)
    ]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(_LAYERS)]
    edges = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, side])
        for name in ("x0", f"x{_LAYERS}")
    ]
    graph = helper.make_graph(nodes, "g", edges[:1], edges[1:], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 9
    onnx.save(made, path)
    return 4 * side * side * _LAYERS


def used(tmp_path: Path, side: int) -> tuple[int, int]:
    """MiB of the weights, and at most of this process."""
    nbytes = model(tmp_path / f"{side}.onnx", side)
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path / f"{side}.onnx"), "-o", str(tmp_path / str(side))],
        capture_output=True,
        text=True,
        timeout=840,
        cwd=tmp_path,
        check=True,
    ).stdout
    line = next(one for one in told.splitlines() if one.startswith("memory"))
    return nbytes >> 20, int(line.split()[1])


def test_weights_are_there_a_few_times(tmp_path: Path) -> None:
    """Of the process that compiles, runs and compares, beside what a model of nothing takes."""
    small, least = used(tmp_path, 64)
    weights, most = used(tmp_path, _SIDE)
    assert small == 0 and weights == 96
    assert most - least < 2.6 * weights
