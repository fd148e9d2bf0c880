"""The whole table, and one function of it for a reader."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from firmware_sim.errors import UsageError
from firmware_sim.isa import timing
from firmware_sim.suggest import did_you_mean
from user_layers.kernel_api import atomic, atomic_nn, fixed, fp32, moves, special, system, window
from user_layers.kernel_api.entry import Cost, Entry, Family, Level, Operand
from user_layers.kernel_api.prototypes import Function, functions

FAMILIES: tuple[Family, ...] = (
    *system.FAMILIES,
    *moves.FAMILIES,
    *fp32.FAMILIES,
    *special.FAMILIES,
    *fixed.FAMILIES,
    *window.FAMILIES,
    *atomic_nn.FAMILIES,
    *atomic.FAMILIES,
)
ENTRIES: dict[str, Entry] = {entry.name: entry for family in FAMILIES for entry in family.entries}
_PREFIXES = ("okk_bdc_", "okk_gdma_", "okk_bdc_fixed_point_packed_", "okk_", "bm_atomic_", "bm_local_", "bm_")


@lru_cache(maxsize=1)
def _short() -> dict[str, str]:
    """Names without their prefixes; where two are the same, that of the earlier prefix."""
    found: dict[str, str] = {}
    for prefix in _PREFIXES:
        for name in ENTRIES:
            if name.startswith(prefix):
                found.setdefault(name.removeprefix(prefix), name)
    return found


def find(name: str) -> Entry:
    """A function's row, by its name with or without a prefix. Raises UsageError with a name that is alike."""
    full = name if name in ENTRIES else _short().get(name)
    if full is not None:
        return ENTRIES[full]
    parts = sorted((known for known in ENTRIES if name and name in known), key=len)[:4]
    meant = f"; did you mean {', '.join(parts)}?" if parts else did_you_mean(name, (*_short(), *ENTRIES))
    raise UsageError(f"the kernel API has no function {name}{meant}", hint="`tpulayer okk` lists them")


def signature(function: Function) -> str:
    """The prototype in one line, with types."""
    parameters = ", ".join(f"{t}{'' if t.endswith('*') else ' '}{n}" for t, n in function.parameters)
    return f"{function.result} {function.name}({parameters or 'void'});"


def operand_text(operand: Operand) -> str:
    """Element, place and address of an operand in words, without its name."""
    out = f"{operand.role}, {operand.element}"
    if operand.extent:
        out += f" [{operand.extent}]"
    out += f" in {operand.place}, {operand.layout.value}"
    if operand.unit > 1:
        out += f", at multiples of {operand.unit}"
        if operand.unit_without_strides:
            out += f" ({operand.unit_without_strides} without strides)"
    return f"{out}; {operand.note}" if operand.note else out


def operand_lines(entry: Entry) -> list[tuple[str, str]]:
    """(names, words), operands of which the same is said together."""
    found: dict[str, list[str]] = {}
    for operand in entry.operands:
        text = operand_text(operand)
        found.setdefault(text, []).append(operand.name)
    return [(", ".join(names), text) for text, names in found.items()]


def limit_lines(entry: Entry) -> list[str]:
    """What is checked, in words; each names what happens where it is not an error."""
    out = [] if entry.extents is None else [entry.extents.said()]
    for limit in entry.limits:
        if not limit.hidden:
            out.append(
                limit.said() + (f" (else {limit.level.value})" if limit.level is Level.WARNING else "")
            )
    return out


def place_line(entry: Entry) -> str:
    """Which operands the result may be, and which it must not be."""
    out = []
    if entry.in_place:
        out.append(f"{entry.operands[0].name} may be {' or '.join(entry.in_place)}")
    out += [f"{a} is not {b} (else {entry.apart_level.value})" for a, b in entry.apart]
    return "; ".join(out)


def cost_text(cost: Cost) -> str:
    """Commands and cycles in words."""
    count = cost.commands or str(len(cost.issues))
    commands = "1 command" if count == "1" else f"{count} commands"
    when = f"{cost.when}: " if cost.when else ""
    return f"{when}{commands} ({', '.join(dict.fromkeys(cost.issues))}), {cost.cycles} cycles"


def computes(entry: Entry) -> str:
    """What the function does: words, or its formula."""
    return entry.does or formula(entry)


def formula(entry: Entry) -> str:
    """The result and its formula; "" where it has none."""
    result = f"{entry.operands[0].name} = " if entry.operands else ""
    return result + entry.formula if entry.formula else ""


def accuracy(entry: Entry) -> str:
    """How near the result is to the formula; "" where that is nothing to say."""
    if not entry.within:
        return ""
    return f"within {entry.within:g} of {entry.within_of}"


def listing() -> list[dict[str, str]]:
    """Every function: its name, family, and what it computes."""
    return [
        {"name": entry.name, "family": family.title, "computes": computes(entry)}
        for family in FAMILIES
        for entry in family.entries
    ]


def listing_text() -> str:
    """The functions for the terminal, family by family."""
    out = []
    for family in FAMILIES:
        out += ["", family.title, *(f"  {e.name:52}{computes(e)}" for e in family.entries)]
    return "\n".join(out[1:])


def text_of(entry: Entry) -> str:
    """One function for the terminal."""
    out = [signature(functions()[entry.name]), "", f"  {computes(entry)}"]
    if entry.does and entry.formula:
        out.append(f"  {formula(entry)}")
    for label, lines in _sections(entry):
        out += ["", f"{label}:", *(f"  {line}" for line in lines)]
    return "\n".join(out)


def _sections(entry: Entry) -> list[tuple[str, list[str]]]:
    place = place_line(entry)
    found = [
        ("operands", [f"{names}: {text}" for names, text in operand_lines(entry)]),
        ("limits", limit_lines(entry)),
        ("in place", [place] if place else []),
        ("notes", [*([accuracy(entry)] if entry.within else []), *entry.notes]),
        (f"costs ({timing.modelled()})", [cost_text(cost) for cost in entry.costs]),
    ]
    return [(label, lines) for label, lines in found if lines]


def json_of(entry: Entry) -> dict[str, Any]:
    """One function as JSON holds it."""
    return {
        "name": entry.name,
        "header": functions()[entry.name].header,
        "prototype": signature(functions()[entry.name]),
        "computes": entry.does,
        "formula": entry.formula,
        "within": entry.within,
        "operands": [
            {
                "name": o.name,
                "role": o.role,
                "element": o.element,
                "memory": o.place,
                "layout": o.layout.value,
                "address_unit": o.unit,
                "extent": o.extent,
                "note": o.note,
            }
            for o in entry.operands
        ],
        "limits": limit_lines(entry),
        "result_may_be": list(entry.in_place),
        "apart": [list(pair) for pair in entry.apart],
        "notes": list(entry.notes),
        "costs": [
            {
                "when": c.when,
                "issues": list(c.issues),
                "commands": c.commands or str(len(c.issues)),
                "cycles": c.cycles,
            }
            for c in entry.costs
        ],
    }
