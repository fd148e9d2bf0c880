"""Profiles: every cycle of both engines has one owner, and the times are those that the device counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.checks.finding import Frame, Issued
from firmware_sim.chip import BANK_BYTES, LOCAL_BASE
from firmware_sim.device.trace import TracedBatch, TracedRequest
from firmware_sim.instructions.example import example, row_of
from firmware_sim.instructions.instruction import Engine, Instruction
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa import timing
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.check_batches import command, words
from tests.support.examples import examples
from user_layers.profile.model import ENGINES, Cause, Profile
from user_layers.profile.operations import computed
from user_layers.profile.totals import hottest, sums
from user_layers.profile.trace import profile_of
from user_layers.report.roofline import PEAKS

LOAD, STORE, FILL = "gdma.copy.s2l", "gdma.copy.l2s", "gdma.fill"
Steps = list[tuple[str, int, dict[str, int]]]
SITES = tuple(Issued("", 0, "", (Frame("kernel.c", line, "run"),)) for line in range(1, 5))


def batch(commands: Steps, *, streamed: bool = False) -> TracedBatch:
    """Commands in the order of issue: instruction, the other engine's id that it waits for, fields. Each is
    issued by another of SITES in turn."""
    found: dict[Engine, list[bytes]] = {engine: [] for engine in ENGINES}
    sites: dict[Engine, list[int]] = {engine: [] for engine in ENGINES}
    for i, (name, wait, fields) in enumerate(commands):
        engine = Engine.GDMA if name.startswith("gdma") else Engine.BD
        found[engine].append(command(name, len(found[engine]) + 1, wait, **fields))
        sites[engine].append(i % len(SITES))
    return TracedBatch(
        words(found[Engine.BD]),
        words(found[Engine.GDMA]),
        streamed,
        0,
        {engine: np.array(one, np.uint32) for engine, one in sites.items()},
    )


def request(*batches: TracedBatch, cycles: float = 0.0) -> TracedRequest:
    return TracedRequest("kernel run", batches, SITES, cycles)


def counted(*requests: TracedRequest) -> list[float]:
    """The device's count after each request."""
    tpu = Tpu(Memory.create(ddr_bytes=64 << 20))
    found = []
    for one in requests:
        for part in one.batches:
            tpu.restart()
            tpu.execute(part.bd, part.gdma, streamed=part.streamed)
        tpu.end_launch()
        found.append(tpu.cycles)
    return found


@st.composite
def streams(draw: st.DrawFn) -> TracedBatch:
    """Commands of random sizes that wait for any that were issued before."""
    done = dict.fromkeys(ENGINES, 0)
    commands = []
    for _ in range(draw(st.integers(0, 12))):
        name = draw(st.sampled_from(["ar.mul", "ar.div", "md_sum", "sort", LOAD, STORE, FILL]))
        engine = Engine.GDMA if name.startswith("gdma") else Engine.BD
        that = Engine.BD if engine is Engine.GDMA else Engine.GDMA
        size = draw(st.sampled_from([1, 3, 16]))
        own = {"dst_hsize": size, "src_hsize": size} if engine is Engine.GDMA else {}
        own |= {"res0_n": size, "opd0_n": size} if name in ("ar.mul", "ar.div") else {}
        commands.append((name, draw(st.integers(0, done[that])), own))
        done[engine] += 1
    return batch(commands, streamed=draw(st.booleans()))


def owned(profile: Profile, number: int) -> Fraction:
    """All cycles of an engine, added up exactly; each stretch begins where the one before ended."""
    c, total = profile.columns, Fraction(0)
    for i, part in enumerate(profile.batches):
        mine = np.nonzero((c.batch == i) & (c.engine == number))[0].tolist()
        now = part.begin
        for k in mine:
            assert c.start[k] >= now and c.stall[k] == c.start[k] - now
            assert (c.cause[k] == Cause.NONE) == (c.stall[k] == 0)
            total += Fraction(c.start[k]) - Fraction(now) + Fraction(c.end[k]) - Fraction(c.start[k])
            now = float(c.end[k])
        assert part.idle[number] == part.end - now >= 0
        total += Fraction(part.end) - Fraction(now)
    for one in profile.requests:
        last = max((b.end for b in profile.batches if profile.requests[b.request] is one), default=one.begin)
        total += Fraction(one.end) - Fraction(last)
    return total


