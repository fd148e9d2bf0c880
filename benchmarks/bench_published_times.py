"""The clock against published times of real chips: 45 launches of a contest.

    python benchmarks/bench_published_times.py [--keep FILE]

A published time is the best of all contestants; the modelled one the least of five whose kernels are public.
They are fetched once with git, as tests/oracle/test_public_kernels.py tells; recording them takes minutes,
and --keep names a file that has them for the next time.

Printed: modelled / published for each launch by the constants of firmware_sim/isa/timing.py; the constants
fitted anew; and the honest error, with constants fitted to launches of other kinds alone: families are left
out, and whole operations. What only those that are left out tell (what few input channels cost, only
convolutions tell) is then not known, and stays what was assumed before.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.published_launches import Case, Launch, critical, launches
from firmware_sim import chip
from firmware_sim.isa import timing

F64 = npt.NDArray[np.float64]

FAMILIES: dict[str, list[Case]] = {
    "convolution, 3 channels, stride 1": [("conv2d", 1), ("conv2d", 2)],
    "convolution, 3 channels, strided": [("conv2d", n) for n in (0, 3, 4, 5)],
    "convolution, 18 to 256 channels": [("conv2d", n) for n in range(6, 11)],
    "convolution, 2 channels at a time": [("conv2d", n) for n in range(11, 15)],
    "depthwise, 3 channels": [("depthwise", n) for n in range(3)],
    "depthwise, 96 to 2048 channels": [("depthwise", n) for n in range(3, 10)],
    "product, long, in many commands": [("matmul", n) for n in (0, 2, 5, 14)],
    "product, 2 to 256 summed": [("matmul", n) for n in (6, 12, 13)],
    "product, few rows": [("matmul", n) for n in (1, 3, 4, 10)],
    "product, nearly square": [("matmul", n) for n in (7, 8, 9, 11)],
    "softmax": [("softmax", n) for n in range(5)],
}

ASSUMED: dict[str, tuple[float, float]] = {
    "launch_us": (25, 0.3),  # the smallest of the sixty published launches that are not fitted takes 40 us
    "issue_us": (3, 1),
    "first_reads_us": (25, 0.3),  # published sums and averages, which are not fitted
    "first_reads_mb": (5, 0.3),
    "read_burst": (1.2, 0.2),  # the functional model's rate, as the next
    "write_burst": (1.2, 0.2),
    "read_piece": (1.2, 0.5),  # a burst
    "jump": (5, 1),
    "depthwise_stride": (0.3, 1.5),
    "product": (6, 0.5),  # the functional model's
    "two_channels": (2, 3),  # the functional model's
    "three_channels": (2, 3),
    "three_channels_stride": (0.3, 2),
    "convolution": (1, 0.1),  # the functional model's
}
"""What is fitted; what it is assumed to be before anything is known, and how sure that is, as a logarithm."""
LATENCY = {"read_latency": (2000.0, 1.0)}
_USUAL = 0.06  # errors beyond this count less than by their squares
_NEAR = 1.6  # kernels whose modelled time is so many times the least are left out of fits
_STEPS = 6


class Model:
    """Modelled times of launches, by constants."""

    def __init__(self, found: Sequence[Launch]) -> None:
        self._launches: dict[Case, list[Launch]] = {}
        for launch in found:
            self._launches.setdefault(launch.case, []).append(launch)
        for case, several in self._launches.items():
            times = [self._time(launch, timing.FITTED)[0] for launch in several]
            near = [one for one, time in zip(several, times, strict=True) if time < _NEAR * min(times)]
            self._launches[case] = near
        self.cases = sorted(self._launches)

    def logarithms(self, constants: timing.Constants, cases: Sequence[Case]) -> F64:
        """log(modelled / published) of each."""
        return np.array([self._least(case, constants)[0] for case in cases])

    def slopes(self, constants: timing.Constants, names: Sequence[str], cases: Sequence[Case]) -> F64:
        """[case, name]: how the logarithms change with those of the constants, as long as commands wait
        for the same."""
        changed = {n: replace(constants, **{n: getattr(constants, n) * 1.01}) for n in names}
        rows = []
        for case in cases:
            _, launch = self._least(case, constants)
            time, path, issues = self._time(launch, constants)
            rows.append(
                [np.log(self._along(launch, path, issues, changed[n]) / time) / np.log(1.01) for n in names]
            )
        return np.array(rows)

    def _least(self, case: Case, constants: timing.Constants) -> tuple[float, Launch]:
        times = [(self._time(one, constants)[0], i) for i, one in enumerate(self._launches[case])]
        least, i = min(times)
        launch = self._launches[case][i]
        return float(np.log(least / launch.published)), launch

    def _time(self, launch: Launch, constants: timing.Constants) -> tuple[float, Mapping[int, int], int]:
        timing.FITTED = constants
        cycles, path, issues = critical(launch, _cycles(launch), timing.issue())
        return (cycles + timing.launch(launch.read)) / chip.CLOCK_HZ * 1e6, path, issues

    def _along(
        self, launch: Launch, path: Mapping[int, int], issues: int, constants: timing.Constants
    ) -> float:
        timing.FITTED = constants
        cycles = sum(_cycle(launch, call) * count for call, count in path.items())
        return (cycles + issues * timing.issue() + timing.launch(launch.read)) / chip.CLOCK_HZ * 1e6


def _cycles(launch: Launch) -> list[float]:
    return [_cycle(launch, i) for i in range(len(launch.calls))]


def _cycle(launch: Launch, call: int) -> float:
    name, given, named = launch.calls[call]
    cycles: timing.Cycles = getattr(timing, name)(*given, **dict(named))
    return cycles.chip


def fit(
    model: Model,
    cases: Sequence[Case],
    assumed: Mapping[str, tuple[float, float]],
    begin: timing.Constants,
) -> timing.Constants:
    """The constants that are best for the cases and for what is assumed, by steps of Gauss and Newton."""
    names = list(assumed)
    prior, sure = (np.array([assumed[n][i] for n in names]) for i in range(2))

    def constants(at: F64) -> timing.Constants:
        return replace(begin, **dict(zip(names, map(float, np.exp(at)), strict=True)))

    def cost(errors: F64, at: F64) -> float:
        data = 2 * (np.sqrt(1 + (errors / _USUAL) ** 2) - 1).sum()
        return float(data + (((at - np.log(prior)) / sure) ** 2).sum())

    at = np.log([getattr(begin, n) for n in names])
    errors = model.logarithms(constants(at), cases)
    for _ in range(_STEPS):
        slopes = model.slopes(constants(at), names, cases)
        weight = 1 / np.sqrt(1 + (errors / _USUAL) ** 2) / _USUAL**2
        matrix = (slopes * weight[:, None]).T @ slopes + np.diag(1 / sure**2)
        right = (slopes * weight[:, None]).T @ errors + (at - np.log(prior)) / sure**2
        step = -np.linalg.solve(matrix, right)
        best = cost(errors, at)
        for part in (1, 0.5, 0.25, 0.1):
            tried = at + np.clip(part * step, -0.5, 0.5)
            found = model.logarithms(constants(tried), cases)
            if cost(found, tried) < best - 1e-3:
                at, errors = tried, found
                break
        else:
            break
    return constants(at)


def left_out(
    model: Model, groups: Mapping[str, Sequence[Case]], assumed: Mapping[str, tuple[float, float]]
) -> F64:
    """The logarithms of all cases, each group's with constants fitted to the other groups."""
    whole = fit(model, model.cases, assumed, timing.Constants())
    found: dict[Case, float] = {}
    for name, cases in groups.items():
        others = [case for case in model.cases if case not in cases]
        constants = fit(model, others, assumed, whole)
        errors = model.logarithms(constants, cases)
        found.update(zip(cases, errors.tolist(), strict=True))
        print(f"    {name:36} {said(errors)}")
    return np.array([found[case] for case in model.cases])


