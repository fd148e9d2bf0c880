"""The C that follows from tables: a loop for each expression of the instruction table, and codes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from firmware_sim.instructions.function import Expression
from firmware_sim.isa.codes import Eu, Format

_COPY = "moves_copy"

_SKELETON = """
int64_t {name}(const tl_arg *a) {{
    uint32_t *out = a[0].data, results[BLOCK];
    const int64_t *at = a[{at}].data, rows = a[{at}].shape[1], width = a[{width}].value;
    for (int64_t row = 0; row < rows; row++) {{
{each}        for (int64_t s = 0; s < width; s += BLOCK) {{
            const int64_t m = TL_MIN(BLOCK, width - s);
{along}            for (int64_t i = 0; i < m; i++) {{
{elements}                results[i] = {result};
            }}
            memcpy(out + at[row] + s, results, (size_t)m * sizeof *results);
        }}
    }}
    return TL_DONE;
}}
"""


def _function(expression: Expression, name: str) -> str:
    """The loop: out, one memory of words per operand, at: i64[1 + operands, rows], width."""
    kind, read = ("float", "number") if expression.floats else ("uint32_t", "")
    numbered = list(enumerate(expression.operands, 1))
    single = [(k, one) for k, one in numbered if one in expression.each]
    row_of = [(k, one) for k, one in numbered if one not in expression.each]
    words, first = "((const uint32_t *)a[{k}].data)", "at[{k} * rows + row]"
    return _SKELETON.format(
        name=name,
        at=len(numbered) + 1,
        width=len(numbered) + 2,
        each="".join(
            f"        const {kind} {one} = {read}({words.format(k=k)}[{first.format(k=k)}]);\n"
            for k, one in single
        ),
        along="".join(
            f"            const uint32_t *{one}_row = {words.format(k=k)} + {first.format(k=k)} + s;\n"
            for k, one in row_of
        ),
        elements="".join(
            f"                const {kind} {one} = {read}({one}_row[i]);\n" for _, one in row_of
        ),
        result=f"bits({expression.text})" if expression.floats else expression.text,
    )


def name_of(expression: Expression) -> str:
    """The name of an expression's loop, which has the source in it: another expression, another loop."""
    if expression.text == "opd0":
        return _COPY
    return f"elementwise_{hashlib.sha256(_function(expression, '').encode()).hexdigest()[:16]}"


def elementwise_source(expressions: Iterable[Expression]) -> str:
    """The C file with a loop for each expression."""
    by_name = {name_of(expression): expression for expression in expressions}
    parts = ['#include "elementwise.h"\n']
    for name, expression in sorted(by_name.items()):
        if name != _COPY:
            parts.append(f"\n/* {expression} */{_function(expression, name)}")
    return "".join(parts)


def codes_header() -> str:
    """The header with the codes of operations and formats that loops look at."""
    codes = [(f"TL_EU_{eu.name}", eu) for eu in Eu] + [(f"TL_FORMAT_{one.name}", one) for one in Format]
    return "".join(f"#define {name} {int(code)}\n" for name, code in codes)


def table_expressions() -> list[Expression]:
    """The expressions of all instructions."""
    from firmware_sim.instructions.table import TABLE

    return [f.expression for row in TABLE if row.semantics for f in row.semantics.functions]
