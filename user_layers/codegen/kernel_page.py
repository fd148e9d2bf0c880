"""The reference of the kernel API from its table: docs/kernel-api.md, and the comments of the headers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from firmware_sim.errors import SourceError
from user_layers.kernel_api.entry import Entry, Family
from user_layers.kernel_api.prototypes import PROTOTYPE
from user_layers.kernel_api.reference import (
    ENTRIES,
    FAMILIES,
    accuracy,
    computes,
    cost_text,
    formula,
    limit_lines,
    operand_lines,
    operand_text,
    place_line,
)

MARK = "<!-- From here on made by python -m user_layers.codegen.regenerate from user_layers/kernel_api. -->\n"
_WIDTH = 100


# ---- the page ----


def with_reference(page: str) -> str:
    """The page with the reference below its mark. Errors: SourceError where it has none."""
    head, mark, _ = page.partition(MARK)
    if not mark:
        raise SourceError("the page has no mark behind which the reference begins", hint=MARK.strip())
    return head + mark + "\n" + "".join(_page())


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _page() -> Iterator[str]:
    for family in FAMILIES:
        names = ", ".join(f"`{entry.name}`" for entry in family.entries)
        yield f"- [{family.title}](#{_anchor(family.title)}): {names}\n"
    for family in FAMILIES:
        text = textwrap.fill(family.text, 120, break_long_words=False, break_on_hyphens=False)
        yield f"\n## {family.title}\n\n{text}\n"
        for group in _groups(family):
            yield "\n" + "".join(_group(group))


@dataclass(frozen=True)
class _Group:
    """Functions one after the other of which the same is to say about operands and limits."""

    entries: tuple[Entry, ...]

    def operands(self) -> list[tuple[str, str]]:
        """(names, words): those of all entries together."""
        found: dict[str, dict[str, None]] = {}
        for entry in self.entries:
            for operand in entry.operands:
                found.setdefault(operand_text(operand), {})[operand.name] = None
        return [(", ".join(f"`{name}`" for name in names), text) for text, names in found.items()]

    def in_place(self) -> str:
        """What the result may be, in words."""
        allowed = list(dict.fromkeys(name for entry in self.entries for name in entry.in_place))
        apart = list(dict.fromkeys(pair for entry in self.entries for pair in entry.apart))
        out = [f"`{self.entries[0].operands[0].name}` may be {_either(allowed)}"] if allowed else []
        level = self.entries[0].apart_level.value
        out += [f"`{a}` is not `{b}` (else {level})" for a, b in apart]
        return "; ".join(out)

    def common(self, lines: list[tuple[str, ...]]) -> list[str]:
        """Of the lines of each entry those that all have."""
        return [line for line in lines[0] if all(line in other for other in lines)]


def _either(names: list[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _key(entry: Entry) -> tuple[object, ...]:
    """What functions of one group have in common."""
    texts = tuple(dict.fromkeys(operand_text(o) for o in entry.operands))
    inputs = {o.name for o in entry.operands[1:] if "work" not in o.role}
    extents = entry.extents.said() if entry.extents else ""
    return texts, extents, inputs == set(entry.in_place) or entry.in_place, entry.apart, entry.apart_level


def _groups(family: Family) -> list[_Group]:
    found: list[list[Entry]] = []
    for entry in family.entries:
        if found and _key(found[-1][0]) == _key(entry):
            found[-1].append(entry)
        else:
            found.append([entry])
    return [_Group(tuple(group)) for group in found]


def _group(group: _Group) -> Iterator[str]:
    limits = [tuple(limit_lines(entry)) for entry in group.entries]
    shared_limits = group.common(limits)
    shared_notes = group.common([entry.notes for entry in group.entries]) if len(group.entries) > 1 else []
    costs = any(entry.costs for entry in group.entries)
    yield f"| function | computes |{' commands and cycles |' if costs else ''}\n"
    yield f"|---|---|{'---|' if costs else ''}\n"
    for entry, own in zip(group.entries, limits, strict=True):
        said = [_cell(entry.does)] if entry.does else []
        said += [f"`{_code(formula(entry))}`"] if entry.formula else []
        said += [accuracy(entry)] if entry.within else []
        said += [line for line in own if line not in shared_limits]
        said += [_cell(note).rstrip(".") for note in entry.notes if note not in shared_notes]
        cells = [f"`{entry.name}`", _sentences(said)]
        if costs:
            cells.append("; ".join(_cost(entry)))
        yield "| " + " | ".join(cells) + " |\n"
    facts = [f"{names}: {text}" for names, text in group.operands()]
    facts += [f"Limits: {'; '.join(shared_limits)}"] if shared_limits else []
    facts += [f"In place: {group.in_place()}"] if group.in_place() else []
    facts += shared_notes
    if facts:
        yield "\n"
    for fact in facts:
        yield textwrap.fill(f"- {fact}", 116, subsequent_indent="  ", break_long_words=False) + "\n"


def _sentences(parts: list[str]) -> str:
    return ". ".join(part.rstrip(".") for part in parts)


def _code(text: str) -> str:
    return text.replace("|", "\\|")


def _cell(text: str) -> str:
    """Words of a table's cell: a star that is no emphasis."""
    return text.replace("|", "\\|").replace("*", "\\*")


def _cost(entry: Entry) -> Iterator[str]:
    for cost in entry.costs:
        count = cost.commands or str(len(cost.issues))
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(cost.issues))
        many = "" if count == "1" else f"`{count}` commands " if not count.isdigit() else f"{count} commands "
        when = f"{cost.when}: " if cost.when else ""
        yield f"{when}{many}{names}, `{cost.cycles}`"


# ---- the headers ----

_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_DOCUMENTED = re.compile(r"/\*\*(?:(?!\*/).)*\*/\n(?=[\w ]+\*?\s*\b(?:okk|bm)_\w+\()", re.S)


def with_comments(header: str) -> str:
    """The text of a header with the table's words before each prototype."""
    plain = _DOCUMENTED.sub("", header)
    blank = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), plain)
    out, at = [], 0
    for found in PROTOTYPE.finditer(blank):
        if found[2] in ENTRIES:
            out += [plain[at : found.start()], _comment(ENTRIES[found[2]])]
            at = found.start()
    return "".join([*out, plain[at:]])


def _comment(entry: Entry) -> str:
    first = computes(entry)
    facts = [formula(entry)] if entry.does and entry.formula else []
    facts += [accuracy(entry)] if entry.within else []
    facts += [f"{names}: {text}" for names, text in operand_lines(entry)]
    facts += [f"Limits: {'; '.join(limit_lines(entry))}"] if limit_lines(entry) else []
    facts += [f"In place: {place_line(entry)}"] if place_line(entry) else []
    facts += entry.notes
    facts += [f"Cost: {'; '.join(cost_text(cost) for cost in entry.costs)}"] if entry.costs else []
    lines = _wrapped(first, "")
    for fact in facts:
        lines += _wrapped(fact, "- ")
    if len(lines) == 1 and len(lines[0]) + 7 <= _WIDTH:
        return f"/** {lines[0]} */\n"
    head, *rest = lines
    return "\n".join([f"/** {head}", *(f" * {line}" for line in rest), " */\n"])


def _wrapped(text: str, bullet: str) -> list[str]:
    """Lines of a comment; what would end it, or begin another, is taken apart."""
    return textwrap.wrap(
        text.replace("*/", "* /").replace("/*", "/ *"),
        _WIDTH - 4,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
