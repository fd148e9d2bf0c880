"""ONNX nodes into layers of a graph: what every converter needs, and the walks over the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

import user_layers.onnx
from firmware_sim.errors import CompileError, ModelError, UsageError
from firmware_sim.wire import TType
from user_layers.graph import GraphBuilder
from user_layers.graph.shapes import infer_layer
from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.onnx.apart import check_part
from user_layers.onnx.fields import c_fields
from user_layers.onnx.load import infer_values
from user_layers.onnx.model import CUSTOM_DOMAIN, DOMAIN, STANDARD, Array, Model, Node, Value, shown
from user_layers.onnx.partition import Part, Reason
from user_layers.onnx.proto import part_proto, serialized, since_version, with_oldest_opset
from user_layers.onnx.types import held_as, is_computed, net_shape, obstacle, to_net
from user_layers.params import FieldError

OLDEST_OPSET = 6  # whose operations converters know
_TYPED = ("Cast", "DequantizeLinear", "Pixels", "QuantizeLinear")  # whose layers take types of their own
_MOVING = ("Reshape", "Transpose")  # whose layers take bytes too
_VOLUME = 5  # dimensions
_TURNED = {"dims": 5, "order": [0, 2, 1, 3, 4, 0, 0, 0]}  # channels and planes of volumes
Converter = Callable[["Lowering", Node], None]
CONVERTERS: dict[str, Converter] = {}


class Unsupported(Exception):
    """No layer does what a node asks for; the text says what. follows: another node is the cause."""

    def __init__(self, text: str, *, follows: bool = False) -> None:
        super().__init__(text)
        self.follows = follows


def _takes(node: Node, value: Value) -> bool:
    """Whether the layers of an operation take values of this type, or make them."""
    moved = node.op in _MOVING and value.dtype is not None and value.dtype.name in ("int8", "uint8")
    return moved or is_computed(value.dtype) or node.op in _TYPED


def axis_of(number: int, rank: int) -> int:
    """An axis of so many dimensions, from the first one on. Raises Unsupported where there is none such."""
    if not -rank <= number < rank:
        raise Unsupported(f"the axis {number} of {rank} dimensions")
    return number % rank


def converts(*ops: str) -> Callable[[Converter], Converter]:
    """Register the converter of ONNX operations."""

    def register(function: Converter) -> Converter:
        for op in ops:
            CONVERTERS[op] = function
        return function

    return register


@cache
def load_converters() -> None:
    """Import the modules that register converters: those named convert_*."""
    for module in iter_modules(user_layers.onnx.__path__, "user_layers.onnx."):
        if module.name.startswith("user_layers.onnx.convert_"):
            import_module(module.name)


@dataclass(frozen=True)
class OwnLayers:
    """The layers of the graph that a node of the user's became, from `first` up to `last`; operands: the
    graph's tensors that are its inputs, and which of these they are."""

    first: int
    last: int
    operands: Mapping[str, int]


