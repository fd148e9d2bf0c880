"""Commands without an order: the compiled loop against comparing all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks.finding import Issued
from firmware_sim.checks.hazard import Hazard, common, conflicts, plainly
from firmware_sim.checks.records import READS, WRITES, Runs
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Space
from tests.support.check_batches import command, sequence_of

L = chip.LOCAL_BASE
PLACES = st.sampled_from([0, 64, 128, 1024])
SHAPES = st.sampled_from([(1, 1), (2, 16), (4, 8), (1, 40)])


def issued(k: int) -> Issued:
    return Issued("BD", k, "a command")


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Commands of both engines with waits that come: none waits for what is issued after it."""
    counts, waits = [0, 0], [0, 0]
    found: tuple[list[bytes], list[bytes]] = ([], [])
    for engine in draw(st.lists(st.integers(0, 1), min_size=1, max_size=8)):
        counts[engine] += 1
        waits[engine] = draw(st.integers(waits[engine], counts[1 - engine]))
        h, w = draw(SHAPES)
        lane = draw(st.integers(0, 3)) * chip.LOCAL_BYTES
        if engine == 0:
            shape = {f"res0_{axis}": size for axis, size in zip("nchw", (1, 2, h, w), strict=True)}
            place = {"res0_addr": L + lane + draw(PLACES), "opd0_addr": L + lane + draw(PLACES)}
            found[0].append(command("ar.copy", counts[0], waits[0], **shape, **place))
        else:
            sizes = {f"dst_{axis}size": size for axis, size in zip("nchw", (1, 2, h, w), strict=True)}
            strides = {"dst_wstride": 1, "dst_hstride": draw(st.sampled_from([w, w + 8])), "dst_cstride": 64}
            place = {"dst_start_addr_l32": L + lane + draw(PLACES), "dst_nstride": 64}
            found[1].append(command("gdma.fill", counts[1], waits[1], **sizes, **strides, **place))
    return found


@pytest.mark.skipif(not native.ready(), reason="no compiled loops here")
@given(queues())
def test_the_loop_equals_comparing_all_pairs(both: tuple[list[bytes], list[bytes]]) -> None:
    hazard = Hazard(lambda space, at: "")
    for _ in range(2):  # a batch that comes again begins with everything done
        sequence = sequence_of(*both)
        wanted: dict[int, set[int]] = {}
        for g, b in plainly(sequence):
            wanted.setdefault(g, set()).add(b)
        found = list(hazard.pairs(sequence))
        assert [g for g, _ in found] == sorted(wanted)
        assert all(b == max(wanted[g]) for g, b in found)


def test_without_loops_the_same_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bd = [command("ar.copy", 1, 0, opd0_addr=L), command("ar.copy", 2, 0, opd0_addr=L)]
    sequence = sequence_of(bd, [command("gdma.fill", 1, 0, dst_start_addr_l32=L)])
    fast = list(Hazard(lambda space, at: "").pairs(sequence))
    monkeypatch.setattr(native, "ready", lambda: False)
    assert list(Hazard(lambda space, at: "").pairs(sequence)) == fast == [(2, 1)]


@pytest.mark.parametrize(
    ("name", "fields", "rule"),
    [
        ("gdma.fill", {"dst_start_addr_l32": L}, "hazard.war"),
        ("gdma.fill", {"dst_start_addr_l32": L + 0x8000}, "hazard.waw"),
        ("gdma.copy.l2s", {"src_start_addr_l32": L + 0x8000}, "hazard.raw"),
        ("gdma.copy.l2s", {"src_start_addr_l32": L}, ""),
    ],
)
def test_a_rule_for_each_kind(name: str, fields: dict[str, int], rule: str) -> None:
    bd = [command("ar.copy", 1, 0, opd0_addr=L, res0_addr=L + 0x8000)]
    sequence = sequence_of(bd, [command(name, 1, 0, **fields)])
    found = list(Hazard(lambda space, at: "x").check(sequence, issued))
    assert [one.rule for one in found] == [rule] * bool(rule)
    if found:
        [one] = found
        assert (one.by, one.other) == (issued(1), issued(0))
        assert one.tensor == "x" and one.nbytes == 64 * 1024 and len(one.lanes) == 64
    ordered = sequence_of(bd, [command(name, 1, 1, **fields)])
    assert not list(Hazard(lambda space, at: "").check(ordered, issued))


