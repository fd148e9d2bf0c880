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
from firmware_sim.isa.disasm import LAYOUTS, disassemble
from firmware_sim.isa.instruction import Engine, Instruction
from firmware_sim.isa.table import BY_NAME, TABLE


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
    import difflib

    alike = difflib.get_close_matches(name, BY_NAME, 3) or [n for n in BY_NAME if name in n][:3]
    hint = f"did you mean {', '.join(alike)}?" if alike else "`tpulayer isa list` lists them"
    raise UsageError(f"there is no instruction {name}", hint=hint)


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
    data = path.read_bytes()
    try:
        return [_one(line) for line in data.decode("ascii").split()]
    except (UnicodeDecodeError, ValueError):
        pass
    if not data or len(data) % DESCRIPTOR_BYTES:
        raise UsageError(
            f"{path}: {len(data)} bytes are not a number of descriptors of {DESCRIPTOR_BYTES} bytes"
        )
    return [data[i : i + DESCRIPTOR_BYTES] for i in range(0, len(data), DESCRIPTOR_BYTES)]


def _one(text: str) -> bytes:
    data = bytes.fromhex(text)
    if len(data) != DESCRIPTOR_BYTES:
        raise ValueError(text)
    return data


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


def encoded(path: Path) -> Iterator[str]:
    """Lines {"fn", "args"} or {"seq": [...]} with what the kernel API makes of them added, as JSON texts.

    Refused calls get "refused": the message. Raises UsageError for lines of another form.
    """
    from user_layers.encode.encoder import Encoder

    folder, name = path.parent, path.name.removesuffix(".jsonl")
    if path.suffix != ".jsonl":
        raise UsageError(f"{path}: not a .jsonl file")
    with Encoder() as encoder:
        for number, line in enumerate(vectors.lines(folder, name), 1):
            try:
                calls = [(c["call"], c["args"]) for c in line["seq"]] if "seq" in line else None
                one = None if calls else (line["fn"], line["args"])
            except (KeyError, TypeError) as error:
                raise UsageError(f"{path}:{number}: neither a call nor a sequence: {error!r}") from None
            try:
                made = encoder.run(calls or [one] if one else calls or [])
            except TpulayerError as error:
                yield json.dumps({**line, "refused": error.message})
                continue
            out = {
                **line,
                "gdma": [d.hex() for d in made.gdma],
                "bd": [d.hex() for d in made.bd],
                "order": made.order(),
                "ids_before": [0, 0],
                "ids_after": list(made.after[-1][:2]) if made.after else [0, 0],
            }
            yield json.dumps(out)
