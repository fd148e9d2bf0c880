"""A layer's case as a net of its own."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from user_layers.testing.cases import Array, Case, Const
from user_layers.testing.compare import Difference, difference

if TYPE_CHECKING:
    from user_layers.api import Graph
    from user_layers.net.compiled import CompiledNet
    from user_layers.net.ops import OpInfo
    from user_layers.toolkit import Toolkit

_CHANGES: dict[str, Callable[[Array], Array]] = {"-": operator.neg, "~": operator.invert}
"""What is done to the numbers of inputs and outputs whose names begin so."""


class Wrong(Exception):
    """A result that is not golden's; output: which one, where elements differ."""

    def __init__(self, problem: str, found: Difference | None = None, output: int = 0) -> None:
        super().__init__(problem)
        self.problem, self.found, self.output = problem, found, output


class CaseNet:
    """The case's inputs through the layer."""

    def __init__(self, toolkit: Toolkit, op: OpInfo, case: Case) -> None:
        self.toolkit, self.op, self.case = toolkit, op, case

    def graph(self, arrays: list[Array], outputs: int, *, around: bool = False, exact: bool = False) -> Graph:
        """x0, x1, ... through the layer into y0, y1, ...

        around: each also through a built-in layer, fp32 (unless exact) through one that changes the sign,
        quantised bytes through one that inverts their bits: otherwise a buffer that the layer does not write
        could hold the right numbers all the same. Inputs and outputs whose sign is changed have names that
        begin with a minus, those whose bits are inverted with a tilde.
        """
        from firmware_sim.wire import DType
        from user_layers.api import Graph
        from user_layers.graph import BINARY_MUL

        graph = Graph(name="test", toolkit=self.toolkit)

        def through(name: str, out: str, dtype: str, scale: float | None) -> None:
            change = {name[0], out[0]}
            if "-" in change:
                graph.add_const_binary_layer(name, -1.0, out, BINARY_MUL)
            elif "~" in change:
                inverted = np.arange(256, dtype=np.uint8)[::-1]
                table = graph.add_const(f"{out}:inverted", inverted.copy().view(dtype))
                values = {"dtype": int(DType.from_numpy(dtype)), "scale": scale}
                graph.add_tpu_layer("TPU_LOOKUP", [name, table], values, [out])
            else:
                graph.add_tpu_layer("TPU_PAD", [name], None, [out])

        names = [f"x{i}" for i in range(len(arrays))]
        for name, x, array, scale in zip(names, self.case.inputs, arrays, self.case.scales, strict=True):
            if isinstance(x, Const):
                graph.add_const(name, array)
            elif around:
                dtype = array.dtype.name
                outer = _outer(name, dtype, exact, scale)
                through(graph.add_input(outer, array.shape, dtype, scale=scale), name, dtype, scale)
            else:
                graph.add_input(name, array.shape, array.dtype, scale=scale)
        made = [f"y{i}" for i in range(outputs)]
        graph.add_tpu_layer(self.op.op, names, self.case.param, made, name="tested")
        if around or self.case.out_scale is not None:
            tensors = graph.resolve().tensors
            for i, y in enumerate(made):
                dtype, scale = tensors[y].dtype.numpy_name, tensors[y].scale or None
                self._check_scale(y, scale)
                if around:
                    made[i] = _outer(y, dtype, exact, scale)
                    through(y, made[i], dtype, scale)
        for y in made:
            graph.add_output(y)
        return graph

    def _check_scale(self, name: str, made: float | None) -> None:
        wanted = self.case.out_scale
        if wanted is not None and (made is None or not math.isclose(made, wanted, rel_tol=1e-6)):
            given = "no scale" if made is None else f"the scale {made:g}"
            raise Wrong(f"the layer gives {name} {given}, the case has out_scale={wanted:g}")

    def feeds(self, graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
        """What such a graph is run with."""
        return {name: _changed(name, arrays[int(name.strip("-~+x"))]) for name in graph.inputs}

    def results(self, graph: Graph, outputs: Sequence[Array]) -> list[Array]:
        """What the layer made, from the outputs of such a graph; and the reverse."""
        return [_changed(name, y) for name, y in zip(graph.outputs, outputs, strict=True)]

    def compare(self, graph: Graph, outputs: Sequence[Array], want: Sequence[Array]) -> int:
        """How many elements are equal. Errors: Wrong where one is not."""
        elements = 0
        for i, (got, expected) in enumerate(zip(self.results(graph, outputs), want, strict=True)):
            what = f"output {i}: " if len(want) > 1 else ""
            if got.shape != expected.shape or got.dtype != expected.dtype:
                raise Wrong(
                    f"{what}the layer gives {list(got.shape)} {got.dtype}, golden {list(expected.shape)} "
                    f"{expected.dtype}"
                )
            unequal = difference(got, expected, self.case.atol, self.case.rtol)
            if unequal is not None:
                raise Wrong(f"{what}{unequal}", unequal, i)
            elements += expected.size
        return elements


def _changed(name: str, x: Array) -> Array:
    change = _CHANGES.get(name[0])
    return x if change is None else change(x)


def _outer(name: str, dtype: str, exact: bool, scale: float | None) -> str:
    """The name of a tensor on the other side of the layer that stands before or behind it."""
    if dtype == "float32":
        return f"{'+' if exact else '-'}{name}"
    return f"{'~' if scale is not None and dtype in ('int8', 'uint8') else '+'}{name}"


def has_denormals(arrays: list[Array]) -> bool:
    """Arithmetic of the chip makes zeros of them."""
    return any(
        bool(np.any((x != 0) & (np.abs(x) < np.finfo(np.float32).tiny)))
        for x in arrays
        if x.dtype == np.float32
    )


def where_of(net: CompiledNet, node: str) -> str:
    """What the compile log says of a node, but for the bytes."""
    line = next(line for line in net.log if f" {node}: " in line and "; " in line)
    text = line.split("; ", 1)[1].removeprefix("static, ")
    return re.sub(r", \d+ bytes of local memory.*", "", text)