def test_bytes_between_those_of_the_other_are_no_hazard() -> None:
    """Every second word of the same lines."""
    sizes = {"res0_n": 1, "res0_c": 1, "res0_h": 8, "res0_w": 1}
    strides = {f"{name}_h_str": 2 for name in ("res0", "opd0")} | {"short_res0_str": 3, "short_opd0_str": 3}
    bd = [command("ar.copy", 1, 0, opd0_addr=L + 0x8000, res0_addr=L, **sizes, **strides)]
    fill = {f"dst_{axis}size": size for axis, size in zip("nchw", (1, 1, 8, 1), strict=True)}
    for offset, count in ((4, 0), (8, 1)):
        gdma = [command("gdma.fill", 1, 0, dst_start_addr_l32=L + offset, **fill, dst_hstride=2)]
        sequence = sequence_of(bd, gdma)
        assert len(list(Hazard(lambda space, at: "").pairs(sequence))) == count == len(plainly(sequence))


def test_tables_in_l2_are_watched() -> None:
    lookup = command("table_lookup", 1, 0, opd1_addr=0x1000)
    for at, count in ((0x1000, 1), (0x9000, 0)):
        fill = {"direction": 2, "dst_start_addr_l32": chip.L2_BASE + at, "dst_start_addr_h8": 0}
        sizes = {f"dst_{axis}size": size for axis, size in zip("nchw", (1, 1, 1, 16), strict=True)}
        sequence = sequence_of([lookup], [command("gdma.fill", 1, 0, **fill, **sizes)])
        assert len(list(Hazard(lambda space, at: "").pairs(sequence))) == count == len(plainly(sequence))


def test_the_controller_must_wait() -> None:
    sequence = sequence_of(
        [], [command("gdma.copy.s2l", 1, 0, src_start_addr_h8=1, src_start_addr_l32=0x1000)]
    )
    found = list(
        Hazard(lambda space, at: "").controller(
            sequence,
            [
                (Space.DDR, 0x1000, 4, True, 0, 0),  # before the command was issued
                (Space.DDR, 0x1000, 4, True, 0, 1),
                (Space.DDR, 0x1000, 4, False, 0, 1),  # both read
                (Space.DDR, 0xFFC, 4, True, 0, 1),  # beside it
                (Space.LOCAL, 0x4000, 4, False, 0, 1),
            ],
            issued,
            lambda i: Issued("controller", i, ""),
        )
    )
    assert [(one.rule, one.by and one.by.id, one.nbytes) for _, one in found] == [
        ("hazard.controller", 1, 4),
        ("hazard.controller", 4, 4),
    ]
    assert "writes 4 bytes that gdma.copy.s2l reads as src" in found[0][1].what


def test_common_bytes_and_conflicts() -> None:
    one = Runs(0, READS, Space.LOCAL, 3, 0, 8)
    other = Runs(0, WRITES, Space.LOCAL, 2, 4, 8)
    assert common(one, other).tolist() == [chip.LOCAL_BYTES + x for x in range(4, 8)]
    assert not len(common(one, Runs(0, WRITES, Space.LOCAL, 4, 4, 8)))
    assert not len(common(one, Runs(0, WRITES, Space.DDR, 0, 4, 8)))
    read = sequence_of([command("ar.copy", 1, 0)], []).records[0]
    assert next(conflicts(read, read), None) is not None
    assert np.array_equal(common(read.blocks[0], read.blocks[0]), np.sort(read.blocks[0].places()))
