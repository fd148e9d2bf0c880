"""The graph: inputs, constants and layers by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from firmware_sim import shown
from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import UsageError
from user_layers.graph.shapes import infer_shapes
from user_layers.net.net import Net
from user_layers.net.nodes import (
    CPU_OP,
    CpuPart,
    LayerNode,
    Tensor,
    caller,
    check_dtype,
    check_format,
    check_name,
    check_scale,
    check_shape,
)
from user_layers.net.ops import OpInfo
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Self

    from user_layers.net.compiled import CompiledNet, Stage

CHIPS = ("BM1684",)

# BmBinaryType of the vendor's bmcompiler_defs.h.
BINARY_ADD = 0
BINARY_SUB = 1
BINARY_MUL = 2
BINARY_DIV = 3
BINARY_MAX = 4
BINARY_MIN = 10000
BINARY_OPS = (BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_MAX, BINARY_MIN)


class GraphBuilder:
    """A net under construction; a context manager that ends its child processes. `tpulayer.Graph` compiles
    and runs it too.

    Layers are added in the order in which they run: each may use inputs, constants and outputs of layers
    added before it. Tensors that no layer uses become outputs of the net, in the order of their making,
    unless `add_output` names others. Mistakes raise UsageError with the line that made them.

    toolkit: where the layers come from, by default the workspace around the current folder; closed with
    the graph.
    """

    def __init__(self, chip: str = "BM1684", name: str = "net", *, toolkit: Toolkit | None = None) -> None:
        if chip not in CHIPS:
            raise UsageError(f"unknown chip {chip!r}", hint=f"the chips are {', '.join(CHIPS)}")
        self.chip = chip
        self.name = check_name(name, "the name of the net")
        self.toolkit = toolkit if toolkit is not None else Toolkit()
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[LayerNode] = []
        self.scales: dict[str, float] = {}
        """Of tensors that are fp32 or made by layers, by name: see set_scale."""
        self.statistics: set[str] = set()
        """Tensors that layers make of which 8 bits are too few, whatever their ranges: they stay in fp32."""
        self._made_by: dict[str, str] = {}
        self._outputs: list[str] = []
        self.restrict: Callable[[CompiledNet], CompiledNet] | None = None
        """What an importer does to a dynamic net: which smaller inputs it may take."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        stages = self._stages()
        known = {tensor.name: tensor.text for stage in stages for tensor in stage.outputs}
        inputs = (t.text for t in self.tensors.values() if t.data is None)
        edges = shown.edges(inputs, (known.get(name, name) for name in self.outputs))
        state = f"compiled {stages[0].mode}" if stages else "not compiled"
        return (
            f"<Graph {self.name!r}, {'closed' if self.toolkit.closed else 'open'}, {state}: {edges}; "
            f"{shown.count(len(self.nodes), 'layer')}>"
        )

    def _stages(self) -> tuple[Stage, ...]:
        """Of what was compiled last."""
        return ()

    def close(self) -> None:
        """End the device and plugin processes that the graph used."""
        self.toolkit.close()

    # ---- building ----

    def add_input(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any = "float32",
        *,
        store_mode: str | int | None = None,
        scale: float | None = None,
    ) -> str:
        """An input of the net; in a dynamic net `shape` is the maximum. Returns its name.

        scale: of a quantised input, whose values are scale x integer; store_mode: "1N", "2N" or "4N", by
        default the chip's own for quantised ones (4N for 8 bits, 2N for 16), else 1N. Arrays are plain
        whatever the store mode.
        """
        what = f"{caller()}: input {name!r}"
        if len(self.inputs) == MAX_TENSORS:
            raise UsageError(
                f"{what} is input {MAX_TENSORS + 1} of the net", hint=f"a net has at most {MAX_TENSORS}"
            )
        extents, form = (
            check_shape(shape, what),
            check_format(check_dtype(dtype, what), store_mode, scale, what),
        )
        self.tensors[self._claim(name, what)] = Tensor(
            name, extents, form.dtype, store_mode=form.store_mode, scale=form.scale
        )
        return name

    def add_const(self, name: str, array: ArrayLike) -> str:
        """A constant tensor (its dtype is the array's), stored in the bmodel. Returns its name."""
        import numpy as np

        what = f"{caller()}: constant {name!r}"
        values = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
        shape, dtype = check_shape(values.shape, what), check_dtype(values.dtype, what)
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        self.tensors[self._claim(name, what)] = Tensor(name, shape, dtype, little.tobytes())
        return name

    def add_tpu_layer(
        self,
        op_type: int | str,
        inputs: Sequence[str],
        layer_param: Mapping[str, Any] | bytes | None,
        output_names: Sequence[str],
        output_shapes: Sequence[Sequence[int]] | None = None,
        output_dtypes: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> tuple[str, ...]:
        """A layer. Returns the names of its outputs.

        op_type: "TPU_CROP" or its number; layer_param: the parameter struct's fields by name (those left
        out are 0), its bytes, or None for all zeros. Shapes and dtypes of the outputs come from the
        layer's own shape function when the graph is compiled; those given here are compared with it.
        """
        info = self.toolkit.op(op_type, caller())
        return self._add_layer(info, inputs, layer_param, output_names, output_shapes, output_dtypes, name)

    def add_cpu_layer(
        self,
        model: bytes,
        inputs: Sequence[str],
        output_names: Sequence[str],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[Any],
        name: str | None = None,
        *,
        reason: str = "",
        shape_varies: bool = False,
    ) -> tuple[str, ...]:
        """A part of the net that onnxruntime computes on the host. Returns the names of its outputs.

        model: a serialized ONNX model; its inputs and outputs stand in the order of `inputs` and
        `output_names`, and declare their rank (extents may be free). Tensors of the net have types of the
        device; they are converted to what the model declares: int32 to int64 and back, fp32 0 and 1 to
        bool and back, one element to no dimensions.
        reason: why it is not on the TPU, for the log. shape_varies: output_shapes are the largest ones;
        layers that depend on these outputs then run dynamically.
        """
        part = CpuPart(bytes(model), reason, shape_varies)
        return self._add_layer(CPU_OP, inputs, None, output_names, output_shapes, output_dtypes, name, part)

    def _add_layer(
        self,
        info: OpInfo,
        inputs: Sequence[str],
        layer_param: Mapping[str, Any] | bytes | None,
        output_names: Sequence[str],
        output_shapes: Sequence[Sequence[int]] | None,
        output_dtypes: Sequence[Any] | None,
        name: str | None,
        cpu: CpuPart | None = None,
    ) -> tuple[str, ...]:
        where = caller()
        title = check_name(
            name if name is not None else self._free_name(info.short.lower()), f"{where}: layer"
        )
        what = f"{where}: layer {title!r} ({info.op})"
        if any(node.name == title for node in self.nodes):
            raise UsageError(
                f"{what}: another layer has this name", hint="leave the name out to get a free one"
            )
        ins = self._check_inputs(inputs, what)
        outs = _names(output_names, what, "output_names")
        shapes = None
        if output_shapes is not None:
            _same_length(output_shapes, outs, what, "output_shapes")
            shapes = tuple(
                check_shape(s, f"{what}, output {o!r}") for s, o in zip(output_shapes, outs, strict=True)
            )
        dtypes = None
        if output_dtypes is not None:
            _same_length(output_dtypes, outs, what, "output_dtypes")
            dtypes = tuple(
                check_dtype(d, f"{what}, output {o!r}") for d, o in zip(output_dtypes, outs, strict=True)
            )
        param = b"" if cpu is not None else self.toolkit.layer_param(info, layer_param, what)
        repeated = next((o for i, o in enumerate(outs) if o in outs[:i]), None)
        if repeated is not None:
            raise UsageError(f"{what}: output_names has {repeated!r} twice")
        for out in outs:
            self._check_free(out, what)
        for out in outs:
            self._made_by[out] = what
        self.nodes.append(LayerNode(title, info, param, ins, outs, shapes, dtypes, where, cpu))
        return outs

    def add_tensor(self, tensor: Tensor) -> str:
        """An input or a constant of another graph. Returns its name."""
        self.tensors[self._claim(tensor.name, f"{caller()}: tensor {tensor.name!r}")] = tensor
        return tensor.name

    def add_node(
        self, node: LayerNode, inputs: Sequence[str], output_names: Sequence[str]
    ) -> tuple[str, ...]:
        """A layer of another graph, with other names for what it reads and makes, and a free one for itself
        where another layer has its name. Returns those that it makes."""
        what = f"{node.where}: layer {node.name!r} ({node.op.op})"
        ins, outs = self._check_inputs(inputs, what), _names(output_names, what, "output_names")
        for out in outs:
            self._claim(out, what)
        taken = any(one.name == node.name for one in self.nodes)
        name = self._free_name(node.op.short.lower()) if taken else node.name
        self.nodes.append(replace(node, name=name, inputs=ins, outputs=outs))
        return outs

    def add_expand_dims_layer(self, input: str, axis: int, output: str, name: str | None = None) -> str:
        """A dimension of extent 1 put in front of dimension `axis` (-1: at the end). Returns output."""
        self.add_tpu_layer("TPU_EXPAND_DIMS", [input], {"axis": axis}, [output], name=name)
        return output

    def add_const_binary_layer(
        self,
        input: str,
        value: float,
        output: str,
        binary_op: int,
        inversed: int = 0,
        name: str | None = None,
    ) -> str:
        """input OP value for each element, fp32 (inversed: value OP input). Returns output.

        binary_op: one of BINARY_ADD, BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_MAX, BINARY_MIN.
        """
        if binary_op not in BINARY_OPS:
            raise UsageError(
                f"{caller()}: const_binary: {binary_op!r} is not a binary operation",
                hint=f"BINARY_ADD, SUB, MUL, DIV, MAX, MIN are {', '.join(map(str, BINARY_OPS))}",
            )
        param = {"value": float(value), "binary_op": binary_op, "inversed": int(bool(inversed))}
        self.add_tpu_layer("TPU_CONST_BINARY", [input], param, [output], name=name)
        return output

    def set_scale(self, name: str, scale: float) -> None:
        """The scale that a tensor shall have wherever it is quantised: a layer that makes it finds the scale
        in its output, and fp32 is converted with it for layers that take integers."""
        what = f"{caller()}: scale of {name!r}"
        self._check_known(name, what)
        if name in self.tensors and (self.tensors[name].scale or self.tensors[name].data is not None):
            raise UsageError(f"{what}: it is an input with a scale, or a constant", hint="give it once")
        self.scales[name] = check_scale(scale, what)

    def add_output(self, name: str) -> None:
        """Make a layer's output an output of the net, in the order of the calls."""
        what = f"{caller()}: output {name!r}"
        self._check_known(name, what)
        if name in self.tensors:
            raise UsageError(f"{what} comes from no layer", hint="an input or constant cannot be an output")
        if name in self._outputs:
            raise UsageError(f"{what} is one already")
        if len(self._outputs) == MAX_TENSORS:
            raise UsageError(
                f"{what} is output {MAX_TENSORS + 1} of the net", hint=f"a net has at most {MAX_TENSORS}"
            )
        self._outputs.append(name)

    # ---- looking ----

    @property
    def input_shapes(self) -> dict[str, tuple[int, ...]]:
        """The inputs' shapes by their names, in order."""
        return {name: self.tensors[name].shape for name in self.inputs}

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in the order in which they were added."""
        return tuple(t.name for t in self.tensors.values() if t.data is None)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs named by add_output, else every layer output that no layer uses."""
        if self._outputs:
            return tuple(self._outputs)
        used = {name for node in self.nodes for name in node.inputs}
        return tuple(o for node in self.nodes for o in node.outputs if o not in used)

    @property
    def tensor_names(self) -> Collection[str]:
        """Of inputs, constants and what layers make."""
        return self._made_by.keys()

    def has_tensor(self, name: str) -> bool:
        """Whether an input, a constant or a layer's output has this name."""
        return name in self._made_by

    def resolve(self, wanted: Sequence[str] | None = None) -> Net:
        """The net with every shape and type known: asks each layer's shape function.

        wanted: only what these tensors need; the graph may be unfinished then.
        """
        return infer_shapes(self, wanted)

    def with_scales(self, scales: Mapping[str, float]) -> GraphBuilder:
        """The same graph, on the same toolkit, with scales for tensors that have none."""
        made = self.part(self.name, self.nodes, self.outputs, Net(self.name, {}, (), (), ()))
        made.scales = {**scales, **self.scales}
        return made

    def drop_constants(self) -> None:
        """Let their elements go, which may be large: of a graph that is compiled, and never again."""
        self.tensors = {name: tensor for name, tensor in self.tensors.items() if tensor.data is None}

    def without_layers(self) -> Self:
        """A graph with the same inputs, constants and scales and no layers yet, on the same toolkit, which
        stays this graph's to close."""
        made = type(self)(self.chip, self.name, toolkit=self.toolkit)
        made.scales = dict(self.scales)
        for tensor in self.tensors.values():
            made.add_tensor(tensor)
        return made

    def part(self, name: str, nodes: Sequence[LayerNode], outputs: Sequence[str], net: Net) -> GraphBuilder:
        """Some of the layers as a graph of its own, on the same toolkit, which stays this graph's to close.

        What other layers make for them are its inputs. net: what `resolve` says of this graph.
        """
        made = GraphBuilder(self.chip, name, toolkit=self.toolkit)
        own = {output for node in nodes for output in node.outputs}
        for wanted in (name for node in nodes for name in node.inputs if name not in own):
            if wanted in self.tensors:
                made.tensors[wanted] = self.tensors[wanted]
            else:
                info = net.tensors[wanted]
                made.tensors[wanted] = Tensor(
                    wanted, info.shape, info.dtype, store_mode=info.store_mode, scale=info.scale
                )
        made.nodes = list(nodes)
        made.scales = {
            name: scale for name, scale in self.scales.items() if name in own or name in made.tensors
        }
        made._made_by = {tensor: self._made_by[tensor] for tensor in (*made.tensors, *own)}
        made._outputs = list(outputs)
        return made

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor in elements; of a layer's output by the layer's shape function.

        Errors: UsageError for a name that no tensor has, CompileError where the shape function fails.
        """
        self._check_known(name, f"{caller()}: shape of {name!r}")
        return self.tensors[name].shape if name in self.tensors else self.resolve([name]).tensors[name].shape

    # ---- checks ----

    def _check_inputs(self, inputs: Sequence[str], what: str) -> tuple[str, ...]:
        names = _names(inputs, what, "inputs")
        for name in names:
            self._check_known(name, what)
        return names

    def _check_known(self, name: str, what: str) -> None:
        if name not in self._made_by:
            known = ", ".join(self._made_by) or "(none)"
            raise UsageError(f"{what}: no tensor is called {name!r}", hint=f"the tensors so far are {known}")

    def _check_free(self, name: str, what: str) -> None:
        check_name(name, what)
        if name in self._made_by:
            raise UsageError(
                f"{what}: the name {name!r} is taken by {self._made_by[name]}",
                hint="each tensor has its own name",
            )

    def _claim(self, name: str, what: str) -> str:
        self._check_free(name, what)
        self._made_by[name] = what
        return name

    def _free_name(self, stem: str) -> str:
        taken = {node.name for node in self.nodes}
        number = sum(node.op.short.lower() == stem for node in self.nodes)
        while f"{stem}_{number}" in taken:
            number += 1
        return f"{stem}_{number}"


def _names(names: Sequence[str], what: str, argument: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise UsageError(f"{what}: {argument} is the text {names!r}", hint=f"give a list: [{names!r}]")
    result = tuple(names)
    if not 1 <= len(result) <= MAX_TENSORS:
        raise UsageError(
            f"{what}: {argument} has {len(result)} names", hint=f"a layer has 1 to {MAX_TENSORS}"
        )
    return result


def _same_length(values: Sequence[object], outs: Sequence[str], what: str, argument: str) -> None:
    if len(values) != len(outs):
        raise UsageError(f"{what}: {argument} has {len(values)} entries for {len(outs)} outputs")
