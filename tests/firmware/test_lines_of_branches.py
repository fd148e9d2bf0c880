"""Calls and stores that stand alike in several branches keep their own lines in messages, on both builds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.image import Kind
from user_layers.toolchain.kernel import kernel_firmware

_SOURCE = """#include "okk.h"
void branches(const void *args) {
    const int which = *(const int *)args;
    const dim4 shape = {1, 64, 8, 8};
    okk_initialize();
    if (which == 6) okk_bdc_add(1, 0, 0, &shape, NULL, NULL, NULL);
    else if (which == 7) okk_bdc_add(2, 0, 0, &shape, NULL, NULL, NULL);
    else if (which == 8) okk_bdc_add(3, 0, 0, &shape, NULL, NULL, NULL);
    else if (which == 9) *(volatile int *)(which - 1) = 1;
    else if (which == 10) *(volatile int *)(which + 2) = 1;
    else if (which == 11) *(volatile int *)16 = 1;
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(branches)
"""


@pytest.fixture(scope="module", params=["native", "arm"])
def device(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Device]:
    source = tmp_path_factory.mktemp("branches") / "branches.c"
    source.write_text(_SOURCE)
    kind: Kind = request.param
    with Device(kernel_firmware([source], kind=kind), kind=kind) as device:
        yield device


@pytest.mark.parametrize("line", range(6, 12))
def test_a_branch_has_its_own_line(device: Device, line: int) -> None:
    with pytest.raises(DeviceError, match=rf"branches\.c:{line} in branches"):
        device.launch("branches", line.to_bytes(4, "little"))
