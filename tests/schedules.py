"""Nets of the suite under all checks that look at results, every batch of commands in other legal orders too.

    python -m tests.schedules [NAME...] [--opt 0|1|2] [--dynamic] [--check WORDS]

The nine architectures of the onnx package and the graphs of the groups' tests. Whatever is found is
printed, and the exit code is then 5. For nets of other tests: TPULAYER_CHECK=all,schedule pytest FILE.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from firmware_sim.checks.finding import Finding
from firmware_sim.checks.text import told
from firmware_sim.device.api import Array
from firmware_sim.device.findings import together
from tests.onnx_light import NAMES, randomized
from tests.support.group_graphs import GRAPHS, run_input
from tests.support.workspaces import builtin_toolkit
from tpulayer import Graph
from user_layers.onnx.check import random_inputs
from user_layers.onnx.load import load_model
from user_layers.toolkit import Toolkit

CHECKS = "memory,init,hazard,sync,schedule"
_SHAPE = (1, 64, 28, 28)


def _light(name: str, toolkit: Toolkit, folder: Path) -> tuple[Graph, Mapping[str, Array]]:
    path = randomized(name, folder)
    return Graph.from_onnx(path, toolkit=toolkit), random_inputs(load_model(path))


def _group(name: str, toolkit: Toolkit, folder: Path) -> tuple[Graph, Mapping[str, Array]]:
    graph = GRAPHS[name](toolkit, _SHAPE)
    return graph, run_input(graph)


NETS: dict[str, Callable[[str, Toolkit, Path], tuple[Graph, Mapping[str, Array]]]] = {
    **dict.fromkeys(GRAPHS, _group),
    **dict.fromkeys(NAMES, _light),
}


def findings(
    name: str, toolkit: Toolkit, *, dynamic: bool = False, opt: int = 2, check: str = CHECKS
) -> list[Finding]:
    """What the checks find while the net is compiled and run."""
    found: list[Finding] = []
    with tempfile.TemporaryDirectory() as folder, together(check=check, on_findings=found.extend):
        graph, inputs = NETS[name](name, toolkit, Path(folder))
        graph.compile(dynamic=dynamic, opt=opt)
        graph.run(inputs)
    return found


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(NETS), metavar="NAME")
    parser.add_argument("--opt", type=int, choices=(0, 1, 2), default=2)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--check", default=CHECKS)
    given = parser.parse_args()
    any_found = False
    with builtin_toolkit() as toolkit:
        for name in given.names:
            start = time.perf_counter()
            found = findings(name, toolkit, dynamic=given.dynamic, opt=given.opt, check=given.check)
            seconds, mode = time.perf_counter() - start, "dynamic" if given.dynamic else f"opt {given.opt}"
            print(f"{name:22} {mode:8} {seconds:6.1f} s  {len(found)} findings")
            for finding in found:
                print(told(finding))
            sys.stdout.flush()
            any_found = any_found or bool(found)
    return 5 if any_found else 0


if __name__ == "__main__":
    sys.exit(main())
