"""What the kernels of tests/sources/contest_kernels.c compute, in numpy, and two ways to run them."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firmware_sim.device.client import Device
from tests.support.host_programs import build, run
from user_layers.toolchain.kernel import kernel_firmware

Floats = npt.NDArray[np.float32]
_ARGUMENTS = struct.Struct("<4Q8i")


@dataclass(frozen=True)
class Case:
    """A kernel on inputs a, b and bias. numbers: n, c, h, w, oc, k, pad, stride of its arguments."""

    name: str
    numbers: tuple[int, ...]
    inputs: tuple[Floats, Floats, Floats]
    reference: Callable[[], Floats]

    @property
    def out_bytes(self) -> int:
        """Of the result."""
        return self.reference().nbytes


def _softmax() -> Case:
    x = _random(150, 45)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return Case(
        "contest_softmax", (150, 1, 1, 45, 0, 0, 0, 0), (x, x, x), lambda: e / e.sum(1, keepdims=True)
    )


def _windows(x: Floats, k: int, stride: int) -> Floats:
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), axis=(2, 3))[:, :, ::stride, ::stride]


def _conv(pad: int = 1, stride: int = 2, k: int = 3) -> Case:
    x, weights, bias = _random(3, 5, 9, 11), _random(70, 5, k, k), _random(70)
    pairs = np.zeros((3, 2, 70, k * k), np.float32)
    pairs.reshape(6, 70, k * k)[:5] = weights.transpose(1, 0, 2, 3).reshape(5, 70, k * k)
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))

    def reference() -> Floats:
        sums = np.einsum("nchwij,ocij->nohw", _windows(padded, k, stride), weights)
        return np.asarray(sums + bias[:, None, None], np.float32)

    inputs = (x, np.ascontiguousarray(pairs.transpose(0, 2, 3, 1)), bias)
    return Case("contest_conv2d", (3, 5, 9, 11, 70, k, pad, stride), inputs, reference)


def _depthwise(pad: int = 2, stride: int = 1, k: int = 5) -> Case:
    x, weights, bias = _random(4, 66, 7, 8), _random(66, k, k), _random(66)
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))

    def reference() -> Floats:
        sums = np.einsum("nchwij,cij->nchw", _windows(padded, k, stride), weights)
        return np.asarray(sums + bias[:, None, None], np.float32)

    return Case("contest_depthwise", (4, 66, 7, 8, 66, k, pad, stride), (x, weights, bias), reference)


def _max_pool() -> Case:
    x = _random(5, 20, 10, 13)
    reference = _windows(x, 3, 2).max(axis=(4, 5))
    return Case("contest_max_pool", (5, 20, 10, 13, 20, 3, 0, 2), (x, x, x), lambda: reference)


def _matmul() -> Case:
    a, b = _random(21, 96), _random(96, 130)
    return Case("contest_matmul", (21, 1, 1, 96, 130, 32, 0, 0), (a, b, b), lambda: a @ b)


def _random(*shape: int) -> Floats:
    return _rng.uniform(-1, 1, shape).astype(np.float32)


_rng = np.random.default_rng(12)
CASES = (_softmax(), _conv(), _depthwise(), _max_pool(), _matmul())


def run_hosted(folder: Path) -> Mapping[str, Floats]:
    """The results of the kernels in a host program that they are linked into."""
    program = build(folder, Path("contest.c"))
    results = {}
    for case in CASES:
        file = folder / case.name
        sizes = (array.nbytes for array in case.inputs)
        file.write_bytes(
            struct.pack("<8i3I", *case.numbers, *sizes) + b"".join(a.tobytes() for a in case.inputs)
        )
        done = run(program, case.name, file, str(case.out_bytes))
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, case.name, done.stdout, done.stderr)
        results[case.name] = np.frombuffer(file.read_bytes(), np.float32).reshape(case.reference().shape)
    return results


def run_on_firmware(source: Path) -> Mapping[str, Floats]:
    """The same on a firmware with the kernels."""
    results = {}
    with Device(kernel_firmware(source)) as device:
        for case in CASES:
            places = [device.malloc(case.out_bytes)]
            for array in case.inputs:
                places.append(device.malloc(array.nbytes))
                device.write(places[-1], array)
            device.launch(case.name, _ARGUMENTS.pack(*places, *case.numbers))
            out = device.read(places[0], case.out_bytes)
            results[case.name] = np.frombuffer(out, np.float32).reshape(case.reference().shape)
    return results
