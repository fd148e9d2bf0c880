"""Batches that come again: made ready once, executed and checked as if each were new."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import again, chip
from firmware_sim.again import Again, Ready
from firmware_sim.batch import Batch, batch_of
from firmware_sim.checks.finding import Issued
from firmware_sim.checks.init import Init
from firmware_sim.checks.sequence import Records
from firmware_sim.checks.shadow import Shadow
from firmware_sim.errors import DeviceError
from firmware_sim.instructions.loops import native
from firmware_sim.isa.footprint import Space
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.check_batches import Caught, command, words
from tests.support.examples import examples

L = chip.LOCAL_BASE
DDR = {"src_start_addr_h8": 1, "dst_start_addr_h8": 1}
PLACES = (0, 4096, 8192)
loops = pytest.mark.skipif(not native.ready(), reason="no compiled loops here")


def queues(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Commands of both engines on a few places, all in order: each waits for what was issued before."""
    bd: list[bytes] = []
    gdma: list[bytes] = []

    def place() -> int:
        return draw(st.sampled_from(PLACES))

    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(["load", "store", "ar.add", "ar.copy", "md_scalar.mul", "md_sfu.rsqrt"]))
        n, c, h, w = 1, draw(st.sampled_from([1, 3, 64, 70])), 2, draw(st.sampled_from([1, 5, 32]))
        size = dict(zip("nchw", (n, c, h, w), strict=True))
        if kind in ("load", "store"):
            sizes = {f"{side}_{axis}size": count for side in ("src", "dst") for axis, count in size.items()}
            system = draw(st.sampled_from([0, 0x4_0000]))
            to, start = (L + place(), system) if kind == "load" else (system, L + place())
            name = f"gdma.copy.{'s2l' if kind == 'load' else 'l2s'}"
            high = {"src_start_addr_h8" if kind == "load" else "dst_start_addr_h8": 1}
            at = {"src_start_addr_l32": start, "dst_start_addr_l32": to}
            gdma.append(command(name, len(gdma) + 1, len(bd), **sizes, **high, **at))
            continue
        shape = {f"{x}_{axis}": count for x in ("res0", "opd0") for axis, count in size.items()}
        at = {f"{x}_addr": L + place() for x in ("res0", "opd0", "opd1")}
        bd.append(command(kind, len(bd) + 1, len(gdma), **shape, **at))
    return bd, gdma


batches = st.composite(queues)()


@loops
@examples(60)
@given(data=st.data(), start=st.floats(0, 1e9), issue=st.sampled_from([0.0, 2007.5]))
def test_the_loop_of_times_is_the_plain_way(data: st.DataObject, start: float, issue: float) -> None:
    counts, rows = [0, 0], []
    for engine in data.draw(st.lists(st.integers(0, 1), max_size=30)):
        counts[engine] += 1
        rows.append((engine, data.draw(st.integers(0, counts[1 - engine])), data.draw(st.floats(0, 1e6))))
    engines, waits = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    index, cycles = np.arange(len(rows)), np.array([row[2] for row in rows], np.float64)
    made = Ready((), engines, index, waits, cycles, index)
    for fast, slow in zip(made.ends(start, issue), ends_plainly(made, start, issue), strict=True):
        assert fast.tolist() == slow


def ends_plainly(made: Ready, start: float, issue: float) -> tuple[list[float], list[float]]:
    """Each command begins when its engine is free, what it waits for is done, and it is issued."""
    ends: tuple[list[float], list[float]] = ([start], [start])
    issued = start
    for engine, wait, cycles in zip(made.engine, made.wait, made.cycles, strict=True):
        own, other = ends[engine], ends[1 - engine]
        issued += issue
        own.append(max(own[-1], other[wait], issued) + float(cycles))
    return ends


def after(tpu: Tpu) -> tuple[Any, ...]:
    return tpu.bd_id, tpu.gdma_id, tpu.cycles, tpu._read


