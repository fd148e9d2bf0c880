"""Checks a flatbuffer against the bmodel schema before anything reads it.

The flatbuffers package for Python has no verifier, and its accessors follow any offset. This walk
follows the same offsets with every bound checked: table and vtable inside the buffer and aligned,
fields inside their table, vectors and strings inside the buffer, strings NUL-terminated UTF-8,
required fields there. What passes can be read with the generated classes. Fields that the schema
does not know are left alone, so files of newer tools that only add fields still load.
"""

from __future__ import annotations

import struct

from firmware_sim.errors import ModelError
from user_layers.bmodel.schema import Schema, SchemaField, bmodel_schema

# A file in which many offsets lead to the same object is small but unfolds without end. Writers
# share vtables and at most some strings and tables, so what is visited stays near the size of the
# buffer; the vendor's own verifier stops at a million tables.
MAX_TABLES = 1_000_000
MAX_UNFOLDING = 16

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")


def verify(data: bytes | memoryview) -> None:
    """Raises ModelError, naming the field and the byte, unless `data` is a sound bmodel flatbuffer."""
    _Walk(data, bmodel_schema()).run()


class _Walk:
    def __init__(self, data: bytes | memoryview, schema: Schema) -> None:
        self.data = data
        self.size = len(data)
        self.schema = schema
        self.tables = 0
        self.visited = 0

    def run(self) -> None:
        if self.size < 8:
            raise ModelError(f"damaged bmodel: its flatbuffer has only {self.size} bytes")
        self.table(self.schema.root, self.follow(0, "root"), "")

    def fail(self, path: str, why: str) -> ModelError:
        return ModelError(f"damaged bmodel: {path or 'root'}: {why} (flatbuffer of {self.size} bytes)")

    def need(self, start: int, count: int, align: int, path: str, what: str) -> None:
        """Checks that `count` bytes at `start` exist and that `start` is aligned."""
        if start < 0 or start + count > self.size:
            raise self.fail(path, f"{what} at byte {start} with {count} bytes is out of range")
        if start % align:
            raise self.fail(path, f"{what} at byte {start} is not aligned to {align}")

    def spend(self, count: int, path: str) -> None:
        self.visited += count
        if self.visited > MAX_UNFOLDING * self.size:
            raise self.fail(path, "objects are shared over and over")

    def follow(self, start: int, path: str) -> int:
        self.need(start, 4, 4, path, "offset")
        step: int = _U32.unpack_from(self.data, start)[0]
        if step == 0:
            raise self.fail(path, f"offset at byte {start} is 0")
        return start + step

    def table(self, name: str, start: int, path: str) -> None:
        self.tables += 1
        self.spend(8, path)
        if self.tables > MAX_TABLES:
            raise self.fail(path, f"more than {MAX_TABLES} tables")
        self.need(start, 4, 4, path, f"table {name}")
        vtable = start - _I32.unpack_from(self.data, start)[0]
        self.need(vtable, 4, 2, path, f"vtable of {name}")
        vtable_size: int = _U16.unpack_from(self.data, vtable)[0]
        table_size: int = _U16.unpack_from(self.data, vtable + 2)[0]
        if vtable_size < 4 or vtable_size % 2:
            raise self.fail(path, f"vtable of {name} at byte {vtable} has size {vtable_size}")
        self.need(vtable, vtable_size, 2, path, f"vtable of {name}")
        if table_size < 4:
            raise self.fail(path, f"table {name} at byte {start} has size {table_size}")
        self.need(start, table_size, 4, path, f"table {name}")
        for field in self.schema.tables[name]:
            where = f"{path}.{field.name}" if path else field.name
            entry = 4 + 2 * field.id
            slot: int = _U16.unpack_from(self.data, vtable + entry)[0] if entry < vtable_size else 0
            if slot == 0:
                if field.required:
                    raise self.fail(where, "required field is missing")
                continue
            size = 4 if field.vector else field.size
            if slot < 4 or slot + size > table_size:
                raise self.fail(where, f"field at byte {slot} of a table of {table_size} bytes")
            self.field(field, start + slot, where)

    def field(self, field: SchemaField, start: int, path: str) -> None:
        if field.vector:
            self.vector(field, self.follow(start, path), path)
        else:
            self.element(field, start, path)

    def element(self, field: SchemaField, start: int, path: str) -> None:
        if field.kind == "table":
            self.table(field.type, self.follow(start, path), path)
        elif field.kind == "string":
            self.string(self.follow(start, path), path)
        elif start % field.align:
            raise self.fail(path, f"{field.type} at byte {start} is not aligned to {field.align}")

    def vector(self, field: SchemaField, start: int, path: str) -> None:
        self.need(start, 4, 4, path, "vector")
        count: int = _U32.unpack_from(self.data, start)[0]
        self.spend(4 + count * field.size, path)
        align = field.align if count else 1  # an empty vector may end before the next aligned byte
        self.need(start + 4, count * field.size, align, path, f"vector of {count} elements")
        if field.kind in ("table", "string"):
            for index in range(count):
                self.element(field, start + 4 + 4 * index, f"{path}[{index}]")

    def string(self, start: int, path: str) -> None:
        self.need(start, 4, 4, path, "string")
        count: int = _U32.unpack_from(self.data, start)[0]
        self.spend(4 + count, path)
        self.need(start + 4, count + 1, 1, path, f"string of {count} bytes and its NUL")
        if self.data[start + 4 + count] != 0:
            raise self.fail(path, f"string at byte {start} has no NUL at its end")
        try:
            bytes(self.data[start + 4 : start + 4 + count]).decode()
        except UnicodeDecodeError as error:
            raise self.fail(path, f"string at byte {start} is not UTF-8") from error
