"""Samples of `verify`: drawn the same everywhere, made smaller step by step, stored; budgets and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import SourceError, UsageError
from user_layers.testing import Case, Const, Input
from user_layers.testing.collect import load_test
from user_layers.verify.command import Budget, LayerReport, Report, lines
from user_layers.verify.draw import drawn
from user_layers.verify.sample import VALUES, Sample, shapes_of
from user_layers.verify.shrink import smallest
from user_layers.verify.streams import first_difference
from user_layers.verify.target import Target
from user_layers.verify.verdict import Failure
from user_layers.verify.work import Job, parsed_values, sample_ticket

CASES = (
    Case((1, 3, 17, 23), param={"factor": 0.5, "list": [4, 9]}),
    Case((2, 8), Const((8, 5)), param={"factor": 2.0}),
)
TARGET = Target("some", "TPU_SOME", CASES, ranges={"factor": (0.5, 4.0), "axis": [0, 2]})
FAILURE = Failure("golden", "golden", "differs", "it differs")


def sample(number: int, target: Target = TARGET, attempt: int = 0, seed: int = 0) -> Sample:
    return drawn(target, seed, number, attempt, VALUES[1:4])


def test_drawn() -> None:
    """A number's sample is always the same; the first ones are the cases; extents that are equal stay so."""
    every = [sample(number) for number in range(200)]
    assert every == [sample(number) for number in range(200)]
    assert every[2:] != [sample(number, seed=1) for number in range(2, 200)]
    assert sample(7) != sample(7, attempt=1) and sample(7) != sample(7, replace(TARGET, name="other"))
    for number, case in enumerate(CASES):
        assert (every[number].shapes, every[number].param) == (shapes_of(case), case.param)
    linked = [one.shapes for one in every[2:] if len(one.shapes) == 2]
    assert len({shapes[0][1] for shapes in linked}) > 5
    assert sum(a[1] == b[0] for a, b in linked) > len(linked) / 3
    assert {one.shapes[0][1] for one in every if len(one.shapes) == 1} >= {1, 63, 64, 65, 129}
    assert {one.shapes[0][0] for one in every if len(one.shapes) == 1} == {1, 2, 3, 4, 5}
    assert {one.values for one in every} == {"drawn", *VALUES[1:4]}
    assert {len(axis) for one in every for axis in one.cuts} == {0, 1, 2}
    factors = {one.param["factor"] for one in every}
    assert all(0.5 <= factor <= 4 for factor in factors) and len(factors) > 50
    assert {one.param.get("axis") for one in every} == {None, 0, 2}
    sizes = [np.prod(shape) for one in every for shape in one.shapes]
    assert max(sizes) <= 1 << 21


def test_cases_of_the_authors_own() -> None:
    """random_case makes most samples, and the same ones again; what it does wrong is told with its file."""

    def random_case(rng: np.random.Generator) -> Case:
        n = int(rng.integers(1, 9))
        return Case((n, n), param={"factor": float(n)})

    own = replace(TARGET, random_case=random_case, path=Path("test_some.py"))
    every = [sample(number, own) for number in range(50)]
    mine = [one for one in every if one.drawn]
    assert 25 < len(mine) < 45
    for one in mine:
        assert one.shapes[0][0] == one.shapes[0][1]
        assert str(one.case(own)).startswith(f"{list(one.shapes[0])}, ")
    assert every == [sample(number, own) for number in range(50)]

    def failing(rng: np.random.Generator) -> Case:
        raise ValueError("no")

    with pytest.raises(SourceError, match=r"test_some.py: random_case: ValueError: no"):
        [sample(number, replace(own, random_case=failing)) for number in range(9)]
    with pytest.raises(SourceError, match=r"test_some.py: random_case returned int, not a Case"):
        [sample(number, replace(own, random_case=lambda rng: 3)) for number in range(9)]  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("values", VALUES)
def test_values(values: str) -> None:
    """Within the ranges that inputs give; constants keep their own."""
    case = Case(Input((4, 3), low=-2, high=2), Input((8,), "uint8", scale=0.5), (8,), Const((2,)))
    one = Sample(0, (), shapes_of(case), values=values)
    a, b, c, constant = one.arrays(case)
    assert np.array_equal(constant, Sample(0, (), shapes_of(case)).arrays(case)[3])
    assert np.nanmin(a) >= -2 and np.nanmax(a) <= 2 and b.dtype == np.uint8
    if values == "zeros":
        assert not a.reshape(-1)[::2].any() and not b[::2].any() and a.any()
    if values == "large":
        assert set(a.reshape(-1)[::2]) == {-2, 2} and set(b[::2]) == {0, 255} and c.max() == 1e4
    assert (values == "nan") == bool(np.isnan(a).any())
    assert (values == "denormals") == bool(((c != 0) & (abs(c) < 1e-38)).any())
    if values == "ramp":
        assert c.tolist() == [1, 2, 3, 4, 5, 6, 7, 1] and set(a.reshape(-1)) == {1, 2}


def _smallest(first: Sample, wrong: object) -> Sample:
    """wrong: whether a sample shows it."""
    best = smallest(first, FAILURE, lambda one: FAILURE if wrong(one) else None)  # type: ignore[operator]
    assert best.ended and best.runs < 120
    return best.sample


