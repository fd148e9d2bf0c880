"""Groups of dynamic programs: which way they run, where tiles end for smaller batches, what is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim.wire import (
    NONE,
    SHRINKS,
    DType,
    Program,
    ProgramTensor,
    RunMode,
    Status,
    Step,
    StepOp,
    StoreMode,
    TensorKind,
    TensorRecord,
)
from tests.support import firmware_harness as fh
from tests.support.examples import examples
from tests.support.wire_limits import check

CONST_BINARY, PROBE, MUL = 0x10001, 2, 2
IN, OUT, POOL = fh.DDR, fh.DDR + (1 << 20), fh.DDR + (2 << 20)
INPUT, OUTPUT, NEURON, LOCAL = TensorKind.INPUT, TensorKind.OUTPUT, TensorKind.NEURON, TensorKind.LOCAL
SHAPE = (5, 70, 6, 9)
X, T, Y = 0, 1, 2  # tensors of `grouped`


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, executes=True, ddr_bytes=4 << 20)


def scaled(factor: float) -> bytes:
    return struct.pack("<fii", factor, MUL, 0)


def grouped(
    cuts: Sequence[int] = (2, 2, 1), shape: Sequence[int] = SHAPE, axis: int = 0, op_type: int = -1
) -> Program:
    """x -> t = 1.5 x -> y = 2 t, in tiles of so many batches (rows, columns: axis 2, 3) in turn in two places
    of local memory. op_type: of the group."""
    program = Program(in_num=1, out_num=1)
    record = TensorRecord(tuple(shape))
    for kind, last in ((INPUT, 0), (NEURON, 0), (OUTPUT, NONE)):
        program.add(ProgramTensor(kind, record, 0, last, max_bytes=record.nbytes))
    steps: list[Step] = [Step(StepOp.GROUP), Step(StepOp.PARALLEL_START)]
    calls: list[int] = []
    first = 0
    for number, batches in enumerate(cuts):
        tiles = [
            program.add(
                ProgramTensor(
                    LOCAL,
                    replace(
                        record,
                        addr=0x20000 * (number % 2) + 0x8000 * (which > X),
                        processed=tuple(first * (d == axis) for d in range(4)),
                        slice_shape=(*record.shape[:axis], batches, *record.shape[axis + 1 :]),
                    ),
                    alias_of=which,
                )
            )
            for which in (X, T, Y)
        ]
        if number > 1:  # the place is free again
            steps.append(Step(StepOp.WAIT, bd_after=1, gdma_after=calls[number - 2]))
        steps.append(Step(StepOp.LOAD, (X,), (tiles[X],)))
        steps.append(Step(StepOp.WAIT, bd_after=len(steps) - 1, gdma_after=1))
        steps += [call(StepOp.LOCAL, tiles[X], tiles[T], 1.5), call(StepOp.LOCAL, tiles[T], tiles[Y], 2.0)]
        calls.append(len(steps) - 1)
        steps.append(Step(StepOp.WAIT, bd_after=1, gdma_after=calls[-1]))
        steps.append(Step(StepOp.STORE, (tiles[Y],), (Y,)))
        first += batches
    steps.append(Step(StepOp.PARALLEL_END))
    on_tiles = len(steps) - 1
    steps += [call(StepOp.GLOBAL, X, T, 1.5), call(StepOp.GLOBAL, T, Y, 2.0)]
    steps[0] = Step(StepOp.GROUP, op_type=op_type, name="a to b", local_steps=on_tiles, global_steps=2)
    program.steps = steps
    last = len(steps) - 1
    program.tensors[X] = replace(program.tensors[X], last_step=last - 1)
    program.tensors[T] = replace(program.tensors[T], last_step=last)
    return program


def call(opcode: StepOp, source: int, target: int, factor: float) -> Step:
    return Step(opcode, (source,), (target,), CONST_BINARY, f"by {factor}", scaled(factor))


def run(firmware: fh.Harness, program: Program, x: TensorRecord, pool: int = 1 << 20) -> fh.Reply:
    outs = [TensorRecord((1,), addr=OUT)]
    return firmware.run(program, RunMode.DYNAMIC, [x], outs, (POOL, pool))


def commands(firmware: fh.Harness) -> tuple[int, int]:
    return len(firmware.bd), len(firmware.gdma)


def doubled(firmware: fh.Harness, program: Program, shape: tuple[int, ...], pool: int = 1 << 20) -> None:
    """Run and compare with numpy."""
    x = firmware.array(IN, shape)
    x[...] = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    firmware.array(OUT, SHAPE)[...] = -7
    reply = run(firmware, program, TensorRecord(shape, addr=IN), pool)
    assert reply.status == 0, reply.text
    assert TensorRecord.decode(reply.payload).shape == shape
    assert np.array_equal(firmware.array(OUT, shape), x * np.float32(1.5) * np.float32(2))
    rest = firmware.array(OUT, (int(np.prod(SHAPE)),))[int(np.prod(shape)) :]
    assert np.all(rest == -7), "more was stored than there is"


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 3), min_size=1, max_size=4), data=st.data())
def test_every_batch_in_every_tiling(firmware: fh.Harness, cuts: list[int], data: st.DataObject) -> None:
    most = sum(cuts)
    program = grouped(cuts, (most, 3, 4, 5))
    batches = data.draw(st.integers(1, most))
    doubled(firmware, program, (batches, 3, 4, 5), pool=0)  # what stays in local memory needs no place


@examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=4), axis=st.sampled_from([0, 2, 3]), data=st.data()
)
def test_every_size_in_every_tiling(
    firmware: fh.Harness, cuts: list[int], axis: int, data: st.DataObject
) -> None:
    shape = [2, 3, 4, 5]
    shape[axis] = sum(cuts)
    n, c, h, w = shape
    program = grouped(cuts, shape, axis, SHRINKS)
    now = tuple(data.draw(st.integers(1, most)) for most in (n, h, w))
    doubled(firmware, program, (now[0], c, *now[1:]), pool=0)


def test_fewer_rows_than_a_tile_are_not_run(firmware: fh.Harness) -> None:
    found = []
    for rows in (6, 4, 2, 1):
        doubled(firmware, grouped((2, 2, 2), SHAPE, 2, SHRINKS), (*SHAPE[:2], rows, 7), pool=0)
        found.append(commands(firmware))
    assert [gdma for _, gdma in found] == [6, 4, 2, 2]
    assert [bd for bd, _ in found] == [3 * found[3][0], 2 * found[3][0], found[3][0], found[3][0]]


@pytest.mark.parametrize(
    ("axis", "shape", "tiles"),
    [
        (0, (5, 70, 6, 8), True),
        (2, (5, 70, 5, 9), True),
        (2, (5, 69, 6, 9), False),  # fewer channels
        (3, (1, 70, 1, 1), True),
    ],
)
def test_what_may_be_smaller(firmware: fh.Harness, axis: int, shape: tuple[int, ...], tiles: bool) -> None:
    cuts = (SHAPE[axis],)
    doubled(firmware, grouped(cuts, SHAPE, axis, SHRINKS), shape)
    allowed = run(firmware, grouped(cuts, SHAPE, axis, SHRINKS), TensorRecord(shape, addr=IN), pool=0)
    assert (allowed.status == 0) is tiles, allowed.text


def test_steps_without_batches_do_not_run(firmware: fh.Harness) -> None:
    found = []
    for batches in (5, 4, 3, 2, 1):
        doubled(firmware, grouped(), (batches, *SHAPE[1:]))
        found.append(commands(firmware))
    one = (found[4][0], 2)  # two calls, a load and a store
    assert [f[1] for f in found] == [6, 4, 4, 2, 2] and found[4] == one
    assert [f[0] for f in found] == [3 * one[0], 2 * one[0], 2 * one[0], one[0], one[0]]


@pytest.mark.parametrize("shape", [(5, 70, 6, 8), (5, 69, 6, 9), (2, 70, 5, 9), (1, 1, 1, 1)])
def test_other_shapes_run_in_ddr(firmware: fh.Harness, shape: tuple[int, ...]) -> None:
    doubled(firmware, grouped(), shape)
    assert len(firmware.gdma) >= 4  # t goes through DDR too
    reply = run(firmware, grouped(), TensorRecord(shape, addr=IN), pool=0)
    assert reply.status == Status.NO_MEMORY and "by 1.5" in reply.text


@pytest.mark.parametrize(("batches", "copies"), [(3, 1), (2, 1), (4, 0)])
def test_more_batches_in_as_many_words_run_in_ddr(firmware: fh.Harness, batches: int, copies: int) -> None:
    """Three batches of 4N take the bytes of four; tiles are for three."""
    form = {"dtype": DType.INT8, "store_mode": StoreMode.N4}
    record = TensorRecord((3, 4, 2, 2), **form)  # type: ignore[arg-type]
    program = Program(in_num=1, out_num=1)
    for kind in (INPUT, OUTPUT):
        program.add(ProgramTensor(kind, record, max_bytes=record.nbytes))
    tiles = [program.add(ProgramTensor(LOCAL, record, alias_of=of)) for of in (0, 1)]
    layer = Step(StepOp.GLOBAL, (0,), (1,), PROBE, "p", bytes(4), param_check=fh.param_check(PROBE))
    local = [
        Step(StepOp.LOAD, (0,), (tiles[0],)),
        replace(layer, opcode=StepOp.LOCAL, inputs=(tiles[0],), outputs=(tiles[1],)),
    ]
    program.steps = [Step(StepOp.GROUP, local_steps=2, global_steps=1), *local, layer]
    reply = run(firmware, program, TensorRecord((batches, 4, 2, 2), addr=IN, **form))  # type: ignore[arg-type]
    assert reply.status == 0 and len(firmware.gdma) == copies, reply.text


# ---- which shapes the tiles allow ----


def pair(first: Sequence[int], second: Sequence[int]) -> Program:
    """Two inputs, each with a layer and an output, in one group of one tile each."""
    program = Program(in_num=2, out_num=2)
    ends = []
    for i, shape in enumerate((first, second)):
        record = TensorRecord(tuple(shape))
        x = program.add(ProgramTensor(INPUT, record, i, 0, max_bytes=record.nbytes))
        y = program.add(ProgramTensor(OUTPUT, record, i, NONE, max_bytes=record.nbytes))
        at = replace(record, addr=0x8000 * i, processed=(0,) * 4, slice_shape=record.shape)
        ends.append((x, y, *(program.add(ProgramTensor(LOCAL, at, alias_of=of)) for of in (x, y))))
    local: list[Step] = []
    for x, y, a, b in ends:
        local += [
            Step(StepOp.LOAD, (x,), (a,)),
            call(StepOp.LOCAL, a, b, 3.0),
            Step(StepOp.STORE, (b,), (y,)),
        ]
    calls = [call(StepOp.GLOBAL, x, y, 3.0) for x, y, _, _ in ends]
    head = Step(StepOp.GROUP, local_steps=len(local), global_steps=len(calls))
    program.steps = [head, *local, *calls]
    return program


@pytest.mark.parametrize(
    ("compiled", "given", "tiles"),
    [
        (((4, 2, 3, 5), (4, 6, 3, 5)), ((4, 2, 3, 5), (4, 6, 3, 5)), True),
        (((4, 2, 3, 5), (4, 6, 3, 5)), ((2, 2, 3, 5), (2, 6, 3, 5)), True),
        (((4, 2, 3, 5), (4, 6, 3, 5)), ((2, 2, 3, 5), (3, 6, 3, 5)), False),  # two batches
        (((4, 2, 3, 5), (4, 6, 3, 5)), ((2, 2, 3, 5), (4, 6, 3, 5)), False),
        (((4, 2, 3, 5), (4, 6, 3, 5)), ((4, 2, 3, 5), (2, 6, 3, 5)), False),
        (((4, 2, 3, 5), (1, 6, 3, 5)), ((2, 2, 3, 5), (1, 6, 3, 5)), True),  # one for all batches
        (((4, 2, 3, 5), (3, 6, 3, 5)), ((2, 2, 3, 5), (2, 6, 3, 5)), False),  # two that differ
        (((4, 2, 3, 5), (4, 6, 3, 5)), ((2, 2, 3, 5), (2, 6, 3, 4)), False),
    ],
)
def test_the_batch_is_one(
    firmware: fh.Harness, compiled: tuple[Any, Any], given: tuple[Any, Any], tiles: bool
) -> None:
    arrays = []
    for i, shape in enumerate(given):
        x = firmware.array(IN + (i << 16), shape)
        x[...] = np.random.default_rng(i).standard_normal(shape).astype(np.float32)
        arrays.append(x)
    ins = [TensorRecord(shape, addr=IN + (i << 16)) for i, shape in enumerate(given)]
    outs = [TensorRecord((1,), addr=OUT + (i << 16)) for i in range(2)]
    program = pair(*compiled)
    reply = firmware.run(program, RunMode.DYNAMIC, ins, outs, (POOL, 0))
    assert reply.status == 0, reply.text
    for i, x in enumerate(arrays):
        assert np.array_equal(firmware.array(OUT + (i << 16), x.shape), x * np.float32(3))
    for at, step in enumerate(program.steps):  # other numbers on tiles show which way it goes
        if step.opcode is StepOp.LOCAL:
            program.steps[at] = replace(step, param=scaled(5.0))
    firmware.run(program, RunMode.DYNAMIC, ins, outs, (POOL, 0))
    factor = np.float32(5 if tiles else 3)
    assert np.array_equal(firmware.array(OUT, arrays[0].shape), arrays[0] * factor)


# ---- what is refused ----


def _edit(at: int, **changes: Any) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        program.steps[at] = replace(program.steps[at], **changes)

    return change


def _tensor(at: int, **changes: Any) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        program.tensors[at] = replace(program.tensors[at], **changes)

    return change


def _shape(at: int, *shape: int) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        t = program.tensors[at]
        program.tensors[at] = replace(t, tensor=replace(t.tensor, shape=shape))

    return change


def _cut(at: int, first: int, batches: int) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        t = program.tensors[at]
        tile = replace(t.tensor, processed=(first, 0, 0, 0), slice_shape=(batches, *t.tensor.shape[1:]))
        program.tensors[at] = replace(t, tensor=tile)

    return change


MISTAKES: dict[str, tuple[Callable[[Program], None], str]] = {
    "no steps on tiles": (
        _edit(0, local_steps=0),
        "step 0 is a group of 0 steps on tiles and 2 on DDR data; 10 follow",
    ),
    "no layers": (_edit(0, global_steps=0), "step 0 is a group of 8 steps on tiles and 0 on DDR data"),
    "more than there are": (_edit(0, global_steps=3), "8 steps on tiles and 3 on DDR data; 10 follow"),
    "far more": (_edit(0, local_steps=(1 << 64) - 2), "is a group of 18446744073709551614 steps"),
    "too few on tiles": (
        _edit(0, local_steps=7, global_steps=2),
        r"step 8 \(PARALLEL_END\) is in the wrong place",
    ),
    "too many on tiles": (
        _edit(0, local_steps=9, global_steps=1),
        r"step 9 \(GLOBAL\) .*among the steps on tiles",
    ),
    "too few layers": (_edit(0, global_steps=1), "step 7 stores tensor 2, which no layer of its group makes"),
    "a group in it": (
        _edit(1, opcode=StepOp.GROUP, local_steps=1, global_steps=1),
        r"step 1 \(GROUP\) .*on tiles",
    ),
    "a tile of nothing": (
        _tensor(3, alias_of=NONE),
        "tensor 3 is a tile of no tensor in DDR that has its shape",
    ),
    "a tile of a tile": (_tensor(3, alias_of=4), "tensor 3 is a tile of no tensor in DDR"),
    "a tile of another shape": (_shape(X, 5, 70, 54), "tensor 3 is a tile of no tensor in DDR"),
    "a tile of a tensor that is not": (_tensor(3, alias_of=20), "shares the memory of tensor 20 of 6"),
    "stored elsewhere": (_edit(7, outputs=(X,)), "step 7 stores tensor 0, which no layer of its group makes"),
    "loaded before": (_edit(2, inputs=(T,)), "step 2 moves or reads tensor 1, which is not in DDR"),
    "a copy out of it": (_edit(2, opcode=StepOp.COPY, outputs=(T,)), "step 2 moves or reads tensor 1"),
    "left open": (_edit(8, opcode=StepOp.WAIT), "step 0: its group leaves a parallel section open"),
    "opened twice": (_edit(8, opcode=StepOp.PARALLEL_START), "already open"),
    "waits for later": (_edit(3, bd_after=3), "step 3 waits for step 3, which is not an earlier one"),
    "a part for a whole": (_cut(3, 5, 1), "has tiles with batches, and some with none"),
    "before the beginning": (_cut(3, -1, 5), "elements -1 to 3 of a tile of 5"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(firmware: fh.Harness, name: str) -> None:
    change, says = MISTAKES[name]
    program = grouped((5,))
    assert len(program.steps) == 11
    change(program)
    check(run(firmware, program, TensorRecord(SHAPE, addr=IN)), says, name)


def test_fixed_programs_have_no_groups(firmware: fh.Harness) -> None:
    program = Program([], [Step(StepOp.GROUP, local_steps=1, global_steps=1)])
    reply = firmware.run(program, RunMode.FIXED, record=True)
    assert reply.text == "step 0 begins a group; only dynamic programs have these"
