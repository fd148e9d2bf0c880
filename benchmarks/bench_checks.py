"""What the checks cost: the same work without and with the default checks, taking turns in one run.

    python benchmarks/bench_checks.py [--repeat N] [--network FILE.onnx] [--memory]

Addition and matrix product in tiles (bench_tiles.py), 60,000 small commands of one kernel, and a network
(static, opt 2; such as resnet50 of the light models in the onnx package). --memory: instead of times the
peak of the device process without and with checks, and what they add beside the memory of the chip (DDR, L2,
local memory) that was touched.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    Runs = dict[str, Callable[[], object]]

CHECKS = "memory,init,hazard,sync"
SMALL = r"""
#include "okk.h"

typedef struct {
    unsigned long long y;
    int count;
} __attribute__((packed)) small_args_t;

void small(const void *args) {
    const small_args_t *p = args;
    const dim4 shape = {1, 64, 4, 8};
    okk_initialize();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 1.0f}, &shape, NULL);
    for (int i = 0; i < p->count; i++)
        okk_bdc_add_C(128 * (i % 8 + 1), 128 * (i % 8), 1.0f, &shape, NULL, NULL);
    okk_gdma_32bit_cpy_L2S(p->y, 128, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(small)
"""


def turns(run: Callable[[], object], switch: Callable[[str], None], repeat: int) -> tuple[float, float]:
    """Median milliseconds without checks and with them; the two take turns."""
    times: dict[str, list[float]] = {"off": [], "on": []}
    for k in range(repeat + 1):
        for mode, found in times.items():
            switch("off" if mode == "off" else CHECKS)
            start = time.perf_counter()
            run()
            if k:  # the first of each does not count
                found.append(time.perf_counter() - start)
    return statistics.median(times["off"]) * 1e3, statistics.median(times["on"]) * 1e3


@contextmanager
def kernels() -> Iterator[tuple[Any, Runs]]:
    """The tiled kernels and the small commands."""
    from benchmarks.bench_tiles import KERNELS
    from firmware_sim.device.client import Device
    from user_layers.toolchain.kernel import kernel_firmware

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernels.c"
        source.write_text(KERNELS + SMALL.replace('#include "okk.h"', ""))
        firmware = kernel_firmware([source])
    with Device(firmware) as device:
        a, b = (rng.standard_normal((1024, 1024)).astype(np.float32) for _ in range(2))
        y, at_a, at_b = (device.malloc(a.nbytes) for _ in range(3))
        device.write(at_a, a)
        device.write(at_b, b)
        places = np.array([y, at_a, at_b], "<u8").tobytes()
        small = np.uint64(y).tobytes() + np.int32(60_000).tobytes()
        given = {"add_tiles": places, "matmul_tiles": places, "small": small}
        yield device, {name: partial(device.launch, name, args) for name, args in given.items()}


@contextmanager
def network(path: Path) -> Iterator[tuple[Any, Runs]]:
    """A network, loaded once."""
    from tpulayer import Graph
    from user_layers.bmodel import write
    from user_layers.compiler.pipeline import compile_graph
    from user_layers.onnx.check import random_inputs
    from user_layers.onnx.load import load_model
    from user_layers.runtime import BModelRuntime
    from user_layers.toolkit import Toolkit

    inputs = random_inputs(load_model(path))
    with Toolkit() as toolkit:
        net = compile_graph(Graph.from_onnx(path, toolkit=toolkit), opt=2)
    with Toolkit() as toolkit, BModelRuntime(toolkit.device) as runtime:  # whose process has compiled nothing
        runtime.load(write(net))
        yield toolkit.device, {path.stem: partial(runtime.launch, net.name, inputs)}


def memory(opened: Callable[[], AbstractContextManager[tuple[Any, Runs]]]) -> None:
    """What the device process takes, and how much of the chip's memory it has touched."""
    with opened() as (_, runs):
        names = list(runs)
    for name in names:
        peaks: dict[str, tuple[float, float]] = {}
        for mode in ("off", CHECKS):
            with opened() as (device, runs):
                device.check = mode
                for _ in range(3):
                    runs[name]()
                peaks[mode] = resident(device)
        (off, _), (on, touched) = peaks.values()
        print(f"{name:24}{off:12.1f}{on:12.1f}{touched:12.1f}{(on - off) / touched:8.2f}", flush=True)


def resident(device: Any) -> tuple[float, float]:
    """MB of the device process at its peak, and of shared memory, which is the chip's."""
    pid = device._child.pid  # nobody else asks for it
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    peak, shared = (int(status[key].split()[0]) / 1000 for key in ("VmHWM", "RssShmem"))
    return peak, shared


def show(name: str, off: float, on: float) -> None:
    """One line of the table."""
    print(f"{name:24}{off:12.2f}{on:12.2f}{on / off:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--network", type=Path, help="an ONNX file")
    parser.add_argument("--memory", action="store_true", help="memory instead of times")
    args = parser.parse_args()
    cases = [kernels, *([partial(network, args.network)] if args.network is not None else [])]
    if args.memory:
        print(f"{'case':24}{'without':>12}{'checked':>12}{'touched':>12}{'ratio':>8}   MB")
        for opened in cases:
            memory(opened)
        return
    print(f"{'case':24}{'without':>12}{'checked':>12}{'ratio':>8}   ms, medians")
    for opened in cases:
        with opened() as (device, runs):
            for name, run in runs.items():
                show(name, *turns(run, partial(setattr, device, "check"), args.repeat))


if __name__ == "__main__":
    main()
