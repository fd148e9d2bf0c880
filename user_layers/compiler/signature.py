"""What planning a group depends on, without names: equal blocks of a net have equal signatures."""

from __future__ import annotations

import math
from dataclasses import fields

from user_layers.compiler.attributes import DescribedNet, LayerAttributes
from user_layers.graph.shapes import input_record

_NAMED = {"node", "numbers", "label"}
_ANSWERS = tuple(f.name for f in fields(LayerAttributes) if f.compare and f.name not in _NAMED)

Signature = tuple[object, ...]


class Signatures:
    """Signatures of the groups of one net."""

    def __init__(self, described: DescribedNet) -> None:
        self._net = described.net
        self._kinds = self._numbered(described)
        self._last_use = {
            name: math.inf
            if name in self._net.outputs
            else max(self._net.consumers[name], default=-1)  # nodes that read follow the one that makes
            for name in self._net.producer
        }

    def of(self, start: int, end: int) -> Signature:
        """Of the nodes from `start` on and before `end`: for each its kind, which tensors it reads and makes,
        numbered as they appear, and whether something behind the group needs what it makes. Groups with the
        same are planned alike."""
        numbers: dict[str, int] = {}
        found: list[object] = []
        for k in range(start, end):
            node = self._net.nodes[k]
            reads = tuple(numbers.setdefault(name, len(numbers)) for name in node.inputs)
            for name in node.outputs:
                numbers[name] = len(numbers)
            found.append((self._kinds[k], reads, tuple(self._last_use[name] >= end for name in node.outputs)))
        return tuple(found)

    def _numbered(self, described: DescribedNet) -> list[int]:
        """A number for each node; those with the same are calls of one layer on tensors of the same kinds."""
        net = described.net
        numbers: dict[object, int] = {}
        found = []
        for node, attrs in zip(net.nodes, described.attrs, strict=True):
            reads = []
            for name, wanted in zip(node.inputs, attrs.input_types, strict=True):
                tensor = net.tensors[name]
                plain = None if tensor.plain is None else tensor.plain.record()
                holds = tuple((i, t.record()) for i, t in sorted(tensor.holds.items()))
                reads.append((tensor.data is None, input_record(node, tensor, wanted), plain, holds))
            makes = tuple(net.tensors[name].record() for name in node.outputs)
            answers = tuple(getattr(attrs, name) for name in _ANSWERS)
            key = (node.op.op_type, node.param, tuple(reads), makes, answers)
            found.append(numbers.setdefault(key, len(numbers)))
        return found
