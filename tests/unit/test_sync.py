"""Waits without which a batch does the same, commands behind the last poll, errors of the queues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.batch import Batch
from firmware_sim.checks import sync
from firmware_sim.checks.finding import Issued
from firmware_sim.checks.hazard import conflicts
from firmware_sim.checks.rules import DEFAULT, Kind, chosen
from firmware_sim.checks.sequence import BD, GDMA, Records, Sequence
from firmware_sim.checks.sync import Waits, last_command, no_poll, wrong_queue
from firmware_sim.errors import UsageError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.memory import Memory
from firmware_sim.queues import QueueError
from firmware_sim.tpu import Tpu
from tests.support.examples import examples
from tests.support.word_commands import NONE, ONE, add, fill, store, stream


class Looking:
    """Looks for superfluous waits in every batch, and keeps its sequence."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []
        self.texts: list[str] = []
        self._records, self._waits = Records(), Waits()

    def before(self, batch: Batch) -> None:
        self.batch, self.sequence = batch, self._records.sequence(batch)
        self.found = list(self._waits.superfluous(self.sequence, batch))

        def issued(k: int) -> Issued:
            engine = "GDMA" if self.sequence.engine[k] else "BD"
            return Issued(engine, int(self.sequence.id[k]), self.sequence.records[k].name)

        self.texts = [finding.what for finding in self._waits.check(self.sequence, batch, issued)]


@pytest.fixture(scope="module")
def tpu() -> Tpu:
    tpu = Tpu(Memory.create(ddr_bytes=1 << 16))
    tpu.watcher = Looking()
    return tpu


def looked(tpu: Tpu, bd: list[bytes], gdma: list[bytes]) -> Looking:
    tpu.restart()
    tpu.execute(stream(*bd) if bd else NONE, stream(*gdma) if gdma else NONE)
    assert isinstance(tpu.watcher, Looking)
    return tpu.watcher


def advised_ids(looking: Looking) -> list[tuple[str, int]]:
    s = looking.sequence
    return [("GDMA" if s.engine[k] else "BD", int(s.id[k])) for k, _ in looking.found]


def test_a_load_that_waits_for_a_command_that_it_has_nothing_to_do_with(tpu: Tpu) -> None:
    looking = looked(
        tpu,
        [add(1, 1, 0x100, 0), add(2, 2, 0x180, 0x80)],
        [fill(1, 0, 0, ONE), fill(2, 1, 0x80, ONE), store(3, 2, 0x180, 0)],
    )
    assert advised_ids(looking) == [("GDMA", 2)]
    assert looking.texts == [
        "gdma.fill waits for BD command 1 (ar.add); neither it nor what follows uses memory in common with "
        "what it waits for"
    ]


def test_a_wait_is_needed_by_what_follows(tpu: Tpu) -> None:
    """GDMA 2 has nothing to do with BD 1, but GDMA 3, which does not wait itself, stores its result."""
    bd = [add(1, 1, 0x100, 0)]
    assert not looked(tpu, bd, [fill(1, 0, 0, ONE), fill(2, 1, 0x80, ONE), store(3, 0, 0x100, 0)]).found
    assert advised_ids(
        looked(tpu, bd, [fill(1, 0, 0, ONE), fill(2, 1, 0x80, ONE), store(3, 1, 0x100, 0)])
    ) == [("GDMA", 2)]


def test_waits_that_name_nothing_new_are_not_told(tpu: Tpu) -> None:
    """In a kernel without parallel sections every command waits for the newest of the other engine."""
    looking = looked(
        tpu,
        [add(1, 1, 0x100, 0), add(2, 1, 0x180, 0x80), add(3, 1, 0x200, 0x80)],
        [fill(1, 0, 0, ONE), store(2, 3, 0x200, 0), store(3, 3, 0x180, 8)],
    )
    assert looking.found == []


def test_too_many_pairs_are_taken_for_needed(tpu: Tpu, monkeypatch: pytest.MonkeyPatch) -> None:
    bd, gdma = [add(1, 1, 0x100, 0x80)], [fill(1, 0, 0, ONE)]
    assert advised_ids(looked(tpu, bd, gdma)) == [("BD", 1)]
    monkeypatch.setattr(sync, "MOST_PAIRS", 0)
    assert not looked(tpu, bd, gdma).found


