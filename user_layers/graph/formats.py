"""Conversions in front of layers: where the net has a tensor in another format than the layer takes.

A layer says what it takes (input_dtype, input_store_mode); one that says nothing takes fp32, so quantised
tensors are converted for it. Integers that are no quantised values (indices, sizes) are left as they are.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from firmware_sim.errors import CompileError
from firmware_sim.wire import QUANTISED, DType, Format, StoreMode
from user_layers.graph.prepared import free_name
from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.toolkit import Toolkit

_LARGEST = {DType.INT8: 128, DType.UINT8: 255, DType.INT16: 32768, DType.UINT16: 65535}
_CONVERTED = ((DType.INT8, StoreMode.N4), (DType.UINT8, StoreMode.N4))  # what TPU_QUANTIZE makes


@dataclass(frozen=True)
class Settled:
    """A node that reads what it takes. before: the conversions that make it, to be inferred first."""

    node: LayerNode
    before: tuple[LayerNode, ...] = ()


class Conversions:
    """The conversions of one net, each tensor once into each format.

    scales: of tensors that are fp32 in the net, for layers that take integers. taken: names in use.
    """

    def __init__(self, toolkit: Toolkit, scales: Mapping[str, float], taken: Container[str]) -> None:
        self._toolkit = toolkit
        self._scales = scales
        self._taken = taken
        self._made: dict[tuple[str, Format], str] = {}
        self._names: set[str] = set()

    def settle(self, node: LayerNode, tensors: Mapping[str, NetTensorInfo]) -> Settled:
        """Put conversions before a node where it takes its inputs in other formats.

        Errors: CompileError for a descriptor that says what cannot be, for a scale that nobody gave and for
        conversions that do not exist.
        """
        computed = [i for i, name in enumerate(node.inputs) if tensors[name].data is None]
        if not any(self._matters(node, tensors[node.inputs[i]]) for i in computed):
            return Settled(node)
        takes = {i: Format() for i in computed}
        if node.cpu is None:
            unknown = [NetTensorInfo(name, (1,), DType.FP32) for name in node.outputs]
            handle = self._toolkit.describe(node, [tensors[name] for name in node.inputs], unknown)
            takes = {i: handle.takes(i) for i in computed}
        before: list[LayerNode] = []
        names = list(node.inputs)
        for i, taken in takes.items():
            names[i] = self._converted(node, i, tensors[names[i]], taken, before)
        return Settled(replace(node, inputs=tuple(names)), tuple(before))

    def _matters(self, node: LayerNode, tensor: NetTensorInfo) -> bool:
        """Whether a layer must be asked: the user's always, others where a tensor is not as it always was."""
        user = node.cpu is None and not node.op.is_builtin
        return user or tensor.format.quantised or tensor.format.together > 1 or tensor.name in self._scales

    def _converted(
        self, node: LayerNode, i: int, tensor: NetTensorInfo, taken: Format, before: list[LayerNode]
    ) -> str:
        """The name of the tensor that input i reads. before: gets the conversions."""
        given = tensor.format
        if (given.dtype, given.store_mode) == (taken.dtype, taken.store_mode):
            return tensor.name
        if not given.quantised:
            if taken == Format() and given.together == 1:
                return tensor.name
            if given != Format() or taken.dtype not in QUANTISED:
                raise self._refused(node, i, tensor, taken, "a tensor without a scale is not converted")
            if tensor.name not in self._scales:
                raise CompileError(
                    f"{node.title}: input {i} is taken as {taken.text}, and {tensor.name!r} is float32 "
                    "without a scale",
                    hint=f"graph.set_scale({tensor.name!r}, ...), or for a model `compile --int8`; "
                    "or correct input_dtype of its descriptor",
                )
            return self._step(node, i, tensor, replace(taken, scale=self._scales[tensor.name]), before)
        plain = self._step(node, i, tensor, Format(), before)
        if taken == Format():
            return plain
        if taken.dtype not in QUANTISED:
            raise self._refused(node, i, tensor, taken, "quantised tensors become float32 or other integers")
        scale = given.scale * _LARGEST[given.dtype] / _LARGEST[taken.dtype]
        wanted = replace(taken, scale=self._scales.get(tensor.name, scale))
        return self._step(node, i, NetTensorInfo(plain, tensor.shape, DType.FP32), wanted, before)

    def _step(
        self, node: LayerNode, i: int, tensor: NetTensorInfo, to: Format, before: list[LayerNode]
    ) -> str:
        """One conversion from or to fp32."""
        key = (tensor.name, to)
        if key in self._made:
            return self._made[key]
        integers = to if to.quantised else tensor.format
        if (integers.dtype, integers.store_mode) not in _CONVERTED:
            known = ", ".join(Format(*pair).text for pair in _CONVERTED)
            raise self._refused(node, i, tensor, to, f"float32 becomes {known} alone, and they float32")
        name = free_name(f"{tensor.name}:{to.dtype.numpy_name}", self._taken, self._names)
        op = self._toolkit.op("TPU_QUANTIZE" if to.quantised else "TPU_DEQUANTIZE", node.where)
        values = {"dtype": int(to.dtype), "scale": to.scale} if to.quantised else None
        param = self._toolkit.layer_param(op, values, node.title)
        before.append(LayerNode(name, op, param, (tensor.name,), (name,), None, None, node.where))
        self._made[key] = name
        self._names.add(name)
        return name

    def _refused(
        self, node: LayerNode, i: int, tensor: NetTensorInfo, taken: Format, reason: str
    ) -> CompileError:
        return CompileError(
            f"{node.title}: input {i} is taken as {taken.text}, and {tensor.name!r} is {tensor.format.text}: "
            f"{reason}",
            hint="give the tensor in the format that the layer takes, or correct input_dtype and "
            "input_store_mode of its descriptor",
        )
