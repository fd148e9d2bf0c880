"""The firmware as a library of this machine and as images on the emulated controller: medians of one run.

    python benchmarks/bench_firmware.py

opening: a device process with a booted firmware; boot: of the controller alone, which a fault leads to;
launch: from the call to the return, for a kernel that does nothing, and for one with 3 commands; recording:
60,000 small additions encoded but not executed; executing: the same, executed.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

KERNELS = r"""
#include "okk.h"

void nothing(const void *args) { (void)args; }
OKKERNEL_FUNC_REGISTER(nothing)

void three(const void *args) {
    const dim4 shape = {1, 64, 4, 8};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(0, *(const unsigned long long *)args, &shape, NULL, NULL);
    okk_bdc_add_C(0, 0, 1.0f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(*(const unsigned long long *)args, 0, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(three)

void many(const void *args) {
    const dim4 shape = {1, 64, 4, 8};
    const int n = *(const int *)args;
    okk_initialize();
    for (int i = 0; i < n; i++) okk_bdc_add(i % 8 * 128, 4096, 8192, &shape, NULL, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(many)

void trap(const void *args) { (void)args; __builtin_trap(); }
OKKERNEL_FUNC_REGISTER(trap)
"""
COMMANDS = 60_000


def _median(run: Callable[[], object], repeat: int) -> float:
    """Milliseconds."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def measure(image: Path) -> dict[str, float]:
    from firmware_sim.device.client import Device
    from firmware_sim.errors import DeviceCrash

    def opened() -> None:
        with Device(image) as device:
            device.query()

    found = {"opening, ms": _median(opened, 7)}
    with Device(image) as device:
        spot = device.malloc(1 << 20)
        args, count = struct.pack("<Q", spot), struct.pack("<i", COMMANDS)
        found["launch of nothing, ms"] = _median(lambda: device.launch("nothing"), 200)
        found["launch with 3 commands, ms"] = _median(lambda: device.launch("three", args), 200)
        before = device.instructions
        device.launch("three", args)
        found["  its controller instructions"] = device.instructions - before
        recording = _median(lambda: device.record_launch("many", count), 5)
        found["recording, us per command"] = recording / COMMANDS * 1e3
        found["executing, us per command"] = _median(lambda: device.launch("many", count), 5) / COMMANDS * 1e3
        before = device.instructions
        device.launch("many", count)
        found["  controller instructions per command"] = (device.instructions - before) / COMMANDS

        def crash() -> None:
            try:
                device.launch("trap")
            except DeviceCrash:
                device.launch("nothing")

        found["crash, report, and the next launch, ms"] = _median(crash, 5)
    return found


def main() -> None:
    from firmware_sim.firmware.image import KINDS
    from user_layers.toolchain.kernel import kernel_firmware

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "launches.c"
        source.write_text(KERNELS)
        found = {kind: measure(kernel_firmware([source], kind=kind)) for kind in KINDS}
    print(f"{'':42}" + "".join(f"{kind:>10}" for kind in KINDS))
    for name in found["native"]:
        print(f"{name:42}" + "".join(f"{found[kind][name]:10.3f}" for kind in KINDS))


if __name__ == "__main__":
    main()
