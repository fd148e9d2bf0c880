"""bm_atomic.h encodes what the vendor's encoder encodes, and refuses what it refuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from firmware_sim import wire
from tests import firmware_harness as fh
from tests.golden_vectors import lines
from user_layers.encode.prototypes import functions

_OTHER_ENGINES = {"bm_atomic_sort", "bm_atomic_gather_data"}
"""Refused where the vectors were captured, because nothing could be captured; here they have a form."""


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def test_every_atomic_function_has_golden_encodings() -> None:
    known = {e["fn"] for e in lines("bm_atomic")}
    declared = {name for name in functions() if name.startswith("bm_atomic_")}
    assert declared - known == _OTHER_ENGINES


def test_encodings(firmware: fh.Harness) -> None:
    done: Counter[str] = Counter()
    for e in lines("bm_atomic"):
        reply = firmware.okk(e["fn"], e["args"])
        assert reply.status == 0, (e["fn"], e["args"], reply.text)
        assert [d.hex() for d in firmware.bd] == e["bd"], (e["fn"], e["args"])
        assert [d.hex() for d in firmware.gdma] == e["gdma"], (e["fn"], e["args"])
        done[e["fn"]] += 1
    assert len(done) == 26
    assert done.total() == 255


def test_refused_calls(firmware: fh.Harness) -> None:
    refused = [e for e in lines("bm_atomic_rejected") if e["fn"] not in _OTHER_ENGINES]
    assert refused
    for e in refused:
        reply = firmware.okk(e["fn"], e["args"])
        assert reply.status == wire.Status.ASSERT, e
        assert reply.text.startswith(f"{e['fn']}: ")
