"""A net of one layer or several: how it is built, compiled and run, and what numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.kernel_case import Array
from tpulayer import Graph
from user_layers.graph import BINARY_ADD, BINARY_MUL
from user_layers.toolkit import Toolkit

FOLDER = Path(__file__).with_name("layers")
GLOBAL, LOCAL, DYNAMIC = "global", "local", "dynamic"


@dataclass(frozen=True)
class Net:
    """name: of the case. layer: whose source has the marks, "" for a net of built-in layers. build: adds the
    layers to a graph that has the inputs. mode: each layer by itself in DDR, grouped in local memory, or
    dynamic. compiled: shapes that a dynamic net is compiled for, by input, where they differ from those it
    runs with. runs: how often."""

    name: str
    layer: str
    inputs: Mapping[str, Array]
    build: Callable[[Graph], None]
    mode: str = GLOBAL
    compiled: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    expected: Callable[..., Any] | None = None
    tolerance: float = 0.0
    runs: int = 1

    def graph(self, toolkit: Toolkit) -> Graph:
        """Built and compiled. TpulayerError if that fails."""
        graph = Graph(name="net", toolkit=toolkit)
        for name, array in self.inputs.items():
            graph.add_input(name, self.compiled.get(name, array.shape), array.dtype)
        self.build(graph)
        opt = 1 if self.mode == LOCAL else 0
        graph.compile(dynamic=self.mode == DYNAMIC, opt=opt)
        return graph


def layer(
    op: str,
    mode: str,
    *inputs: Array,
    consts: Sequence[Array] = (),
    param: Mapping[str, Any] | None = None,
    outputs: int = 1,
    compiled: Sequence[tuple[int, ...]] = (),
    expected: Callable[..., Any] | None = None,
    tolerance: float = 0.0,
    runs: int = 1,
) -> Net:
    """One layer of tests/faults/layers, in local memory between two others: 2 x before, x + 1 behind, which
    `expected` does not have to know."""
    between = mode == LOCAL
    names = [f"x{i}" for i in range(len(inputs))]

    def build(graph: Graph) -> None:
        given = list(names)
        if between:
            given = [graph.add_const_binary_layer(name, 2.0, f"twice_{name}", BINARY_MUL) for name in names]
        given += [graph.add_const(f"const{i}", const) for i, const in enumerate(consts)]
        made = graph.add_tpu_layer(f"TPU_{op}", given, param, [f"y{i}" for i in range(outputs)])
        for name in made if between else ():
            graph.add_const_binary_layer(name, 1.0, f"last_{name}", BINARY_ADD)

    def around(*arrays: Array) -> Any:
        assert expected is not None
        y = expected(*(2 * x for x in arrays), *consts)
        return tuple(one + 1 for one in y) if isinstance(y, tuple) else y + 1

    def alone(*arrays: Array) -> Any:
        assert expected is not None
        return expected(*arrays, *consts)

    return Net(
        f"{op.lower()}.{mode}",
        f"TPU_{op}",
        dict(zip(names, inputs, strict=True)),
        build,
        mode,
        dict(zip(names, compiled, strict=False)),
        None if expected is None else around if between else alone,
        tolerance,
        runs,
    )
