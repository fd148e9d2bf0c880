"""Strides that a call leaves out, of operands on different NPUs: as the vendor's encoder has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from firmware_sim.isa.layout import BD
from user_layers.encode.encoder import Encoder

LANE = 0x8_0000
SHAPE = [2, 64, 8, 18]
FIXED: dict[str, Any] = {"op_type": 0, "rshift": 0}


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    with Encoder() as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("okk_bdc_min_C", {"C": 1.0}),
        ("okk_bdc_add_C", {"C": 1.0}),
        ("okk_bdc_fixed_point_packed_add_C", {"C": 1, **FIXED}),
    ],
)
@pytest.mark.parametrize(("dst", "src"), [(0, 0), (1, 0), (0, 1), (2, 1)])
def test_sources_have_the_layout_of_the_destination(
    encoder: Encoder, name: str, more: dict[str, Any], dst: int, src: int
) -> None:
    """64 channels from NPU 1 on take two slots. The addresses are no multiples of 128, so that the command
    has strides; the values are those of the vendor's encoder."""
    places = {"dst_addr": dst * LANE + 4, "src_addr": src * LANE + 0x2004}
    arguments = {**places, "shape": SHAPE, "dst_stride": None, "src_stride": None, **more}
    (words,) = encoder.run([(name, arguments)]).bd
    row = BD.columns(np.frombuffer(bytes.fromhex(words), np.uint32).reshape(1, -1)).row(0)
    assert row["opd0_n_str"] == row["res0_n_str"] == (160 if dst == 0 else 320)
