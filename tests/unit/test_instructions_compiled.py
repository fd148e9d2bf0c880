"""Every instruction twice: by its compiled loops, and by the plain references beside them."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import flush
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import matmul, small, workers
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.loops import native
from firmware_sim.isa.codes import Eu, Precision, Stride, Task
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support import isa_cases as cases
from tests.support import isa_cases_fixed as cases_fixed
from tests.support import isa_cases_nn as cases_nn
from tests.support.examples import examples
from tests.unit.test_instructions_loops import same

_FAMILIES: dict[str, Any] = {
    "arithmetic": cases.arithmetic(),
    "md": cases.md(),
    "fixed": cases_fixed.fixed(),
    "special": cases_fixed.special(),
    "vector": cases_fixed.vector(),
    "convolution": cases_nn.convolution(),
    "depthwise": cases_nn.depthwise(),
    "product": cases_nn.product(),
    "correlation": cases_nn.correlation(),
    "channel_sum": cases_nn.channel_sum(),
    "dma": cases.dma(),
}


def _pair() -> tuple[Tpu, Tpu]:
    return Tpu(Memory.create(ddr_bytes=1 << 20)), Tpu(Memory.create(ddr_bytes=1 << 20))


@pytest.fixture(scope="module")
def both() -> tuple[Tpu, Tpu]:
    return _pair()


@pytest.fixture(scope="module")
def others() -> tuple[Tpu, Tpu]:
    """Others, because an engine keeps how it goes about a command."""
    return _pair()


@pytest.fixture(scope="module")
def in_pairs() -> tuple[Tpu, Tpu]:
    """As `others`."""
    return _pair()


def run(tpu: Tpu, case: cases.Case, seed: int) -> str:
    """The reason when the command is refused, else nothing."""
    cases.fill(tpu.memory, seed)
    try:
        cases.execute(tpu, case)
    except DeviceError as error:
        return str(error)
    return ""


@pytest.mark.skipif(not flush.HARDWARE, reason="this processor does not flush as the chip: no loops are used")
@pytest.mark.parametrize("family", _FAMILIES)
@given(data=st.data())
@examples(25)
def test_loops_and_references_agree(family: str, data: st.DataObject, both: tuple[Tpu, Tpu]) -> None:
    case, seed = data.draw(_FAMILIES[family]), data.draw(st.integers(0, 3))
    compiled, plain = both
    got = run(compiled, case, seed)
    with patch.object(flush, "HARDWARE", new=False):
        want = run(plain, case, seed)
    assert got == want
    for a, b in zip(cases.windows(compiled.memory), cases.windows(plain.memory), strict=True):
        assert same(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32))


@pytest.mark.parametrize("step", [1, 2], ids=["rows", "elements"])
def test_an_operand_that_starts_on_another_lane(step: int) -> None:
    """Each channel of it lies in a lane of its own, as in the vendor's model, in loops and references."""
    c, w = 70, 9
    fields = {
        "tsk_typ": Task.ARITHMETIC,
        "tsk_eu_typ": Eu.COPY,
        "res0_n": 1,
        "res0_c": c,
        "res0_h": 1,
        "res0_w": w,
    }
    for name, start in {"res0": 0, "opd0": 3 * cases.LANE + 0x2000}.items():
        steps = {"n": 64, "c": 32, "h": 20, "w": step}
        fields |= {f"{name}_{axis}_str": size for axis, size in steps.items()}
        fields |= {f"{name}_addr": cases.LOCAL + start, f"short_{name}_str": Stride.EXPLICIT}
    compiled, plain = _pair()
    assert run(compiled, (Engine.BD, fields), 2) == ""
    with patch.object(flush, "HARDWARE", new=False):
        assert run(plain, (Engine.BD, fields), 2) == ""
    words = plain.memory.local.view(np.uint32)
    for channel in range(c):
        slot, lane = channel // 64 * 32, channel % 64
        behind = 0x2000 // 4 + (3 + channel) // 64 * 32
        got = words[lane, slot : slot + step * w : step]
        assert np.array_equal(got, words[(3 + channel) % 64, behind : behind + step * w : step])
    assert np.array_equal(compiled.memory.local, plain.memory.local)


@pytest.mark.skipif(not flush.HARDWARE, reason="this processor does not flush as the chip: no loops are used")
@pytest.mark.parametrize("family", ["convolution", "fp32 convolution", "depthwise", "product", "dma"])
@given(data=st.data())
@examples(25)
def test_the_ways_of_large_commands_and_references_agree(
    family: str, data: st.DataObject, others: tuple[Tpu, Tpu]
) -> None:
    """Commands made to go the ways of large ones, in threads; some reach beyond the end of a lane."""
    families = {**_FAMILIES, "fp32 convolution": cases_nn.convolution(only=Precision.FP32, extra=16)}
    (engine, fields), seed = data.draw(families[family]), data.draw(st.integers(0, 3))
    near_the_end = data.draw(st.sampled_from(["", "", "opd0_addr", "opd1_addr", "opd2_addr"]))
    if near_the_end in fields and fields[near_the_end] >= cases.LOCAL:  # not a constant
        distance = 8 * data.draw(st.integers(1, 64))
        fields = {**fields, near_the_end: (fields[near_the_end] | (cases.LANE - 1)) + 1 - distance}
    case = engine, fields
    compiled, plain = others
    with patch.object(small, "PRODUCTS_MAX", new=-1), patch.object(workers, "WORTH", new=1):
        got = run(compiled, case, seed)
    with patch.object(flush, "HARDWARE", new=False):
        want = run(plain, case, seed)
    assert got == want
    for a, b in zip(cases.windows(compiled.memory), cases.windows(plain.memory), strict=True):
        assert same(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32))


@pytest.mark.skipif(not flush.HARDWARE, reason="this processor does not flush as the chip: no loops are used")
@given(data=st.data())
@examples(25)
def test_bytes_are_multiplied_in_pairs_where_four_at_once_are_not(
    data: st.DataObject, in_pairs: tuple[Tpu, Tpu]
) -> None:
    """As on processors without such an instruction."""
    case = data.draw(cases_nn.convolution(only=Precision.INT8, extra=40))
    seed = data.draw(st.integers(0, 3))
    compiled, plain = in_pairs
    with patch.object(small, "PRODUCTS_MAX", new=-1), patch.object(native, "at_once", return_value=False):
        got = run(compiled, case, seed)
    with patch.object(flush, "HARDWARE", new=False):
        want = run(plain, case, seed)
    assert got == want
    for a, b in zip(cases.windows(compiled.memory), cases.windows(plain.memory), strict=True):
        assert same(np.ascontiguousarray(a).view(np.uint32), np.ascontiguousarray(b).view(np.uint32))


@pytest.mark.skipif(not flush.HARDWARE, reason="this processor does not flush as the chip: no loops are used")
def test_small_products_of_fixed_point_are_a_loop() -> None:
    """Equal either way, and many times as fast."""
    at = {"res0_addr": 0, "opd0_addr": 4096, "opd1_addr": 8192}
    fields = {name: cases.LOCAL + place for name, place in at.items()}
    fields |= {"tsk_typ": Task.MATMUL, "opt_res0_prec": Precision.INT8, "tsk_opd_num": 2}
    fields |= {"opd0_n": 3, "opd0_c": 2, "opd0_w": 4, "opd1_w": 4, "res0_c": 2, "res0_w": 5}
    with patch.object(matmul, "_fixed_parts", side_effect=AssertionError("the general way")):
        assert run(Tpu(Memory.create(ddr_bytes=1 << 20)), (Engine.BD, fields), 0) == ""
