"""Random descriptors against the vendor's functional model itself.

The model is fetched from the package index when it is not there; where that is not possible these tests
are skipped with the reason. They run few examples; TPULAYER_ORACLE_EXAMPLES asks for more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.codes import Direction
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.oracle.client import Oracle, Unavailable
from tests.oracle.compare import compare
from tests.support import isa_cases, isa_cases_fixed, isa_cases_nn
from tests.support.examples import examples

EXAMPLES = int(os.environ.get("TPULAYER_ORACLE_EXAMPLES", "150"))
FAMILIES: dict[str, st.SearchStrategy[isa_cases.Case]] = {
    "arithmetic": isa_cases.arithmetic(),
    "md": isa_cases.md(),
    "dma": isa_cases.dma(),
    "shift over channels": isa_cases.lrn_shift(),
    "winograd transform": isa_cases.dma_winograd(),
    "convolution": isa_cases_nn.convolution(),
    "depthwise": isa_cases_nn.depthwise(),
    "product": isa_cases_nn.product(),
    "correlation": isa_cases_nn.correlation(),
    "channel sum": isa_cases_nn.channel_sum(),
    "fixed point": isa_cases_fixed.fixed(),
    "special functions": isa_cases_fixed.special(),
    "vector correlation": isa_cases_fixed.vector(),
}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    try:
        opened = Oracle()
    except Unavailable as error:
        pytest.skip(str(error))
    with opened:
        yield opened


@pytest.fixture(scope="module")
def chip() -> Tpu:
    return Tpu(Memory.create(ddr_bytes=1 << 20))


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_the_vendors_model(family: str, oracle: Oracle, chip: Tpu) -> None:
    @examples(EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(case=FAMILIES[family])
    def compared(case: isa_cases.Case) -> None:
        difference = compare(oracle, chip, case, 1)
        assert difference is None, f"{difference}\n{case}"

    compared()


@pytest.mark.parametrize("format_", [0, 1, 3])
@pytest.mark.parametrize("place", [0x0800_0000, 0x1_0000_0000])
def test_a_row_copied_over_itself(oracle: Oracle, chip: Tpu, place: int, format_: int) -> None:
    """common_mode between overlapping places, in both directions."""
    size = {0: 4, 1: 2, 3: 1}[format_]
    direction = Direction.L2L if place == 0x0800_0000 else Direction.S2S
    for length in (1, 10, 33, 1000):
        for shift in (-999, -7, -1, 0, 1, 3, 32, 999):
            src, dst = place + 0x2000, place + 0x2000 + shift * size
            fields = {"src_nstride": length, "common_mode": 1, "direction": int(direction)}
            fields |= {"src_start_addr_l32": src & 0xFFFF_FFFF, "src_start_addr_h8": src >> 32}
            fields |= {"dst_start_addr_l32": dst & 0xFFFF_FFFF, "dst_start_addr_h8": dst >> 32}
            fields |= {"src_data_format": format_, "dst_data_format": 0, "pio_gdma_enable": 1}
            difference = compare(oracle, chip, (Engine.GDMA, fields), 1)
            assert difference is None, f"{length} elements by {shift}: {difference}"
