"""The built-in layers one by one against published times of real chips: 105 cases of a contest.

    python benchmarks/bench_published_layers.py [OPERATION...] [--most MB] [--json FILE]

Each case is an ONNX model of one node, compiled as a static net. A published time is the best of all
contestants, each of whom wrote a kernel for this operation alone; ours is modelled, with what a launch costs,
and nothing is executed. Weights of convolutions are constants, so what compiling prepares of them takes no
time; both operands of a product are inputs.

static: opt 2, the streams of a static net, which the engines read themselves. issued: the layer's commands on
data in DDR (opt 0), each issued by the controller, as a dynamic net without groups or a kernel of one's own
has them. Ratios are ours / published.

A pixel of `rgb2bgr` is three numbers that lie together; the table tells nothing but how many there are. Cases
with a star are in no mean: sums of thousands of products in the chip's own order miss the contest's tolerance
of 1e-4, so that plain kernels did not count, and what was published is ten times their time and more.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from onnx import helper

from firmware_sim import chip
from firmware_sim.errors import TpulayerError
from firmware_sim.isa import timing
from firmware_sim.timeline import Timer
from tests.support.onnx_models import make_model
from tpulayer import Graph
from user_layers.compiler.pipeline import compile_graph
from user_layers.net.compiled import StaticBody
from user_layers.toolkit import Toolkit

TABLE = Path(__file__).parent / "data" / "published_times.csv"
ABOVE = 1.3  # ratios from which on a case is listed
NAMES = ("conv2d", "depthwise", "matmul", "softmax", "avgpool", "reducesum", "rgb2bgr", "transpose")
UNFAIR = frozenset((*(("conv2d", n) for n in (11, 12, 13, 14)), *(("matmul", n) for n in (0, 2, 5))))


@dataclass(frozen=True)
class Measured:
    """A case in microseconds; commands: of the static net."""

    op: str
    case: int
    params: str
    published: float
    static: float
    issued: float
    commands: int


def model_of(op: str, given: Mapping[str, str]) -> Any:
    """The ModelProto of a case. given: its parameters, as the table has them."""
    numbers = {
        name: [int(n) for n in text.strip("{}").split("/")] for name, text in given.items() if name != "axis"
    }
    one = {name: found[0] for name, found in numbers.items()}
    if op == "matmul":
        shapes = {"x": (one["M"], one["K"]), "w": (one["K"], one["N"])}
        return make_model([helper.make_node("MatMul", ["x", "w"], ["y"])], shapes, ["y"])
    if op == "rgb2bgr":
        node = helper.make_node("Gather", ["x", "order"], ["y"], axis=1)
        return make_model([node], {"x": (one["size"], 3)}, ["y"], {"order": np.array([2, 1, 0])})
    constants, attributes = dict[str, Any](), dict[str, Any]()
    shape = (one["N"], one.get("C", one.get("IC", 0)), one["H"], one["W"])
    if op in ("conv2d", "depthwise"):
        made, summed = (one["OC"], one["IC"]) if op == "conv2d" else (one["C"], 1)
        weights = np.random.default_rng(0).standard_normal((made, summed, one["kh"], one["kw"]))
        constants["w"] = weights.astype(np.float32)
        top, bottom, left, right = numbers["pad"]
        attributes = {"pads": [top, left, bottom, right], "strides": numbers["stride"]}
        attributes |= {"dilations": numbers["dilation"], "group": 1 if op == "conv2d" else made}
        name = "Conv"
    elif op == "softmax":
        name, attributes = "Softmax", {"axis": "NCHW".index(given["axis"])}
    elif op == "avgpool":
        name = "AveragePool"
        attributes = {
            "kernel_shape": [one["kernel_h"], one["kernel_w"]],
            "strides": [one["stride_h"], one["stride_w"]],
            "pads": [one[f"pad_{side}"] for side in ("top", "left", "bottom", "right")],
            "ceil_mode": one["ceil_mode"],
            "count_include_pad": one["count_include_pad"],
        }
    elif op == "reducesum":
        name, constants["axes"] = "ReduceSum", np.array(numbers["axis_list"])
    else:
        name, attributes = "Transpose", {"perm": numbers["order"]}
    return make_model(
        [helper.make_node(name, ["x", *constants], ["y"], **attributes)], {"x": shape}, ["y"], constants
    )


def time_of(graph: Graph, opt: int, *, issued: bool) -> tuple[float, int]:
    """Microseconds of a launch, and its commands."""
    timer, cycles, read, commands = Timer(issued=issued), 0.0, 0, 0
    for subnet in compile_graph(graph, opt=opt).stages[0].subnets:
        assert isinstance(subnet.body, StaticBody), "nothing is left to the host"
        for group in subnet.body.groups:
            timeline = timer.timeline(group)
            cycles += timeline.cycles
            read += sum(t.nbytes for t in timeline.transfers() if not t.written)
            commands += group.bd_num + group.gdma_num
    return (cycles + timing.launch(read)) / chip.CLOCK_HZ * 1e6, commands


def measure(row: Mapping[str, str], toolkit: Toolkit) -> Measured:
    """A row of the table."""
    given = dict(word.split("=") for word in row["params"].split(";"))
    graph = Graph.from_onnx(model_of(row["op"], given), toolkit=toolkit)
    static, commands = time_of(graph, 2, issued=False)
    issued, _ = time_of(graph, 0, issued=True)
    published = float(row["best_us"])
    return Measured(row["op"], int(row["case"]), row["params"], published, static, issued, commands)


def largest(row: Mapping[str, str]) -> int:
    """Bytes of the largest operand, about."""
    given = dict(word.split("=") for word in row["params"].split(";"))
    if "size" in given:
        return 12 * int(given["size"])
    if "M" in given:
        return 4 * int(given["K"]) * max(int(given["M"]), int(given["N"]))
    return 4 * math.prod(int(given[name]) for name in given if name in ("N", "C", "IC", "H", "W"))


def summary(found: Sequence[Measured]) -> list[str]:
    """Means of ratios, of all and of each operation, then what is above."""
    fair = [one for one in found if (one.op, one.case) not in UNFAIR]
    rows = {"all": fair, "without transpose": [one for one in fair if one.op != "transpose"]}
    rows |= {op: [one for one in fair if one.op == op] for op in NAMES}
    lines = [f"{'':18} cases  static  issued   worst"]
    for name, some in rows.items():
        if some:
            means = [math.exp(float(np.mean(np.log(part)))) for part in zip(*map(_ratios, some), strict=True)]
            worst = [max(part) for part in zip(*map(_ratios, some), strict=True)]
            lines.append(
                f"{name:18} {len(some):5}  {means[0]:6.2f}  {means[1]:6.2f}  {worst[0]:6.2f} {worst[1]:6.2f}"
            )
    lines.append(f"above {ABOVE}, static or issued:")
    above = [one for one in fair if max(_ratios(one)) > ABOVE]
    lines += [line(one) for one in sorted(above, key=lambda one: -max(_ratios(one)))]
    return lines


def _ratios(one: Measured) -> tuple[float, float]:
    return one.static / one.published, one.issued / one.published


def line(one: Measured) -> str:
    """A case in one line."""
    static, issued = _ratios(one)
    mark = "*" if (one.op, one.case) in UNFAIR else " "
    return (
        f"{one.op:9} {one.case:3}{mark} {one.published:9.0f} us  static {one.static:9.0f} {static:6.2f}  "
        f"issued {one.issued:9.0f} {issued:6.2f}  {one.commands:6} commands  {one.params}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operation", nargs="*", help="only these: " + ", ".join(NAMES))
    parser.add_argument(
        "--most", type=float, default=math.inf, metavar="MB", help="leave larger operands out"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured")
    given = parser.parse_args()
    with TABLE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["op"] in (given.operation or NAMES)]
    found = []
    with Toolkit() as toolkit:
        for row in rows:
            if largest(row) > given.most * 1e6:
                continue
            try:
                found.append(measure(row, toolkit))
            except TpulayerError as error:
                print(f"{row['op']:9} {row['case']:>3}  {error.message}", flush=True)
                continue
            print(line(found[-1]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    print("\n".join(["", *summary(found)]))


if __name__ == "__main__":
    main()
