"""Pick places for mutants at random: `python -m tests.mutate.propose --seed 1 --count 8 FILE...`.

A line of all those where something can be changed, each as likely as the others, then one of the changes
there. The output is what tests/mutate/rooms holds, without tests. So the list has not only mistakes that
somebody thought of.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutate.mutants import times
from tests.paths import ROOT

_COMPARES: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "//"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_C_TOKENS = dict(
    zip(
        ["<", "<=", ">", ">=", "==", "!=", "&&", "||", "+", "-", "*", "/", "%", "<<", ">>", "&", "|"],
        ["<=", "<", ">=", ">", "!=", "==", "||", "&&", "-", "+", "+", "*", "/", ">>", "<<", "|", "&"],
        strict=True,
    )
)
_NAMES = {"min": "max", "max": "min"}


@dataclass(frozen=True, order=True)
class Change:
    """In one line: what is between the columns becomes `new`."""

    line: int
    begin: int
    end: int
    new: str

    def applied(self, row: str) -> str:
        return row[: self.begin] + self.new + row[self.end :]


def python_changes(text: str) -> Iterator[Change]:
    """Every change that the operators know in a Python source."""
    rows = text.split("\n")
    for node in _walk(ast.parse(text)):
        yield from _python(node, rows)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All but annotations, in which | and numbers mean types."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _python(node: ast.AST, rows: Sequence[str]) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, new = _COMPARES[type(node.ops[0])]
        yield from _between(node.left, node.comparators[0], old, new, rows)
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_path(node):
        yield from _between(node.left, node.right, *_ARITHMETIC[type(node.op)], rows)
    elif isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _between(left, right, old, new, rows)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        written = rows[node.lineno - 1][node.col_offset : node.end_col_offset]
        yield from _instead(node, str(not node.value) if isinstance(node.value, bool) else _next(written))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield from _instead(node, rows[node.lineno - 1][node.operand.col_offset : node.end_col_offset])
    elif isinstance(node, ast.Name) and node.id in _NAMES:
        yield from _instead(node, _NAMES[node.id])
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        body = node.body[0] if isinstance(node.body, list) else node.body
        refuses = isinstance(body, ast.Raise | ast.Return | ast.Continue | ast.Break)
        condition = rows[node.test.lineno - 1][node.test.col_offset : node.test.end_col_offset]
        yield from _instead(node.test, "False" if refuses else f"not ({condition})")
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield from _instead(node, "pass")


def _next(number: str) -> str:
    """The number after it, written as it is."""
    if re.fullmatch(r"0\d+", number):  # C's octal ones, which Python does not read
        return f"0{int(number, 8) + 1:o}"
    return hex(int(number, 0) + 1) if number.startswith("0x") else str(int(number, 0) + 1)


def _is_path(node: ast.BinOp) -> bool:
    """FOLDER / "name": anything else fails at once, which says nothing about tests."""
    return isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant | ast.JoinedStr)


def _instead(node: ast.expr | ast.stmt, new: str) -> Iterator[Change]:
    if node.lineno == node.end_lineno and node.end_col_offset is not None:
        yield Change(node.lineno, node.col_offset, node.end_col_offset, new)


def _between(left: ast.expr, right: ast.expr, old: str, new: str, rows: Sequence[str]) -> Iterator[Change]:
    if left.end_lineno != right.lineno or left.end_col_offset is None:
        return
    part = rows[right.lineno - 1][left.end_col_offset : right.col_offset]
    found = re.search(rf"(?<![\w<>]){re.escape(old)}(?![\w<>=])", part)
    if found:
        begin = left.end_col_offset + found.start()
        yield Change(right.lineno, begin, begin + len(old), new)


def c_changes(text: str) -> Iterator[Change]:
    """The same for C and C++; operators are what has spaces on both sides."""
    hidden = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    bare = hidden.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    directive = False
    for number, row in enumerate(bare.split("\n"), 1):
        here = directive or row.lstrip().startswith("#")
        directive = here and row.rstrip().endswith("\\")
        if not here:
            yield from (Change(number, *change) for change in _c_row(row))


def _c_row(row: str) -> Iterator[tuple[int, int, str]]:
    for found in re.finditer(r"(?<= )([-+*/%&|<>]|<=|>=|==|!=|&&|\|\||<<|>>)(?= )", row):
        yield found.start(), found.end(), _C_TOKENS[found[1]]
    for found in re.finditer(r"(?<![\w.])(\d+|0x[0-9a-fA-F]+)(?=[uUlL]*\b)(?![.\w]*\.)", row):
        yield found.start(), found.end(), _next(found[1])
    for found in re.finditer(r"\b(min|max)\b(?=\()", row):
        yield found.start(), found.end(), _NAMES[found[1]]
    for found in re.finditer(
        r"\b(?:if|while) \((.*)\)(?= (?:\{$|return\b|continue;|break;|okk_fail|fw_))", row
    ):
        yield found.start(1), found.end(1), "0" if row.lstrip().startswith("if") else f"!({found[1]})"
    if call := re.fullmatch(r"\s+(\w+\(.*\));\s*", row):
        yield call.start(1), call.end(1), ""


def hunk(text: str, change: Change) -> str:
    """The change with as many lines before it as make it unique."""
    rows = text.split("\n")
    at = change.line - 1
    first = at
    while times("\n".join(rows[first : at + 1]), text) != 1:
        first -= 1
    kept = [f" {row}" for row in rows[first:at]]
    return "\n".join([*kept, f"-{rows[at]}", f"+{change.applied(rows[at])}"])


def changes(path: Path) -> Iterator[Change]:
    """Every change that the operators know in a file."""
    kind: Callable[[str], Iterator[Change]] = python_changes if path.suffix == ".py" else c_changes
    return kind(path.read_text(encoding="utf-8"))


def propose(paths: Sequence[Path], count: int, seed: int) -> Iterator[tuple[Path, Change]]:
    """`count` changes, at most one in a line."""
    rng = random.Random(f"{seed} {' '.join(path.name for path in paths)}")  # other files, other places
    places: dict[tuple[Path, int], list[Change]] = {}
    for path in paths:
        for change in sorted(set(changes(path))):
            places.setdefault((path, change.line), []).append(change)
    for place in sorted(rng.sample(sorted(places), min(count, len(places)))):
        yield place[0], rng.choice(places[place])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate.propose", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    last = None
    for path, change in propose([file.absolute() for file in options.files], options.count, options.seed):
        if path != last:
            print(f"--- {path.relative_to(ROOT)}\ntests:")
        last = path
        print(f"@@ {path.stem}-{change.line} seeded\n{hunk(path.read_text(encoding='utf-8'), change)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