def ordered(own: dict[int, list[int]], sequence: Sequence) -> set[tuple[int, int]]:
    """Pairs of commands of different engines of which the second waits for the first."""
    found = set()
    for engine in (BD, GDMA):
        done = 0
        for i, k in enumerate(sequence.position[engine].tolist()):
            done = max(done, own[engine][i])
            found |= {(int(sequence.position[1 - engine][j]), k) for j in range(done)}
    return found


PLACES = st.sampled_from([0, 4, 0x80, 0x100])
COMMANDS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["add", "fill", "store"]), PLACES, PLACES, st.integers(0, 9)),
    max_size=14,
)


@examples(200)
@given(COMMANDS)
def test_without_all_superfluous_waits_everything_in_conflict_is_still_in_order(
    tpu: Tpu, drawn: list[tuple[bool, str, int, int, int]]
) -> None:
    """Each command waits for the newest of the other engine, or for fewer."""
    bd: list[bytes] = []
    gdma: list[bytes] = []
    own: dict[int, list[int]] = {BD: [], GDMA: []}
    for serial, kind, to, source, fewer in drawn:
        engine, queue, others = (BD, bd, gdma) if kind == "add" else (GDMA, gdma, bd)
        wait = len(others) if serial else max(0, len(others) - fewer)
        own[engine].append(wait)
        number = len(queue) + 1
        if kind == "fill":
            queue.append(fill(number, wait, to, ONE))
        else:
            queue.append((add if kind == "add" else store)(number, wait, to, source))
    looking = looked(tpu, bd, gdma)
    sequence = looking.sequence
    before = ordered(own, sequence)
    for k, awaited in looking.found:
        index = int(sequence.index[k])
        assert (
            awaited == sequence.position[1 - int(sequence.engine[k])][own[int(sequence.engine[k])][index] - 1]
        )
        own[int(sequence.engine[k])][index] = 0
    for x, y in before - ordered(own, sequence):
        assert next(conflicts(sequence.records[x], sequence.records[y]), None) is None


def test_the_newest_command_of_two_queues() -> None:
    """Outside parallel sections each command waits for the newest of the other engine."""
    bd, gdma = stream(add(1, 1, 0, 0), add(2, 1, 0, 0)), stream(fill(1, 0, 0, ONE), fill(2, 2, 0, ONE))
    assert last_command(bd, gdma) == (Engine.GDMA, 1)
    assert last_command(bd, gdma[:1]) == (Engine.BD, 1)
    assert last_command(bd, NONE) == (Engine.BD, 1)
    assert last_command(NONE, gdma) == (Engine.GDMA, 1)


def test_commands_behind_the_last_poll() -> None:
    by = Issued("BD", 4, "ar.add")
    assert no_poll("kernel k", 3, by).what == (
        "kernel k returned without okk_poll after its last 3 commands; on the chip the host may read their "
        "results too early"
    )
    assert "after its last command;" in no_poll("kernel k", 1, by).what
    assert no_poll("kernel k", 1, by).by is by


def test_errors_of_the_queues_are_findings(tpu: Tpu) -> None:
    def issued(engine: Engine, index: int) -> Issued:
        return Issued(engine.value, index + 1, "?")

    tpu.restart()
    with pytest.raises(QueueError) as never:
        tpu.execute(stream(add(1, 2, 0, 0)), stream(fill(1, 0, 0, ONE), fill(2, 1, 0, ONE)))
    found = wrong_queue(never.value, issued)
    assert (found.rule, found.by, found.other) == ("sync.never", Issued("GDMA", 2, "?"), Issued("BD", 1, "?"))
    assert "GDMA command 2 waits for BD command 1" in found.what
    with pytest.raises(QueueError) as ids:
        tpu.execute(stream(add(1, 0, 0, 0), add(3, 0, 0, 0)), NONE)
    found = wrong_queue(ids.value, issued)
    assert (found.rule, found.by, found.other) == ("sync.ids", Issued("BD", 2, "?"), Issued("BD", 1, "?"))


def test_words_of_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPULAYER_CHECK", raising=False)
    assert chosen(None) == DEFAULT
    assert chosen("off") == frozenset()
    assert chosen("sync, memory") == {Kind.SYNC, Kind.MEMORY}
    assert chosen("all,waits,schedule") == frozenset(Kind)
    assert chosen("all") == frozenset(Kind) - {Kind.WAITS, Kind.SCHEDULE}
    with pytest.raises(UsageError, match="waits, schedule"):
        chosen("off,sync")