@examples(150)
@given(st.lists(st.lists(streams(), max_size=3), min_size=1, max_size=3))
def test_every_cycle_has_one_owner_and_the_sum_is_the_devices(made: list[list[TracedBatch]]) -> None:
    requests = [one for one in (request(*batches) for batches in made) if len(one)]
    profile = profile_of([request(), *requests, request(batch([]))])
    assert [one.end for one in profile.requests] == counted(*requests)
    for number, engine in enumerate(ENGINES):
        assert owned(profile, number) == Fraction(profile.cycles)
        both = profile.busy[engine] + sum(profile.stalls[engine].values())
        assert both == pytest.approx(profile.cycles, rel=1e-12)
    # the critical path has an owner for each cycle too
    c = profile.columns
    for one in profile.requests:
        time = c.time[one.first : one.last].sum() + one.launch
        assert time == pytest.approx(one.cycles, rel=1e-12)


def test_what_a_command_waits_for() -> None:
    parts: Steps
    parts = [(LOAD, 0, {}), ("ar.mul", 1, {}), (STORE, 1, {}), ("ar.add", 0, {})]
    profile = profile_of([request(batch(parts, streamed=True))])
    load, mul = profile.command(2), profile.command(0)
    assert (load.name, load.start, load.cause) == (LOAD, 0, Cause.NONE)
    assert (mul.stall, mul.cause, mul.blocker) == (load.cycles, Cause.DDR, load.index)
    store, add = profile.command(3), profile.command(1)
    assert (store.stall, store.cause, store.blocker) == (mul.cycles, Cause.ENGINE, mul.index)
    assert (add.stall, add.cause, add.start) == (0, Cause.NONE, mul.end)
    assert profile.batches[0].idle[0] == pytest.approx(store.cycles - add.cycles)
    assert [one.critical for one in (load, mul, store, add)] == [
        pytest.approx(one.cycles) for one in (load, mul, store)
    ] + [0]
    assert load.moved.ddr_read == load.moved.local_written == 65536
    assert store.moved.ddr_written == store.moved.local_read == 65536
    assert 0.9 < load.bandwidth < 1 and 0.4 < mul.efficiency < 0.6
    assert load.issued.frames[0].line == 1 and mul.issued.frames[0].line == 2


def test_issued_commands_wait_for_the_controller() -> None:
    profile = profile_of([request(batch([("ar.mul", 0, {})] * 3))])
    issue = timing.issue()
    commands = list(profile.commands())
    assert [one.cause for one in commands] == [Cause.CONTROLLER] * 3
    assert [one.stall for one in commands] == pytest.approx([issue, issue - 32, issue - 32])
    # what decides the end is the issue of all three, and the last one's run
    assert [one.critical for one in commands] == pytest.approx([issue, issue, issue + 32])
    assert profile.stalls[Engine.GDMA][Cause.BATCH] == pytest.approx(3 * issue + 32)
    assert profile.stalls[Engine.BD][Cause.LAUNCH] == timing.launch(0)


def test_banks_that_both_engines_touch() -> None:
    names = enumerate(("res0", "opd0", "opd1"))
    far = {f"{name}_addr": LOCAL_BASE + (4 + i) * BANK_BYTES for i, name in names}
    long = {"res0_n": 16, "opd0_n": 16}
    parts: Steps = [(LOAD, 0, {}), (LOAD, 0, {}), ("ar.div", 1, long), (LOAD, 0, {}), ("ar.mul", 3, far)]
    parts += [(LOAD, 2, {})]
    profile = profile_of([request(batch(parts, streamed=True))])
    near, apart, *loads = profile.commands()
    # the quotient runs from the end of the first copy on, beside the second and the third one
    assert near.start == loads[0].end and near.end > loads[2].end
    assert [one.conflict for one in loads] == [0, loads[1].cycles, loads[2].cycles, 0]
    assert near.conflict == pytest.approx(loads[1].cycles + loads[2].cycles) and apart.conflict == 0
    assert near.shares_banks and not apart.shares_banks


def test_an_empty_run() -> None:
    profile = profile_of([])
    assert profile.cycles == 0 and not list(profile.commands()) and profile.what == "nothing"
    assert "nothing" in repr(profile)
    with pytest.raises(IndexError):
        profile.command(0)