def said(logarithms: F64) -> str:
    """The errors in words."""
    errors = np.abs(np.exp(logarithms) - 1)
    within = ", ".join(f"{(errors <= part).sum():2} within {part:.0%}" for part in (0.1, 0.2))
    return f"median error {np.median(errors):5.1%}, of {len(errors):2} {within}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--keep", type=Path, help="file for the recorded launches")
    model = Model(launches(parser.parse_args().keep))
    now = timing.Constants()
    errors = model.logarithms(now, model.cases)
    print("modelled / published, by the constants in timing.py")
    for case, error in zip(model.cases, errors, strict=True):
        print(f"    {case[0]:10} {case[1]:2}  {np.exp(error):.2f}")
    print(f"as it is:            {said(errors)}")
    without = replace(now, launch_us=0.0, issue_us=0.0, first_reads_us=0.0)
    print(f"engines alone:       {said(model.logarithms(without, model.cases))}")
    operations = {
        name: [case for case in model.cases if case[0] == name] for name in {c[0]: 0 for c in model.cases}
    }
    for what, assumed in (("", ASSUMED), (", with a latency of loads", {**ASSUMED, **LATENCY})):
        begin = replace(now, **{name: value for name, (value, _) in LATENCY.items() if name in assumed})
        fitted = fit(model, model.cases, assumed, begin)
        print(f"\nfitted anew{what}: {said(model.logarithms(fitted, model.cases))}")
        print("    " + ", ".join(f"{name} {getattr(fitted, name):.3g}" for name in assumed))
        print(f"  families left out{what}")
        print(f"  together: {said(left_out(model, FAMILIES, assumed))}")
    print("\n  operations left out")
    print(f"  together: {said(left_out(model, operations, ASSUMED))}")


if __name__ == "__main__":
    main()
