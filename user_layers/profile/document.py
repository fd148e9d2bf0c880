"""A profile as JSON; docs/profiling.md describes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from firmware_sim.checks.finding import Frame, Issued
from firmware_sim.chip import CLOCK_HZ
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa import timing
from user_layers import __version__
from user_layers.profile.model import ENGINES, Cause, Columns, Command, Profile
from user_layers.profile.sources import line_of
from user_layers.profile.totals import Function, Sums, Total, hottest, sums

FORMAT = "tpulayer profile"
VERSION = 1
"""Counted up when something changes its meaning or goes; new keys alone do not count."""
TOP = 20
"""Commands that take most of the critical path."""


def profile_json(profile: Profile, *, commands: bool = False) -> str:
    """The JSON text of `profile_document`; ends with a line end."""
    return f"{json.dumps(profile_document(profile, commands=commands), indent=1)}\n"


def profile_document(profile: Profile, *, commands: bool = False) -> dict[str, Any]:
    """Sums of all kinds and the commands that cost most; commands: also the columns of every command."""
    found = sums(profile)
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "tpulayer": __version__,
        "chip": {"name": "BM1684", "clock_hz": CLOCK_HZ},
        "median_error_percent": timing.MEDIAN_ERROR,
        "what": profile.what,
        "cycles": _n(profile.cycles),
        "batches": len(profile.batches),
        "requests": [
            {
                "what": one.what,
                "begin": _n(one.begin),
                "cycles": _n(one.cycles),
                "launch_cycles": _n(one.launch),
                "commands": one.last - one.first,
            }
            for one in profile.requests
        ],
        "engines": {engine.value.lower(): _engine(profile, engine) for engine in ENGINES},
        "total": total_object(found.total),
        **_tables(found),
        "top": [_command(profile.command(index)) for index in hottest(profile, TOP)],
    }
    if commands:
        document |= _every(profile)
    return document


def total_object(total: Total) -> dict[str, Any]:
    """One sum."""
    return {
        "time": _n(total.time),
        "issuing": _n(total.issuing),
        "commands": _both(total.commands),
        "busy_cycles": _both(map(_n, total.busy)),
        "stall_cycles": {cause.name.lower(): _n(cycles) for cause, cycles in total.stalls.items()},
        "ddr_read": total.ddr_read,
        "ddr_written": total.ddr_written,
        "l2_bytes": total.l2,
        "local_bytes": total.local,
        "operations": total.operations,
        "computing_cycles": _n(total.computing),
        "ddr_cycles": _n(total.moving),
        "efficiency": None if total.efficiency is None else round(total.efficiency, 4),
        "bank_conflict_cycles": _n(total.conflict),
    }


def _tables(found: Sums) -> dict[str, list[dict[str, Any]]]:
    named = {
        "layers": found.layers,
        "nodes": found.nodes,
        "operations": found.operations,
        "instructions": found.instructions,
    }
    return {
        "lines": [{**_frame(frame), "text": line_of(frame), **total_object(t)} for frame, t in found.lines],
        "functions": [_function(one) for one in found.functions],
        **{word: [{"name": name, **total_object(t)} for name, t in table] for word, table in named.items()},
    }


def _function(one: Function) -> dict[str, Any]:
    return {"file": one.file, "name": one.name, **total_object(one.own), "all": total_object(one.all)}


def _engine(profile: Profile, engine: Engine) -> dict[str, Any]:
    stalls = {cause.name.lower(): _n(cycles) for cause, cycles in profile.stalls[engine].items()}
    return {"busy_cycles": _n(profile.busy[engine]), "stall_cycles": stalls}


def _command(one: Command) -> dict[str, Any]:
    return {
        "index": one.index,
        "engine": one.engine.value,
        "id": one.id,
        "instruction": one.name,
        "start": _n(one.start),
        "cycles": _n(one.cycles),
        "time": _n(one.critical),
        "stall": _n(one.stall),
        "cause": one.cause.name.lower() if one.cause is not Cause.NONE else None,
        "waited_for": one.blocker,
        "ddr_read": one.moved.ddr_read,
        "ddr_written": one.moved.ddr_written,
        "ddr_share": round(one.bandwidth, 4),
        "efficiency": round(one.efficiency, 4),
        "bank_conflict_cycles": _n(one.conflict),
        "operands_share_banks": one.shares_banks,
        "operands": list(one.operands),
        **_site(one.issued),
    }


def _every(profile: Profile) -> dict[str, Any]:
    """The columns, and what their numbers mean."""
    c = profile.columns
    return {
        "sites": [_site(one) for one in profile.sites],
        "forms": [
            {
                "engine": form.engine.value,
                "instruction": form.name,
                "cycles": _n(form.cycles),
                **{one.name: getattr(form.moved, one.name) for one in fields(form.moved)},
                "operation": form.kind.value,
                "operations": form.operations,
                "operands_share_banks": form.shares_banks,
            }
            for form in profile.forms
        ],
        "causes": [cause.name.lower() for cause in Cause],
        "columns": {one.name: [_n(v) for v in getattr(c, one.name).tolist()] for one in fields(Columns)},
    }


def _site(issued: Issued) -> dict[str, Any]:
    return {
        "frames": [_frame(frame) for frame in issued.frames],
        "layer": issued.layer,
        "node": issued.node,
        "tile": issued.tile,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line, "function": frame.function}


def _both(values: Iterable[float]) -> dict[str, float]:
    return dict(zip(("bd", "gdma"), values, strict=True))


def _n(value: float) -> float:
    """One decimal is more than the clock knows."""
    return round(value, 1)
