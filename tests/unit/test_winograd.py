"""fp32 winograd convolution against an element-by-element model, and against a plain convolution."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import flush
from firmware_sim.errors import DeviceError
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Precision, Task
from firmware_sim.isa.layout import BD
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.support import reference_chip as ref
from tests.support.examples import examples
from tests.support.isa_cases import LOCAL, NO_COMMANDS, Fields

F32 = npt.NDArray[np.float32]
_INPUT = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_OUTPUT = ((1, 1, 1, 0), (0, 1, -1, -1))
_KERNEL = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
_RESULT, _X, _WEIGHT, _BIAS = 0, 0x1000, 0x2000, 0x3000


@pytest.fixture(scope="module", params=["compiled", "plain"])
def chip(request: pytest.FixtureRequest) -> Iterator[Tpu]:
    """Small commands run in compiled loops; the plain way is that of large ones, and of other processors."""
    with patch.object(flush, "HARDWARE", new=flush.HARDWARE and request.param == "compiled"):
        yield Tpu(Memory.create(ddr_bytes=1 << 20))


def run(chip: Tpu, x: F32, tiles: F32, bias: float | None, old: float | None, **more: int) -> F32:
    """x [channels, h, w], tiles [channels, 4, 4], one output channel -> [h - 2, w - 2]."""
    channels, h, w = x.shape
    chip.memory.local[:, :0x4000] = 0
    words = chip.memory.local.view(np.float32)
    words[:channels, _X // 4 : _X // 4 + h * w] = x.reshape(channels, -1)
    words[0, _WEIGHT // 4 : _WEIGHT // 4 + tiles.size] = tiles.reshape(-1)
    words[0, _BIAS // 4] = bias or 0
    count = (h - 2) * (w - 2)
    words[0, :count] = old or 0
    fields: Fields = {"tsk_typ": Task.CONV, "opt_winograd": 1, "opt_res0_prec": Precision.FP32}
    fields.update(res0_addr=LOCAL, opd0_addr=LOCAL + _X, opd1_addr=LOCAL + _WEIGHT, opd2_addr=LOCAL + _BIAS)
    fields.update(res0_n=1, res0_c=1, res0_h=h - 2, res0_w=w - 2, opd0_c=channels, opd0_h=h, opd0_w=w)
    fields.update(opd1_h=4, opd1_w=4, res_op_x_str=1, res_op_y_str=1, cmd_id_tpu=1)
    fields.update(tsk_opd_num=2 if bias is None else 3, opt_res_add=int(old is not None))
    fields.update(more)
    chip.restart()
    words_of = np.frombuffer(BD.encode(**{**BD.defaults, **fields}), np.uint32).reshape(1, 32)
    chip.execute(words_of, NO_COMMANDS)
    result: F32 = words[0, :count].reshape(h - 2, w - 2).copy()
    return result


def bits(x: float) -> int:
    return int(np.float32(x).view(np.uint32))


def added(numbers: list[int]) -> int:
    total = numbers[0]
    for number in numbers[1:]:
        total = ref.add(total, number)
    return total


def transformed(d: F32) -> list[list[int]]:
    """What is added minus what is subtracted, for each element of a 4x4 tile."""
    out = []
    for left in _INPUT:
        row = []
        for right in _INPUT:
            signs = np.outer(left, right)
            plus, minus = ([bits(v) for v in d[signs == sign]] for sign in (1, -1))
            if minus:
                row.append(ref.sub(added(plus), added(minus)))
            else:
                row.append(ref.add(added(plus[:2]), added(plus[2:])))
        out.append(row)
    return out


def model(x: F32, tiles: F32) -> list[list[int]]:
    """One tile of input, [channels, 4, 4] -> 2 x 2 results."""
    products = [[[0, 0] for _ in range(4)] for _ in range(4)]
    for channel, d in enumerate(x):
        v = transformed(d)
        for a, b in np.ndindex(4, 4):
            chains = products[a][b]
            chains[channel & 1] = ref.add(chains[channel & 1], ref.mul(v[a][b], bits(tiles[channel, a, b])))
    results = []
    for left in _OUTPUT:
        row = []
        for right in _OUTPUT:
            terms = [
                ref.mul(ref.add(*products[a][b]), bits(left[a] * right[b]))
                for a, b in np.ndindex(4, 4)
                if left[a] * right[b]
            ]
            row.append(ref.tree(terms))
        results.append(row)
    return results


@given(
    seed=st.integers(0, 9999),
    channels=st.integers(1, 6),
    bias=st.sampled_from([None, 0.5, -1e-30]),
    old=st.sampled_from([None, 3.0, 1e-30]),
    size=st.sampled_from([1.0, 2.0**-60]),
)
@examples(60)
def test_equals_the_model(
    seed: int, channels: int, bias: float | None, old: float | None, size: float, chip: Tpu
) -> None:
    rng = np.random.default_rng(seed)
    shape = (channels, 4, 4)
    x, tiles = (
        (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 10, shape) * size).astype(np.float32)
        for _ in range(2)
    )
    got = run(chip, x, tiles, bias, old).view(np.uint32)
    for at, result in np.ndenumerate(np.array(model(x, tiles))):
        want = ref.add(bits(bias or 0), int(result))
        if old is not None:
            want = ref.add(want, bits(old))
        assert int(got[at]) == want, at


def test_is_a_convolution(chip: Tpu) -> None:
    """With tiles made from a 3x3 kernel; an odd size, so that the last tiles are cut."""
    rng = np.random.default_rng(7)
    x, kernels = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 9, 8), (5, 3, 3)))
    tiles = (_KERNEL @ kernels @ _KERNEL.T).astype(np.float32)
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    want = np.einsum("chwij,cij->hw", seen.astype(np.float64), kernels)
    np.testing.assert_allclose(run(chip, x, tiles, 0.25, None), want + 0.25, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"opt_opd1_const": 1}, "constant weights do not exist here"),
        ({"opt_opd1_const": 1, "opt_res0_prec": Precision.INT8}, "constant weights do not exist here"),
        ({"res_op_x_str": 2}, "stride 1 and dilation 1 only"),
    ],
)
def test_what_it_cannot_do_is_refused(fields: Fields, message: str, chip: Tpu) -> None:
    x = np.zeros((1, 4, 4), np.float32)
    with pytest.raises(DeviceError, match=message):
        run(chip, x, x, None, None, **fields)


def test_modelled_time_is_that_of_four_taps(chip: Tpu) -> None:
    """For each 16 pixels 4 taps of 64 channels, two a cycle, and 3 more; 2 more for a bias; on a chip a
    little more of all."""
    x, tiles = np.zeros((64, 6, 10), np.float32), np.zeros((64, 4, 4), np.float32)
    for bias, steps in ((None, 4 * 32 + 3), (1.0, 4 * 32 + 5)):
        before = chip.cycles
        run(chip, x, tiles, bias, None)
        assert chip.cycles - before == pytest.approx(timing.FITTED.convolution * 2 * steps + timing.issue())
