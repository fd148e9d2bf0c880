"""Runs of operations into pieces that compile."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from firmware_sim.chip import MAX_TENSORS
from tests.support.toy_framework import TOY, toy
from tests.support.toy_framework import random as numbers
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.divide import Division, cut_run, divide
from user_layers.delegates.plan import connected_runs, consecutive_runs, plan
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller
from user_layers.toolkit import Toolkit

F32 = np.dtype(np.float32)
SEEDS = range(60)


def _dag(seed: int) -> ForeignModel:
    """Up to 60 operations, each of some of the tensors before it and constants; some make two tensors."""
    dice = random.Random(seed)
    tensors = {f"x{i}": Tensor((2,), F32) for i in range(dice.randint(1, 25))}
    inputs, operations = tuple(tensors), []
    tensors["k"] = Tensor((2,), F32, np.ones(2, np.float32))
    reach = dice.choice([3, 10, 100])
    for i in range(dice.randint(1, 60)):
        there = list(tensors)[-reach:]
        reads = tuple(dice.choice(there) for _ in range(dice.randint(1, dice.choice([2, 6]))))
        makes = tuple(f"t{i}_{k}" for k in range(dice.randint(1, 2)))
        tensors.update(dict.fromkeys(makes, Tensor((2,), F32)))
        operations.append(Operation("OP", f"o{i}", reads, makes))
    made = [name for operation in operations for name in operation.outputs]
    outputs = tuple(dice.sample(made, min(len(made), dice.randint(1, 30))))
    return ForeignModel("Toy", "dag", tensors, inputs, outputs, tuple(operations))


def _borders(model: ForeignModel, piece: Sequence[int]) -> int:
    part = model.part(tuple(piece))
    return max(len(part.inputs), len(part.outputs))


def _check_runs_in_order(model: ForeignModel, groups: Sequence[Sequence[int]]) -> None:
    """With each group as one operation, all can run in some order: so each is convex."""
    group = {index: i for i, piece in enumerate(groups) for index in piece}
    makers = {name: i for i, op in enumerate(model.operations) for name in op.outputs}
    needs: dict[object, set[object]] = {}
    for i, op in enumerate(model.operations):
        own = group.get(i, f"op {i}")
        sources = {makers[name] for name in op.inputs if name in makers}
        needs.setdefault(own, set()).update({group.get(s, f"op {s}") for s in sources} - {own})
    while ready := [one for one, others in needs.items() if not others]:
        for one in ready:
            del needs[one]
        for others in needs.values():
            others.difference_update(ready)
    assert not needs


def _check(model: ForeignModel, run: Sequence[int], found: Division) -> None:
    told = [index for piece in found.pieces for index in piece]
    assert sorted([*told, *found.left]) == sorted(run)
    assert all(tuple(sorted(piece)) == piece for piece in found.pieces)
    _check_runs_in_order(model, found.pieces)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_operation_is_in_one_piece_within_the_limits(seed: int) -> None:
    model = _dag(seed)
    dice = random.Random(seed)
    bad = {i for i in range(len(model.operations)) if dice.random() < 0.05}
    apart = {tuple(dice.sample(range(len(model.operations)), 2)) for _ in range(2)} if seed % 2 else set()
    asked: list[tuple[int, ...]] = []

    def attempt(chosen: tuple[int, ...]) -> str | None:
        asked.append(chosen)
        if bad.intersection(chosen) or any({*pair} <= {*chosen} for pair in apart if len({*pair}) == 2):
            return "not together"
        return "too many" if _borders(model, chosen) > MAX_TENSORS else None

    taken = [i for i in range(len(model.operations)) if dice.random() < 0.8]
    for runs, consecutive in ((connected_runs(model, taken), False), (consecutive_runs(taken), True)):
        assert sorted(i for run in runs for i in run) == taken
        _check_runs_in_order(model, runs)
        pieces: list[tuple[int, ...]] = []
        for run in runs:
            before = len(asked)
            found = cut_run(model, run, attempt, consecutive=consecutive)
            assert cut_run(model, run, attempt, consecutive=consecutive) == found
            assert len(asked) - before <= 2 * 64
            _check(model, run, found)
            assert all(_borders(model, piece) <= MAX_TENSORS for piece in found.pieces)
            singles = {i for i in run if i in bad or _borders(model, (i,)) > MAX_TENSORS}
            assert set(found.left) == singles
            if consecutive:
                assert all(piece == (*range(piece[0], piece[-1] + 1),) for piece in found.pieces)
            pieces += found.pieces
        _check_runs_in_order(model, pieces)


def _fan(count: int) -> ForeignModel:
    """One input, an operation for each of so many outputs."""
    names = [f"y{i}" for i in range(count)]
    return toy(dict.fromkeys(["x", *names], (4,)), [("RELU", ["x"], name) for name in names], ["x"], names)


def test_more_outputs_than_a_net_has_become_several_nets(toolkit: Toolkit) -> None:
    model = _fan(40)
    (found,) = divide(model, [range(40)], TOY, toolkit)
    assert found.left == {} and [len(piece) for piece in found.pieces] == [8, 16, 16]
    for piece in found.pieces:
        assert len(compile_partition(model.part(piece), TOY, name="p", toolkit=toolkit).outputs) <= 16


def test_inputs_that_no_layer_reads_do_not_count(toolkit: Toolkit) -> None:
    spellings = Spellings(TOY)

    @spellings.of("SECOND")
    def second(to: Speller, op: Operation) -> None:
        to.put(op.outputs[0], to.one("Tanh", to.own(op.inputs[1] or "")))

    names = [f"x{i}" for i in range(20)]
    model = toy(
        dict.fromkeys([*names, *(f"y{i}" for i in range(10))], (4,)),
        [("SECOND", [names[2 * i], names[2 * i + 1]], f"y{i}") for i in range(10)],
        names,
        [f"y{i}" for i in range(10)],
    )
    (found,) = divide(model, [range(10)], spellings, toolkit)
    assert found == Division((tuple(range(10)),), {})


def test_a_cut_goes_where_few_tensors_cross() -> None:
    """Two chains side by side in the middle, one tensor at the neck behind it."""
    model = toy(
        dict.fromkeys(["x", "a", "b", "c", "d", "e", "n", "p", "q", "y"], (4,)),
        [
            ("RELU", ["x"], "a"),
            ("RELU", ["a"], "b"),
            ("TANH", ["a"], "c"),
            ("RELU", ["b"], "d"),
            ("RELU", ["c"], "e"),
            ("ADD", ["d", "e"], "n"),
            ("TANH", ["n"], "p"),
            ("RELU", ["p"], "q"),
            ("TANH", ["q"], "y"),
        ],
        ["x"],
        ["y"],
    )

    def attempt(chosen: tuple[int, ...]) -> str | None:
        return "too long" if len(chosen) > 6 else None

    assert cut_run(model, range(9), attempt) == Division(((0, 1, 2, 3, 4, 5), (6, 7, 8)), {})


def test_pieces_that_the_search_cut_needlessly_are_joined() -> None:
    names = [f"t{i}" for i in range(33)]
    model = toy(
        dict.fromkeys(names, (4,)),
        [("RELU", [names[i]], names[i + 1]) for i in range(32)],
        names[:1],
        names[-1:],
    )
    tries = []

    def attempt(chosen: tuple[int, ...]) -> str | None:
        tries.append(chosen)
        return "these two" if {20, 21} <= {*chosen} else None

    found = cut_run(model, range(32), attempt)
    assert found == Division((tuple(range(21)), tuple(range(21, 32))), {})
    assert len(tries) < 20


def test_tries_come_to_an_end_and_what_was_not_tried_stays() -> None:
    model = _fan(32)
    tries = []

    def attempt(chosen: tuple[int, ...]) -> str | None:
        tries.append(chosen)
        return "never" if len(chosen) > 1 else None

    found = cut_run(model, range(32), attempt, most_tries=10)
    assert len(tries) == 10
    assert sorted([*found.left, *(i for piece in found.pieces for i in piece)]) == [*range(32)]
    assert found.left and all("were tried" in why for why in found.left.values())


def test_operations_that_compile_alone_and_not_together(toolkit: Toolkit) -> None:
    """A determinant in between is written only where its input is one of the part's own."""
    spellings = Spellings(TOY)

    @spellings.of("MOODY")
    def moody(to: Speller, op: Operation) -> None:
        name = op.inputs[0] or ""
        to.put(op.outputs[0], to.one("Tanh" if name in to.model.inputs else "Det", to.own(name)))

    model = toy(
        dict.fromkeys(["x", "a", "b", "c", "y"], (2, 2)),
        [("RELU", ["x"], "a"), ("TANH", ["a"], "b"), ("MOODY", ["b"], "c"), ("RELU", ["c"], "y")],
        ["x"],
        ["y"],
    )
    assert plan(model, spellings, toolkit).pieces == ((0, 1), (2, 3))
    assert plan(model, spellings, toolkit).reasons == (None,) * 4


