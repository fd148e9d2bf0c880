"""Protobuf's text format as a tree, whatever its fields are called: what layers of the user's own may hold.

protobuf itself reads the layers that it knows (see `read`); this tells it where they are, and keeps of the
others every field by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from firmware_sim.errors import ModelError

_TOKEN = re.compile(
    r"""(?P<blank>(?:\s|\#[^\n]*)+)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>-?\s*
          (?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|inf(?:inity)?|nan)(?![\w.]))
      | (?P<sign>[{}<>\[\]:,;])""",
    re.VERBOSE,
)
_CLOSING = {"{": "}", "<": ">"}
_DEEPEST = 32  # messages within messages; protobuf itself stops at 100
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **{word: float(word) for word in ("inf", "infinity", "nan")},
}


@dataclass(frozen=True)
class Token:
    """kind: text, word, number, sign or end; start, end: where it is in the file's text."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Field:
    """`name: value`, or `name { ... }` with a Block. start, end: from its name to the end of its value."""

    name: str
    value: Any
    start: int
    end: int


@dataclass(frozen=True)
class Block:
    """The fields of a message in the order in which they stand."""

    fields: tuple[Field, ...]

    def all(self, name: str) -> list[Field]:
        """The fields of that name."""
        return [field for field in self.fields if field.name == name]

    def values(self) -> Mapping[str, Any]:
        """The fields by name: numbers, bools, texts (words of enumerations, too), mappings for messages; a
        tuple of them where a name stands more than once."""
        found: dict[str, list[Any]] = {}
        for field in self.fields:
            value = field.value.values() if isinstance(field.value, Block) else field.value
            found.setdefault(field.name, []).append(value)
        return {name: values[0] if len(values) == 1 else tuple(values) for name, values in found.items()}


class TextFile:
    """A file in protobuf's text format. name: what messages call it."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text

    def place(self, at: int) -> str:
        """`FILE:LINE:COLUMN` of a character."""
        line = self.text.count("\n", 0, at) + 1
        return f"{self.name}:{line}:{at - (self.text.rfind(chr(10), 0, at) + 1) + 1}"

    def error(self, at: int, text: str, hint: str = "") -> ModelError:
        """An error about what stands there."""
        return ModelError(f"{self.place(at)}: {text}", hint=hint)

    def without(self, fields: list[Field]) -> str:
        """The text with blanks instead of these fields: all others stay in their lines and columns."""
        parts, at = [], 0
        for field in sorted(fields, key=lambda field: field.start):
            parts += [self.text[at : field.start], re.sub(r"[^\n]", " ", self.text[field.start : field.end])]
            at = field.end
        return "".join([*parts, self.text[at:]])

    def tree(self) -> Block:
        """What the file holds. Errors: ModelError with the place of what is not in that format."""
        return _Parser(self).block("", 0)[0]


class _Parser:
    def __init__(self, file: TextFile) -> None:
        self.file = file
        self.tokens = self.scan()
        self.next = next(self.tokens)

    def scan(self) -> Iterator[Token]:
        text, at = self.file.text, 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                what = "a text without its closing quote" if text[at] in "\"'" else repr(text[at])
                raise self.file.error(at, f"{what} is not part of protobuf's text format")
            at = match.end()
            if match.lastgroup != "blank":
                yield Token(str(match.lastgroup), match[0], match.start(), at)
        yield Token("end", "", at, at)

    def take(self) -> Token:
        taken, self.next = self.next, next(self.tokens, self.next)
        return taken

    def skip(self, *signs: str) -> bool:
        """Leave out one of these signs, if it is the next."""
        if self.next.kind == "sign" and self.next.text in signs:
            self.take()
            return True
        return False

    def refused(self, wanted: str) -> ModelError:
        found = repr(self.next.text) if self.next.kind != "end" else "the end of the file"
        return self.file.error(self.next.start, f"{wanted} is wanted here, not {found}")

    def block(self, closing: str, depth: int) -> tuple[Block, int]:
        """The fields up to the closing sign, or to the end of the file; and where that ends."""
        if depth > _DEEPEST:
            raise self.file.error(self.next.start, f"messages are nested deeper than {_DEEPEST}")
        fields: list[Field] = []
        while True:
            if self.next.kind == "end" and not closing:
                return Block(tuple(fields)), self.next.end
            if closing and self.next.kind == "sign" and self.next.text == closing:
                return Block(tuple(fields)), self.take().end
            if self.next.kind != "word":
                raise self.refused(f"the name of a field{f' or {closing}' if closing else ''}")
            fields += self.field(depth)
            self.skip(";", ",")

    def field(self, depth: int) -> list[Field]:
        """One field, or as many as its list has values."""
        name = self.take()
        colon = self.skip(":")
        if self.next.kind == "sign" and self.next.text == "[":
            self.take()
            found = []
            while not self.skip("]"):
                start = self.next.start
                value, end = self.value(depth, True)
                found.append((value, start, end))
                if not self.skip(",") and not (self.next.kind == "sign" and self.next.text == "]"):
                    raise self.refused("a comma or ]")
            return [Field(name.text, value, start, end) for value, start, end in found]
        value, end = self.value(depth, colon)
        return [Field(name.text, value, name.start, end)]

    def value(self, depth: int, colon: bool) -> tuple[Any, int]:
        if self.next.kind == "sign" and self.next.text in _CLOSING:
            return self.block(_CLOSING[self.take().text], depth + 1)
        if not colon:
            raise self.refused("a colon, or { and the fields of a message,")
        if self.next.kind == "text":
            return self.strings()
        if self.next.kind == "word":
            word = self.take()
            return _WORDS.get(word.text, word.text), word.end
        if self.next.kind == "number":
            number = self.take()
            return _number(number.text), number.end
        raise self.refused("a value")

    def strings(self) -> tuple[str, int]:
        """Texts that stand beside each other are one."""
        from google.protobuf import text_encoding

        raw, token = b"", self.next
        while self.next.kind == "text":
            token = self.take()
            try:
                raw += text_encoding.CUnescape(token.text[1:-1])
            except ValueError as error:
                raise self.file.error(token.start, f"{token.text}: {error}") from None
        try:
            return raw.decode(), token.end
        except UnicodeDecodeError:
            raise self.file.error(token.start, "the text is not UTF-8") from None


def _number(text: str) -> int | float:
    plain = text.replace(" ", "").lower()
    if "x" in plain:
        return int(plain, 16)
    if plain.lstrip("-").isdigit():
        octal = plain.lstrip("-").startswith("0") and len(plain.lstrip("-")) > 1
        return int(plain, 8) if octal and not set(plain) & set("89") else int(plain)
    return float(plain.rstrip("f") if not plain.lstrip("-").startswith("inf") else plain)
