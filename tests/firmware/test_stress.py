"""A short run of tests/stress.py: several devices, several threads, mistakes among the launches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash
from firmware_sim.firmware.image import KINDS, Kind
from tests.stress import ARGS, SOURCE, TIME_LIMIT, Result, Usage, _compare, stress
from user_layers.toolchain.kernel import kernel_firmware


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_launches_on_several_devices(kind: Kind) -> None:
    result = stress(300, 2, kind, say=lambda text: None)
    assert result.problems == []
    assert sum(result.launches.values()) >= 300 and result.launches["crashes"] > 0


def test_growth_is_noticed() -> None:
    """The check itself: one more file, one more child, a bigger process."""
    before, warm = Usage(5, 1, 0, 0, 1 << 25, []), Usage(9, 2, 1, 1, 1 << 25, [1 << 25])
    result = Result(usages={"before": before, "closed": Usage(6, 1, 1, 0, 1 << 25, [])})
    _compare(result, warm, Usage(9, 2, 2, 1, 1 << 28, [1 << 28, 1]), 1)
    told = "\n".join(result.problems)
    for text in ("children 1 and 2", "files 5 and 6", "2 children with 1", "memory grew", "processes grew"):
        assert text in told


def test_faults_of_the_controller_leave_no_memory_behind() -> None:
    """The controller's emulator holds address space for translations; each fault makes a new one."""

    def size(device: Device) -> int:
        status = Path(f"/proc/{device._started().pid}/status").read_text()
        found = re.search(r"VmData:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    with Device(kernel_firmware([SOURCE], kind="arm"), time_limit=TIME_LIMIT) as device:
        sizes = []
        for _ in range(12):
            with pytest.raises(DeviceCrash, match="kernel crashes crashed: data abort"):
                device.launch("crashes", bytes(ARGS.size))
            sizes.append(size(device))
    assert max(sizes) < min(sizes) + (200 << 10)
