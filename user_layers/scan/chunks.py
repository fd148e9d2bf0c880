"""Preprocessed tokens cut into file-scope declarations, GNU extensions translated away.

pycparser reads standard C only, so it is given nothing but what a scan needs: type definitions and
the declarations that stand behind a marker. Function bodies and everything else is dropped.
Attributes that change a layout come through as sentinel members, so they are never lost silently:
`int __bm_pack_1;` in a packed struct, `int __bm_attr_aligned;` for one that is refused later.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from user_layers.scan.preprocess import MARK

PACK = "__bm_pack_"  # sentinel member: alignment of members limited to this many bytes
ATTR = "__bm_attr_"  # sentinel member: an attribute whose effect on the layout is not modelled
UNKNOWN = "__bm_typeof"  # stands for a type that only a compiler can work out

# Attributes without any effect on the layout of a type.
_HARMLESS = frozenset(
    [
        "unused",
        "used",
        "deprecated",
        "may_alias",
        "constructor",
        "destructor",
        "noreturn",
        "format",
        "section",
        "weak",
        "visibility",
        "always_inline",
        "noinline",
        "pure",
        "const",
        "cold",
        "hot",
        "nonnull",
        "malloc",
        "alias",
        "fallthrough",
        "warn_unused_result",
        "annotate",
        "nothrow",
        "leaf",
        "flatten",
        "optimize",
        "target",
        "no_instrument_function",
        "designated_init",
        "warn_if_not_aligned",
        "sentinel",
        "artificial",
        "gnu_inline",
    ]
)
_DROP = frozenset(
    [
        "__extension__",
        "__restrict",
        "__restrict__",
        "__thread",
        "_Thread_local",
        "_Noreturn",
        "__volatile__",
        "__volatile",
    ]
)
_RENAME = {
    "__inline": "inline",
    "__inline__": "inline",
    "__const": "const",
    "__const__": "const",
    "__signed__": "signed",
    "__signed": "signed",
    "__auto_type": UNKNOWN,
}
_TYPEOF = frozenset(["typeof", "__typeof", "__typeof__"])
_ATTRIBUTE = frozenset(["__attribute__", "__attribute", "__declspec", "_Alignas"])
_ASM = frozenset(["asm", "__asm", "__asm__"])
_AGGREGATES = frozenset(["struct", "union", "enum"])
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class MarkToken:
    """A marker in the token stream: kind, the text between its parentheses, where it stands."""

    kind: str
    op: str
    source: str
    line: int


@dataclass
class Chunk:
    """One file-scope declaration. `marks` are the markers in front of it, `has_body` tells a
    function definition, `odd` names layout-changing attributes of a typedef."""

    tokens: list[Any] = field(default_factory=list)
    marks: list[MarkToken] = field(default_factory=list)
    has_body: bool = False
    odd: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The file that its first token comes from, as the preprocessor names it; empty without tokens."""
        return str(self.tokens[0].source) if self.tokens else ""

    @property
    def line(self) -> int:
        """The line of its first token in that file; 0 without tokens."""
        return int(self.tokens[0].lineno) if self.tokens else 0


@dataclass
class Chunks:
    """`kept` in order; `loose` are markers with nothing to mark (end of file), `misplaced` those
    inside a body, a struct or a declaration, or written without parentheses."""

    kept: list[Chunk] = field(default_factory=list)
    loose: list[MarkToken] = field(default_factory=list)
    misplaced: list[MarkToken] = field(default_factory=list)


def _is_space(tok: Any) -> bool:
    return tok.type in ("CPP_WS", "CPP_LINECONT") or not tok.value.strip()


def split(tokens: Iterable[Any]) -> Chunks:
    """Cut the tokens into declarations and keep those that a scan needs."""
    return _Splitter().run(tokens)


