"""Constants as the layers' descriptors want them for the kernels (prepared_shape), before there are elements.

A layer's shape function sees its constants prepared, so a tensor of the prepared shape takes the place of the
graph's constant while shapes are inferred. compiler/prepare.py fills in the elements.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from firmware_sim.errors import CompileError
from firmware_sim.wire import DType, TType
from user_layers.net.net import NetTensorInfo
from user_layers.net.nodes import LayerNode
from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Adopted:
    """A node with prepared tensors in the place of constants. tensors: those, by name; wanted: how the layer
    wants each input."""

    node: LayerNode
    tensors: dict[str, NetTensorInfo]
    wanted: tuple[TType, ...]


def adopt_prepared(
    node: LayerNode, tensors: Mapping[str, NetTensorInfo], toolkit: Toolkit, taken: Container[str] = ()
) -> Adopted:
    """Ask the descriptor how it wants the constants; their elements are not prepared yet. It is asked before
    the node's outputs are known, because a shape function sees constants prepared and may read the values of
    a NEURON_SHAPE input. taken: names of tensors to come. Errors: CompileError."""
    made: dict[str, NetTensorInfo] = {}
    if node.cpu is not None or all(tensors[name].data is None for name in node.inputs):
        return Adopted(node, made, tuple(TType.NEURON for _ in node.inputs))
    unknown = [NetTensorInfo(name, (1,), DType.FP32) for name in node.outputs]
    handle = toolkit.describe(node, [tensors[name] for name in node.inputs], unknown)
    wanted = tuple(handle.input_type(i) for i in range(len(node.inputs)))
    names = list(node.inputs)
    holds: dict[int, dict[int, NetTensorInfo]] = {}
    constants = [i for i, name in enumerate(names) if tensors[name].data is not None]
    for i in constants:
        into = handle.prepared_with(i)
        if into == i:
            continue
        if into not in constants or handle.prepared_with(into) != into or handle.prepared(into) is None:
            raise CompileError(
                f"{node.title}: prepared_with({i}) of its descriptor returns {into}, which is not a constant "
                "input that is prepared",
                hint="correct the method in host/ and run `build_layers`",
            )
        holds.setdefault(into, {})[i] = tensors[names[i]]
    held = {i for taken in holds.values() for i in taken}
    for i in constants:
        found = handle.prepared(i) if i not in held else None
        if found is None:
            continue
        name = names[i]
        if wanted[i] == TType.NEURON_SHAPE:
            raise CompileError(
                f"{node.title}: its descriptor prepares input {name!r}, which its input_type makes "
                "BMNET_NEURON_SHAPE",
                hint="the controller reads such a constant as it is in the graph: drop one of the two",
            )
        shape, dtype = found
        plain = tensors[name]
        names[i] = free_name(f"{name}:prepared", tensors, made, taken)
        made[names[i]] = replace(
            plain, name=names[i], shape=shape, dtype=dtype, plain=plain, holds=holds.get(i, {})
        )
    kept = [i for i in range(len(names)) if i not in held]
    return Adopted(replace(node, inputs=tuple(names[i] for i in kept)), made, tuple(wanted[i] for i in kept))


def free_name(stem: str, *taken: Container[str]) -> str:
    """A name for a tensor that the compiler adds: the stem, with a number where it is taken."""
    name, count = stem, 0
    while any(name in names for names in taken):
        count += 1
        name = f"{stem}:{count}"
    return name