class Lowering:
    """A model on its way into a graph.

    Values of the model are tensors of the graph, most of them under the same name. custom: what is made of
    nodes, by their names or operations (see `custom.py`).
    """

    def __init__(
        self, model: Model, graph: GraphBuilder, custom: Mapping[str, Converter] | None = None
    ) -> None:
        load_converters()
        self.model = model
        self.graph = graph
        self._custom = dict(custom or {})
        self._names: dict[str, str] = {}
        self._planes: dict[str, str] = {}  # of volumes: see `planes`
        self._count = 0
        self._reserved = {name for node in model.nodes for name in (*node.inputs, *node.outputs)}
        self._infos: dict[str, NetTensorInfo] = {}  # tensors of the graph whose shapes were asked
        self._asked = 0  # layers of the graph whose shapes were asked
        self._taken: dict[str, None] = {}  # values that became operands, in order
        self.operands: dict[int, tuple[str, ...]] = {}  # of each node that has layers
        self.own: dict[str, OwnLayers] = {}  # of the user's nodes, by their first output

    # ---- what converters ask ----

    def constant(self, name: str) -> Array | None:
        """The values of a constant of the model, None for anything else and for an input left out."""
        return self.model.constants.get(name) if name else None

    def known(self, node: Node, index: int) -> Array | None:
        """The values of an input that must be known when compiling; None when it is left out."""
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        values = self.constant(node.inputs[index])
        if values is None:
            raise Unsupported(f"its input {node.inputs[index]!r} is computed; it must be a constant")
        return values

    def option(self, node: Node, attribute: str, index: int) -> Array | None:
        """What is an attribute in old opsets and an input in newer ones."""
        if attribute in node.attributes:
            return np.asarray(node.attributes[attribute])
        return self.known(node, index)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value. Raises Unsupported when it is not known."""
        found = self.model.value(name).fixed
        if found is None:
            raise Unsupported(f"the shape of {name!r} is not known")
        return found

    def is_float(self, name: str) -> bool:
        """Whether a value is float32, the only floating-point type that layers compute with."""
        return self.model.value(name).dtype == np.float32

    def need_float(self, *names: str) -> None:
        """Raises Unsupported unless these values are float32."""
        for name in names:
            if name and not self.is_float(name):
                raise Unsupported(f"{name!r} is {self.model.value(name).what}; only float32 is computed")

    # ---- what converters make ----

    def tensor(self, name: str) -> str:
        """The graph's tensor of a value; a constant is added when it is first used."""
        self._taken[name] = None
        if name not in self._names:
            values = self.constant(name)
            if name in self._planes:
                self._names[name] = self._volume(name)
                return name
            if values is None:
                raise Unsupported(f"{name!r} {obstacle(self.model.value(name))}", follows=True)
            # An output has its name as the copy that `finish` makes.
            self._names[name] = self.add_const(
                values, f"{name}:value" if name in self.model.results else name
            )
        return self._names[name]

    def planes(self, name: str) -> str:
        """The graph's tensor of a volume, [N, C, D, H, W], as planes: [N * D, C, H, W]. Layers that convolve
        volumes make these, and the volume itself only where another layer wants that."""
        self._taken[name] = None
        if name not in self._planes:
            n, c, d, h, w = self.shape(name)
            turned, made = (self.fresh(f"{name}:{what}") for what in ("turned", "planes"))
            self.graph.add_tpu_layer("TPU_TRANSPOSE", [self.tensor(name)], _TURNED, [turned])
            self.graph.add_tpu_layer("TPU_RESHAPE", [turned], reshape_param(n * d, c, h, w), [made])
            self._planes[name] = made
        return self._planes[name]

    def in_planes(self, *names: str) -> bool:
        """Whether these are volumes, alike but for channels, of which one at least is there as planes."""
        shapes = [self.model.value(name).fixed or () for name in names]
        extents = {shape[:1] + shape[2:] for shape in shapes if len(shape) == _VOLUME}
        same = len(extents) == 1 and all(len(shape) == _VOLUME for shape in shapes)
        return same and not self._planes.keys().isdisjoint(names)

    def _volume(self, name: str) -> str:
        """The volume of planes."""
        n, c, d, h, w = self.shape(name)
        apart = self.fresh(f"{name}:apart")
        self.graph.add_tpu_layer("TPU_RESHAPE", [self._planes[name]], reshape_param(n, d, c, h, w), [apart])
        self.graph.add_tpu_layer("TPU_TRANSPOSE", [apart], _TURNED, [name])
        return name

    def add_const(self, values: Array, stem: str) -> str:
        """A constant of the graph under a free name."""
        values = np.asarray(values)
        if not values.size:
            raise Unsupported(f"{stem!r} has no elements")
        if held_as(values.dtype) is None:
            raise Unsupported(f"{stem!r} is {values.dtype}, which no tensor of the device holds")
        try:
            held = to_net(values, replace(self.model.value(stem), name=stem))
        except UsageError as error:
            raise Unsupported(error.message) from None
        return self.graph.add_const(self.fresh(stem), held)

    def fresh(self, stem: str) -> str:
        """A free name for a tensor, that no value of the model has either (but a constant of this name)."""
        name = stem or "value"
        while self.graph.has_tensor(name) or (name in self._reserved and name not in self.model.constants):
            self._count += 1
            name = f"{stem}:{self._count}"
        return name

    def layer(
        self,
        op: str,
        node: Node,
        inputs: Sequence[str],
        param: Mapping[str, Any] | None,
        outputs: Sequence[str],
    ) -> None:
        """A layer; inputs and outputs are names of the graph. It is called as the node is."""
        self.graph.add_tpu_layer(op, inputs, param, outputs, name=self._layer_name(node))

    def simple(self, op: str, node: Node, inputs: Sequence[str], param: Mapping[str, Any] | None) -> None:
        """A layer that makes the node's first output from graph tensors."""
        self.layer(op, node, inputs, param, [self.output(node)])

    def each(self, op: str, node: Node, names: Sequence[str], param: Mapping[str, Any] | None) -> None:
        """A layer that makes the node's first output element by element from values of one shape, or ones
        that broadcast: of volumes that are there as planes, planes."""
        if self.in_planes(*names):
            self.plane_by_plane(op, node, [self.planes(name) for name in names], param)
        else:
            self.simple(op, node, [self.tensor(name) for name in names], param)

    def plane_by_plane(
        self, op: str, node: Node, inputs: Sequence[str], param: Mapping[str, Any] | None
    ) -> None:
        """A layer that makes the node's first output, a volume, as planes."""
        name = self.fresh(f"{node.outputs[0]}:planes")
        self.layer(op, node, inputs, param, [name])
        self._planes[node.outputs[0]] = name

    def between(self, op: str, node: Node, inputs: Sequence[str], param: Mapping[str, Any] | None) -> str:
        """A layer in the middle of what a node becomes; the name of its output."""
        name = self.fresh(f"{node.outputs[0]}:{op.removeprefix('TPU_').lower()}")
        self.graph.add_tpu_layer(op, inputs, param, [name])
        return name

    def output(self, node: Node, index: int = 0) -> str:
        """The graph's name for an output of the node; a free one for an output left out."""
        name = node.outputs[index]
        if not name:
            return self.fresh(f"{node.makes[0]}:{index}")
        self._names[name] = name
        return name

    # ---- the walks ----

    def survey(self) -> dict[int, Reason]:
        """Try every node; those without a layer, by index, and why. The graph is only good if there are none.

        Shapes that layers of the user give become known to the model on the way.
        """
        self._add_inputs(self.model.inputs)
        found: dict[int, Reason] = {}
        for index, node in enumerate(self.model.nodes):
            own = self._own(node) is not None
            self._taken = {}
            try:
                self._convert(node)
                self._ask(node, own)
                self.operands[index] = tuple(self._taken)
            except Unsupported as error:
                found[index] = Reason(str(error), error.follows)
                self._stand_in(node)
                self._asked = len(self.graph.nodes)
        return found

    def build(
        self, parts: Iterable[Part], inputs: Iterable[str], varying: Mapping[str, tuple[int, ...]]
    ) -> None:
        """The graph of the parts, with these inputs. varying: the largest shapes of outputs of the model that
        have none."""
        wanted = set(inputs)
        self._add_inputs([value for value in self.model.inputs if value.name in wanted])
        for part in parts:
            if part.on_cpu:
                self._cpu(part, varying)
                continue
            for node in part.nodes:
                try:
                    self._convert(node)
                except Unsupported as error:  # the survey did not see this
                    raise CompileError(f"{node.title}: {error}") from None

    def finish(self, outputs: Iterable[str]) -> None:
        """Name the outputs; one that no layer makes is copied."""
        for name in outputs:
            if name in self._planes:
                self.tensor(name)
            made = self._names.get(name)
            if made is None or made in self.graph.tensors:
                source = self.tensor(name)
                made = self.fresh(f"{name}:copy" if self.graph.has_tensor(name) else name)
                self.graph.add_tpu_layer("TPU_COPY", [source], {"reserved": 0}, [made])
                self._names[name] = made
            self.graph.add_output(made)

    def _add_inputs(self, values: Iterable[Any]) -> None:
        for value in values:
            why = obstacle(value)
            if why is not None:
                raise CompileError(f"input {value.name!r} {why}")
            assert value.dtype is not None
            self._names[value.name] = self.graph.add_input(value.name, net_shape(value), held_as(value.dtype))

    def _own(self, node: Node) -> Converter | None:
        """What the user wants to be made of a node: of the model, not of one that a pass made."""
        found = (self._custom.get(node.name) or self._custom.get(node.op)) if node.mapped else None
        return own_layer(node.op) if found is None and node.domain == CUSTOM_DOMAIN else found

    def _convert(self, node: Node) -> None:
        own = self._own(node)
        if own is not None:
            first = len(self.graph.nodes)
            own(self, node)
            given = ((name, i) for i, name in enumerate(node.inputs) if name and name in self._names)
            operands = {self._names[name]: i for name, i in given if name not in self.model.constants}
            self.own[node.makes[0]] = OwnLayers(first, len(self.graph.nodes), operands)
            return
        converter = CONVERTERS.get(node.op) if node.domain in (*STANDARD, DOMAIN) else None
        if converter is None:
            raise Unsupported("there is no layer for this operation")
        if self.model.opset < OLDEST_OPSET and node.domain != DOMAIN:
            since, then = (since_version(node.op, v) for v in (self.model.opset, OLDEST_OPSET))
            if since != then:
                raise Unsupported(f"there is no layer for this operation as opset {self.model.opset} has it")
        for name in (*node.reads, *node.makes):
            value = self.model.value(name)
            if name in self.model.constants:
                continue  # converters read constants of any type
            why = obstacle(value)
            if why is None and not _takes(node, value):
                why = f"is {value.what}; layers take float32, int32, int64 and bool"
            if why is not None:
                raise Unsupported(f"{name!r} {why}", follows=name in node.reads and name not in self._names)
        try:
            converter(self, node)
        except (IndexError, KeyError, ValueError, TypeError, UsageError) as error:
            raise Unsupported(f"its attributes or operands do not fit: {error}") from None

    def _ask(self, node: Node, own: bool) -> None:
        """Ask the new layers for the shapes of their outputs: those of the model, or (own layers) what the
        model does not know and now learns."""
        for name, tensor in self.graph.tensors.items():
            if name not in self._infos:
                ttype = TType.NEURON if tensor.data is None else TType.COEFF
                self._infos[name] = NetTensorInfo(name, tensor.shape, tensor.dtype, ttype, tensor.data)
        for layer in self.graph.nodes[self._asked :]:
            try:
                found = infer_layer(layer, self._infos, self.graph.toolkit)
            except CompileError as error:
                if own:
                    raise self._refused(node, layer, error) from None
                if self.graph.toolkit.old_build:  # the layer may do it once it is built
                    raise
                raise Unsupported(error.message) from None
            self._infos.update((info.name, info) for info in found)
        self._asked = len(self.graph.nodes)
        values = dict(self.model.values)
        for name in node.makes:
            if name not in self._names:
                continue
            info, old = self._infos[self._names[name]], self.model.value(name)
            kind = np.dtype(info.dtype.numpy_name)
            if obstacle(old) is None and old.dtype is not None:
                if (net_shape(old), held_as(old.dtype)) == (info.shape, kind):
                    continue
                if not own:
                    made = f"{name!r} {kind} {list(info.shape)}"
                    raise Unsupported(f"its layer makes {made}, not {old.what} {list(net_shape(old))}")
                if net_shape(old) != info.shape:
                    raise self._of_other_shape(node, name, info.shape, net_shape(old))
            values[name] = Value(name, info.shape, kind)
        if values != self.model.values:
            self.model = infer_values(replace(self.model, values=values))

    def _refused(self, node: Node, layer: LayerNode, error: CompileError) -> CompileError:
        """The error of a layer that the user put in place of a node, with what the layer was given."""
        shapes = ", ".join(str(list(self._infos[name].shape)) for name in layer.inputs)
        inputs = "input" if len(layer.inputs) == 1 else "inputs"
        return CompileError(
            f"{node.title}: {layer.op.op} gets {len(layer.inputs)} {inputs}, {shapes}, and the parameters "
            f"{dict(node.attributes)} of the node: {error.message}",
            hint=error.hint
            or "where the layer takes others, a function can give them: --map NODE=FILE.py:FUNCTION",
        )

    def _of_other_shape(
        self, node: Node, name: str, made: Sequence[int], wanted: Sequence[int]
    ) -> CompileError:
        """The error of a layer of the user's that makes an output in another shape than the model has it."""
        layer = next(one for one in reversed(self.graph.nodes) if self._names[name] in one.outputs)
        op = layer.op.op
        shapes = ", ".join(str(list(self._infos[one].shape)) for one in layer.inputs)
        return CompileError(
            f"{node.title}: the shape function of {op} gives its output {shown(name)} the shape {list(made)} "
            f"for inputs {shapes}; in the model it is {list(wanted)}, and what comes behind counts on that",
            hint=f"let the function at __BM_SHAPE__({op}) say {list(wanted)} for them, and the kernel write "
            "that; then run `build_layers`",
        )

    def _stand_in(self, node: Node) -> None:
        """Tensors in place of a node without a layer, so that the walk can go on behind it."""
        for name in node.makes:
            self._names.pop(name, None)
            self._planes.pop(name, None)
            value = self.model.value(name)
            if obstacle(value) is not None:
                continue
            assert value.dtype is not None
            name_, held = self.fresh(f"{name}:unmade"), held_as(value.dtype)
            source = next(iter(self.graph.tensors), None) or self.add_const(np.zeros(1, np.float32), "none")
            self.graph.add_cpu_layer(b"", [source], [name_], [net_shape(value)], [held])
            kind = self.graph.nodes[-1].dtypes
            assert kind is not None
            self._infos[name_] = NetTensorInfo(name_, net_shape(value), kind[0])
            self._names[name] = name_

    def _cpu(self, part: Part, varying: Mapping[str, tuple[int, ...]]) -> None:
        what = part.nodes[0].title
        if len(part.nodes) > 1:
            what += f" and {len(part.nodes) - 1} more nodes"
        data = self._cpu_model(part, what)
        values = [self.model.value(name) for name in part.outputs]
        values = [replace(v, shape=varying.get(v.name, v.shape)) for v in values]
        for value in values:
            why = obstacle(value)
            if why is not None:
                maker = next(node for node in part.nodes if value.name in node.makes)
                raise CompileError(
                    f"{maker.title}: the output {value.name!r} {why}",
                    hint="say its shape in the model, or make an output of what it is computed from",
                )
        self.graph.add_cpu_layer(
            data,
            [self.tensor(name) for name in part.inputs or self._unread()],
            list(part.outputs),
            [net_shape(value) for value in values],
            [held_as(value.dtype) for value in values if value.dtype is not None],
            name=self._layer_name(part.nodes[0]),
            reason="; ".join(
                f"{node.title}: {reason.text}" for node, reason in zip(part.nodes, part.reasons, strict=True)
            ),
            shape_varies=not varying.keys().isdisjoint(part.outputs),
        )
        self._names.update((name, name) for name in part.outputs)

    def _unread(self) -> tuple[str, ...]:
        """An input for a part that needs none (random numbers): every part of a net has one."""
        if not self.graph.inputs:
            raise CompileError("the model has no inputs: a part of the net on the CPU has at least one")
        return self.graph.inputs[:1]

    def _cpu_model(self, part: Part, what: str) -> bytes:
        """The serialized model of a part that onnxruntime takes: for any extents, where it can infer shapes
        without knowing them, and under an older opset where its own are older and the nodes the same."""
        refused: ModelError | None = None
        for shapes in (False, True):
            inputs = part.inputs or self._unread()
            proto = part_proto(self.model, part.nodes, inputs, part.outputs, shapes=shapes)
            for candidate in (proto, with_oldest_opset(proto)):
                data = serialized(candidate, what)
                try:
                    check_part(data, what)
                    return data
                except ModelError as error:
                    refused = refused or error
        assert refused is not None
        raise CompileError(refused.message, hint=refused.hint) from None

    def _layer_name(self, node: Node) -> str | None:
        taken = {other.name for other in self.graph.nodes}
        return node.name if node.name and node.name.isprintable() and node.name not in taken else None


