"""One host C++ file: descriptor classes behind their markers.

A small tokenizer with comments, literals and `#if 0` blocks masked is enough: what is wanted is
`__BM_DESC__(OP) class Name : public bmcompiler::LayerDescriptor`, the namespaces around it, and
every other class with its bases, so that a descriptor may derive from a class of the user's own.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from pathlib import Path

from user_layers.scan.model import (
    FileFacts,
    HostClass,
    HostMethod,
    Location,
    Mark,
    Problem,
    Symbol,
    marker,
)
from user_layers.scan.opname import op_problem, unknown_marker
from user_layers.scan.text import Source, mask, read_source

_TOKEN = re.compile(r"[A-Za-z_]\w*|::|\d[\w.]*|\S")
_IF = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif|define)\b[ \t]*(.*)")
_MARKER = re.compile(r"__BM_([A-Z]+)__\Z")
_ACCESS = ("public", "protected", "private")
_TYPE_WORDS = (
    "const",
    "override",
    "final",
    "noexcept",
    "default",
    "delete",
)  # these stand before a body, too


@dataclass(frozen=True)
class _Token:
    text: str
    offset: int


@dataclass
class _Body:
    """A class whose body is being read. depth: of braces in it; virtual: that word began the declaration."""

    name: str
    depth: int
    public: bool
    virtual: bool = False


def scan_host(path: Path, data: bytes) -> FileFacts:
    """The facts of one host file; problems are among them."""
    source = Source(path, read_source(data))
    return _HostFile(source).run()


def _without_disabled(text: str) -> str:
    """`text` with preprocessor lines and what `#if 0` (or the #else of `#if 1`) excludes blanked."""
    lines = text.split("\n")
    stack: list[str] = []  # "on", "off" (switched by #else), "other" (a condition not evaluated)
    continued = False
    for i, line in enumerate(lines):
        m = _IF.match(line) if not continued else None
        if m:
            word, rest = m[1], m[2].strip()
            if word in ("if", "ifdef", "ifndef"):
                known = {"0": "off", "1": "on"}.get(rest, "other") if word == "if" else "other"
                stack.append(known)
            elif word in ("else", "elif") and stack:
                stack[-1] = {"on": "off", "off": "on" if word == "else" else "other"}.get(stack[-1], "other")
            elif word == "endif" and stack:
                stack.pop()
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.rstrip().endswith("\\")
        if directive or "off" in stack:
            lines[i] = " " * len(line)
    return "\n".join(lines)


class _HostFile:
    def __init__(self, source: Source) -> None:
        self.source = source
        text = _without_disabled(mask(source.text))
        self.tokens = [_Token(m[0], m.start()) for m in _TOKEN.finditer(text)]
        self.starts = [0]
        for line in text.split("\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.facts = FileFacts()
        self.scopes: list[str | None] = []  # one per open brace: namespace or class name, or None
        self.pending: list[tuple[str, Location]] = []
        self.inside: list[_Body] = []  # the classes around, the innermost last

    def _at(self, tok: _Token) -> Location:
        line = bisect.bisect_right(self.starts, tok.offset)
        return Location(self.source.path, line, tok.offset - self.starts[line - 1] + 1)

    def run(self) -> FileFacts:
        i = 0
        while i < len(self.tokens):
            i = self._step(i)
        for op, at in self.pending:
            self._no_class(op, at, "the end of the file")
        return self.facts

    def _text(self, i: int) -> str:
        return self.tokens[i].text if i < len(self.tokens) else ""

    def _step(self, i: int) -> int:
        word = self._text(i)
        m = _MARKER.match(word)
        if m:
            return self._marker(i, m[1])
        if word == "namespace":
            return self._namespace(i)
        if word in ("class", "struct") and self._text(i - 1 if i else len(self.tokens)) not in (
            "enum",
            "<",
            ",",
        ):
            return self._class(i)
        if self.pending and word == "template":
            return self._template(i)
        if self.pending and word not in ("[", "]", "alignas", ";"):
            for op, at in self.pending:
                self._no_class(op, at, f"`{word}`")
            self.pending = []
        if word == "{":  # of `extern "C" {` (the literal is masked), or of something with a body
            self.scopes.append("" if i and self._text(i - 1) == "extern" else None)
        elif word == "}" and self.scopes:
            self.scopes.pop()
            if self.inside and len(self.scopes) < self.inside[-1].depth:
                self.inside.pop()
        elif self.inside and len(self.scopes) == self.inside[-1].depth:
            return self._member(i, self.inside[-1])
        return i + 1

    def _member(self, i: int, body: _Body) -> int:
        """A token directly inside a class: an access label, or perhaps a method's name."""
        word = self._text(i)
        if word in _ACCESS and self._text(i + 1) == ":":
            body.public = word == "public"
            return i + 2
        if word == "virtual":
            body.virtual = True
        elif word in (";", ":"):
            body.virtual = False
        elif (
            re.match(r"[A-Za-z_]", word) and self._text(i + 1) in ("=", ";", "{") and word not in _TYPE_WORDS
        ):
            at = self._at(self.tokens[i])
            self.facts.methods.append(HostMethod(body.name, word, at, called=False, virtual=False, data=True))
        elif word == "=":  # the value of a member, "= 0" or "= default"
            while i < len(self.tokens) and self._text(i) not in (";", "{"):
                i += 1
            return i
        elif self._text(i + 1) == "(" and re.match(r"[A-Za-z_]", word):
            method = HostMethod(
                body.name, word, self._at(self.tokens[i]), body.public or body.virtual, body.virtual
            )
            self.facts.methods.append(method)
            body.virtual = False
            return self._round(i + 1)
        return i + 1

    def _round(self, j: int) -> int:
        """Index behind the parenthesis that closes the one at j."""
        depth = 0
        while j < len(self.tokens):
            depth += (self._text(j) == "(") - (self._text(j) == ")")
            j += 1
            if depth == 0:
                break
        return j

    def _marker(self, i: int, kind: str) -> int:
        at = self._at(self.tokens[i])
        end = i + 1
        if self._text(end) != "(":
            self._problem(at, f"__BM_{kind}__ without the layer's name", f"write __BM_{kind}__(TPU_NAME)")
            return end
        while end < len(self.tokens) and self._text(end) != ")":
            end += 1
        unknown = unknown_marker(kind)
        if unknown:
            self._problem(at, *unknown)
            return end + 1
        inner = self.tokens[i + 2 : end]
        text = self.source.text
        op = text[inner[0].offset : inner[-1].offset + len(inner[-1].text)].strip() if inner else ""
        if kind != "DESC":
            where = "a function or struct in a C file of device/"
            self._problem(at, f"{marker(kind, op)} in a host file", f"this marker belongs before {where}")
            return end + 1
        bad = op_problem(kind, op)
        if bad:
            self._problem(at, *bad)
        else:
            self.pending.append((op, at))
        return end + 1

    def _template(self, i: int) -> int:
        for op, at in self.pending:
            self._problem(
                at,
                f"{marker('DESC', op)} stands before a template",
                "derive an ordinary class from an instance of the template and mark that",
            )
            self.facts.marks.append(Mark("DESC", op, at))
        self.pending = []
        return i + 1

    def _namespace(self, i: int) -> int:
        names: list[str] = []
        j = i + 1
        while j < len(self.tokens) and self._text(j) not in ("{", ";", "="):
            if re.match(r"[A-Za-z_]", self._text(j)) and self._text(j) != "inline":
                names.append(self._text(j))
            j += 1
        if self._text(j) == "{":
            self.scopes.append("::".join(names))
        return j + 1

    def _class(self, i: int) -> int:
        """`class NAME final : public BASE, ... {`, a forward declaration, or a use of the word."""
        keyword = self._text(i)
        j, name = i + 1, ""
        while j < len(self.tokens) and self._text(j) not in (
            "{",
            ";",
            ":",
            "(",
            ")",
            ">",
            "=",
            ",",
            "*",
            "&",
        ):
            if re.match(r"[A-Za-z_]", self._text(j)) and self._text(j) not in ("final", "alignas"):
                name = self._text(j)
            j += 1
            if self._text(j) == "<":
                j = self._angle(j)
        bases: list[tuple[str, str]] = []
        if self._text(j) == ":":
            bases, j = self._bases(j + 1, "public" if keyword == "struct" else "private")
        if self._text(j) != "{":
            if self.pending:
                for op, at in self.pending:
                    self._no_class(op, at, f"`{keyword} {name}` without a body")
                self.pending = []
            return j
        outer = [s for s in self.scopes if s]
        hidden = any(s is None for s in self.scopes)
        qualified = "::".join([*outer, name])
        public = tuple(b for access, b in bases if access == "public")
        others = tuple(b for access, b in bases if access != "public")
        self.facts.classes.append(HostClass(qualified, public, others))
        for op, at in self.pending:
            self._described(op, at, i, name, qualified, nested=hidden)
        self.pending = []
        self.scopes.append(name)
        self.inside.append(_Body(qualified, len(self.scopes), keyword == "struct"))
        return j + 1

    def _described(self, op: str, at: Location, i: int, name: str, qualified: str, *, nested: bool) -> None:
        place = self._at(self.tokens[i])
        for tok in self.tokens[i:]:
            if tok.text == name:
                place = self._at(tok)
                break
        if not name or nested:
            what = "an unnamed class" if not name else f"class {name} inside a function"
            self._problem(
                at, f"{marker('DESC', op)} stands before {what}", "give the class a name at namespace scope"
            )
            self.facts.marks.append(Mark("DESC", op, at))
            return
        self.facts.marks.append(Mark("DESC", op, at, Symbol(qualified, place)))

    def _bases(self, j: int, default: str) -> tuple[list[tuple[str, str]], int]:
        bases: list[tuple[str, str]] = []
        access, name = default, ""
        while j < len(self.tokens) and self._text(j) not in ("{", ";"):
            word = self._text(j)
            if word in _ACCESS:
                access = word
            elif word == ",":
                bases.append((access, name))
                access, name = default, ""
            elif word == "<":
                j = self._angle(j)
                continue
            elif word != "virtual":
                name += word
            j += 1
        return [*bases, (access, name)], j

    def _angle(self, j: int) -> int:
        """Index behind the template arguments that open at j."""
        depth = 0
        while j < len(self.tokens):
            depth += (self._text(j) == "<") - (self._text(j) == ">")
            j += 1
            if depth == 0:
                break
        return j

    def _no_class(self, op: str, at: Location, found: str) -> None:
        self._problem(
            at,
            f"{marker('DESC', op)} stands before {found}, expected the definition of a class",
            "put it directly before `class NAME : public bmcompiler::LayerDescriptor {`",
        )
        self.facts.marks.append(Mark("DESC", op, at))

    def _problem(self, at: Location, message: str, hint: str) -> None:
        self.facts.problems.append(Problem(at, message, hint))