@pytest.mark.parametrize("instruction", TABLE, ids=lambda one: one.name)
def test_operations_at_their_peak_take_no_longer(instruction: Instruction) -> None:
    """But where the clock has fewer multiplications than are counted, or no figure of a chip."""
    if instruction.semantics is None:
        return
    row = row_of(instruction.engine, example(instruction))
    kind, operations = computed(instruction, row, instruction.semantics.operands(row))
    if instruction.name not in ("conv.winograd_fp32", "matmul2"):
        assert operations / PEAKS[kind] <= instruction.semantics.cycles(row).chip * (1 + 1e-9)
    assert operations > 0 or instruction.engine is Engine.GDMA


def test_requests_follow_one_another() -> None:
    one = request(batch([(LOAD, 0, {}), ("ar.mul", 1, {})]))
    profile = profile_of([one, one])
    first, second = profile.requests
    assert first.end == second.begin and second.cycles == pytest.approx(first.cycles)
    assert (first.first, first.last, second.last) == (0, 2, 4)
    assert len(profile.forms) == 2 and len(profile.sites) == 4
    assert all(a <= b for a, b in pairwise(profile.columns.batch.tolist()))


def test_sums_of_all_kinds_are_the_whole() -> None:
    frames = Frame("kernel.c", 9, "inner"), Frame("kernel.c", 20, "outer")
    sites = (
        Issued("", 0, "", frames, "TPU(A)", "a"),
        Issued("", 0, "", frames[1:], "TPU(B)", "b", "2 of 2"),
        Issued("", 0, "", (), "TPU(B)", "c"),
    )
    part = batch([(LOAD, 0, {}), ("ar.mul", 1, {}), (STORE, 1, {})] * 2)
    issued = {Engine.BD: np.array([0, 1], np.uint32), Engine.GDMA: np.array([2, 1, 0, 0], np.uint32)}
    one = TracedRequest("kernel run", (replace(part, issued=issued),), sites, 0)
    profile = profile_of([one, request(part)])
    found = sums(profile)
    assert found.total.time == pytest.approx(profile.cycles - sum(r.launch for r in profile.requests))
    assert found.total.commands == (4, 8) and found.total.busy == pytest.approx(tuple(profile.busy.values()))
    for table in (found.lines, found.layers, found.nodes, found.operations, found.instructions):
        assert sum(total.time for _, total in table) == pytest.approx(found.total.time)
        assert sum(total.ddr_read for _, total in table) == found.total.ddr_read == 4 * 65536
        assert sum(total.stalled for _, total in table) == pytest.approx(found.total.stalled)
        assert [t.time for _, t in table] == sorted((t.time for _, t in table), reverse=True)
    assert {name for name, _ in found.nodes} == {"a", "b", "c", "(none)"}
    lines = dict(found.lines)
    assert sum(lines[frames[0]].commands) == 3 and sum(found.through[frames[1]].commands) == 5
    outer = next(f for f in found.functions if f.name == "outer")
    assert sum(outer.own.commands) == 2 and outer.all == found.through[frames[1]]
    assert (
        dict(found.instructions)[LOAD].bound == "DDR"
        and dict(found.instructions)["ar.mul"].bound == "computing"
    )
    first = hottest(profile, 3)
    assert [profile.columns.time[i] for i in first] == sorted(profile.columns.time, reverse=True)[:3]


def test_layers_of_nets_that_the_firmware_runs() -> None:
    sites = (Issued("", 0, "", (), "tested (TPU_DOUBLE)"), Issued("", 0, "", (), "TPU_ADD", "a (b)"))
    part = replace(batch([("ar.mul", 0, {})] * 2), issued={e: np.arange(2, dtype=np.uint32) for e in ENGINES})
    profile = profile_of([TracedRequest("the dynamic network", (part,), sites, 0)])
    assert [(one.layer, one.node) for one in profile.sites] == [
        ("TPU_DOUBLE", "tested"),
        ("TPU_ADD", "a (b)"),
    ]


def test_a_request_that_failed_is_left_out() -> None:
    """How far its last batch came nobody knows."""
    good = request(batch([("ar.mul", 0, {})]))
    wrong = replace(request(batch([("ar.mul", 0, {}), ("local_arrange", 0, {})])), failed="it is refused")
    assert len(profile_of([wrong, good]).columns) == 1
