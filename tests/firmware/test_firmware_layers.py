"""The demo and built-in layers, global and local, against numpy bit for bit."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim import wire
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.wire import DType, Op, Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from tests.support import firmware_harness as fh
from tests.support.examples import examples

CROP, DOUBLE, EXPAND_DIMS, CONST_BINARY = 0, 1, 0x10000, 0x10001
ADD, SUB, MUL, DIV, MAX, MIN = 0, 1, 2, 3, 4, 10000
IN, OUT = fh.DDR, fh.DDR + (64 << 20)

Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, executes=True, ddr_bytes=128 << 20)


def crop_param(before: Sequence[int], after: Sequence[int]) -> bytes:
    pad = [[*v, *[0] * (8 - len(v))] for v in (before, after)]
    return struct.pack("<16i", *pad[0], *pad[1])


def infer(firmware: fh.Harness, op: int, param: bytes, record: TensorRecord) -> fh.Reply:
    head = wire.LAYER_CALL.pack(op, len(param), 1, 1, 0, 0)
    return firmware.request(Op.SHAPE, [head, record.encode(), param])


def run_global(firmware: fh.Harness, op: int, param: bytes, x: Array) -> Array:
    """Shape and global function of a layer on x; what it writes, and that it writes nothing else."""
    dtype = DType.from_numpy(x.dtype.name)
    record = TensorRecord(x.shape, dtype, addr=IN)
    reply = infer(firmware, op, param, record)
    assert reply.status == 0, reply.text
    out = TensorRecord.decode(reply.payload).at(OUT)
    firmware.array(IN, x.shape, x.dtype.name)[...] = x
    guard = firmware.array(OUT - 64, (out.nbytes + 128,), "uint8")
    guard[...] = 0xA5
    program = Program()
    for t in (record, out):
        program.add(ProgramTensor(TensorKind.NEURON, t))
    program.steps.append(Step(StepOp.GLOBAL, (0,), (1,), op, "layer", param, param_check=fh.param_check(op)))
    reply = firmware.run(program)
    assert reply.status == 0, reply.text
    assert (guard[:64] == 0xA5).all() and (guard[-64:] == 0xA5).all()
    made: Array = firmware.array(OUT, out.shape, x.dtype.name).copy()
    return made


def numbers(shape: Sequence[int], seed: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        return (rng.standard_normal(shape) * 100).astype(np.float32)
    return rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]


dims = st.lists(st.integers(1, 6), min_size=1, max_size=8)


@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    shape=dims,
    dtype=st.sampled_from(["float32", "int32", "int16", "float16", "uint8", "int8"]),
)
def test_crop_global(firmware: fh.Harness, data: st.DataObject, shape: list[int], dtype: str) -> None:
    before = [data.draw(st.integers(0, n - 1)) for n in shape]
    after = [data.draw(st.integers(0, n - 1 - b)) for n, b in zip(shape, before, strict=True)]
    x = numbers(shape, 5, dtype)
    cut = tuple(slice(b, n - a) for n, b, a in zip(shape, before, after, strict=True))
    y = run_global(firmware, CROP, crop_param(before, after), x)
    assert y.tobytes() == np.ascontiguousarray(x[cut]).tobytes()


@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((200_003,), (1,), (2,)),  # one dimension, longer than a copy
        ((70_001, 3), (0, 1), (1, 0)),
        ((3, 70_001), (1, 0), (0, 5)),
        ((2, 3, 4, 5, 66_000), (0, 1, 0, 0, 0), (0, 0, 0, 1, 0)),
    ],
)
def test_crop_of_long_dimensions(
    firmware: fh.Harness, shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    x = numbers(shape, 6)
    cut = tuple(slice(b, n - a) for n, b, a in zip(shape, before, after, strict=True))
    assert np.array_equal(run_global(firmware, CROP, crop_param(before, after), x), x[cut])


def test_crop_joins_dimensions_that_stay_whole(firmware: fh.Harness) -> None:
    x = numbers((2, 2, 4, 3, 3, 2, 2, 2), 7)
    y = run_global(firmware, CROP, crop_param((0, 0, 1), (0, 0, 1)), x)
    assert np.array_equal(y, x[:, :, 1:3])
    assert len(firmware.gdma) == 1


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=dims, seed=st.integers(0, 99))
def test_double_global(firmware: fh.Harness, shape: list[int], seed: int) -> None:
    x = numbers(shape, seed)
    assert np.array_equal(run_global(firmware, DOUBLE, bytes(4), x), x * 2)


FULL = 64 * 32768


@pytest.mark.parametrize("elements", [1, 63, 64, 65, FULL - 1, FULL, FULL + 1, 3 * FULL + 64 * 5 + 7])
@pytest.mark.parametrize("op", [DOUBLE, CONST_BINARY])
def test_elementwise_layers_of_any_size(firmware: fh.Harness, op: int, elements: int) -> None:
    x = numbers((elements,), 8)
    param = bytes(4) if op == DOUBLE else struct.pack("<fii", 2.0, MUL, 0)
    assert np.array_equal(run_global(firmware, op, param, x), x * 2)


def test_loads_and_stores_overlap_with_compute(firmware: fh.Harness) -> None:
    """Three slices: load 0; load 1 | compute 0; load 2, store 0 | compute 1; store 1 | compute 2; store 2.
    GDMA waits for what was computed before its section, never for what its section computes."""
    run_global(firmware, DOUBLE, bytes(4), numbers((3 * FULL,), 9))
    assert [GDMA.decode(d)["eng0_sync_id"] for d in firmware.gdma] == [0, 0, 1, 1, 2, 3]
    assert [BD.decode(d)["cmd_id_gdma"] for d in firmware.bd] == [1, 2, 4]


OPERATIONS: dict[int, Callable[[Any, Any], Any]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    MUL: lambda a, b: a * b,
    MAX: lambda a, b: np.where(a > b, a, b),
    MIN: lambda a, b: np.where(a < b, a, b),
}


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("inversed", [0, 1])
def test_const_binary_global(firmware: fh.Harness, op: int, inversed: int) -> None:
    x = numbers((3, 5, 7), 10)
    value = np.float32(-12.75)
    y = run_global(firmware, CONST_BINARY, struct.pack("<fii", value, op, inversed), x)
    assert np.array_equal(y, OPERATIONS[op](value, x) if inversed else OPERATIONS[op](x, value))


@pytest.mark.parametrize("inversed", [0, 1])
def test_const_binary_division(firmware: fh.Harness, inversed: int) -> None:
    """The chip's own division; its bits are pinned by the golden executions."""
    x = numbers((3, 5, 7), 11)
    y = run_global(firmware, CONST_BINARY, struct.pack("<fii", 3.0, DIV, inversed), x)
    np.testing.assert_allclose(y, 3 / x if inversed else x / 3, rtol=2e-6)


