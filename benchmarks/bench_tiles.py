"""Kernels in tiles, launched on the emulated device, against numpy doing the same: medians of one run.

    python benchmarks/bench_tiles.py

Two cases that are usual for interpreters of accelerator kernels on a CPU: an elementwise addition over
[64, 16384] fp32 in 8 tiles with explicit copies, and a matrix product of 512^3 fp32 in 64 tile steps.
Times include the launch: message, the kernel's C code, encoding, decoding and execution.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

KERNELS = r"""
#include "okk.h"

typedef struct {
    unsigned long long y, a, b;
} __attribute__((packed)) args_t;

void add_tiles(const void *args) {
    const args_t *p = args;
    const dim4 shape = {1, 64, 1, 2048}, stride = {1048576, 16384, 16384, 1};
    okk_initialize();
    for (int tile = 0; tile < 8; tile++) {
        unsigned long long at = 8192ull * tile;
        local_addr_t base = (tile & 1) * 0x10000;
        okk_gdma_32bit_cpy_S2L(base, p->a + at, &shape, NULL, &stride);
        okk_gdma_32bit_cpy_S2L(base + 0x4000, p->b + at, &shape, NULL, &stride);
        okk_bdc_add(base + 0x8000, base, base + 0x4000, &shape, NULL, NULL, NULL);
        okk_gdma_32bit_cpy_L2S(p->y + at, base + 0x8000, &shape, &stride, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(add_tiles)

void matmul_tiles(const void *args) {
    const args_t *p = args;
    okk_initialize();
    for (int m = 0; m < 512; m += 128)
        for (int n = 0; n < 512; n += 128) {
            for (int k = 0; k < 512; k += 128) {
                okk_gdma_32bit_matrix_S2L(0x10000, p->a + 4ull * (m * 512 + k), 128, 128, 32, 512);
                okk_gdma_32bit_matrix_S2L(0x20000, p->b + 4ull * (k * 512 + n), 128, 128, 32, 512);
                okk_bdc_matmul(0, 0x10000, 0x20000, 0, 128, 128, 128, 32, 32, false, k > 0);
            }
            okk_gdma_32bit_matrix_L2S(p->y + 4ull * (m * 512 + n), 0, 128, 128, 32, 512);
        }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(matmul_tiles)
"""


def _median(run: Callable[[], object], repeat: int = 15) -> float:
    """Milliseconds."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    from firmware_sim.device.client import Device
    from user_layers.toolchain.kernel import kernel_firmware

    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "tiles.c"
        source.write_text(KERNELS)
        firmware = kernel_firmware([source])
    print(f"{'case':32}{'tpulayer':>10}{'numpy':>10}{'ratio':>8}   ms, medians")
    with Device(firmware) as device:
        for name, shape, plain in (
            ("add_tiles", (64, 16384), np.add),
            ("matmul_tiles", (512, 512), np.matmul),
        ):
            a, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
            y, at_a, at_b = (device.malloc(a.nbytes) for _ in range(3))
            device.write(at_a, a)
            device.write(at_b, b)
            args = np.array([y, at_a, at_b], "<u8").tobytes()

            def run(name: str = name, args: bytes = args) -> None:
                device.launch(name, args)

            def by_numpy(plain: Callable[..., object] = plain, a: object = a, b: object = b) -> object:
                return plain(a, b)

            ours, theirs = _median(run), _median(by_numpy)
            difference = np.abs(device.read_array(y, shape, "float32") - plain(a, b)).max()
            if difference > 1e-3:
                raise SystemExit(f"{name}: the largest difference to numpy is {difference}")
            print(f"{name:32}{ours:10.2f}{theirs:10.3f}{ours / theirs:8.1f}")


if __name__ == "__main__":
    main()
