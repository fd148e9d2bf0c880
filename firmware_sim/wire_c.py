"""sdk/generated/fw_wire.h, made from the tables of wire.py and wire_structs.py.

`python -m user_layers.codegen.regenerate` writes it; a test compares.
"""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterator, Mapping

from firmware_sim import chip, wire
from firmware_sim.wire_structs import NAME_BYTES, OPERANDS, RECORDS, Member, Record

_TYPES = {
    "u64": "uint64_t",
    "u32": "uint32_t",
    "i32": "int32_t",
    "u8": "uint8_t",
    "f32": "float",
    "char": "char",
    "pad": "uint8_t",
}
_WIDTH = 110
_STEP_NOTES: dict[enum.IntEnum, str] = {kind.opcode: kind.note for kind in wire.STEP_KINDS}
_NUMBERS = (
    (
        "FW_ABI_VERSION",
        f"{wire.ABI_VERSION}",
        "4: without scales of tensors; 3: without fw_platform.watch, FW_FLAG_CALLS",
    ),
    ("FW_PROGRAM_MAGIC", f"0x{wire.PROGRAM_MAGIC:08X}u", '"FTPR"'),
    ("FW_PROGRAM_VERSION", f"{wire.PROGRAM_VERSION}", ""),
    ("FW_DIMS", f"{chip.MAX_SHAPE_DIMS}", ""),
    ("FW_NONE", f"0x{wire.NONE:X}u", ""),
    ("FW_NAME_BYTES", f"{NAME_BYTES}", ""),
    ("FW_MAX_ARGUMENTS", f"{wire.MAX_ARGUMENTS}", "bytes of a kernel's arguments"),
    ("FW_MAX_TENSORS", f"{chip.MAX_TENSORS}", "inputs, and outputs, of one layer or net"),
    ("FW_BUILTIN_OP_BASE", f"0x{wire.BUILTIN_OP_BASE:X}", "op_types of the built-in layers start here"),
    (
        "FW_FLAG_RECORD",
        f"{wire.FLAG_RECORD}u",
        "descriptors are being recorded: nothing executes, device reads are refused",
    ),
    (
        "FW_FLAG_CALLS",
        f"{wire.FLAG_CALLS}u",
        "calls of layers are announced: FW_FLUSH_CALL",
    ),
    (
        "FW_LARGER",
        f"{wire.LARGER}",
        "in the index of a tile: its maker accepts larger tiles of its inputs",
    ),
    (
        "FW_SLOT",
        f"{wire.SLOT}",
        "times the channels on each NPU that lie before a tile in the one that it is part of, added to it",
    ),
    (
        "FW_SHRINKS",
        f"{wire.SHRINKS}",
        "op_type of a GROUP whose tiles may have fewer rows and columns than they are compiled for",
    ),
    ("FW_OPERANDS", f"{OPERANDS}", "of a step"),
)


def c_header() -> str:
    """The text of fw_wire.h."""
    lines = [
        "/* Made from firmware_sim/wire.py by `python -m user_layers.codegen.regenerate`; changes are lost.",
        " *",
        " * Numbers and structs of messages and programs; fw_message.h says how they are used. */",
        "#ifndef FW_WIRE_H",
        "#define FW_WIRE_H",
        "",
        "#include <stdint.h>",
        "",
        *(f"#define {name} {value}{f' /* {note} */' if note else ''}" for name, value, note in _NUMBERS),
    ]
    for prefix, values, notes in (
        ("FW_OP", wire.Op, wire.OP_NOTES),
        ("FW_MODE", wire.RunMode, wire.RUN_MODE_NOTES),
        ("FW_TENSOR", wire.TensorKind, wire.TENSOR_KIND_NOTES),
        ("FW_STEP", wire.StepOp, _STEP_NOTES),
    ):
        lines += ["", *_enumeration(prefix, values, notes)]
    lines.append("")
    for status, note in wire.STATUS_NOTES.items():
        lines.append(f"#define FW_STATUS_{status.name} ({int(status)}){f' /* {note} */' if note else ''}")
    for record in RECORDS:
        lines += ["", *_struct(record)]
    return "\n".join([*lines, "", *_steps(), "", "#endif"]) + "\n"


def _enumeration(prefix: str, values: type[enum.IntEnum], notes: Mapping[enum.IntEnum, str]) -> Iterator[str]:
    yield "enum {"
    members = list(values)
    for value in members:
        line = f"    {prefix}_{value.name} = {int(value)}{',' if value is not members[-1] else ''}"
        note = notes.get(value, "")
        if len(line) + len(note) < _WIDTH:
            yield f"{line} /* {note} */" if note else line
        else:
            yield from _note(note)
            yield line
    yield "};"


def _note(text: str) -> Iterator[str]:
    """A comment on lines of its own, before what it is about."""
    wrapped = textwrap.wrap(text, _WIDTH - 10)
    for i, line in enumerate(wrapped):
        yield f"    {'/* ' if i == 0 else ' * '}{line}{' */' if i == len(wrapped) - 1 else ''}"


def _struct(record: Record) -> Iterator[str]:
    yield "typedef struct {"
    for m in record.members:
        yield f"    {_declaration(m)};{f' /* {m.note} */' if m.note else ''}"
    yield f"}} {record.name}; /* {_size(record)} bytes */"


def _declaration(m: Member) -> str:
    size = f"[{m.size or m.count}]" if m.size or m.count > 1 else ""
    return f"{_TYPES.get(m.kind, m.kind)} {m.name}{size}"


def _size(record: Record) -> int:
    nested = (r for m in record.members for r in RECORDS if m.kind == r.name)
    return record.form.size + sum(_size(r) for r in nested)


def _steps() -> Iterator[str]:
    """What each kind of step takes, and its operands by name."""
    yield "/* What each kind of step takes, by its opcode: calls a layer; moves one tensor to one; its"
    yield " * inputs, and its outputs, are tiles in local memory; stands in dynamic programs; in"
    yield " * their groups. */"
    yield "typedef struct {"
    yield "    const char *name;"
    yield "    uint8_t layer, moves, local_in, local_out, dynamic, grouped;"
    yield "} fw_step_kind;"
    yield "#define FW_STEP_KINDS { \\"
    for kind in wire.STEP_KINDS:
        flags = ", ".join(
            str(int(x))
            for x in (kind.layer, kind.moves, kind.local_in, kind.local_out, kind.dynamic, kind.grouped)
        )
        yield f'    [FW_STEP_{kind.opcode.name}] = {{"{kind.opcode.name}", {flags}}}, \\'
    yield "}"
    yield f"#define FW_STEP_COUNT {max(wire.StepOp) + 1}"
    yield ""
    names: dict[str, int] = {}
    for kind in wire.STEP_KINDS:
        for place, name in enumerate(kind.operands):
            assert names.setdefault(name, place) == place
    for name, place in names.items():
        yield f"#define FW_{name.upper()}(step) ((step)->operands[{place}])"
