"""All cases: which there are, and running them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from firmware_sim.firmware.image import Kind
from tests.faults import (
    kernel_case,
    kernels_correct,
    kernels_correct_more,
    kernels_faulty,
    kernels_faulty_more,
    net_case,
    nets_correct,
    nets_faulty,
    nets_more,
)
from tests.faults.kernel_case import Kernel
from tests.faults.marks import Marks, marks_in
from tests.faults.net_case import Net
from tests.faults.run_kernels import KernelRunner
from tests.faults.run_nets import NetRunner
from tests.faults.verdict import CORRECT, Outcome, Verdict, judge_correct, judge_faulty

KERNELS: Mapping[str, tuple[Kernel, ...]] = {
    "memory": (*kernels_faulty.MEMORY, *kernels_faulty_more.MEMORY),
    "init": (*kernels_faulty.INIT, *kernels_faulty_more.INIT),
    "hazard": (*kernels_faulty.HAZARD, *kernels_faulty_more.HAZARD),
    "sync": (*kernels_faulty.SYNC, *kernels_faulty_more.SYNC),
    "numeric": (*kernels_faulty.NUMERIC, *kernels_faulty_more.NUMERIC),
    CORRECT: (*kernels_correct.CORRECT, *kernels_correct_more.CORRECT),
}
NETS: Mapping[str, tuple[Net, ...]] = {
    **{kind: (*nets, *nets_more.FAULTY[kind]) for kind, nets in nets_faulty.FAULTY.items()},
    CORRECT: (*nets_correct.CORRECT, *nets_more.CORRECT),
}

Case = TypeVar("Case", Kernel, Net)


def chosen(kinds: Mapping[str, tuple[Case, ...]], words: Iterable[str]) -> dict[str, list[Case]]:
    """By kind, those whose kind or name is among the words; all without words."""
    wanted = set(words)
    found = {
        kind: [case for case in cases if not wanted or kind in wanted or case.name in wanted]
        for kind, cases in kinds.items()
    }
    return {kind: cases for kind, cases in found.items() if cases}


def judge(kind: str, name: str, marks: Marks | None, outcome: Outcome) -> Verdict:
    """marks: of the case's source; not looked at for a correct one."""
    if kind == CORRECT:
        return judge_correct(name, outcome)
    assert marks is not None
    return judge_faulty(name, kind, marks, outcome)


def run_all(
    words: Iterable[str], firmware: Kind, place: Path, tell: Callable[[Verdict], object]
) -> list[Verdict]:
    """Run the chosen cases. place: an empty folder, for a workspace. tell: gets each verdict at once."""
    verdicts: list[Verdict] = []

    def judged(kind: str, name: str, marks: Marks | None, outcome: Outcome) -> None:
        verdicts.append(judge(kind, name, marks, outcome))
        tell(verdicts[-1])

    words = list(words)
    if kernels := chosen(KERNELS, words):
        known = marks_in(kernel_case.FOLDER)
        with KernelRunner(firmware) as runner:
            for kind, cases in kernels.items():
                for case in cases:
                    judged(kind, case.name, known[case.name], runner.run(case))
    if nets := chosen(NETS, words):
        known = marks_in(net_case.FOLDER)
        with NetRunner(place, firmware) as net_runner:
            for kind, some in nets.items():
                for net in some:
                    judged(kind, net.name, known.get(net.layer), net_runner.run(net))
    return verdicts
