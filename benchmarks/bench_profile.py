"""What a profile costs: of resnet50 and of a kernel with 60,000 commands, beside a run without.

    python benchmarks/bench_profile.py [--commands N] [--net NAME]

Prints seconds of a run, of a traced run, of making the profile and of each output, and the outputs' sizes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from firmware_sim.device.client import Device
from firmware_sim.device.trace import traced
from firmware_sim.errors import MissingError
from tests.onnx_light import randomized
from tests.support.workspaces import builtin_toolkit
from user_layers.bmrt.reference_data import random_inputs
from user_layers.onnx.command import CompileOptions
from user_layers.onnx.command import run as compile_model
from user_layers.profile.document import profile_json
from user_layers.profile.page import profile_page
from user_layers.profile.perfetto import profile_trace
from user_layers.profile.text import profile_text
from user_layers.profile.trace import profile_of
from user_layers.runtime.bmruntime import load_bmodel
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = """
#include "okk.h"

typedef struct {{ unsigned long long x; }} __attribute__((packed)) args_t;

void many(const void *args) {{
    const args_t *p = args;
    dim4 shape = {{1, 64, 1, 64}};
    okk_initialize();
    for (int i = 0; i < {commands} / 3; i++) {{
        local_addr_t at = (i % 64) * 512;
        okk_gdma_32bit_cpy_S2L(at, p->x + (i % 256) * 16384, &shape, NULL, NULL);
        okk_bdc_mul_C(at, at, 2.0f, &shape, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->x + (i % 256) * 16384, at, &shape, NULL, NULL);
        if (i % 1000 == 999) okk_poll();
    }}
    okk_poll();
}}
OKKERNEL_FUNC_REGISTER(many)
"""


def timed(what: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    found = what()
    return time.perf_counter() - start, found


def measure(name: str, run: Callable[[], object]) -> None:
    run()  # what is made once
    plain = min(timed(run)[0] for _ in range(3))

    def with_trace() -> object:
        with traced() as trace:
            run()
        return trace.requests

    traced_time, requests = min((timed(with_trace) for _ in range(3)), key=lambda one: one[0])
    making, profile = timed(lambda: profile_of(requests, name))  # type: ignore[arg-type]
    count = len(profile.columns)  # type: ignore[attr-defined]
    print(f"{name}: {count} commands", flush=True)
    print(f"  run {plain:.3f} s, traced {traced_time:.3f} s ({traced_time / plain:.2f} times)", flush=True)
    print(
        f"  profile {making:.3f} s; all together {(traced_time + making) / plain:.2f} times the run",
        flush=True,
    )
    outputs: dict[str, Callable[[], str | bytes]] = {
        "text": lambda: profile_text(profile),  # type: ignore[arg-type]
        "json": lambda: profile_json(profile),  # type: ignore[arg-type]
        "json, every command": lambda: profile_json(profile, commands=True),  # type: ignore[arg-type]
        "html": lambda: profile_page(profile),  # type: ignore[arg-type]
        "perfetto": lambda: profile_trace(profile),  # type: ignore[arg-type]
    }
    for word, make in outputs.items():
        try:
            seconds, data = timed(make)
        except MissingError as error:
            print(f"  {word}: {error.message}", flush=True)
            continue
        size = len(data if isinstance(data, bytes) else str(data).encode())
        print(f"  {word}: {seconds:.3f} s, {size / 1e6:.3f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commands", type=int, default=60_000)
    parser.add_argument("--net", default="resnet50")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "many.c"
        source.write_text(SOURCE.format(commands=options.commands))
        with Device(kernel_firmware(source), check="off") as device:
            at = device.malloc(256 * 16384)
            device.write(at, np.ones(64 * 16384, np.float32))
            measure("kernel many", lambda: device.launch("many", at.to_bytes(8, "little")))
        path = randomized(options.net, folder)
        with builtin_toolkit() as toolkit:
            compile_model(CompileOptions(path, folder / "net", check=False), lambda _: None, toolkit)
            device = toolkit.device
            assert isinstance(device, Device)
            device.check = "off"
            with load_bmodel(folder / "net", device=device) as nets:
                [info] = nets.networks
                arrays = random_inputs(info, info.stages[0].input_shapes, 1684)
                measure(options.net, lambda: nets.launch(info.name, arrays))


if __name__ == "__main__":
    main()
