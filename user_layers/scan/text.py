"""Source text before any parser sees it: reading, masking comments, blanking function bodies."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from user_layers.scan.model import Location

# One C or C++ token that matters here. Order: comments, literals, directives at a line's start.
_COMMENT = r"/\*.*?(?:\*/|\Z)|//(?:[^\n\\]|\\.)*"
_LITERAL = r'R"(?P<raw>[^()\\\s"]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_DIRECTIVE = r"(?:(?<=\n)|\A)[ \t]*\#(?:/\*.*?\*/|//(?:[^\n\\]|\\.)*|\\.|[^\n\\])*"
_MASK = re.compile(rf"(?P<comment>{_COMMENT})|(?P<literal>{_LITERAL})", re.DOTALL)


def read_source(data: bytes) -> str:
    """Text of a source file: UTF-8 with or without BOM, stray bytes replaced one for one, line
    ends normalised (so lines and columns count as an editor shows them)."""
    text = data.decode("utf-8-sig", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def mask(text: str, *, literals: bool = True) -> str:
    """`text` of the same length with comments (and string and character literals) blanked."""

    def replace(m: re.Match[str]) -> str:
        return m[0] if m["literal"] is not None and not literals else _blank(m[0])

    return _MASK.sub(replace, text)


@dataclass
class Source:
    """A source file and its text, with the places of names in it."""

    path: Path
    text: str
    _lines: list[str] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def masked(self) -> list[str]:
        """Lines with comments and literals blanked."""
        return mask(self.text).split("\n")

    def locate(self, line: int, name: str, *, after: int = 1) -> Location:
        """Where the word `name` stands in `line` or, for a macro call over several lines, shortly
        below; column 1 of the line when it is not written there (a macro makes it)."""
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        for at in range(line, min(line + 8, len(self.masked)) + 1):
            m = word.search(self.masked[at - 1], after - 1 if at == line else 0)
            if m:
                return Location(self.path, at, m.start() + 1)
        text = self.masked[line - 1] if 0 < line <= len(self.masked) else ""
        return Location(self.path, line, len(text) - len(text.lstrip()) + 1)


_BODY_TOKEN = re.compile(
    rf"(?P<skip>{_COMMENT}|{_LITERAL})|(?P<directive>{_DIRECTIVE})|(?P<word>\w+)|(?P<mark>[{{}}();=#])",
    re.DOTALL,
)
_AGGREGATE = ("struct", "union", "enum")


def braces_balance(text: str) -> bool:
    """Whether every brace opened in a macro's text is closed in it."""
    return text.count("{") == text.count("}")


def prune_bodies(text: str) -> str:
    """Blank the function bodies of a C file, newlines kept, before the preprocessor works on it.

    Only a speed-up: the exact blanking happens on preprocessed tokens. So a body goes only when
    that cannot change what is found: no directive and no marker inside, and no macro of the file
    with a lone brace (then the text comes back unchanged; the caller checks its headers' macros).
    """
    out: list[str] = []
    done = 0  # text up to here is in `out`
    depth = parens = start = 0
    head: list[str] = []  # words and marks of the current file-scope declaration
    prunable = False
    for m in _BODY_TOKEN.finditer(text):
        if m["skip"] is not None:
            continue
        if m["directive"] is not None:
            if not braces_balance(mask(m[0])):
                return text
            prunable = False
            continue
        token = m[0]
        if token == "#":  # a directive behind a comment: leave this file to the preprocessor
            return text
        if depth:
            if token == "{":
                depth += 1
            elif token == "}":
                depth -= 1
                if depth == 0 and prunable:
                    body = text[start + 1 : m.start()]
                    out += [text[done : start + 1], "\n" * body.count("\n")]
                    done = m.start()
                    head = []
            elif token.startswith("__BM_"):
                prunable = False
            continue
        if token == "{":
            depth, start = 1, m.start()
            prunable = parens == 0 and bool(head) and head[-1] == ")" and _is_function(head)
        elif token == "(":
            parens += 1
        elif token == ")":
            parens = max(0, parens - 1)
        if token == ";" and parens == 0:
            head = []
        else:
            head.append(token)
    return "".join([*out, text[done:]])


def _is_function(head: list[str]) -> bool:
    """Whether the declaration before a brace is a function's head: the parentheses are not those of
    an attribute or macro between `struct` and its brace, and nothing is initialised."""
    if "=" in head:
        return False
    depth = 0
    for i in range(len(head) - 1, -1, -1):
        depth += (head[i] == ")") - (head[i] == "(")
        if depth == 0:
            name = head[i - 1] if i else ""
            before = head[i - 2] if i > 1 else ""
            return "attribute" not in name and name not in _AGGREGATE and before not in _AGGREGATE
    return False
