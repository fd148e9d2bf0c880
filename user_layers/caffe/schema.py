"""The messages of caffe.proto as protobuf's classes, in a pool of their own: others' caffe_pb2 may be loaded.

The file is read here, so no compiler of protobuf and no generated module is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from firmware_sim.errors import MissingError

PROTO = Path(__file__).with_name("caffe.proto")
_TOKEN = re.compile(r'//[^\n]*|\s+|("[^"]*"|[\w.+-]+|[{}\[\]=;,])')
_LABELS = {"optional": 1, "required": 2, "repeated": 3}
_TYPES = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
_MESSAGE, _ENUM = 11, 14


@cache
def message(name: str) -> Any:
    """The class of a message by its name in caffe.proto. Errors: MissingError without protobuf."""
    try:
        from google.protobuf import message_factory
    except ImportError:
        raise MissingError(
            "Caffe's models are read with the package protobuf, which is not installed",
            hint='pip install "tpulayer[caffe]"',
        ) from None
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"caffe.{name}"))


@cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto(name=PROTO.name, package="caffe", syntax="proto2")
    _Reader(PROTO.read_text("utf-8")).read(file)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


class _Reader:
    """What caffe.proto uses of the language of .proto files: messages and enums, nested, and fields with the
    options `packed` and `default`."""

    def __init__(self, text: str) -> None:
        self.tokens: Iterator[str] = iter(m[1] for m in _TOKEN.finditer(text) if m[1])
        self.kinds: dict[str, int] = {}  # full names of messages and enums
        self.fields: list[tuple[Any, str, str]] = []  # those of such types: the field, where it is, the name

    def read(self, file: Any) -> None:
        for word in self.tokens:
            if word in ("syntax", "package"):
                while next(self.tokens) != ";":
                    pass
            else:
                self.declared(word, file, ".caffe", file.message_type)
        for field, scope, name in self.fields:
            inside = f"{scope}.{name}"
            field.type_name = inside if inside in self.kinds else f".caffe.{name}"
            field.type = self.kinds[field.type_name]

    def declared(self, word: str, parent: Any, scope: str, messages: Any) -> None:
        """A message or an enum in what holds it."""
        name = next(self.tokens)
        self.kinds[f"{scope}.{name}"] = _MESSAGE if word == "message" else _ENUM
        self.skip("{")
        if word == "enum":
            self.enum(parent.enum_type.add(name=name))
        else:
            self.message(messages.add(name=name), f"{scope}.{name}")

    def enum(self, enum: Any) -> None:
        for word in self.tokens:
            if word == "}":
                return
            self.skip("=")
            enum.value.add(name=word, number=int(next(self.tokens)))
            self.skip(";")

    def message(self, made: Any, scope: str) -> None:
        for word in self.tokens:
            if word == "}":
                return
            if word in _LABELS:
                self.field(made.field.add(label=_LABELS[word]), scope)
            else:
                self.declared(word, made, scope, made.nested_type)

    def field(self, field: Any, scope: str) -> None:
        kind, field.name = next(self.tokens), next(self.tokens)
        self.skip("=")
        field.number = int(next(self.tokens))
        if kind in _TYPES:
            field.type = _TYPES[kind]
        else:
            self.fields.append((field, scope, kind))
        if next(self.tokens) == "[":
            option = next(self.tokens)
            self.skip("=")
            value = next(self.tokens)
            if option == "packed":
                field.options.packed = value == "true"
            else:
                field.default_value = value.strip('"')
            self.skip("]")
            self.skip(";")

    def skip(self, token: str) -> None:
        found = next(self.tokens)
        assert found == token, f"{PROTO}: {token} is wanted, not {found}"