@examples(40)
@given(batches, st.booleans())
def test_each_time_is_as_the_first(batch: tuple[list[bytes], list[bytes]], streamed: bool) -> None:
    """Memory, ids, time and what is counted of DDR, with other data each time."""
    bd, gdma = map(words_or_none, batch)
    tpu, caught = Tpu(Memory.create(ddr_bytes=1 << 20)), Caught()
    tpu.watcher = caught
    data = np.random.default_rng(0)
    for n in range(5):
        new = Tpu(Memory.create(ddr_bytes=1 << 20))
        new.cycles = tpu.cycles
        some = data.standard_normal((2, 0x2_0000)).astype(np.float32)
        for one in (tpu, new):
            one.restart()
            one.end_launch()
            one.cycles = 1000.0 * n
            one.memory.ddr[: some[0].nbytes] = some[0].view(np.uint8)
            one.memory.local[:, :16384] = some[1].view(np.uint8)[: 64 * 16384 // 2].repeat(2).reshape(64, -1)
            one.execute(bd, gdma, streamed=streamed)
        assert after(tpu) == after(new)
        assert np.array_equal(tpu.memory.local, new.memory.local)
        assert np.array_equal(tpu.memory.ddr, new.memory.ddr)
    assert len({id(one) for one in caught.batches[1:]}) == 1
    assert (caught.batches[-1] in tpu._ready) is native.ready()


def words_or_none(commands: list[bytes]) -> Any:
    return words(commands) if commands else np.zeros((0, 32), np.uint32)


@loops
def test_errors_are_those_of_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of time, and memory that runs out, with the command that it is and what is done before."""
    bd = words([command("ar.copy", k, 0, opd0_addr=L, res0_addr=L + 0x8000) for k in (1, 2, 3)])
    none = words_or_none([])
    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    for _ in range(3):
        tpu.restart()
        tpu.execute(bd, none)
    made = next(iter(tpu._ready.values()))
    two = float(made.cycles[:2].sum()) / chip.CLOCK_HZ
    texts = []
    for one in (tpu, Tpu(Memory.create(ddr_bytes=1 << 20))):
        one.restart()
        one.allow(two)
        with pytest.raises(DeviceError, match="takes more than") as error:
            one.execute(bd, none, streamed=True)
        texts.append((str(error.value), one.bd_id))
        one.allow(1e6)
    assert texts[0] == texts[1]
    monkeypatch.setattr(native, "run", lambda entries, count: 1)
    tpu.restart()
    with pytest.raises(DeviceError, match=r"BD command 2 .*no memory"):
        tpu.execute(bd, none)
    assert tpu.bd_id == 1


def test_what_is_kept_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "_MOST", 4)
    known, none = Again(), words_or_none([])

    def ask(place: int, count: int = 2) -> Batch:
        bd = words([command("ar.copy", k + 1, 0, res0_addr=L + place) for k in range(count)])
        return known.batch(bd, none, 0, 0, None)

    assert not ask(0).again
    first = ask(0)
    assert first.again and ask(0) is first
    for place in (128, 256):
        ask(place)
        assert ask(place).again
    assert ask(0) is not first  # the oldest had to go
    ask(512, 5)
    assert not ask(512, 5).again  # more than are kept


def issued(k: int) -> Issued:
    return Issued("BD", k, f"command {k}")


def everything(shadow: Shadow) -> Any:
    local = np.concatenate([lane * chip.LOCAL_BYTES + np.arange(12288) for lane in (0, 1, 2, 5, 63)])
    return shadow.written(Space.LOCAL, local).tolist(), shadow.unwritten(0, 0x8_0000).tolist()


ranges = st.tuples(st.booleans(), st.sampled_from([0, 0x100, 0x4_0000]), st.sampled_from([64, 0x4_0000]))
order = st.lists(st.integers(0, 2), min_size=1, max_size=3)


@examples(40)
@given(
    st.lists(batches, min_size=1, max_size=3),
    st.lists(st.tuples(order, st.lists(ranges, max_size=2), st.booleans()), min_size=3, max_size=8),
)
def test_what_is_left_out_would_find_nothing(
    given_: list[tuple[list[bytes], list[bytes]]],
    requests: list[tuple[list[int], list[tuple[bool, int, int]], bool]],
) -> None:
    """Requests of a few batches, between which DDR is written and handed out anew: the same is found with
    batches that are remembered as with others, and the same is written afterwards."""
    some = [batch_of(*map(words_or_none, one)) for one in given_]
    kept = [replace(one, again=True) for one in some]
    sides = [(Init(shadow := Shadow(), lambda *_: ""), shadow, Records(), one) for one in (some, kept)]
    for which, changes, ask in requests:
        told = []
        for init, shadow, records, these in sides:
            for write, start, nbytes in changes:
                if write:
                    shadow.write(Space.DDR, start, nbytes)
                else:
                    shadow.clear_range(start, nbytes)
            init.begin()
            found: list[Any] = []
            for k in which:
                batch = these[k % len(these)]
                found += [
                    (f.rule, f.by, f.address, f.nbytes)
                    for f in init.check(records.sequence(batch), batch, issued)
                ]
            found += [(one.ranges.tolist(), one.finding) for one in init.stored()]
            if ask:
                init.settle()
                found.append(everything(shadow))
            found.append(shadow.unwritten(0, 0x8_0000).tolist())
            told.append(found)
        assert told[0] == told[1]


LINE = {
    f"{side}_{axis}size": n for side in ("src", "dst") for axis, n in zip("nchw", (1, 1, 1, 32), strict=True)
}
LOAD = command("gdma.copy.s2l", 1, 0, **LINE, src_start_addr_h8=1, src_start_addr_l32=0, dst_start_addr_l32=L)
STORE = {"dst_start_addr_h8": 1, "dst_start_addr_l32": 0x1000}


class Requests:
    """The check of requests of batches that come again."""

    def __init__(self, *queues: list[bytes]) -> None:
        self.shadow = Shadow()
        self.init = Init(self.shadow, lambda *_: "")
        self._records = Records()
        plain = [batch_of(words_or_none([]), words(gdma)) for gdma in queues]
        self._batches = [replace(one, again=True) for one in plain]

    def __call__(self, *which: int) -> list[list[list[int]]]:
        """What is stored that must not be read."""
        self.init.begin()
        for k in which:
            assert not list(
                self.init.check(self._records.sequence(self._batches[k]), self._batches[k], issued)
            )
        return [one.ranges.tolist() for one in self.init.stored()]

    def left_out(self) -> int:
        return len(self.init._left)


def test_all_that_is_read_must_be_written() -> None:
    request = Requests([LOAD, command("gdma.copy.l2s", 2, 0, **LINE, **STORE, src_start_addr_l32=L)])
    request.shadow.clear_range(0, 0x8000)
    for _ in range(2):
        assert request(0) == [[[0x1000, 0x1080]]] and not request.left_out()
    request.shadow.write(Space.DDR, 0, 128)
    assert not request(0) and not request.left_out()
    assert not request(0) and request.left_out() == 1
    request.shadow.clear_range(0, 64)
    assert request(0) == [[[0x1000, 0x1040]]] and not request.left_out()


def test_what_is_left_out_is_written_all_the_same() -> None:
    request = Requests([LOAD, command("gdma.copy.l2s", 2, 0, **LINE, **STORE, src_start_addr_l32=L)])
    request.shadow.write(Space.DDR, 0, 128)
    for _ in range(3):
        request.shadow.clear_range(0x1000, 0x1000)
        assert not request(0)
        assert request.shadow.is_written(Space.DDR, 0x1000, 128)
        assert not request.shadow.is_written(Space.DDR, 0x1080, 1)
    assert request.left_out() == 1


def test_what_another_batch_needs_is_made_up_for() -> None:
    """The second batch stores what the first one loads."""
    request = Requests([LOAD], [command("gdma.copy.l2s", 1, 0, **LINE, **STORE, src_start_addr_l32=L)])
    request.shadow.write(Space.DDR, 0, 128)
    for _ in range(2):
        assert not request(0)
    assert request.left_out() == 1
    assert not request(0, 1) and not request.left_out()
    assert not request(0, 1) and request.left_out() == 2
    assert request(1) == [[[0x1000, 0x1080]]]
    assert request(1, 0) == [[[0x1000, 0x1080]]]


def test_the_host_writes_other_memory_first() -> None:
    """What is in L2 when a request begins changes what is found."""
    place = {"src_start_addr_h8": 0, "src_start_addr_l32": chip.L2_BASE, "dst_start_addr_l32": L}
    load = command("gdma.copy.s2l", 1, 0, **LINE, **place)
    request = Requests([load, command("gdma.copy.l2s", 2, 0, **LINE, **STORE, src_start_addr_l32=L)])
    request.shadow.host_l2(0, 128)
    for _ in range(2):
        assert not request(0)
    assert request.left_out() == 1
    request.shadow.host_l2(128, 128)
    assert not request(0) and not request.left_out()
