"""One device file: its markers, and what stands behind each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pycparser import c_ast

from user_layers.scan.chunks import Chunk, Chunks, MarkToken, split
from user_layers.scan.cparse import Parsed, Reader, TypeEnv
from user_layers.scan.model import FileFacts, Location, Mark, Problem, Symbol, marker
from user_layers.scan.opname import op_problem, unknown_marker
from user_layers.scan.preprocess import SCANNING, HeaderState, PreprocessorPool
from user_layers.scan.refusal import TypeProblem
from user_layers.scan.signature import check, prototype
from user_layers.scan.text import Source, mask, read_source
from user_layers.scan.types import Resolver

_WHAT = {
    "PARAM": "a struct definition (`typedef struct { ... } name;`)",
    "GLOBAL": "a function definition",
    "LOCAL": "a function definition",
    "SHAPE": "a function definition",
}

_MARKER = re.compile(r"\b__BM_([A-Z]+)__(?=\s*\()")


class DeviceScanner:
    """Scans the device files of a workspace, sharing the work on headers between them."""

    def __init__(self, include_dirs: Sequence[Path], defines: Mapping[str, str]) -> None:
        self._pool = PreprocessorPool(include_dirs, defines)
        self._reader = Reader()

    def scan(self, path: Path, data: bytes) -> FileFacts:
        """The facts of one C file; problems are among them, nothing is raised for bad source."""
        source = Source(path, read_source(data))
        done = self._pool.run(source)
        facts = FileFacts(problems=[*done.problems, *_unknown_markers(source)], depends=done.depends)
        inherited = self._digest(done.state)
        env = inherited[0].child()
        chunks = split(done.tokens)
        parsed = [*inherited[2], *self._reader.read(chunks.kept, env)]
        _File(source, env, facts).collect([*inherited[1], chunks], parsed)
        return facts

    def _digest(self, state: HeaderState) -> tuple[TypeEnv, list[Chunks], list[Parsed]]:
        """Types and markers of the leading headers, worked out once per state."""
        if state.extra is None:
            if state.parent is None:
                state.extra = (TypeEnv(), [], [])
            else:
                env, before, parsed = self._digest(state.parent)
                chunks = split(state.tokens)
                if chunks.kept or chunks.loose or chunks.misplaced:
                    env = env.child()
                    parsed = [*parsed, *self._reader.read(chunks.kept, env)]
                    before = [*before, chunks]
                state.extra = (env, before, parsed)
        extra: tuple[TypeEnv, list[Chunks], list[Parsed]] = state.extra
        return extra


def _unknown_markers(source: Source) -> list[Problem]:
    """Words of a file that look like markers and are none: to the C compiler they are calls of nothing."""
    found = []
    for number, line in enumerate(mask(source.text).split("\n"), 1):
        for word in _MARKER.finditer(line):
            unknown = unknown_marker(word[1])
            if unknown:
                found.append(Problem(Location(source.path, number, word.start() + 1), *unknown))
    return found


class _File:
    """Turns the marked declarations of one translation unit into marks and problems."""

    def __init__(self, source: Source, env: TypeEnv, facts: FileFacts) -> None:
        self.sources = {str(source.path): source}
        self.source, self.env, self.facts = source, env, facts
        self.resolver = Resolver(env, self._place)

    def collect(self, all_chunks: Sequence[Chunks], parsed: Sequence[Parsed]) -> None:
        for chunks in all_chunks:
            for mark in chunks.misplaced:
                self._problem(
                    self._at(mark),
                    f"{_name(mark)} inside a declaration or a body",
                    "put the marker at file scope, directly before the definition that it marks",
                )
            for mark in chunks.loose:
                self._problem(
                    self._at(mark),
                    f"{_name(mark)} has nothing behind it, expected {_WHAT.get(mark.kind, 'a definition')}",
                    "put the marker directly before the definition that it marks",
                )
        for p in parsed:
            for mark in p.chunk.marks:
                self._mark(mark, p)

    # --- places -------------------------------------------------------------------------------

    def _source(self, file: str) -> Source:
        if file not in self.sources:
            path = Path(file)
            try:
                text = read_source(path.read_bytes())
            except OSError:
                text = ""
            self.sources[file] = Source(path, text)
        return self.sources[file]

    def _at(self, mark: MarkToken) -> Location:
        return self._source(mark.source).locate(mark.line, f"__BM_{mark.kind}__")

    def _place(self, node: Any, name: str) -> Location:
        at = _place_of(node)
        if at is None:
            return Location(self.source.path, 1, 1)
        return self._source(at[0]).locate(at[1], name.split(" ")[-1])

    def _problem(self, at: Location, message: str, hint: str = "") -> None:
        self.facts.problems.append(Problem(at, message, hint))

    # --- marks --------------------------------------------------------------------------------

    def _mark(self, mark: MarkToken, parsed: Parsed) -> None:
        at = self._at(mark)
        if mark.kind == "DESC":
            self._problem(
                at,
                f"{_name(mark)} in a device file",
                "a descriptor is a C++ class: move it to a file in host/",
            )
            return
        bad = op_problem(mark.kind, mark.op)
        if bad:
            self._problem(at, *bad)
            return
        if parsed.node is None:
            if parsed.unknown:
                self._unknown(mark, parsed)
                self.facts.marks.append(Mark(mark.kind, mark.op, at))
                return
            reason = parsed.error.split(": ", 1)[-1]
            self._problem(
                self._error_place(parsed),
                f"cannot read the declaration behind {_name(mark)}: {reason}",
                f"expected {_WHAT[mark.kind]} in standard C; hide what only a compiler understands "
                f"with `#ifndef {SCANNING}`",
            )
            self.facts.marks.append(Mark(mark.kind, mark.op, at))
            return
        if mark.kind == "PARAM":
            self._param(mark, at, parsed)
        else:
            self._function(mark, at, parsed)

    def _unknown(self, mark: MarkToken, parsed: Parsed) -> None:
        """A type that nothing defines, the commonest reason why a declaration cannot be read."""
        self._problem(
            self._word_place(parsed.chunk, parsed.unknown),
            f"type {parsed.unknown} behind {_name(mark)} is not known",
            "include the header that defines it (of the C library's headers only the usual types are "
            "known); a parameter struct is made of numbers, arrays, enums and structs",
        )

    def _error_place(self, parsed: Parsed) -> Location:
        """Where pycparser stopped: its messages start with `file:line:column: `."""
        words = parsed.error.split(":")
        if len(words) > 2 and words[1].isdigit():
            return self._source(words[0]).locate(int(words[1]), parsed.error.rsplit("before: ", 1)[-1])
        return self._source(parsed.chunk.source).locate(parsed.chunk.line, "")

    def _param(self, mark: MarkToken, at: Location, parsed: Parsed) -> None:
        param = None
        try:
            param = self.resolver.param_struct(parsed.node)
            if param is None:
                self._wrong_target(mark, at, parsed)
        except TypeProblem as e:
            place = self._place(e.node if _place_of(e.node) else parsed.node, e.name)
            self._problem(place, f"parameter struct of {mark.op}: {e.message}", e.hint)
        symbol = Symbol(param.c_type, param.location) if param else None
        self.facts.marks.append(Mark(mark.kind, mark.op, at, symbol, param))

    def _function(self, mark: MarkToken, at: Location, parsed: Parsed) -> None:
        node = parsed.node
        symbol = None
        if not isinstance(node, c_ast.Decl) or not isinstance(node.type, c_ast.FuncDecl):
            self._wrong_target(mark, at, parsed)
        else:
            place = self._word_place(parsed.chunk, node.name)
            wrong = check(mark.kind, node.name, node, self.env)
            if wrong:
                self._problem(
                    place,
                    f"function {node.name} behind {_name(mark)}: {'; '.join(wrong)}",
                    f"expected `{prototype(mark.kind, node.name)}`",
                )
            elif not parsed.chunk.has_body:
                self._problem(
                    place,
                    f"{_name(mark)} stands before a declaration of {node.name}",
                    "put the marker before the function's definition, the one with the body",
                )
            elif "static" in node.storage or "inline" in node.funcspec:
                word = "static" if "static" in node.storage else "inline"
                self._problem(
                    place,
                    f"function {node.name} behind {_name(mark)} is {word}",
                    f"remove `{word}`: the generated entry calls the function by its name",
                )
            else:
                symbol = Symbol(node.name, place)
        self.facts.marks.append(Mark(mark.kind, mark.op, at, symbol))

    def _word_place(self, chunk: Chunk, name: str) -> Location:
        for tok in chunk.tokens:
            if tok.value == name:
                return self._source(str(tok.source)).locate(int(tok.lineno), name)
        return self._source(chunk.source).locate(chunk.line, name)

    def _wrong_target(self, mark: MarkToken, at: Location, parsed: Parsed) -> None:
        node = parsed.node
        name = getattr(node, "name", None) or ""
        if isinstance(node, c_ast.Typedef):
            found = f"a typedef ({name})"
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl):
            found = f"a function ({name})"
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, (c_ast.Struct, c_ast.Union, c_ast.Enum)):
            found = f"{type(node.type).__name__.lower()} {node.type.name or '{...}'}"
        else:
            found = f"a variable ({name})" if name else "a declaration"
        self._problem(
            at,
            f"{_name(mark)} stands before {found}, expected {_WHAT[mark.kind]}",
            "put the marker directly before the definition that it marks",
        )


def _name(mark: MarkToken) -> str:
    return marker(mark.kind, mark.op)


def _place_of(node: Any) -> tuple[str, int] | None:
    """(source, line) of a node, None when pycparser gave it no place."""
    coord = getattr(node, "coord", None)
    return (str(coord.file), int(coord.line)) if coord is not None else None
