"""Declarations of a C file through pycparser, and the types that are known at a point in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pycparser import CParser, c_ast
from pycparser.c_parser import ParseError

from user_layers.scan.chunks import UNKNOWN, Chunk, translate
from user_layers.scan.names import C_KEYWORDS

_CHUNK = "__bm_chunk_"
_TYPE_USE = re.compile(
    r"(?:^|[{;(,]|\b(?:const|volatile|typedef)\b)\s*([A-Za-z_]\w*)\s+\**\s*(?=([A-Za-z_]\w*))"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_BUILTIN = ("__builtin_va_list", "__int128", "__int128_t", "__uint128_t", "__fp16", "_Float16", "__bf16")
UNPORTABLE = frozenset([UNKNOWN, *_BUILTIN])  # types that bmtpu.h cannot hold


@dataclass
class TypeEnv:
    """Types by name: typedefs, struct/union/enum tags, enum constants (as the list that defines
    them), and typedefs with attributes that are not modelled."""

    typedefs: dict[str, c_ast.Typedef] = field(default_factory=dict)
    tags: dict[tuple[str, str], Any] = field(default_factory=dict)
    constants: dict[str, c_ast.EnumeratorList] = field(default_factory=dict)
    odd: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def child(self) -> TypeEnv:
        """A copy, to which declarations can be added without changing this one."""
        return TypeEnv(dict(self.typedefs), dict(self.tags), dict(self.constants), dict(self.odd))

    def add(self, node: Any, odd: Sequence[str]) -> None:
        """Enter what a file-scope declaration defines."""
        if isinstance(node, c_ast.Typedef):
            self.typedefs[node.name] = node
            if odd:
                self.odd[node.name] = tuple(odd)
        _Collector(self).visit(node)


class _Collector(c_ast.NodeVisitor):  # type: ignore[misc]
    def __init__(self, env: TypeEnv) -> None:
        self.env = env

    def _tag(self, kind: str, node: Any, content: Any) -> None:
        if node.name and content is not None:
            self.env.tags[kind, node.name] = node
        self.generic_visit(node)

    def visit_Struct(self, node: Any) -> None:
        self._tag("struct", node, node.decls)

    def visit_Union(self, node: Any) -> None:
        self._tag("union", node, node.decls)

    def visit_Enum(self, node: Any) -> None:
        self._tag("enum", node, node.values)

    def visit_EnumeratorList(self, node: Any) -> None:
        for e in node.enumerators:
            self.env.constants[e.name] = node


@dataclass
class Parsed:
    """A marked chunk with its declaration; `node` is None when it could not be read. Then `error`
    says why, and `unknown` names the first word that seems to be a type and is not known as one."""

    chunk: Chunk
    node: Any = None
    error: str = ""
    unknown: str = ""


def _unknown_type(text: str, env: TypeEnv) -> str:
    """The first word in a type's place (`word name`, `word *name`) that is neither keyword nor type."""
    for m in _TYPE_USE.finditer(re.sub(r"#line.*", "", text)):
        word = m[1]
        known = word in env.typedefs or word in UNPORTABLE or word in C_KEYWORDS
        if not known and m[2] not in C_KEYWORDS:
            return word
    return ""


class Reader:
    """Parses chunks and keeps the types. One parser serves all files of a process."""

    def __init__(self) -> None:
        self._parser = CParser()

    def read(self, chunks: Sequence[Chunk], env: TypeEnv) -> list[Parsed]:
        """Enter the chunks' types into `env`; the marked chunks with their declarations.

        What no marker needs and pycparser cannot read is left out: a parameter struct that uses
        it then gets its own message.
        """
        texts = [translate(c) for c in chunks]
        try:
            nodes = self._parse(texts, env)
        except ParseError:
            return self._one_by_one(chunks, texts, env)
        return self._enter(chunks, nodes, env)

    def _enter(self, chunks: Sequence[Chunk], nodes: list[Any], env: TypeEnv) -> list[Parsed]:
        found: list[Parsed] = []
        chunk: Chunk | None = None
        fresh = False
        for node in nodes:
            name = getattr(node, "name", None)
            if isinstance(node, c_ast.Decl) and name and name.startswith(_CHUNK):
                chunk, fresh = chunks[int(name[len(_CHUNK) :])], True
                continue
            if chunk is None:
                continue  # names for the parser
            env.add(node, chunk.odd)
            if chunk.marks and fresh:
                found.append(Parsed(chunk, node))
                fresh = False
        return found

    def _one_by_one(self, chunks: Sequence[Chunk], texts: list[str], env: TypeEnv) -> list[Parsed]:
        found: list[Parsed] = []
        for chunk, text in zip(chunks, texts, strict=True):
            try:
                nodes = self._parse([text], env)
            except ParseError as e:
                if chunk.marks:
                    found.append(Parsed(chunk, error=str(e), unknown=_unknown_type(text, env)))
                continue
            found += self._enter([chunk], nodes, env)
        return found

    def _parse(self, texts: list[str], env: TypeEnv) -> list[Any]:
        """One pycparser run. It must know which names are types: those in use are declared first,
        as int, for the syntax only."""
        text = "".join(f"extern int {_CHUNK}{i};\n{t}" for i, t in enumerate(texts))
        known = [n for n in dict.fromkeys(_WORD.findall(text)) if n in env.typedefs or n in UNPORTABLE]
        prelude = "".join(f"typedef int {n};" for n in known)
        try:
            return list(self._parser.parse(prelude + "\n" + text, "").ext)
        except (AssertionError, AttributeError, RecursionError, TypeError) as e:
            raise ParseError(f"unreadable declaration ({type(e).__name__})") from e
