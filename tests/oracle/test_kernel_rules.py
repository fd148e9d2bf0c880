"""Calls that break the guide's rules, asked of the vendor's encoder and model: golden/kernel_rules.jsonl.

The table is what tests/firmware/test_kernel_rules.py holds this project's own answers against;
`--update-golden` writes it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.isa.footprint import Space
from firmware_sim.wire import CommandGroup
from tests.oracle.client import Oracle, Refused, Unavailable
from tests.oracle.streams import in_order
from tests.oracle.test_oracle_encoder import Vendor
from tests.support.isa_cases import LANE, noise
from tests.support.kernel_rules import broken, checksum


def _outcome(oracle: Oracle, answer: Any) -> dict[str, Any]:
    if isinstance(answer, str):
        return {"vendor": "encoder"}
    ((gdma, bd, _, _),) = answer
    group = CommandGroup(*(b"".join(bytes.fromhex(d) for d in stream) for stream in (bd, gdma)))
    local, ddr = noise(1)
    before = [(Space.LOCAL, i * LANE, lane) for i, lane in enumerate(local)] + [(Space.DDR, 0, ddr)]
    try:
        answered = oracle.ask(in_order(group), before, [(s, at, len(data)) for s, at, data in before])
    except (Refused, Unavailable):
        return {"vendor": "model"}
    return {"vendor": "executes", "memory": checksum(answered.after)}


def test_what_the_vendor_makes_of_broken_rules(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    try:
        vendor = Vendor(tmp_path)
        oracle = Oracle()
    except Unavailable as error:
        pytest.skip(str(error))
    calls = list(broken())
    with oracle:
        answers = vendor.ask([[call[1:]] for call in calls])
        rows = [
            {"rule": rule, "fn": function, "args": args, **_outcome(oracle, answer)}
            for (rule, function, args), answer in zip(calls, answers, strict=True)
        ]
    vendor.close()
    golden("kernel_rules.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
