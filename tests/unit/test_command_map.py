"""Who issued the commands of static nets: by command, in a file, and in findings."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from firmware_sim.checks.finding import Finding, Frame, Issued, attributed
from firmware_sim.device.doubtful import Doubtful
from firmware_sim.wire import CommandGroup, Recorded, RecordedSites
from tests.support.examples import examples
from user_layers.bmodel.directory import BMODEL, SITES
from user_layers.net.command_map import (
    CommandMap,
    RecordedCommands,
    StepOf,
    decoded,
    encoded,
    streams_hash,
)
from user_layers.runtime.attribution import Attribution

GROUPS = (CommandGroup(b"\1" * 256, b"\2" * 128), CommandGroup(b"\3" * 128, b""))
STEPS = (StepOf("TPU_CROP", "crop_0", ""), StepOf("", "", ""), StepOf("TPU_ADD", "sum", "2 of 3 (x)"))
INNER, OUTER = Frame("/k/a.c", 7, "inner"), Frame("/k/a.c", 20, "outer")


def example() -> CommandMap:
    return CommandMap(
        streams_hash(GROUPS),
        ((2, 1), (1, 0)),
        STEPS,
        ((1, 0), (1, 1), (3, 1)),
        ((), (INNER, OUTER), (OUTER,)),
        (np.array([1, 2, 1], np.uint32), np.array([0], np.uint32)),
    )


def test_issued() -> None:
    one = example()
    assert one.issued(1, True, 0) == ((INNER, OUTER), "TPU_CROP", "crop_0", "", 0)
    assert one.issued(1, True, 1) == ((OUTER,), "TPU_ADD", "sum", "2 of 3 (x)", 2)
    assert one.issued(1, False, 0) == ((), "", "", "", 1)
    assert one.issued(2, True, 0) == ((INNER, OUTER), "TPU_ADD", "sum", "2 of 3 (x)", 2)
    for nobody in ((0, True, 0), (3, True, 0), (1, True, 2), (2, False, 0), (1, True, -1)):
        assert one.issued(*nobody) is None


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=6), st.data())
def test_steps_and_groups_as_counted_one_by_one(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    """sizes: of the steps. Groups may end anywhere."""
    of = [[s for s, pair in enumerate(sizes) for _ in range(pair[engine])] for engine in range(2)]
    cuts = [sorted(data.draw(st.lists(st.integers(0, len(one)), min_size=2, max_size=2))) for one in of]
    counts = [[a, b - a, len(one) - b] for one, (a, b) in zip(of, cuts, strict=True)]
    ends, total = [], [0, 0]
    for pair in sizes:
        total = [a + b for a, b in zip(total, pair, strict=True)]
        ends.append((total[0], total[1]))
    chains = np.zeros(len(of[0]), np.uint32), np.zeros(len(of[1]), np.uint32)
    steps = tuple(StepOf("", str(s), "") for s in range(len(sizes)))
    one = CommandMap("", tuple(zip(*counts, strict=True)), steps, tuple(ends), ((),), chains)
    for engine in range(2):
        found = [
            issuer.step
            for group in range(1, 4)
            for i in range(counts[engine][group - 1])
            if (issuer := one.issued(group, engine == 0, i)) is not None
        ]
        assert found == of[engine]


def same(a: CommandMap, b: CommandMap) -> bool:
    arrays = (np.array_equal(x, y) for x, y in zip(a.chains, b.chains, strict=True))
    return all(arrays) and all(
        getattr(a, name) == getattr(b, name) for name in ("streams", "groups", "steps", "ends", "frames")
    )


def test_the_file_says_the_same() -> None:
    data = encoded([example(), example()])
    back = list(decoded(data))
    assert len(back) == 2
    assert all(same(one, example()) for one in back)
    assert encoded([example(), example()]) == data  # no time, no place


def test_damaged_files_are_refused() -> None:
    data = encoded([example()])
    for at in range(0, len(data), 7):
        for wrong in (data[:at], data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]):
            try:
                found = list(decoded(wrong))
            except ValueError:
                continue
            assert all(isinstance(one, CommandMap) for one in found)
    with pytest.raises(ValueError, match=r"damaged|does not say"):
        list(decoded(b"PK"))


def test_without_sites_nobody_is_known(tmp_path: Path) -> None:
    known = RecordedCommands(Recorded(GROUPS, ((3, 1),)), STEPS[:1], tmp_path / "none").map
    assert known.issued(2, True, 0) == ((), "TPU_CROP", "crop_0", "", 0)


def test_addresses_that_no_line_is_known_of(tmp_path: Path) -> None:
    image = tmp_path / "firmware.so"
    image.write_bytes(b"no image")
    number = (1).to_bytes(4, "little")
    sites = RecordedSites(((), (0x1234,)), number * 3, number)
    known = RecordedCommands(Recorded(GROUPS, ((3, 1),), sites), STEPS[:1], image).map
    assert known.issued(1, True, 1) == ((), "TPU_CROP", "crop_0", "", 0)


BY = Issued("BD", 2, "okk_bdc_add", group=1)
NAMED = Issued("BD", 2, "okk_bdc_add", (OUTER,), "TPU_ADD", "sum", "2 of 3 (x)", 1)


def beside(folder: Path, data: bytes) -> Attribution:
    (folder / SITES).write_bytes(data)
    return Attribution(folder / BMODEL)


def test_findings_are_attributed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issuer = beside(tmp_path, encoded([example()])).issuer(GROUPS)
    finding = Finding("init.unwritten", "what", BY, other=Issued("GDMA", 9, "copy", group=1))
    found = attributed(finding, issuer)
    assert found.by == NAMED
    assert found.other == finding.other  # there is no such command
    other = Finding("init.unwritten", "what", Issued("BD", 2, "okk_bdc_add"))
    assert attributed(other, issuer) == other  # of no stored stream
    assert attributed(finding, None) is finding
    assert capsys.readouterr().err == ""


def test_without_the_file_nothing_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for nobody in (Attribution(tmp_path / BMODEL), Attribution()):
        assert nobody.issuer(GROUPS)(BY) == BY
    assert capsys.readouterr().err == ""


def test_another_file_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issuer = beside(tmp_path, encoded([example()])).issuer(GROUPS[:1])
    assert issuer(BY) == issuer(BY) == BY
    error = capsys.readouterr().err
    assert error == f"{tmp_path / SITES} is of another bmodel; the lines that issued commands are not known\n"


def test_a_damaged_file_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issuer = beside(tmp_path, b"nothing").issuer(GROUPS)
    assert issuer(BY) == issuer(BY) == BY
    assert capsys.readouterr().err.count("cannot be read") == 1


def test_what_was_stored_earlier_keeps_its_names(tmp_path: Path) -> None:
    """The device process tells again what earlier requests stored, without names."""
    issuer = beside(tmp_path, encoded([example()])).issuer(GROUPS)
    stored = Finding("init.unwritten", "what", BY).to_json()
    doubtful = Doubtful()
    doubtful.renew([(1, stored, [(0, 16, 1, 0)])], issuer)
    doubtful.renew([(1, stored, [(0, 16, 1, 0)]), (2, stored, [(16, 16, 1, 0)])])
    assert [one.by for one in doubtful.read(0, 16)] == [NAMED]
    assert [one.by for one in doubtful.read(16, 16)] == [BY]
