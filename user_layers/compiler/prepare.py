"""Constants laid out for the kernels, as the layers' descriptors want them (prepared_shape, prepare).

Shapes came first, since a layer's shape function sees its constants prepared (graph/prepared.py). The
elements follow here, once the descriptors are bound to whole nodes.
"""

from __future__ import annotations

from dataclasses import replace

from user_layers.compiler.attributes import DescribedNet
from user_layers.net.nodes import LayerNode


def prepare_constants(described: DescribedNet) -> DescribedNet:
    """Fill in the elements of all prepared tensors. A constant of which two nodes want the same is there
    once; one that nothing reads as it was is gone. Errors: CompileError of a descriptor."""
    net = described.net
    tensors = dict(net.tensors)
    known: dict[tuple[object, ...], str] = {}
    instead: dict[str, str] = {}
    for attrs in described.attrs:
        for i, name in enumerate(attrs.node.inputs):
            tensor = net.tensors[name]
            if tensor.plain is None:
                continue
            data = attrs.prepare(i, tensor)
            sources = (tensor.plain.name, *(t.name for t in tensor.holds.values()))
            first = known.setdefault((sources, tensor.shape, tensor.dtype, data), name)
            if first == name:
                tensors[name] = replace(tensor, data=data)
            else:
                instead[name] = first
                del tensors[name]
    attributes_now = tuple(replace(f, node=_renamed(f.node, instead)) for f in described.attrs)
    nodes = tuple(f.node for f in attributes_now)
    read = {name for node in nodes for name in node.inputs}
    for tensor in net.tensors.values():
        if tensor.data is not None and tensor.plain is None and tensor.name not in read:
            del tensors[tensor.name]
    return replace(described, net=replace(net, tensors=tensors, nodes=nodes), attrs=attributes_now)


def _renamed(node: LayerNode, instead: dict[str, str]) -> LayerNode:
    return replace(node, inputs=tuple(instead.get(name, name) for name in node.inputs))