@pytest.mark.parametrize("axis", [-4, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8"])
def test_expand_dims(firmware: fh.Harness, axis: int, dtype: str) -> None:
    x = numbers((3, 300, 111), 12, dtype)
    y = run_global(firmware, EXPAND_DIMS, struct.pack("<i", axis), x)
    assert y.shape == np.expand_dims(x, axis).shape
    assert y.tobytes() == x.tobytes()


@pytest.mark.parametrize(
    ("op", "param", "record", "code"),
    [
        (CROP, bytes(63), TensorRecord((4,)), "-2"),
        (CROP, crop_param([2], [2]), TensorRecord((4,)), "-2"),
        (CROP, crop_param([-1], [0]), TensorRecord((4,)), "-2"),
        (DOUBLE, bytes(4), TensorRecord((4,), DType.INT8), "-1"),
        (CONST_BINARY, struct.pack("<fii", 1, 5, 0), TensorRecord((4,)), "-2"),
        (CONST_BINARY, struct.pack("<fii", 1, 0, 2), TensorRecord((4,)), "-2"),
        (CONST_BINARY, struct.pack("<fii", 1, 0, 0), TensorRecord((4,), DType.INT32), "-1"),
        (EXPAND_DIMS, struct.pack("<i", 2), TensorRecord((4,)), "-2"),
        (EXPAND_DIMS, struct.pack("<i", -3), TensorRecord((4,)), "-2"),
        (EXPAND_DIMS, struct.pack("<i", 0), TensorRecord((1,) * 8), "-1"),
    ],
)
def test_wrong_parameters_are_refused(
    firmware: fh.Harness, op: int, param: bytes, record: TensorRecord, code: str
) -> None:
    reply = infer(firmware, op, param, record)
    assert reply.status == wire.Status.LAYER
    name = {CROP: "CROP", DOUBLE: "DOUBLE", EXPAND_DIMS: "EXPAND_DIMS", CONST_BINARY: "CONST_BINARY"}[op]
    assert reply.text.startswith(f"layer TPU_{name}: shape function returned {code} (BM_LAYER_")


# ---- local functions, on tiles ----


def run_local(
    firmware: fh.Harness,
    op: int,
    param: bytes,
    x: Array,
    offset: tuple[int, int],
    out: Sequence[int],
    rows: int,
) -> Array:
    """A local layer over slices of `rows` output rows; offset: input row and column of output 0, 0."""
    n, c, h, w = out
    dtype = DType.from_numpy(x.dtype.name)
    firmware.array(IN, x.shape, x.dtype.name)[...] = x
    whole_in, whole_out = TensorRecord(x.shape, dtype, addr=IN), TensorRecord(tuple(out), dtype, addr=OUT)
    program = Program()
    for t in (whole_in, whole_out):
        program.add(ProgramTensor(TensorKind.NEURON, t))
    for top in range(0, h, rows):
        height = min(rows, h - top)
        tiles = []
        for whole, addr, first in (
            (whole_in, 0, (top + offset[0], offset[1])),
            (whole_out, 1 << 18, (top, 0)),
        ):
            record = TensorRecord(
                whole.shape,
                dtype,
                addr=addr,
                processed=(0, 0, *first),
                slice_shape=(n, c, height, w),
            )
            tiles.append(program.add(ProgramTensor(TensorKind.LOCAL, record)))
        i, o = tiles
        program.steps += [
            Step(StepOp.LOAD, (0,), (i,)),
            Step(StepOp.LOCAL, (i,), (o,), op, "layer", param, param_check=fh.param_check(op)),
            Step(StepOp.STORE, (o,), (1,)),
        ]
    reply = firmware.run(program)
    assert reply.status == 0, reply.text
    made: Array = firmware.array(OUT, out, x.dtype.name).copy()
    return made


shapes4 = st.tuples(st.integers(1, 3), st.integers(1, 130), st.integers(1, 9), st.integers(1, 9))


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=shapes4, rows=st.integers(1, 9))
def test_elementwise_local_equals_global(
    firmware: fh.Harness, shape: tuple[int, int, int, int], rows: int
) -> None:
    x = numbers(shape, 13)
    for op, param in ((DOUBLE, bytes(4)), (CONST_BINARY, struct.pack("<fii", 2.0, MUL, 1))):
        assert np.array_equal(run_local(firmware, op, param, x, (0, 0), shape, rows), x * 2)


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=shapes4,
    before=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    after=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    rows=st.integers(1, 9),
    dtype=st.sampled_from(["float32", "int32"]),
)
def test_crop_local_equals_global(
    firmware: fh.Harness,
    shape: tuple[int, int, int, int],
    before: tuple[int, int],
    after: tuple[int, int],
    rows: int,
    dtype: str,
) -> None:
    n, c, h, w = shape
    x = numbers((n, c, h + before[0] + after[0], w + before[1] + after[1]), 14, dtype)
    param = crop_param((0, 0, *before), (0, 0, *after))
    y = run_local(firmware, CROP, param, x, before, shape, rows)
    assert np.array_equal(y, x[:, :, before[0] : before[0] + h, before[1] : before[1] + w])
    assert np.array_equal(y, run_global(firmware, CROP, param, x))
