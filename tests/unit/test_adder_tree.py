"""The adder tree against exact rational arithmetic, and its compiled loop against the plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import flush
from firmware_sim.flush import flushing
from firmware_sim.instructions import adder_tree
from firmware_sim.isa.codes import Task
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support import reference_chip as ref
from tests.support.examples import examples
from tests.support.isa_cases import LOCAL, NO_COMMANDS

_EDGES = [0, 1, 0x7FFFFF, 0x800000, 0x800001, 0x1000000, 0x3F800000, 0x4B000001, 0x7F7FFFFF]
_SPECIAL = [ref.INF, ref.INF | ref.SIGN, ref.NAN]


def total(numbers: list[int]) -> int:
    result = 0
    for at in range(0, len(numbers), adder_tree.INPUTS):
        result = ref.tree([result, *numbers[at : at + adder_tree.INPUTS]])
    return result


def noise(rng: np.random.Generator, rows: int, count: int, special: bool) -> adder_tree.F32:
    """Numbers of many sizes, some cancelling; edges and (special) infinities and NaN here and there."""
    spread = int(rng.choice([1, 12, 40]))
    values = rng.standard_normal((rows, count)) * 2.0 ** rng.integers(-spread, spread + 1, (rows, count))
    bits = values.astype(np.float32).view(np.uint32)
    bits[:, 1::3] = bits[:, : count - 1 : 3] ^ np.uint32(ref.SIGN)
    if special:
        chosen = rng.choice(np.array(_EDGES * 5 + _SPECIAL, np.uint32), (rows, count))
        chosen |= rng.integers(0, 2, (rows, count), dtype=np.uint32) << np.uint32(31)
        bits = np.where(rng.integers(0, int(rng.choice([1, 5, 40])), (rows, count)) == 0, chosen, bits)
    return bits.view(np.float32)


@pytest.mark.parametrize("hardware", [True, False])
@given(seed=st.integers(0, 9999), count=st.sampled_from([1, 2, 31, 32, 33, 64, 100]), special=st.booleans())
@examples(60)
def test_equals_rational_arithmetic(hardware: bool, seed: int, count: int, special: bool) -> None:
    """Also where the processor does not flush denormals."""
    x = noise(np.random.default_rng(seed), 3, count, special)
    with np.errstate(all="ignore"):
        if hardware and flush.HARDWARE:
            with flushing():
                got = adder_tree.total(x)
        else:
            got = adder_tree.total(x)
    for row, result in zip(x.view(np.uint32).tolist(), got.view(np.uint32).tolist(), strict=True):
        want = total(row)
        assert result == want or (ref.is_nan(result) and ref.is_nan(want)), [hex(b) for b in row]


@given(seed=st.integers(0, 9999), special=st.booleans())
@examples(30)
def test_the_compiled_loop_equals_the_plain_one(seed: int, special: bool) -> None:
    rng = np.random.default_rng(seed)
    x = noise(rng, 200, int(rng.integers(90, 140)), special)
    want = np.empty(len(x), np.float32)
    with np.errstate(all="ignore"), flushing():
        got = adder_tree.total(x)
        adder_tree.total_reference(x, want)
    assert np.all((got.view(np.uint32) == want.view(np.uint32)) | (np.isnan(got) & np.isnan(want)))


def test_small_numbers_are_lost_beside_large_ones() -> None:
    """What tells the tree from IEEE additions: one bit below the largest number's last one remains."""

    def bits(*numbers: float) -> int:
        return int(adder_tree.total(np.array([numbers], np.float32)).view(np.uint32)[0])

    one, half = 0x3F800000, 0x3F000000
    assert bits(2.0**24, -(2.0**24), 1.0) == one
    assert bits(2.0**25, -(2.0**25), 1.0) == 0
    assert bits(2.0**23, -(2.0**23), 0.75) == half
    assert bits(2.0**23, -(2.0**23), -0.75) == half | ref.SIGN
    assert bits(*[0.0] * 30, 2.0**25, -(2.0**25), 1.0) == one  # the next step does not see the large ones


def test_a_sum_per_channel_starts_each_batch_anew() -> None:
    """The elements of two batches never share a step: the 1 in the second one survives."""
    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    words = tpu.memory.local.view(np.float32)
    words[0, 64:66] = 2.0**25, -(2.0**25)
    words[0, 96:98] = 1, 2  # the second batch
    words[0, 0] = 8
    fields = {"opd0_n": 2, "opd0_h": 1, "opd0_w": 2, "res0_c": 1, "opt_res_add": 1}
    fields.update(tsk_typ=Task.MD_SUM, cmd_id_tpu=1, res0_addr=LOCAL, opd0_addr=LOCAL + 256)
    tpu.execute(np.frombuffer(BD.encode(**{**BD.defaults, **fields}), np.uint32).reshape(1, 32), NO_COMMANDS)
    assert words[0, 0] == 11
