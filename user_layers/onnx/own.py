"""Models with layers of the user's beside onnxruntime: it computes everything but these nodes.

Such a node gets what onnxruntime made for it. Its layers compute alone; where a layer has a golden function
(that of its test), that function's result goes on to the rest of the model, and the layer's is compared with
it. A layer that takes integers gets them in a scale for these very numbers, and is taken as it computes; in
a net in integers it gets them as it does there, and so does its golden function. A node that is mapped was an
operation of ONNX's: onnxruntime's own result for it is told too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from firmware_sim.errors import CompileError, ModelError
from firmware_sim.shown import count
from firmware_sim.wire import DType
from user_layers.compiler.pipeline import compile_graph
from user_layers.graph import GraphBuilder
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode
from user_layers.onnx.apart import run_model
from user_layers.onnx.build import Built
from user_layers.onnx.check import compare
from user_layers.onnx.model import STANDARD, Array, Model, Node, Value
from user_layers.onnx.proto import part_proto, serialized
from user_layers.onnx.types import from_net, to_net
from user_layers.quantize.report import in_float, in_integers
from user_layers.runtime.references import run_net
from user_layers.workspace import Workspace


class Goldens(Protocol):
    """The golden functions of a workspace's layers (user_layers.testing.golden)."""

    def expected(self, layer: LayerNode, inputs: list[Array]) -> list[Array] | None:
        """What the layer's golden function makes of these inputs; None where it has none."""

    def difference(self, layer: LayerNode, got: Sequence[Array], want: Sequence[Array]) -> str:
        """How results differ from golden's by the layer's own tolerance; "" where they do not."""


FindGoldens = Callable[[Workspace], Goldens]


@dataclass
class Witness:
    """What became of the user's nodes while the rest ran. equal: how many layers of each op equal golden;
    lines: what else to tell; different: those of them that tell of a difference from golden."""

    equal: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    integers: dict[str, int] = field(default_factory=dict)
    apart: dict[str, list[float]] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """For the user, a line for each kind of layer."""
        found = [f"{op} equals golden of its test, {count(n, 'layer')}" for op, n in self.equal.items()]
        found += [
            f"{op} has no golden function: {count(n, 'layer')} taken as computed"
            for op, n in self.taken.items()
        ]
        found += [
            f"{op} takes integers: {count(n, 'layer')} taken as computed" for op, n in self.integers.items()
        ]
        found += [
            f"{op} mapped, {count(len(all_), 'node')}: at most {max(all_):.1e} of the largest value off "
            "onnxruntime's; the rest is compared behind the mapped results"
            for op, all_ in self.apart.items()
        ]
        return found + self.different


def run_beside(
    model: Model, built: Built, inputs: Mapping[str, Array], goldens: Goldens | None
) -> tuple[list[Array], Witness]:
    """The model's outputs, in order, and what there is to tell of the user's layers.

    model: as it was read, in float32, with mapped nodes marked; built: what was made of it.
    Errors: CompileError where onnxruntime does not run a part; those of compiling and running a layer.
    """
    return _Beside(model, built, inputs, goldens).run()