def test_what_makes_a_constant_stays_with_its_reader(toolkit: Toolkit) -> None:
    """All kernels are made first, as some converters write them; each piece has its own."""
    tensors: dict[str, object] = dict.fromkeys(["x0", *(f"x{i + 1}" for i in range(4))], (3, 3))
    tensors |= {f"k{i}": numbers(3, 3, seed=i) for i in range(4)} | {f"w{i}": (3, 3) for i in range(4)}
    model = toy(
        tensors,  # type: ignore[arg-type]
        [
            *(("TANH", [f"k{i}"], f"w{i}") for i in range(4)),
            *(("DENSE", [f"x{i}", f"w{i}"], f"x{i + 1}") for i in range(4)),
        ],
        ["x0"],
        ["x4"],
    )
    found = plan(model, TOY, toolkit, most=4)
    assert found.pieces == ((0, 1, 4, 5), (2, 3, 6, 7)) and found.reasons == (None,) * 8


def test_an_operation_that_fails_by_itself_stays_with_its_reason() -> None:
    model = _fan(5)
    found = cut_run(model, range(5), lambda chosen: "not this one" if 2 in chosen else None)
    assert found == Division(((0, 1), (3, 4)), {2: "not this one"})
    assert cut_run(model, (), lambda chosen: None) == Division((), {})


def test_a_dynamic_piece_is_tried_by_compiling(toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    monkeypatch.setattr(
        "user_layers.delegates.divide.compile_partition", lambda part, *_, **how: compiled.append(how)
    )
    divide(_fan(2), [(0, 1)], TOY, toolkit, dynamic=True, opt=1)
    divide(_fan(2), [(0, 1)], TOY, toolkit, whole=True)
    divide(_fan(2), [(0, 1)], TOY, toolkit)
    assert [(how["dynamic"], how["opt"]) for how in compiled] == [(True, 1), (False, 2)]
