"""Writing `.ms` files: models put together here, above all with Custom primitives in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from firmware_sim.errors import CompileError
from user_layers.mindir.ms import IDENTIFIER
from user_layers.mindir.primitives import Field, primitives
from user_layers.mindir.types import TYPE_IDS
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor

_CODES = {dtype: code for code, dtype in TYPE_IDS.items()}
_CODES |= {np.dtype(np.int32): 34, np.dtype(np.float32): 43, np.dtype(np.uint32): 39}
_CONSTANT, _COMPUTED = 0, 2  # nodeType
_NHWC = 1
_ROWS = {row.name: row for row in primitives()}
_VECTORS = {"longs": ("q", 8), "ints": ("i", 4), "floats": ("f", 4)}
_SLOTS = {"b": "Int8", "i": "Int32", "q": "Int64", "f": "Float32", "?": "Bool"}


def write_ms(model: ForeignModel, version: str = "MindSpore Lite 2.0.0") -> bytes:
    """The bytes of a model whose operations are primitives with all their attributes. CompileError for a
    type of elements that the format has not."""
    import flatbuffers

    return _Writer(flatbuffers.Builder(1 << 16)).model(model, version)


def custom_text(value: Any) -> bytes:
    """An attribute of a Custom primitive: all are texts."""
    if isinstance(value, bytes):
        return value
    return (" ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)).encode()


class _Writer:
    def __init__(self, builder: Any) -> None:
        self.to = builder

    def model(self, model: ForeignModel, version: str) -> bytes:
        places = {name: index for index, name in enumerate(model.tensors)}
        tensors = [self.tensor(name, tensor) for name, tensor in model.tensors.items()]
        nodes = [self.node(operation, places) for operation in model.operations]
        ends = [[places[name] for name in names] for names in (model.inputs, model.outputs)]
        whole = (range(len(nodes)), range(len(tensors)))
        graph = self.table(
            {
                0: self.text("main"),
                **{1 + i: self.numbers("I", 4, end) for i, end in enumerate(ends)},
                **{3 + i: self.numbers("I", 4, indices) for i, indices in enumerate(whole)},
            },
            5,
        )
        members = {
            0: self.text(model.name),
            1: self.text(version),
            3: self.numbers("I", 4, ends[0]),
            4: self.numbers("I", 4, ends[1]),
            6: self.offsets(nodes),
            7: self.offsets(tensors),
            8: self.offsets([graph]),
        }
        self.to.Finish(self.table(members, 11), file_identifier=IDENTIFIER)
        return bytes(self.to.Output())

    def tensor(self, name: str, tensor: Tensor) -> int:
        code = None if tensor.dtype is None else _CODES.get(tensor.dtype)
        if code is None:
            raise CompileError(f"a .ms file holds no tensor such as {name}, which is of type {tensor.dtype}")
        members: dict[int, Any] = {9: self.text(name), 2: self.numbers("i", 4, tensor.shape)}
        if tensor.data is not None:
            members[6] = self.to.CreateByteVector(np.ascontiguousarray(tensor.data).tobytes())
        kind = _COMPUTED if tensor.data is None else _CONSTANT
        return self.table(members, 13, {0: ("Int32", kind), 1: ("Int32", code), 3: ("Int32", _NHWC)})

    def node(self, operation: Operation, places: Mapping[str, int]) -> int:
        row = _ROWS.get(operation.kind)
        if row is None:
            raise CompileError(f"MindSpore Lite has no primitive {operation.kind}")
        value = self.primitive(row.fields, operation)
        primitive = self.table({1: value}, 2, {0: ("Uint8", row.tag)})
        return self.table(
            {
                0: self.text(operation.name),
                2: primitive,
                3: self.numbers("I", 4, [places[name] for name in operation.inputs if name is not None]),
                4: self.numbers("I", 4, [places[name] for name in operation.outputs]),
            },
            7,
        )

    def primitive(self, fields: tuple[Field, ...], operation: Operation) -> int:
        members: dict[int, int] = {}
        slots: dict[int, tuple[str, Any]] = {}
        named = {field.name for field in fields}
        for number, field in enumerate(fields):
            value = operation.attributes.get(field.name, field.default)
            if field.kind in _SLOTS:
                slots[number] = (_SLOTS[field.kind], value)
            elif field.kind == "attributes":
                rest = {k: v for k, v in operation.attributes.items() if k not in named}
                members[number] = self.offsets([self.attribute(*item) for item in rest.items()])
            elif field.kind == "text":
                members[number] = self.text(str(value or ""))
            elif field.kind == "pairs":
                rows = [self.table({0: self.numbers("q", 8, row)}, 1) for row in value or ()]
                members[number] = self.table({0: self.offsets(rows)}, 1)
            else:
                members[number] = self.numbers(*_VECTORS[field.kind], value or ())
        return self.table(members, len(fields), slots)

    def attribute(self, name: str, value: Any) -> int:
        """One of a Custom primitive."""
        return self.table({0: self.text(name), 1: self.to.CreateByteVector(custom_text(value))}, 2)

    def text(self, text: str) -> int:
        return int(self.to.CreateString(text))

    def numbers(self, code: str, size: int, values: Any) -> int:
        data = np.asarray(list(values), np.dtype(code).newbyteorder("<"))
        self.to.StartVector(size, len(data), size)
        self.to.head = self.to.head - data.nbytes
        self.to.Bytes[self.to.Head() : self.to.Head() + data.nbytes] = data.tobytes()
        return int(self.to.EndVector())

    def offsets(self, places: list[int]) -> int:
        self.to.StartVector(4, len(places), 4)
        for place in reversed(places):
            self.to.PrependUOffsetTRelative(place)
        return int(self.to.EndVector())

    def table(
        self, members: Mapping[int, int], count: int, slots: Mapping[int, tuple[str, Any]] | None = None
    ) -> int:
        self.to.StartObject(count)
        for number, place in members.items():
            self.to.PrependUOffsetTRelativeSlot(number, place, 0)
        for number, (kind, value) in (slots or {}).items():
            getattr(self.to, f"Prepend{kind}")(value)
            self.to.Slot(number)
        return int(self.to.EndObject())
