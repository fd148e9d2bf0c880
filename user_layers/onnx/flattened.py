"""Tokens that a model puts into other dimensions for its products: [N, tokens, C] seen as [N * tokens, C], or
[1, tokens, C] as [tokens, 1, C], stays as it was, for what is done to each row alone.

In three dimensions tokens lie over the lanes and layers follow one another in local memory; two are pictures,
whose rows are no tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from firmware_sim.chip import NPU_NUM
from user_layers.onnx.channels import ONE_BY_ONE
from user_layers.onnx.columns import is_view, without_detours
from user_layers.onnx.fold import needed
from user_layers.onnx.model import ARITHMETIC, Array, Model, Node, Value
from user_layers.onnx.rows import is_row

_NORMS = ("LayerNormalization", "RMSNormalization")
_BINARY = (*ARITHMETIC, "Pow")
_SUMS = ("ReduceMean", "ReduceSum")
_FEW = NPU_NUM // 2  # tokens of one of several pictures that leave more than half of the lanes idle


def keep_tokens(model: Model) -> Model:
    """What is done to rows of flattened tokens, in three dimensions; views where something else reads it."""
    keeping = _Keeping(model)
    for node in model.nodes:
        keeping.take(node)
    return keeping.kept()


class _Keeping:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._constants: dict[str, Array] = dict(model.constants)
        self._values = dict(model.values)
        self._nodes: list[Node] = []
        self._whole: dict[str, str] = {}  # what is flattened -> the same in three dimensions
        self._changed = False

    def take(self, node: Node) -> None:
        """The next node, in its place or in another form."""
        source = self._flattens(node)
        if source is not None:
            self._whole[node.outputs[0]] = source
            self._nodes.append(node)
            return
        written = self._written(node)
        if written is None:
            self._nodes.append(node)
            return
        self._changed = True
        self._nodes += written
        flat, whole = node.outputs[0], written[-1].outputs[0]
        self._whole[flat] = whole
        shape = self._model.value(flat).fixed or ()
        target = f"{flat}:flat"
        self._constants[target] = np.array([-1, *shape[1:]], np.int64)
        self._nodes.append(Node("Reshape", "", "", (whole, target), (flat,)))

    def kept(self) -> Model:
        """The model, without views that nothing needs."""
        if not self._changed:
            return self._model
        model = replace(self._model, nodes=tuple(self._nodes), constants=self._constants, values=self._values)
        return needed(without_detours(model))

    def _flattens(self, node: Node) -> str | None:
        """The tokens that a node flattens."""
        if not node.is_a("Reshape", "Transpose") or node.inputs[0] in self._constants:
            return None
        before, made = self._model.value(node.inputs[0]), self._model.value(node.outputs[0])
        if before.fixed is None or made.fixed is None or made.dtype != np.float32 or len(before.fixed) != 3:
            return None
        n, tokens, columns = before.fixed
        others = ((n * tokens, columns), (tokens, n, columns)) if n == 1 else ((n * tokens, columns),)
        if (
            made.fixed not in others
            or tokens < 2
            or (n > 1 and tokens < _FEW and not self._turned(node.inputs[0]))
        ):
            return None
        if not is_view(self._model, node):
            return None
        return node.inputs[0]

    def _turned(self, name: str) -> bool:
        """Whether tokens were brought before the batches; they will lie as before (row_orders)."""
        maker = self._model.makers.get(name)
        return maker is not None and maker.is_a("Transpose") and maker.attributes.get("perm") == [1, 0, 2]

    def _written(self, node: Node) -> list[Node] | None:
        """What does the same in three dimensions; None where that is nothing."""
        made = self._model.value(node.outputs[0]) if node.makes else None
        if made is None or not node.is_plain or len(node.makes) != 1 or made.dtype != np.float32:
            return None
        sources = tuple(dict.fromkeys(name for name in node.inputs if name and name not in self._constants))
        wholes = [self._values.get(self._whole.get(name, "")) for name in sources]
        shapes = {whole.fixed[:2] if whole is not None and whole.fixed else None for whole in wholes}
        (lead,) = shapes if len(shapes) == 1 else (None,)
        if lead is None or made.fixed is None:
            return None
        # One form of rows only: others would be repeated beside one another.
        if {self._model.value(name).shape[:-1] for name in sources} != {made.fixed[:-1]}:  # type: ignore[index]
            return None
        shape = (*lead, made.fixed[-1])
        if node.op == "Gemm":
            return self._gemm(node, shape)
        if not self._is_of_rows(node, sources, shape, len(made.fixed)):
            return None
        inputs = tuple(self._whole.get(name, name) for name in node.inputs)
        name = self._value(f"{node.outputs[0]}:tokens", shape)
        attributes = dict(node.attributes)
        if node.op in (*_NORMS, "Softmax"):
            attributes["axis"] = -1
        if node.op in _SUMS and "axes" in attributes:
            attributes["axes"] = [2]
        return [replace(node, inputs=inputs, outputs=(name,), attributes=attributes, proto=None)]

    def _gemm(self, node: Node, shape: tuple[int, ...]) -> list[Node] | None:
        """As a product and a sum."""
        weights = self._constants.get(node.inputs[1])
        bias = node.inputs[2] if len(node.inputs) > 2 else ""
        plain = {"transA": 0, "alpha": 1.0, "beta": 1.0}
        if weights is None or any(node.attributes.get(name, value) != value for name, value in plain.items()):
            return None
        if bias and (bias not in self._constants or not is_row(self._constants[bias], shape)):
            return None
        right = node.inputs[1]
        if node.attributes.get("transB", 0):
            right = f"{node.inputs[1]}:transposed"
            self._constants[right] = weights.T
        made = self._value(f"{node.outputs[0]}:tokens", shape)
        product = self._value(f"{node.outputs[0]}:product", shape) if bias else made
        nodes = [Node("MatMul", "", node.name, (self._whole[node.inputs[0]], right), (product,))]
        return [*nodes, Node("Add", "", node.name, (product, bias), (made,))] if bias else nodes

    def _is_of_rows(self, node: Node, sources: tuple[str, ...], shape: tuple[int, ...], rank: int) -> bool:
        """Whether a node does something to each row alone, as it does in three dimensions. rank: how many its
        own operands have."""
        last = (-1, rank - 1)
        if node.op in ONE_BY_ONE:
            return len(sources) == 1
        if node.op == "MatMul":
            right = self._constants.get(node.inputs[1])
            return right is not None and right.ndim == 2 and len(node.inputs) == 2
        if node.op in _NORMS or node.op == "Softmax":
            return int(node.attributes.get("axis", -1)) in last and sources == node.inputs[:1]
        if node.op in _SUMS:
            axes = node.attributes.get("axes")
            if axes is None and len(node.inputs) > 1:
                axes = self._constants.get(node.inputs[1])
                return axes is not None and axes.tolist() == [-1] and node.attributes.get("keepdims", 1) == 1
            return (
                axes is not None
                and list(axes) in ([-1], [rank - 1])
                and node.attributes.get("keepdims", 1) == 1
            )
        if node.op in _BINARY and len(node.inputs) == 2 and "axis" not in node.attributes:
            return all(name in sources or is_row(self._constants[name], shape) for name in node.inputs)
        return False

    def _value(self, name: str, shape: tuple[int, ...]) -> str:
        self._values[name] = Value(name, shape, np.dtype(np.float32))
        return name