class _Splitter:
    def __init__(self) -> None:
        self.result = Chunks()
        self.cur = Chunk()
        self.pending: list[MarkToken] = []
        self.last = ""  # value of the last significant token of the chunk
        self.pack: list[int] = [0]  # #pragma pack stack, 0 = natural

    def run(self, tokens: Iterable[Any]) -> Chunks:
        stream = _Stream(tokens)
        depth = parens = 0
        body_at = -1  # brace depth at which a function body began
        for tok in stream:
            value = tok.value
            if tok.type == "CPP_POUND" and body_at < 0:
                self._directive(stream.line(tok))
                continue
            if value.startswith(MARK):
                self._mark(tok, stream, inside=depth > 0 or parens > 0 or body_at >= 0)
                continue
            if body_at >= 0:
                depth += (value == "{") - (value == "}")
                if depth == body_at:
                    self._end(has_body=True)
                    body_at, parens = -1, 0
                continue
            if value == "_Pragma":
                self._pragma_operator(stream.group())
                continue
            if value == "{" and depth == 0 and parens == 0 and self._function_head():
                body_at, depth = 0, 1
                continue
            if value == "{" and self._aggregate_head() and self.pack[-1]:
                self._push(tok)
                self._insert(tok, f" int {PACK}{self.pack[-1]};")
                depth += 1
                continue
            depth = max(0, depth + (value == "{") - (value == "}"))
            parens = max(0, parens + (value == "(") - (value == ")"))
            if value == ";" and depth == 0 and parens == 0:
                self._end(has_body=False)
                continue
            self._push(tok)
        self.result.loose += self.pending
        return self.result

    def _push(self, tok: Any) -> None:
        if self.cur.tokens or not _is_space(tok):
            self.cur.tokens.append(tok)

    def _insert(self, near: Any, text: str) -> None:
        self.cur.tokens.append(_Text(text, near))

    def _significant(self) -> list[str]:
        return [t.value for t in self.cur.tokens if not _is_space(t)]

    def _function_head(self) -> bool:
        words = self._significant()
        if not words:  # the body of an old-style function, whose parameter declarations ended in `;`
            return True
        if words[-1] != ")" or "=" in words:
            return False
        at = _group_start(words, len(words) - 1)
        name = words[at - 1] if at > 0 else ""
        before = words[at - 2] if at > 1 else ""
        return name not in _ATTRIBUTE and name not in _AGGREGATES and before not in _AGGREGATES

    def _aggregate_head(self) -> bool:
        """Whether the brace about to come opens a struct or union."""
        words = self._significant()
        at = len(words) - 1
        while at >= 0 and (words[at] == ")" or _WORD.match(words[at])):
            if words[at] in ("struct", "union"):
                return True
            at = _group_start(words, at) - 1 if words[at] == ")" else at - 1
        return False

    def _end(self, *, has_body: bool) -> None:
        chunk, self.cur = self.cur, Chunk()
        if not chunk.tokens:
            return  # a lone semicolon
        chunk.has_body = has_body
        chunk.marks, self.pending = self.pending, []
        words = {t.value for t in chunk.tokens}
        defines_type = not has_body and ("typedef" in words or ("{" in words and words & _AGGREGATES))
        if chunk.marks or defines_type:
            self.result.kept.append(chunk)

    def _mark(self, tok: Any, stream: _Stream, *, inside: bool) -> None:
        text = stream.next_significant()
        op = text.value[1:-1] if text is not None and text.type == "CPP_STRING" else ""
        mark = MarkToken(tok.value[len(MARK) :], op.strip(), str(tok.source), int(tok.lineno))
        if inside or self.cur.tokens:
            self.result.misplaced.append(mark)
        else:
            self.pending.append(mark)

    def _pragma_operator(self, group: list[str]) -> None:
        text = "".join(group).strip("()").strip()
        self._directive("#pragma " + text[1:-1].replace('\\"', '"') if text.startswith('"') else "")

    def _directive(self, line: str) -> None:
        m = re.match(r"#\s*pragma\s+pack\s*\(([^)]*)\)", line)
        if not m:
            return
        words = [w.strip() for w in m[1].split(",") if w.strip()]
        size = next((int(w) for w in words if w.isdigit()), None)
        if "pop" in words:
            if len(self.pack) > 1:
                self.pack.pop()
        elif "push" in words:
            self.pack.append(self.pack[-1] if size is None else size)
        else:
            self.pack[-1] = size or 0


class _Text:
    """A token of our own making."""

    type = "TEXT"

    def __init__(self, value: str, near: Any) -> None:
        self.value, self.source, self.lineno = value, near.source, near.lineno


class _Stream:
    """Token iterator that can take a whole line or a parenthesised group."""

    def __init__(self, tokens: Iterable[Any]) -> None:
        self._it: Iterator[Any] = iter(tokens)

    def __iter__(self) -> Iterator[Any]:
        return self._it

    def line(self, first: Any) -> str:
        words = [first.value]
        for tok in self._it:
            if "\n" in tok.value:
                break
            words.append(tok.value)
        return "".join(words)

    def next_significant(self) -> Any | None:
        return next((t for t in self._it if not _is_space(t)), None)

    def group(self) -> list[str]:
        words: list[str] = []
        depth = 0
        for tok in self._it:
            words.append(tok.value)
            depth += (tok.value == "(") - (tok.value == ")")
            if depth == 0 and not _is_space(tok):
                break
        return words


def _group_start(words: list[str], end: int) -> int:
    """Index of the parenthesis that `words[end]` closes."""
    depth = 0
    for i in range(end, -1, -1):
        depth += (words[i] == ")") - (words[i] == "(")
        if depth == 0:
            return i
    return 0


def translate(chunk: Chunk) -> str:
    """The chunk as standard C with line markers (`#line N "source"`), ready for pycparser.

    A function's body is left out; an unmarked variable loses its initialiser. Sets `chunk.odd`.
    """
    return _Translator(chunk).run()


