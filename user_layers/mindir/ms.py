"""Reading `.ms` files, the flatbuffers of MindSpore Lite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firmware_sim.errors import ModelError
from user_layers.mindir.flat import Table
from user_layers.mindir.integers import PACKED, PLAIN, placed, scaled, unpacked, unrounded
from user_layers.mindir.primitives import attributes_of, primitives
from user_layers.mindir.types import TYPE_IDS, WHAT, constant
from user_layers.spelling.foreign import QUANTIZED, Array, ForeignModel, Operation, Tensor
from user_layers.spelling.integers import BYTES

IDENTIFIER = b"MSL2"
_IN_INTEGERS = (1, 3, 5)  # QuantType of a node: aware training, after training, QUANT_ALL


def read_ms(data: bytes) -> ForeignModel:
    """The model of a file's bytes. Errors: ModelError without the file's name."""
    if data[4:8] != IDENTIFIER:
        raise ModelError(f"it is not a .ms model: {IDENTIFIER.decode()} does not stand at byte 4")
    graph = Table.root(data)
    tensors, names = _tensors(graph)

    def named(indices: Array) -> tuple[str, ...]:
        wrong = [int(i) for i in indices if i >= len(names)]
        if wrong:
            raise ModelError(f"there is no tensor {wrong[0]}; it has {len(names)}")
        return tuple(names[i] for i in indices)

    nodes = graph.tables(6)
    if len(graph.tables(8)) > 1:
        raise ModelError("it has control flow (several subgraphs), which is not read")
    model = placed(
        ForeignModel(
            WHAT,
            graph.text(0) or "net",
            tensors,
            named(graph.array(3, "<u4")),
            named(graph.array(4, "<u4")),
            tuple(_operation(node, named, tensors) for node in nodes),
        )
    )
    return unrounded(model)


def _operation(node: Table, named: Any, tensors: Mapping[str, Tensor]) -> Operation:
    name = node.text(0)
    primitive = node.table(2)
    tag = primitive.scalar(0, "B") if primitive else 0
    if primitive is None or not 1 <= tag <= len(primitives()):
        raise ModelError(f"node {name} has the unknown primitive {tag}")
    row = primitives()[tag - 1]
    value = primitive.table(1)
    attributes = attributes_of(value, row) if value else {}
    inputs, outputs = named(node.array(3, "<u4")), named(node.array(4, "<u4"))
    odd = ""
    if node.scalar(5, "i") in _IN_INTEGERS:
        lacking = [one for one in (*inputs, *outputs) if tensors[one].dtype in BYTES]
        odd = f"it is quantized, and {lacking[0]!r} has no scale" if lacking else ""
    return Operation(row.name, name, inputs, outputs, attributes, odd=odd)


def _tensors(graph: Table) -> tuple[dict[str, Tensor], list[str]]:
    """The tensors by names of their own, and those names by index."""
    found: dict[str, Tensor] = {}
    names = []
    for index, table in enumerate(graph.tables(7)):
        name = table.text(9) or f"tensor{index}"
        if name in found:
            name = f"{name}#{index}"
        names.append(name)
        found[name] = _tensor(table, name)
    return found, names


def _tensor(table: Table, name: str) -> Tensor:
    kind = TYPE_IDS.get(table.scalar(1, "i"))
    shape = tuple(int(n) for n in table.array(2, "<i4"))
    raw, compressed = table.array(6, "u1"), table.scalar(11, "i")
    params = table.tables(7) if kind is not None and kind.kind in "iu" else []  # numbers keep theirs, unused
    if kind is not None and params and (not raw.size or compressed in (PLAIN, PACKED)):
        if not raw.size:
            told = scaled(params, kind)
        elif compressed == PACKED:
            told = scaled(params, kind, unpacked(raw, params, shape, name))
        else:
            told = scaled(params, kind, constant(raw.tobytes(), kind, shape, name))
        return Tensor(shape, None, odd=QUANTIZED, scaled=told)
    if not raw.size:
        return Tensor(shape, kind)
    if kind is None or compressed:
        return Tensor(shape, None, odd="is compressed in a way that is not read")
    return Tensor(shape, kind, constant(raw.tobytes(), kind, shape, name))
