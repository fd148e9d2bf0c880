"""`tpulayer isa`: the instruction table and descriptors in readable form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim import vectors
from firmware_sim.chip import DESCRIPTOR_BYTES
from firmware_sim.errors import TpulayerError, UsageError
from firmware_sim.firmware.image import Kind
from firmware_sim.instructions.disasm import LAYOUTS, disassemble
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.instructions.table import BY_NAME, TABLE
from firmware_sim.suggest import did_you_mean


def listing() -> list[dict[str, str]]:
    """Every row of the table: engine, name, status, summary, reason (why it is refused, or empty)."""
    return [
        {
            "engine": i.engine.value,
            "name": i.name,
            "status": i.status.value,
            "summary": i.summary,
            "reason": i.reason,
        }
        for i in TABLE
    ]


def listing_text() -> str:
    """The table for the terminal: a line for each instruction."""
    width = max(len(i.name) for i in TABLE)
    out = []
    for i in TABLE:
        note = "" if not i.reason else f" [{i.status.value}: {i.reason}]"
        out.append(f"{i.engine.value:5}{i.name:{width + 2}}{i.summary}{note}")
    return "\n".join(out)


def find(name: str) -> Instruction:
    """A row by name. Raises UsageError with names that are alike."""
    if name in BY_NAME:
        return BY_NAME[name]
    meant = did_you_mean(name, BY_NAME) or did_you_mean(name, [n for n in BY_NAME if name in n])
    raise UsageError(f"unknown instruction {name}{meant}", hint="`tpulayer isa list` lists them")


def shown(name: str) -> dict[str, Any]:
    """One row with the field values that select it, and the fields of its descriptor with their widths."""
    i = find(name)
    full = {f.name: 1 << f.width for f in LAYOUTS[i.engine].fields}
    return {
        "engine": i.engine.value,
        "name": i.name,
        "status": i.status.value,
        "summary": i.summary,
        "reason": i.reason,
        "selected_by": {
            field: sorted(values) for field, values in i.match.items() if len(values) < min(full[field], 32)
        },
        "fields": {f.name: f.width for f in LAYOUTS[i.engine].fields},
    }


def shown_text(name: str) -> str:
    """What `shown` says, for the terminal. Raises UsageError as `find` does."""
    row = shown(name)
    out = [f"{row['name']} ({row['engine']}): {row['summary']}", f"status: {row['status']}"]
    if row["reason"]:
        out.append(f"reason: {row['reason']}")
    out += [
        f"selected by {field} in {', '.join(map(str, values))}"
        for field, values in row["selected_by"].items()
    ]
    fields = [f"{field}:{width}" for field, width in row["fields"].items()]
    out.append("descriptor fields (name:bits), least significant first:")
    line = "  "
    for text in fields:
        if len(line) + len(text) > 100:
            out.append(line.rstrip())
            line = "  "
        line += text + " "
    return "\n".join([*out, line.rstrip()])


_FORM = 'a line is {"fn": NAME, "args": {...}} or {"seq": [{"call": NAME, "args": {...}}]}'


_HEX_TEXT = frozenset(b"0123456789abcdefABCDEF \t\r\n")


def _descriptors(source: str) -> list[bytes]:
    """Hex text, a file of raw descriptors, or a file with one hex text per line."""
    text = "".join(source.split())
    if len(text) == 2 * DESCRIPTOR_BYTES and all(c in "0123456789abcdefABCDEF" for c in text):
        return [bytes.fromhex(text)]
    path = Path(source)
    if not path.is_file():
        raise UsageError(
            f"{source[:60]} is neither a file nor {2 * DESCRIPTOR_BYTES} hex digits",
            hint="a descriptor has 128 bytes",
        )
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if data.strip() and set(data) <= _HEX_TEXT:
        return [
            _one(text, f"{path}:{number}")
            for number, line in enumerate(data.decode().splitlines(), 1)
            for text in line.split()
        ]
    if not data or len(data) % DESCRIPTOR_BYTES:
        raise UsageError(
            f"{path}: {len(data)} bytes are not a number of descriptors of {DESCRIPTOR_BYTES} bytes",
            hint=f"a file holds raw descriptors, or lines of {2 * DESCRIPTOR_BYTES} hex digits",
        )
    return [data[i : i + DESCRIPTOR_BYTES] for i in range(0, len(data), DESCRIPTOR_BYTES)]


def _one(text: str, where: str) -> bytes:
    if len(text) != 2 * DESCRIPTOR_BYTES:
        raise UsageError(f"{where}: {len(text)} hex digits; a descriptor has {2 * DESCRIPTOR_BYTES}")
    return bytes.fromhex(text)


def decoded(source: str, engine: str) -> list[dict[str, Any]]:
    """Each descriptor: a line of text and its fields that are not zero."""
    kinds = {e.value.lower(): e for e in Engine}
    if engine.lower() not in kinds:
        raise UsageError(f"engine {engine!r} does not exist", hint="bd or gdma")
    kind = kinds[engine.lower()]
    found = _descriptors(source)
    words = np.frombuffer(b"".join(found), np.uint32).reshape(-1, 32)
    return [
        {"text": text, "fields": {k: v for k, v in LAYOUTS[kind].decode(data).items() if v}}
        for text, data in zip(disassemble(kind, words), found, strict=True)
    ]


def encoded(path: Path, kind: Kind | None = None) -> Iterator[str]:
    """Lines {"fn", "args"} or {"seq": [...]} with what the kernel API makes of them added, as JSON texts.

    Refused calls get "refused": the message. Raises UsageError for lines of another form.
    """
    from user_layers.encode.encoder import Encoder

    folder, name = path.parent, path.name.removesuffix(".jsonl")
    if path.suffix != ".jsonl":
        raise UsageError(f"{path}: not a .jsonl file")
    with Encoder(kind=kind) as encoder:
        for number, line in enumerate(vectors.lines(folder, name), 1):
            calls = calls_of(line, f"{path}:{number}")
            try:
                made = encoder.run(calls)
            except TpulayerError as error:
                yield json.dumps({**line, "refused": error.message})
                continue
            out = {**line, "gdma": made.gdma, "bd": made.bd, "order": made.order}
            out |= {"ids_before": [0, 0], "ids_after": made.ids}
            if "seq" in line:
                out["seq"] = [
                    {
                        **call,
                        "gdma": [d.hex() for d in issued.gdma],
                        "bd": [d.hex() for d in issued.bd],
                        "ids_after": list(issued.ids),
                        "parallel": issued.parallel,
                    }
                    for call, issued in zip(line["seq"], made.calls, strict=True)
                ]
            yield json.dumps(out)


def calls_of(line: dict[str, Any], where: str) -> list[tuple[str, Any]]:
    """The calls of one line. Raises UsageError naming what it lacks."""
    if "seq" not in line:
        name, calls = "fn", [line]
    elif isinstance(line["seq"], list):
        name, calls = "call", line["seq"]
    else:
        raise UsageError(f"{where}: seq is not a list of calls")
    for i, call in enumerate(calls):
        part = f"{where}: call {i + 1} of the sequence" if "seq" in line else where
        if not isinstance(call, dict):
            raise UsageError(f"{part} is not an object", hint=_FORM)
        if lacks := [key for key in (name, "args") if key not in call]:
            raise UsageError(f"{part} has no {' and no '.join(lacks)}", hint=_FORM)
        if not isinstance(call[name], str):
            raise UsageError(f"{part}: {name} is {call[name]!r}, not the name of a function", hint=_FORM)
    return [(call[name], call["args"]) for call in calls]