class _Beside:
    def __init__(
        self, model: Model, built: Built, inputs: Mapping[str, Array], goldens: Goldens | None
    ) -> None:
        self._model, self._built, self._goldens = model, built, goldens
        self._values: dict[str, Array] = dict(inputs)
        self._waiting: list[Node] = []
        # A shape depends on no scale.
        self._graph = built.floats.with_scales(_scales(built.floats, lambda name: 1.0))
        self._net: Net = self._graph.resolve()
        self._done = built.quantised
        self._layers: Mapping[
            str, LayerNode
        ] = {}  # of the net in integers that are the user's, by their names
        if self._done is not None:
            self._layers = {one.name: one for one in self._done.graph.nodes if not one.op.is_builtin}
            self._integers: Net = self._done.graph.resolve()
        self._witness = Witness()

    def run(self) -> tuple[list[Array], Witness]:
        for node in self._model.nodes:
            if not node.is_own:
                self._waiting.append(node)
                continue
            self._compute(node.reads)
            self._values.update(self._own(node))
        results = [value.name for value in self._model.outputs]
        self._compute(results)
        return [self._value(name) for name in results], self._witness

    def _value(self, name: str) -> Array:
        return self._values[name] if name in self._values else self._model.constants[name]

    def _compute(self, names: Sequence[str]) -> None:
        """Run those waiting nodes that these values need."""
        needed = {name for name in names if name not in self._values}
        chosen: list[Node] = []
        for node in reversed(self._waiting):
            if needed.intersection(node.makes):
                chosen.append(node)
                needed.update(node.reads)
        if not chosen:
            return
        chosen.reverse()
        picked = {id(node) for node in chosen}
        self._waiting = [node for node in self._waiting if id(node) not in picked]
        made = {name for node in chosen for name in node.makes}
        inside = [n for node in chosen for n in node.reads]
        outside = [n for n in dict.fromkeys(inside) if n not in made and n in self._values]
        wanted = [n for n in made if n in names or n in self._model.results or self._is_read(n, picked)]
        self._values.update(zip(wanted, self._ran(chosen, outside, wanted), strict=True))

    def _is_read(self, name: str, picked: set[int]) -> bool:
        return any(id(node) not in picked for node in self._model.consumers.get(name, ()))

    def _ran(self, nodes: Sequence[Node], inputs: Sequence[str], outputs: Sequence[str]) -> list[Array]:
        given = {name: Value(name, self._values[name].shape, self._values[name].dtype) for name in inputs}
        model = replace(self._model, values={**self._model.values, **given})
        proto = part_proto(model, nodes, inputs, outputs)
        try:
            feeds = {name: self._values[name] for name in inputs}
            found = run_model(serialized(proto, "the model"), feeds, plain=self._done is not None)
        except ModelError as error:
            raise CompileError(
                f"onnxruntime does not run the model behind the layers of your own: {error.message}",
                hint="--no-check leaves the comparison out",
            ) from None
        return list(found)

    def _own(self, node: Node) -> dict[str, Array]:
        """The outputs of a node that became layers of the user's, golden's where there are some."""
        made = self._built.own[node.makes[0]]
        graph = self._graph
        known: dict[str, Array] = {}
        for tensor, position in made.operands.items():
            name = node.inputs[position]
            known[tensor] = to_net(self._value(name), self._model.value(name))
        for layer in graph.nodes[made.first : made.last]:
            arrays = [known[n] if n in known else self._constant(n) for n in layer.inputs]
            if (made_there := self._in_the_net(layer, arrays)) is not None:
                known.update(zip(layer.outputs, made_there, strict=True))
                continue
            one = graph.part(layer.name, [layer], layer.outputs, self._net)
            one.scales = _scales(one, lambda name: float(np.abs(known[name]).max(initial=0.0)) / 127 or 1.0)
            net = one.resolve()
            got = run_net(
                compile_graph(one, opt=0), graph.toolkit, {name: known[name] for name in one.inputs}
            )
            if len(net.nodes) > 1:  # with conversions in front of it
                self._witness.integers[layer.op.op] = self._witness.integers.get(layer.op.op, 0) + 1
                judged = self._numbers(got, layer, net)
            else:
                judged = self._judged(layer, arrays, got)
            known.update(zip(layer.outputs, judged, strict=True))
        found = {name: from_net(known[name], self._model.value(name)) for name in node.makes if name in known}
        self._beside_original(node, found)
        return found

    def _in_the_net(self, layer: LayerNode, arrays: list[Array]) -> list[Array] | None:
        """What goes on behind a layer that takes integers in the net in integers: of those that it would get
        there. None for any other."""
        one = self._layers.get(layer.name)
        forms = [self._integers.tensors[name].format for name in one.inputs] if one is not None else []
        if self._done is None or one is None or not any(form.quantised for form in forms):
            return None
        given = [in_integers(x, form) if form.quantised else x for x, form in zip(arrays, forms, strict=True)]
        part = self._done.graph.part(one.name, [one], one.outputs, self._integers)
        fed = {name: x for name, x in zip(one.inputs, given, strict=True) if name in part.inputs}
        got = run_net(compile_graph(part, opt=0), part.toolkit, fed)
        return self._numbers(self._judged(one, given, got), one, self._integers)

    def _numbers(self, arrays: Sequence[Array], layer: LayerNode, net: Net) -> list[Array]:
        """What a layer's results in a net stand for."""
        forms = [net.tensors[name].format for name in layer.outputs]
        return [in_float(array, form) for array, form in zip(arrays, forms, strict=True)]

    def _constant(self, name: str) -> Array:
        tensor = self._graph.tensors[name]
        assert tensor.data is not None
        return np.frombuffer(tensor.data, tensor.dtype.numpy_name).reshape(tensor.shape)

    def _judged(self, layer: LayerNode, arrays: list[Array], got: list[Array]) -> list[Array]:
        """What goes on behind a layer: golden's result, or the layer's where there is no golden function."""
        op, witness = layer.op.op, self._witness
        if layer.op.is_builtin:
            return got
        want = self._goldens.expected(layer, arrays) if self._goldens is not None else None
        if want is None:
            witness.taken[op] = witness.taken.get(op, 0) + 1
            return got
        assert self._goldens is not None
        if wrong := self._goldens.difference(layer, got, want):
            witness.different.append(f"{op} ({layer.name}): {wrong}")
        else:
            witness.equal[op] = witness.equal.get(op, 0) + 1
        return want

    def _beside_original(self, node: Node, mine: Mapping[str, Array]) -> None:
        """How far a mapped node is from what onnxruntime makes of the operation; it need not be the same."""
        if not node.mapped or node.domain not in STANDARD:
            return
        names = [name for name in node.makes if name in mine]
        inputs = [name for name in node.reads if name in self._values]
        try:
            theirs = self._ran([node], inputs, names)
            found = compare(names, [mine[name] for name in names], theirs)
        except CompileError:
            return  # of another shape, or not an operation that it has; the rest is compared all the same
        self._witness.apart.setdefault(node.op, []).append(max(one.relative for one in found))


def _scales(graph: GraphBuilder, scale_of: Callable[[str], float]) -> dict[str, float]:
    """Scales of the tensors in fp32 that layers of the user's read, in case they take integers."""
    read = {name for node in graph.nodes if not node.op.is_builtin for name in node.inputs}
    given = graph.tensors
    floats = [n for n in read if n not in given or (given[n].data is None and given[n].dtype is DType.FP32)]
    return {name: scale_of(name) for name in floats}
