"""Many small ONNX models built as one: what that costs by itself (checks and inferences in other processes,
of which each is a round trip) is then there once, not for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from firmware_sim.chip import MAX_TENSORS
from firmware_sim.errors import CompileError, DeviceError, ModelError, UsageError
from user_layers.onnx.proto import subgraphs
from user_layers.onnx.survey import NoLayers

REFUSED = (CompileError, ModelError, UsageError, DeviceError)
"""What building raises that is about the model; others (no compiler, no package) are about the machine."""


def build_together(protos: Sequence[Any], build: Callable[[Any], object]) -> set[int]:
    """The models (onnx.ModelProto, by index) that certainly can be built by themselves, found by building
    many in one as parts that have nothing to do with each other; of the rest nothing is known.

    build: raises one of REFUSED for a model that cannot be built.
    """
    found: set[int] = set()
    todo = [group for group in _groups(protos) if len(group) > 1]
    while todo:
        group = todo.pop()
        try:
            build(_merged([(index, protos[index]) for index in group]))
            found.update(group)
            continue
        except NoLayers as error:
            bad = {int(name.partition(":")[0]) for name in error.outputs}
            groups = [[index for index in group if index not in bad]]
        except REFUSED:
            bad = set()
            groups = []
        if not bad:  # no telling which
            groups = [group[: len(group) // 2], group[len(group) // 2 :]]
        todo += [one for one in groups if len(one) > 1]
    return found


def _groups(protos: Sequence[Any]) -> Iterator[list[int]]:
    """Neighbours that together have no more inputs and outputs than a net. What has graphs inside stays by
    itself, for these read names from outside."""
    group: list[int] = []
    inputs = outputs = 0
    for index, proto in enumerate(protos):
        if any(subgraphs(node) for node in proto.graph.node):
            continue
        more = len(proto.graph.input), len(proto.graph.output)
        if max(inputs + more[0], outputs + more[1]) > MAX_TENSORS:
            yield group
            group, inputs, outputs = [], 0, 0
        group.append(index)
        inputs, outputs = inputs + more[0], outputs + more[1]
    yield group


def _merged(protos: Sequence[tuple[int, Any]]) -> Any:
    """One model of all, in which every name begins with the number of the model that it comes from."""
    merged = type(protos[0][1])()
    merged.CopyFrom(protos[0][1])
    graph = merged.graph
    for part in (graph.node, graph.initializer, graph.input, graph.output):
        del part[:]
    for number, proto in protos:
        for node in proto.graph.node:
            made = graph.node.add()
            made.CopyFrom(node)
            made.name = f"{number}:{node.name}"
            for names in (made.input, made.output):
                names[:] = [name and f"{number}:{name}" for name in names]
        for mine, theirs in (
            (graph.initializer, proto.graph.initializer),
            (graph.input, proto.graph.input),
            (graph.output, proto.graph.output),
        ):
            for one in theirs:
                copy = mine.add()
                copy.CopyFrom(one)
                copy.name = f"{number}:{one.name}"
    return merged
