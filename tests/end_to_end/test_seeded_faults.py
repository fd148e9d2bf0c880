"""Kernels, layers and nets of tests/faults under the checks: a sample of each kind, and all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from firmware_sim.checks.finding import Finding, Frame, Issued
from firmware_sim.checks.rules import RULES
from firmware_sim.firmware.image import KINDS, Kind
from tests.faults import kernel_case, net_case
from tests.faults.marks import Marks, marks_in
from tests.faults.run import KERNELS, NETS, judge, run_all
from tests.faults.run_kernels import KernelRunner
from tests.faults.verdict import CORRECT, Outcome, Verdict, Word, judge_correct, judge_faulty, report, table

SAMPLE = (  # one or two of each kind; the others are slow
    *("row_too_many", "last_tile_unclipped", "operand_not_loaded", "packed_words_not_full"),
    *("one_buffer_for_two", "result_read_before_poll", "never_polls", "zero_by_zero"),
    *("sums_over_themselves", "words_of_whole_fours", "columns_between_columns"),
    *("padding_computed_not_stored", "three_in_place", "packed_words_three_of_four", "filter_and_count"),
)


@pytest.fixture(scope="module")
def kernels() -> Iterator[KernelRunner]:
    with KernelRunner() as runner:
        yield runner


@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample(kernels: KernelRunner, name: str) -> None:
    ((kind, case),) = ((kind, case) for kind, cases in KERNELS.items() for case in cases if case.name == name)
    verdict = judge(kind, name, marks_in(kernel_case.FOLDER)[name], kernels.run(case))
    assert verdict.good, report(verdict)


def test_the_second_time(kernels: KernelRunner) -> None:
    (case,) = (case for case in KERNELS["init"] if case.name == "operand_not_loaded")
    first, second = (kernels.run(case) for _ in range(2))
    assert [one.by and one.by.frames for one in first.findings] == [
        one.by and one.by.frames for one in second.findings
    ]


MISSED = {  # what the checks do not tell, and why
    "half_of_a_pair": "the weight of a channel that is not there counts as unread",
    "rows_moved_over_themselves": "copies over themselves move as memmove does, here and on the model",
    "second_operand_over_the_first": "nothing says which bytes of local memory belong together",
    "f_reads_what_it_replaced.local": "a tile in place of its input has no address of its own",
}
WITHOUT_LINE = {  # on the controller, where the compiler puts a load behind the line that it is on
    "arm": {"result_read_before_poll", "local_result_before_poll"},
    "native": set[str](),
}


@pytest.mark.slow
@pytest.mark.parametrize("firmware", KINDS)
def test_all(firmware: Kind, tmp_path: Path) -> None:
    verdicts = run_all((), firmware, tmp_path, lambda verdict: None)
    bad = {verdict.name: verdict for verdict in verdicts if not verdict.good}
    wanted = dict.fromkeys(MISSED, Word.MISSED) | dict.fromkeys(WITHOUT_LINE[firmware], Word.FOUND)
    told = "\n".join([table(verdicts), *map(report, bad.values())])
    assert {name: verdict.word for name, verdict in bad.items()} == wanted, told


def test_every_kernel_has_its_case() -> None:
    marks = marks_in(kernel_case.FOLDER)
    names = [(kind, case.name) for kind, cases in KERNELS.items() for case in cases]
    assert sorted(name for _, name in names) == sorted(marks)
    assert [name for kind, name in names if (kind == CORRECT) == bool(marks[name].faults)] == []


def test_every_layer_has_its_case() -> None:
    marks = marks_in(net_case.FOLDER)
    nets = [(kind, case) for kind, cases in NETS.items() for case in cases]
    assert len({case.name for _, case in nets}) == len(nets)
    own = {case.layer: kind for kind, case in nets if case.layer}
    assert own.keys() == marks.keys()
    assert [layer for layer, kind in own.items() if (kind == CORRECT) == bool(marks[layer].faults)] == []


def test_rules_of_marks_exist() -> None:
    for folder in (kernel_case.FOLDER, net_case.FOLDER):
        for name, marks in marks_in(folder).items():
            assert marks.rules <= RULES.keys(), name


def test_there_are_as_many_correct_ones() -> None:
    cases = [(kind, case) for kinds in (KERNELS, NETS) for kind, some in kinds.items() for case in some]
    correct = sum(kind == CORRECT for kind, _ in cases)
    assert correct >= 100
    assert len(cases) - correct >= 100


def _finding(rule: str, line: int, other: int = 0, file: str = "/w/a.c") -> Finding:
    by = Issued("BD", 1, "ar.add", (Frame(file, line, "f"),))
    beside = Issued("GDMA", 1, "gdma.fill", (Frame(file, other, "f"),)) if other else None
    return Finding(rule, "it is wrong", by, other=beside)


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Outcome((_finding("init.unwritten", 7),)), Word.LINE),
        (Outcome((_finding("hazard.raw", 9, other=8),)), Word.LINE),
        (Outcome((_finding("hazard.raw", 7),)), Word.FOUND),  # a rule of another line
        (Outcome((_finding("init.unwritten", 6),)), Word.FOUND),
        (Outcome((_finding("init.unwritten", 7, file="/w/b.c"),)), Word.FOUND),
        (Outcome((_finding("memory.beyond", 7),)), Word.MISSED),
        (Outcome(error="kernel f: w/a.c:7 in f: refused"), Word.LINE),
        (Outcome(error="kernel f: w/a.c:6 in f: refused"), Word.FOUND),
        (Outcome(differs="all"), Word.MISSED),
    ],
)
def test_verdicts_on_faults(outcome: Outcome, word: Word) -> None:
    marks = Marks(Path("a.c"), {7: frozenset({"init.unwritten"}), 8: frozenset({"hazard.raw"})}, {9})
    assert judge_faulty("f", "init", marks, outcome).word is word


def test_verdicts_on_correct_ones() -> None:
    assert judge_correct("f", Outcome()).word is Word.SILENT
    assert judge_correct("f", Outcome((_finding("sync.superfluous", 3),))).word is Word.SILENT
    assert judge_correct("f", Outcome((_finding("numeric.saturated", 3),))).word is Word.FALSE
    assert judge_correct("f", Outcome(error="stopped")).word is Word.FALSE
    assert judge_correct("f", Outcome(differs="y")).word is Word.WRONG


def test_table() -> None:
    verdicts = [
        Verdict("a", "init", Word.LINE),
        Verdict("b", "init", Word.FOUND),
        Verdict("c", "init", Word.MISSED),
        Verdict("d", CORRECT, Word.FALSE),
        Verdict("e", CORRECT, Word.SILENT),
    ]
    assert table(verdicts).splitlines()[2:] == [
        "| init | 3 | 1 | 2 | 1 |  |",
        "| correct | 2 |  |  |  | 1 |",
    ]


def test_marks_that_are_not_understood(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("void f(void) {\n    x(); /* FAULT: init */\n}\n")
    with pytest.raises(ValueError, match=r"a\.c:2"):
        marks_in(tmp_path)
    (tmp_path / "a.c").write_text("OKKERNEL_FUNC_REGISTER(f)\nOKKERNEL_FUNC_REGISTER(f)\n")
    with pytest.raises(ValueError, match="twice"):
        marks_in(tmp_path)
