"""Commands about the instruction set and the kernel API's encoder."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Action(str, Enum):
    """What `tpulayer isa` does: its first word."""

    LIST = "list"
    SHOW = "show"
    DECODE = "decode"
    ENCODE = "encode"


def isa(
    action: Annotated[
        Action,
        typer.Argument(help="list; show NAME; decode HEX_OR_FILE; encode FILE.jsonl", metavar="ACTION"),
    ],
    what: Annotated[
        str | None, typer.Argument(help="An instruction, descriptors, or a file of calls.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="decode: bd or gdma.")] = "bd",
    out: Annotated[Path | None, typer.Option("--out", help="encode: write to this file.")] = None,
    firmware: Annotated[str | None, typer.Option("--firmware", help="encode: native or arm.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The instructions of the chip: list them, show one, read descriptors, or encode calls."""
    import json as text

    from firmware_sim.errors import UsageError
    from firmware_sim.firmware.image import kind_named
    from user_layers.encode import isa as tool

    if action is Action.LIST and what is not None:
        raise UsageError(
            f"isa list takes no further word, not {what!r}", hint="isa show NAME shows one instruction"
        )
    if action is Action.LIST:
        typer.echo(text.dumps({"instructions": tool.listing()}) if json else tool.listing_text())
        return
    if what is None:
        raise UsageError(f"isa {action.value} needs one more word", hint="see tpulayer isa --help")
    if action is Action.SHOW:
        typer.echo(text.dumps(tool.shown(what)) if json else tool.shown_text(what))
    elif action is Action.DECODE:
        found = tool.decoded(what, engine)
        typer.echo(text.dumps({"descriptors": found}) if json else "\n".join(d["text"] for d in found))
    else:
        kind = kind_named(firmware, "--firmware") if firmware is not None else None
        lines = tool.encoded(Path(what), kind)
        if out is None:
            for line in lines:
                typer.echo(line)
        else:
            from user_layers.files import write_atomic

            write_atomic(out, "\n".join(lines) + "\n")


def okk(
    name: Annotated[
        str | None, typer.Argument(help="A function of okk.h or bm_atomic.h, with or without its prefix.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """A function of the kernel API: what it computes, takes, refuses and costs. Without a name: all."""
    import json as text

    from user_layers.kernel_api import reference

    if name is None:
        typer.echo(text.dumps({"functions": reference.listing()}) if json else reference.listing_text())
        return
    entry = reference.find(name)
    typer.echo(text.dumps(reference.json_of(entry)) if json else reference.text_of(entry))


def conformance(
    folder: Annotated[Path, typer.Argument(help="A folder of vectors: okk_encode.jsonl, exec/, ...")],
    firmware: Annotated[str | None, typer.Option("--firmware", help="What encodes: native or arm.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Run a folder of test vectors; exit code 1 when any fails."""
    import json as text

    from firmware_sim.firmware.image import kind_named
    from user_layers.encode.conformance import run

    kind = kind_named(firmware, "--firmware") if firmware is not None else None
    report = run(folder, lambda line: print(line, file=sys.stderr), kind)
    typer.echo(text.dumps(report.as_json()) if json else report.text())
    return 1 if report.failed else 0
