"""fp32 with flush to zero, against exact rational arithmetic, on values chosen to hurt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firmware_sim.flush import flushing
from firmware_sim.instructions import fp32
from firmware_sim.instructions import fp32_software as software
from firmware_sim.instructions.arithmetic import BY_EU
from firmware_sim.isa.codes import Eu
from tests.support import reference_chip as ref

_EDGES = [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x3F800000, 0x3F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]

_near_denormal = st.integers(0x0000_0000, 0x0180_0000)
_product_small = st.integers(0x1E80_0000, 0x2100_0000)  # two of these multiply to about 2**-126
_magnitude = st.one_of(st.sampled_from(_EDGES), _near_denormal, _product_small, st.integers(0, 0x7FFF_FFFF))
floats = st.builds(lambda m, s: m | s, _magnitude, st.sampled_from([0, ref.SIGN]))

_BINARY: dict[str, tuple[Callable[..., fp32.F32], Callable[[int, int], int]]] = {
    "add": (fp32.add, ref.add),
    "sub": (fp32.sub, ref.sub),
    "mul": (fp32.mul, ref.mul),
    "div": (fp32.div, ref.div),
    "maximum": (fp32.maximum, ref.maximum),
    "minimum": (fp32.minimum, ref.minimum),
    "software add": (software.add, ref.add),
    "software sub": (software.sub, ref.sub),
    "software mul": (software.mul, ref.mul),
}


def _array(bits: list[int]) -> fp32.F32:
    return np.array(bits, np.uint32).view(np.float32)


def _same(a: int, b: int) -> bool:
    return a == b or (ref.is_nan(a) and ref.is_nan(b))


@pytest.mark.parametrize("name", _BINARY)
@given(pairs=st.lists(st.tuples(floats, floats), min_size=1, max_size=20))
# a product that rounds to 2**-126 only on the denormal grid, and one that rounds to it anyway
@example(pairs=[(0x1FFFFFFF, 0x1FFFFFFF), (0x3F7FFFFF, 0x00800000), (0x3F800000, 0x00800000)])
@example(pairs=[(0x00800001, 0x80800000), (0x80000001, 0x00000001), (0x0D000000, 0x807FFFFF)])
def test_binary_operations(name: str, pairs: list[tuple[int, int]]) -> None:
    function, reference = _BINARY[name]
    with np.errstate(all="ignore"), flushing():
        got = function(_array([a for a, _ in pairs]), _array([b for _, b in pairs])).view(np.uint32)
    for (a, b), g in zip(pairs, got.tolist(), strict=True):
        assert _same(g, reference(a, b)), f"{name}({a:#x}, {b:#x}) = {g:#x}, not {reference(a, b):#x}"


@given(a=floats, b=floats, old=floats)
def test_mac_rounds_the_product_first(a: int, b: int, old: int) -> None:
    with np.errstate(all="ignore"), flushing():
        words = [np.array([bits], np.uint32) for bits in (a, b, old)]
        got = int(BY_EU[Eu.MAC].function.reference(*words)[0])
    assert _same(got, ref.add(old, ref.mul(a, b)))


@given(a=floats, b=floats)
def test_comparisons(a: int, b: int) -> None:
    with np.errstate(all="ignore"), flushing():
        for module in (fp32, software):
            assert bool(module.greater(_array([a]), _array([b]))[0]) == ref.greater(a, b)
            unordered = ref.is_nan(a) or ref.is_nan(b)
            want = not unordered and not ref.greater(a, b)
            assert bool(module.less_equal(_array([a]), _array([b]))[0]) == want


@given(a=floats)
def test_flush(a: int) -> None:
    with np.errstate(all="ignore"), flushing():
        for flush in (fp32.flush, software.flush):
            assert _same(int(flush(_array([a])).view(np.uint32)[0]), ref.add(a, ref.SIGN))


def test_the_mode_ends_with_the_block() -> None:
    denormal = _array([1])
    with flushing():
        pass
    assert denormal[0] + denormal[0] > 0


def test_one_element_broadcasts() -> None:
    """Constants are arrays of one element; a denormal constant counts as zero too."""
    many = np.arange(6, dtype=np.float32).reshape(2, 3)
    with flushing():
        product, total = fp32.mul(many, _array([1])), fp32.add(many, _array([0x40000000]))
    assert np.array_equal(product, np.zeros((2, 3), np.float32))
    assert np.array_equal(total, many + 2)