def reshape_param(*extents: int) -> dict[str, object]:
    """Parameters of TPU_RESHAPE."""
    return {"dims": len(extents), "shape": [*extents, *[0] * (8 - len(extents))]}


def own_layer(op: str) -> Converter:
    """A converter: a layer of this name with the node's inputs, outputs, and attributes as parameters."""

    def convert(to: Lowering, node: Node) -> None:
        inputs = [to.tensor(name) for name in node.inputs if name]
        outputs = [to.output(node, i) for i in range(len(node.outputs))]
        try:
            to.layer(op, node, inputs, dict(node.attributes), outputs)
        except UsageError as error:
            if not isinstance(error.__cause__, FieldError):
                raise
            raise UsageError(error.message, hint=_of_fields(op, node, error)) from None

    return convert


def _of_fields(op: str, node: Node, error: UsageError) -> str:
    """What a layer's parameter struct needs for a node whose attributes do not fit into it."""
    fields = "".join(f"{field}; " for field in c_fields([node.attributes])).strip()
    struct = (
        f"the struct at __BM_PARAM__({op}) takes them as `{fields}` (then `build_layers`), or "
        if fields
        else ""
    )
    return (
        f"{error.hint}{'; ' if error.hint else ''}{node.title} brings {', '.join(node.attributes)}: {struct}"
        "a function gives the layer what it has: --map NODE=FILE.py:FUNCTION"
    )
