"""What goes wrong in numbers, against plain numpy; results are what they are without looking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.batch import Batch
from firmware_sim.checks import numeric
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.numeric import Numeric
from firmware_sim.flush import HARDWARE
from firmware_sim.instructions.example import example
from firmware_sim.instructions.instruction import Engine, Instruction, Run
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa.codes import Direction, Eu, Format, Precision, Special, Stride, Task
from firmware_sim.isa.layout import BD, GDMA, U32
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support.examples import examples

LOCAL = chip.LOCAL_BASE
NONE: U32 = np.zeros((0, 32), np.uint32)
A, B, OUT = 0x1000, 0x2000, 0x3000
Array = npt.NDArray[Any]


class Watched:
    """A chip whose commands are looked at one by one."""

    def __init__(self, ddr_bytes: int = 1 << 20) -> None:
        self.tpu = Tpu(Memory.create(ddr_bytes=ddr_bytes))
        self.found: list[Finding] = []
        self._numeric = Numeric(self.tpu.memory, lambda space, at: "")
        self.tpu.around = self._around

    def _around(self, batch: Batch, engine: Engine, index: int, run: Run) -> None:
        self.found += self._numeric.around(
            batch, engine, index, run, lambda: Issued(engine.value, index + 1, "")
        )

    def run(self, descriptor: bytes, *, bd: bool = True) -> list[Finding]:
        words = np.frombuffer(descriptor, np.uint32).reshape(1, 32)
        self.found = []
        self.tpu.restart()
        self.tpu.execute(*((words, NONE) if bd else (NONE, words)))
        return self.found

    def put(self, at: int, values: Array) -> None:
        """One row of lane 0."""
        data = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        self.tpu.memory.local[0, at : at + data.size] = data

    def row(self, at: int, count: int, kind: str) -> Array:
        found: Array = self.tpu.memory.local[0, at : at + count * np.dtype(kind).itemsize].view(kind).copy()
        return found


@pytest.fixture(scope="module")
def chip_watched() -> Watched:
    return Watched()


def arithmetic(eu: Eu, count: int, **more: int) -> bytes:
    """opd0 at A, opd1 at B, result at OUT: one row of `count` elements in lane 0."""
    fields = {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": eu, "res0_addr": LOCAL + OUT, "opd0_addr": LOCAL + A}
    sizes = {"res0_n": 1, "res0_c": 1, "res0_h": 1, "res0_w": count}
    strides = {
        f"{o}_{axis}_str": 1 if axis == "w" else count for o in ("res0", "opd0", "opd1") for axis in "nchw"
    }
    short = {f"short_{o}_str": Stride.EXPLICIT for o in ("res0", "opd0", "opd1")}
    ids = {"cmd_id_tpu": 1, "cmd_id_gdma": 0, "opd1_addr": LOCAL + B}
    return BD.encode(**{**BD.defaults, **fields, **sizes, **strides, **short, **ids, **more})


FLOATS = st.lists(
    st.sampled_from(
        [0.0, -0.0, 1.0, -3.5, 3e38, -3e38, 1e-38, 2e-20, -1e-20, np.inf, -np.inf, np.nan, 1e-40]
    ),
    min_size=6,
    max_size=6,
)
PLAIN: dict[Eu, Callable[[Array, Array], Array]] = {Eu.ADD: np.add, Eu.SUB: np.subtract, Eu.MUL: np.multiply}


@examples(200)
@given(st.sampled_from(sorted(PLAIN)), FLOATS, FLOATS)
def test_floats_against_numpy(chip_watched: Watched, eu: Eu, first: list[float], second: list[float]) -> None:
    a, b = (np.array(values, np.float32) for values in (first, second))
    chip_watched.put(A, a)
    chip_watched.put(B, b)
    found = {finding.rule: finding for finding in chip_watched.run(arithmetic(eu, 6))}
    with np.errstate(all="ignore"):
        exact = PLAIN[eu](a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    tiny = np.float32(2.0**-126)
    flushed = (exact != 0) & (np.abs(exact) < tiny)
    small = (np.abs(a) < tiny) & (a != 0), (np.abs(b) < tiny) & (b != 0)
    wanted = {
        "numeric.nan": int((np.isnan(exact) & finite).sum()),
        "numeric.infinite": int((np.isinf(exact) & finite).sum()),
    }
    for rule, count in wanted.items():
        assert (found[rule].nbytes if rule in found else 0) == 4 * count
    if HARDWARE:
        told = "numeric.denormal" in found
        got = chip_watched.row(OUT, 6, "f4")
        assert told == bool((flushed & (got == 0)).any() or small[0].any() or small[1].any())


def test_the_first_element_is_named_with_its_operands(chip_watched: Watched) -> None:
    chip_watched.put(A, np.array([1, 3e38, 2, 3e38], np.float32))
    chip_watched.put(B, np.array([1, 3e38, np.inf, -3e38], np.float32))
    [finding] = chip_watched.run(arithmetic(Eu.ADD, 4))
    assert (finding.rule, finding.operand, finding.address, finding.lanes) == (
        *("numeric.infinite", "res0", f"lane 0 +0x{OUT + 4:x}"),
        (0,),
    )
    assert finding.what == (
        "ar.add: 1 infinities from finite operands, the first res0[0, 0, 0, 1]: "
        "inf now, opd0 3e+38, opd1 3e+38"
    )


def test_what_is_in_place_is_compared_with_what_was_there(chip_watched: Watched) -> None:
    chip_watched.put(A, np.array([3e38, np.inf], np.float32))
    chip_watched.put(B, np.array([3e38, 1], np.float32))
    [finding] = chip_watched.run(arithmetic(Eu.ADD, 2, res0_addr=LOCAL + A))
    assert (finding.rule, finding.nbytes) == ("numeric.infinite", 4)
    assert chip_watched.row(A, 2, "f4").tolist() == [np.inf, np.inf]


def test_a_constant_that_is_not_finite_is_meant(chip_watched: Watched) -> None:
    chip_watched.put(A, np.array([1, 2], np.float32))
    infinity = int(np.float32(-np.inf).view(np.uint32))
    assert not chip_watched.run(arithmetic(Eu.MUL, 2, opt_opd1_const=1, opd1_addr=infinity))


def test_a_constant_is_told_with_the_element(chip_watched: Watched) -> None:
    chip_watched.put(A, np.array([1, 3e38], np.float32))
    factor = int(np.float32(4).view(np.uint32))
    [finding] = chip_watched.run(arithmetic(Eu.MUL, 2, opt_opd1_const=1, opd1_addr=factor))
    assert finding.what.endswith("the first res0[0, 0, 0, 1]: inf now, opd1 4, opd0 3e+38")


def test_a_command_that_is_too_large_is_said(chip_watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numeric, "MOST", 5)
    [finding] = chip_watched.run(arithmetic(Eu.ADD, 2))
    assert finding.rule == "numeric.unseen"
    assert finding.what.startswith("ar.add: 6 elements are not looked at")


def test_denormals(chip_watched: Watched) -> None:
    chip_watched.put(A, np.array([1e-30, 1], np.float32))
    chip_watched.put(B, np.array([1e-10, 1], np.float32))
    [finding] = chip_watched.run(arithmetic(Eu.MUL, 2))
    assert finding.rule == "numeric.denormal"
    assert "1 results below 2**-126 become 0, the first res0[0, 0, 0, 0]: 0 now, opd0 1e-30" in finding.what
    assert chip_watched.row(OUT, 2, "f4").tolist() == [0, 1]
    chip_watched.put(A, np.array([1e-40, 1], np.float32))
    chip_watched.put(B, np.array([5, 1], np.float32))
    [finding] = chip_watched.run(arithmetic(Eu.ADD, 2))
    assert "1 denormals count as 0, the first opd0[0, 0, 0, 0]" in finding.what


BYTES = st.lists(st.integers(-128, 127), min_size=8, max_size=8)


@examples(200)
@given(st.sampled_from([Eu.ADD, Eu.SUB, Eu.MUL]), BYTES, BYTES, st.integers(0, 9), st.booleans())
def test_saturated_elements_against_numpy(
    chip_watched: Watched, eu: Eu, first: list[int], second: list[int], shift: int, signed: bool
) -> None:
    """Two words of four batches each."""
    kind = np.int8 if signed else np.uint8
    a, b = (np.array(values, np.int64).astype(kind) for values in (first, second))
    chip_watched.put(A, a)
    chip_watched.put(B, b)
    descriptor = arithmetic(
        eu,
        2,
        res0_n=4,
        opt_right_shift=shift,
        **{f"opt_{o}_prec": Precision.INT8 for o in ("res0", "opd0", "opd1")},
        **{f"opt_{o}_sign": int(signed) for o in ("opd0", "opd1")},
    )
    found = chip_watched.run(descriptor)
    exact = PLAIN[eu](a.astype(np.int64), b.astype(np.int64))
    if shift:
        exact = (exact + (1 << (shift - 1))) >> shift
    low, high = (-128, 127) if signed or eu is Eu.SUB else (0, 255)
    beyond = int(((exact < low) | (exact > high)).sum())
    assert sum(finding.nbytes for finding in found) == beyond
    assert {finding.rule for finding in found} <= {"numeric.saturated"}
    np.testing.assert_array_equal(chip_watched.row(OUT, 8, "u1"), np.clip(exact, low, high).astype(np.uint8))


def test_floats_beyond_integers(chip_watched: Watched) -> None:
    values = np.array([2.0**31, -(2.0**31), 1e20, np.nan, 2147483520, -3e9], np.float32)
    chip_watched.put(A, values)
    fields = {
        "tsk_typ": Task.MD_SFU,
        "tsk_eu_typ": Eu.FP32_TO_INT,
        "res0_addr": LOCAL + OUT,
        "opd0_addr": LOCAL + A,
    }
    sizes = {"res0_n": 1, "res0_c": 1, "res0_h": 1, "res0_w": 6, "cmd_id_tpu": 1}
    [finding] = chip_watched.run(BD.encode(**{**BD.defaults, **fields, **sizes}))
    assert (finding.rule, finding.nbytes) == ("numeric.saturated", 4 * 4)
    assert "the first res0[0, 0, 0, 0]: 0x7fffffff now, opd0 2.14748e+09" in finding.what


@pytest.mark.parametrize(
    ("target", "rule", "values", "count"),
    [
        (Format.INT8, "numeric.saturated", [127.4, 127.6, -128.4, -129, np.nan], 3),
        (Format.UINT8, "numeric.saturated", [-0.4, -0.6, 255, 256, 3], 2),
        (Format.FP16, "numeric.infinite", [65504, 65536, -1e9, np.inf, 0], 2),
        (Format.FP16, "numeric.denormal", [2.0**-14, 2.0**-15, 0, -1e-8, 1], 2),
    ],
)
def test_conversions(
    chip_watched: Watched, target: Format, rule: str, values: list[float], count: int
) -> None:
    chip_watched.put(A, np.array(values, np.float32))
    sizes = {f"{side}_{axis}size": 5 if axis == "w" else 1 for side in ("src", "dst") for axis in "nchw"}
    strides = {f"{side}_{axis}stride": 1 if axis == "w" else 5 for side in ("src", "dst") for axis in "nchw"}
    place = {"src_start_addr_l32": LOCAL + A, "dst_start_addr_l32": LOCAL + OUT}
    how = {"direction": Direction.L2L, "stride_enable": 1, "special_func": Special.FORMAT, "cmd_id": 1}
    how["dst_data_format"] = int(target)
    found = chip_watched.run(GDMA.encode(**{**GDMA.defaults, **sizes, **strides, **place, **how}), bd=False)
    assert [finding.rule for finding in found] == [rule]
    assert found[0].nbytes == count * target.itemsize


@pytest.fixture(scope="module")
def plain() -> Tpu:
    return Tpu(Memory.create(ddr_bytes=64 << 20))


@pytest.fixture(scope="module")
def looked_at() -> Watched:
    return Watched(ddr_bytes=64 << 20)


@pytest.mark.parametrize("instruction", [i for i in TABLE if i.semantics is not None], ids=lambda i: i.name)
def test_looking_changes_no_result(plain: Tpu, looked_at: Watched, instruction: Instruction) -> None:
    """The example of each instruction, on bits of all kinds."""
    bd = instruction.engine is Engine.BD
    layout, number = (BD, "cmd_id_tpu") if bd else (GDMA, "cmd_id")
    waits = {"cmd_id_gdma": 0} if bd else {"eng0_sync_id": 0}
    descriptor = layout.encode(**{**example(instruction), number: 1, **waits})
    random = np.random.default_rng(1)
    values = random.choice(
        np.array([0, 1, -2, 3e38, 1e-39, 1e-30, np.nan, np.inf], np.float32), (64, 1 << 12)
    )
    for tpu in (plain, looked_at.tpu):
        tpu.memory.local[:, : values.shape[1] * 4] = values.view(np.uint8)
        tpu.memory.ddr[: values.nbytes] = values.view(np.uint8).reshape(-1)
    words = np.frombuffer(descriptor, np.uint32).reshape(1, 32)
    plain.restart()
    plain.execute(*((words, NONE) if bd else (NONE, words)))
    for finding in looked_at.run(descriptor, bd=bd):
        assert finding.rule.startswith("numeric.")
        assert f"{instruction.name}: " in finding.what
    ours, theirs = looked_at.tpu.memory, plain.memory
    np.testing.assert_array_equal(ours.local[:, : 1 << 15], theirs.local[:, : 1 << 15])
    np.testing.assert_array_equal(ours.ddr[: 1 << 20], theirs.ddr[: 1 << 20])
