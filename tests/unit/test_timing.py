"""The clock's figures: how copies are cut, and what takes longer than what."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.instructions.dma_move import Move
from firmware_sim.isa import timing
from firmware_sim.isa.bursts import SystemSide, straight, system_side, together
from firmware_sim.isa.footprint import Access, Dims4, Space, Tensor, continuous_strides
from tests.paths import ROOT
from tests.support.bursts import Offsets, counted_side
from tests.support.examples import examples


def side(shape: Dims4, strides: Dims4, piece: int, size: int = 4) -> SystemSide:
    return system_side(Tensor("src", Access.READ, Space.DDR, 0, shape, strides, size), piece)


def test_a_whole_tensor_is_one_run() -> None:
    shape = (2, 3, 8, 16)
    assert side(shape, continuous_strides(shape), 128) == SystemSide(3072, 6, 48, 0, 0)
    assert straight(3072) == SystemSide(3072, 1, 48, 0, 0)


def test_rows_of_a_wider_matrix_are_runs_with_jumps_between() -> None:
    """16 rows of 32 words out of 64."""
    assert side((16, 1, 1, 32), (64, 0, 0, 1), 32) == SystemSide(2048, 16, 32, 15, 0)


def test_pieces_that_begin_anywhere_touch_more_bursts() -> None:
    """1000 columns over channels of 32: pieces of 128 bytes, rows 4000 bytes apart."""
    odd = side((8, 31, 1, 32), (1000, 32, 0, 1), 32)
    even = side((8, 31, 1, 32), (1024, 32, 0, 1), 32)
    assert even.bursts == 8 * 31 * 2
    assert odd.bursts == pytest.approx(8 * 31 * (1 + 124 / 64))


def test_words_far_apart_are_scattered() -> None:
    words = side((1, 1, 10, 10), (2000, 2000, 200, 20), 1)
    assert (words.scattered, words.jumps, words.pieces) == (100, 0, 100)
    latency = timing.FITTED.read_latency
    times = [timing.system_to_local(one).chip - latency for one in (words, straight(400))]
    assert times[0] > 10 * times[1] > 0


@examples(300)
@given(st.data())
def test_sides_of_copies_are_those_that_are_counted(data: st.DataObject) -> None:
    """Of any shape, with gaps behind rows, channels and batches on either side."""
    size = data.draw(st.sampled_from([1, 2, 4]))
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 40))
    shape = (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), rows, columns)

    def placed() -> tuple[Dims4, Offsets]:
        strides, step = [], 1
        for extent in reversed(shape):
            step += data.draw(st.sampled_from([0, 0, 0, 1, 3, 16, 61]))
            strides.append(step)
            step *= extent
        n, c, h, w = reversed(strides)
        places = [np.arange(extent) * stride for extent, stride in zip(shape, (n, c, h, w), strict=True)]
        offsets = np.zeros(shape, np.int64)
        for axis in np.ix_(*places):
            offsets += size * axis
        return (n, c, h, w), offsets

    (one, own), (other, others) = placed(), placed()
    src = Tensor("src", Access.READ, Space.DDR, 0, shape, one, size)
    dst = Tensor("dst", Access.WRITE, Space.DDR, 0, shape, other, size)
    assert Move(src, dst).side(src) == counted_side(own, [others], size)


def test_moves_of_a_command_add_up() -> None:
    parts = [straight(128), side((16, 1, 1, 32), (64, 0, 0, 1), 32)]
    assert together(parts) == SystemSide(2176, 17, 34, 15, 0)
    assert together([]).nbytes == 0


def test_a_copy_in_ddr_reads_and_writes() -> None:
    whole = straight(1 << 20)
    copy = timing.system_to_system(whole, whole)
    parts = timing.system_to_local(whole).chip + timing.local_to_system(whole).chip
    assert copy.chip == pytest.approx(parts)


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (7, 7)])
def test_nobody_gains_by_telling_more_channels(kernel: tuple[int, int], stride: int) -> None:
    def cycles(channels: int) -> float:
        return timing.convolution((1, 64, 32, 32), 0, channels, kernel, stride, bias=False).chip

    assert cycles(4) == cycles(3)
    times = [cycles(channels) for channels in range(3, 130)]
    assert times == sorted(times)
    assert cycles(129) > cycles(64) > cycles(4)


def test_a_window_that_moves_on_by_two_takes_longer_than_the_model_says() -> None:
    one = timing.depthwise((1, 64, 32, 32), 0, (3, 3), 1, bias=False)
    two = timing.depthwise((1, 64, 32, 32), 0, (3, 3), 2, bias=False)
    assert one.chip == one.model == two.model < two.chip


def test_a_launch_costs_more_until_its_first_megabytes_are_read() -> None:
    first = timing.FITTED.first_reads_mb * 1e6
    assert timing.launch(0) < timing.launch(math.floor(first / 2)) < timing.launch(math.ceil(first))
    assert timing.launch(1 << 30) == timing.launch(math.ceil(first))


def test_what_modelled_times_are_stated_with() -> None:
    assert timing.modelled() == f"modelled, median error {timing.MEDIAN_ERROR} %"


def test_the_documents_state_the_same_error() -> None:
    said = {
        page.name: re.findall(r"median error ([\d.]+) %", page.read_text())
        for page in (ROOT / "docs").glob("*.md")
    }
    assert {"isa.md", "kernel-api.md", "report.md"} <= {name for name, errors in said.items() if errors}
    assert {error for errors in said.values() for error in errors} == {str(timing.MEDIAN_ERROR)}