class _Translator:
    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.out: list[str] = []
        self.source, self.at = "", 0
        self.opened: list[tuple[str, int]] = []  # ("struct", index in out of its brace) or ("", -1)
        self.head = ""  # struct, union or enum seen, its brace not yet
        self.head_attrs: list[str] = []
        self.closed: tuple[str, int] | None = None  # aggregate just closed: attributes go to it
        self.inserts: dict[int, str] = {}

    def run(self) -> str:
        tokens = self.chunk.tokens
        is_typedef = any(t.value == "typedef" for t in tokens)
        i, parens = 0, 0
        while i < len(tokens):
            tok = tokens[i]
            value = tok.value
            i += 1
            if _is_space(tok):
                self._space(tok)
                continue
            if value in _ATTRIBUTE or value in _ASM or value in _TYPEOF:
                words, i = self._group(tokens, i)
                if value in _TYPEOF:
                    self._put(tok, UNKNOWN)
                elif value not in _ASM:
                    self._attributes(value, words, is_typedef)
                continue
            if value in _DROP:
                continue
            if value == "=" and not self.opened and not parens and not self.chunk.marks:
                break
            parens += (value == "(") - (value == ")")
            self._shape(value)
            self._put(tok, _RENAME.get(value, value))
            if value == "{":
                self._open()
        for at, text in self.inserts.items():
            self.out[at] += text
        return "".join(self.out) + ";\n"

    def _shape(self, value: str) -> None:
        """Follow the nesting of structs, to know what an attribute belongs to."""
        if value in _AGGREGATES:
            self.head, self.head_attrs, self.closed = value, [], None
        elif value == "}":
            self.closed = self.opened.pop() if self.opened else None
        elif value != "{" and not (self.head and _WORD.match(value)):
            self.head, self.closed = "", None
        elif self.closed and _WORD.match(value):
            self.closed = None

    def _open(self) -> None:
        kind, self.head = self.head, ""
        self.opened.append((kind, len(self.out) - 1 if kind else -1))
        for name in self.head_attrs:
            self._sentinel(self.opened[-1], name)
        self.head_attrs = []

    def _attributes(self, keyword: str, words: list[str], is_typedef: bool) -> None:
        names = ["aligned"] if keyword == "_Alignas" else _attribute_names(words)
        for name in names:
            if name in _HARMLESS:
                continue
            if self.closed and self.closed[0]:
                self._sentinel(self.closed, name)
            elif self.head:
                self.head_attrs.append(name)
            elif self.opened:
                self._sentinel(self.opened[-1], f"member_{name}")
            elif is_typedef:
                self.chunk.odd.append(name)

    def _sentinel(self, where: tuple[str, int], name: str) -> None:
        kind, at = where
        if at < 0:
            return
        member = f"{PACK}1" if name == "packed" and kind != "enum" else f"{ATTR}{name}"
        text = f" {member} = -1," if kind == "enum" else f" int {member};"
        if text not in self.inserts.get(at, ""):
            self.inserts[at] = self.inserts.get(at, "") + text

    def _group(self, tokens: list[Any], i: int) -> tuple[list[str], int]:
        """The parenthesised group after an attribute or asm keyword: its words, index behind it."""
        words: list[str] = []
        depth = 0
        while i < len(tokens):
            tok = tokens[i]
            if not _is_space(tok):
                if depth == 0 and tok.value != "(" and not _WORD.match(tok.value):
                    return words, i
                depth += (tok.value == "(") - (tok.value == ")")
                words.append(tok.value)
                if depth == 0 and tok.value == ")":
                    return words, i + 1
            i += 1
        return words, i

    def _space(self, tok: Any) -> None:
        if self.out and not self.out[-1].endswith((" ", "\n")):
            self.out.append(" ")

    def _put(self, tok: Any, text: str) -> None:
        source, line = str(tok.source), int(tok.lineno)
        if source == self.source and self.at <= line <= self.at + 20:
            if line > self.at:
                self.out.append("\n" * (line - self.at))
        elif (source, line) != (self.source, self.at):
            self.out.append(f'\n#line {line} "{_escape(source)}"\n')
        self.source, self.at = source, line
        self.out.append(text)


def _escape(source: str) -> str:
    return source.replace("\\", "/").replace('"', "?")


def _attribute_names(words: list[str]) -> list[str]:
    """Names in `((packed, aligned(8)))`, underscores around them removed."""
    names: list[str] = []
    depth = 0
    for i, w in enumerate(words):
        depth += (w == "(") - (w == ")")
        if depth <= 2 and _WORD.match(w) and words[i - 1] in ("(", ","):
            names.append(w[2:-2] if w.startswith("__") and w.endswith("__") else w)
    return names