def test_the_smallest() -> None:
    """Everything goes that need not be; what must stay is as small as it can be."""
    param = {"factor": 0.5, "list": [4, 9]}
    first = Sample(0, (), ((3, 130, 17, 23),), param, "large", 5, ((0.3,), (), (0.2, 0.7)))
    gone = _smallest(first, lambda one: True)
    assert gone.shapes == ((1, 1, 1, 1),) and gone.cuts == ((), (), ()) and gone.values == "ones"
    assert gone.param == {"factor": 0, "list": [0, 0]}
    assert _smallest(first, lambda one: one.shapes[0][1] > 64).shapes == ((1, 65, 1, 1),)
    assert _smallest(first, lambda one: one.shapes[0][3] % 2 and one.shapes[0][3] > 4).shapes == (
        (1, 1, 1, 5),
    )
    assert _smallest(first, lambda one: one.cuts[2]).cuts == ((), (), (0.5,))
    assert _smallest(first, lambda one: one.param["list"][1] > 2).param == {"factor": 0, "list": [0, 3]}
    assert _smallest(first, lambda one: one.values == "large").values == "large"
    two = Sample(0, (), ((4, 33), (33, 9)))
    equal = _smallest(two, lambda one: one.shapes[0][1] == one.shapes[1][0] and one.shapes[0][1] > 6)
    assert equal.shapes == ((1, 7), (7, 1))


def test_no_longer_than_allowed() -> None:
    """Runs and time are limited; what was found until then is kept."""
    first = Sample(0, (), ((3, 130, 17, 23),))
    few = smallest(first, FAILURE, lambda one: FAILURE, most=2)
    assert few.runs == 2 and not few.ended and few.sample.shapes != first.shapes
    times = iter(range(0, 10_000, 50))
    late = smallest(first, FAILURE, lambda one: FAILURE, clock=lambda: next(times))
    assert 0 < late.runs < 7 and not late.ended


def test_stored(tmp_path: Path) -> None:
    one = sample(9)
    (tmp_path / "case.json").write_text(one.to_json())
    ticket = sample_ticket(Job(None, ("some",)), tmp_path / "case.json")
    assert ticket.sample == one and ticket.number == 9
    (tmp_path / "other.json").write_text('{"origin": 3}')
    with pytest.raises(UsageError, match="this is no case of `tpulayer verify`"):
        sample_ticket(Job(None, ("some",)), tmp_path / "other.json")
    with pytest.raises(UsageError, match="cannot be read"):
        sample_ticket(Job(None, ("some",)), tmp_path / "none.json")
    with pytest.raises(UsageError, match="--case with several layers"):
        sample_ticket(Job(None, ("some", "other")), tmp_path / "case.json")
    with pytest.raises(UsageError, match="some has 2 cases, and no case 9"):
        replace(one, origin=9).case(TARGET)


def test_words() -> None:
    assert [Budget.of(text) for text in ("200", "60s", "1.5m", "8h")] == [
        Budget(200, 0.0),
        Budget(0, 60.0),
        Budget(0, 90.0),
        Budget(0, 28800.0),
    ]
    for text in ("", "0", "-3", "1.5", "3d", "s", "0s"):
        with pytest.raises(UsageError, match="--budget"):
            Budget.of(text)
    assert parsed_values("nan,zeros") == ("nan", "zeros") and parsed_values("none") == ()
    with pytest.raises(UsageError, match="--values: 'zero'; did you mean zeros"):
        parsed_values("zero")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("RANGES = [1]", "RANGES is not a dict"),
        ("RANGES = {'a': (2, 1)}", "RANGES is not a dict"),
        ("RANGES = {'a': []}", "RANGES is not a dict"),
        ("random_case = 3", "random_case is not a function"),
    ],
)
def test_a_file_that_says_it_wrong(more: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "test_some.py"
    text = "from tpulayer.testing import Case\nCASES = [Case((1,))]\n"
    text += "def golden(inputs, param):\n    return inputs\n"
    path.write_text(f"{text}RANGES = {{'a': (1, 2), 'b': ['x']}}\n")
    assert load_test(path).ranges == {"a": (1, 2), "b": ["x"]}
    path.write_text(text + more + "\n")
    with pytest.raises(SourceError, match=told):
        load_test(path)


def test_the_first_command_that_differs() -> None:
    one = bytes(range(128)) * 3
    other = one[:130] + b"\xff" + one[131:]
    assert first_difference(one, one) is None
    assert first_difference(one, other) == 1
    assert first_difference(one, one[:256]) == first_difference(one[:256], one) == 2


def test_what_was_refused_is_told() -> None:
    """By whom and why, reasons that differ in numbers only as one; and what was never tried."""
    layer = LayerReport("some", 2)
    layer.refused.update(["golden: no 3", "golden: no 4", "the layer: -2"])
    layer.skipped.update([("local", "no local function")])
    layer.held.update(["golden", "golden"])
    assert list(lines(Report(5, {"some": layer}, 2.0))) == [
        "some: 2 cases, 3 refused; held: golden 2",
        "  refused 2 times by golden: no 3",
        "  refused 1 times by the layer: -2",
        "  local never tried: no local function",
        "verify: everything holds; 2 cases, 1.0 a second, seed 5",
    ]
