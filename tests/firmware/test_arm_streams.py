"""Both builds of the firmware issue the same commands: every kernel function, free kernels, nets."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.image import KINDS, FirmwareImage, find_firmware
from firmware_sim.wire import CommandGroup, Recorded, StepOp
from tests.paths import SOURCES
from tests.support.api_limits import calls
from tests.support.golden_vectors import lines
from tests.support.stream_processor import FILE_VARIABLE
from tests.support.workspaces import built_workspace
from user_layers import demo
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.pipeline import plan_net
from user_layers.encode.encoder import Encoded, Encoder
from user_layers.graph.shapes import infer_shapes
from user_layers.runtime import BModelRuntime
from user_layers.toolchain.firmware import firmware_image
from user_layers.toolchain.kernel import kernel_firmware
from user_layers.workspace import Workspace

KERNELS = SOURCES / "device_kernels.c"
MATH = r"""
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "okk.h"

/* Constants that C computes on the controller reach the commands. */
void computed(const void *args) {
    const float *x = args;
    const dim4 shape = {1, 1, 1, 1};
    char text[64];
    okk_initialize();
    for (int i = 0; i < 64; i++) {
        float v = expf(x[i]) + logf(fabsf(x[i])) * sinf(x[i]);
        v -= powf(fabsf(x[i]), 0.3f) / (x[i] * x[i] + 1e-3f);
        double d = tanh(x[i]) + sqrt(fabs(x[i])) + exp(1.0) + atan2(x[i], 0.5) + (double)i / 7;
        okk_bdc_add_C(0, 0, v, &shape, NULL, NULL);
        okk_bdc_mul_C(0, 0, (float)d, &shape, NULL, NULL);
        snprintf(text, sizeof text, "%.9g %d", (double)v, (int)lrintf(x[i] * 100));
        okk_bdc_mul_C(0, 0, (float)strlen(text), &shape, NULL, NULL);
    }
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(computed)
"""


@pytest.fixture(scope="module")
def encoders() -> Iterator[tuple[Encoder, Encoder]]:
    with Encoder(kind="native") as native, Encoder(kind="arm") as arm:
        yield native, arm


@pytest.mark.parametrize("name", ["okk_encode", "bm_atomic"])
def test_every_encoding(encoders: tuple[Encoder, Encoder], name: str) -> None:
    count = 0
    for line in lines(name):
        issued = encoders[1].run([(line["fn"], line["args"])])
        assert (issued.bd, issued.gdma) == (line["bd"], line["gdma"]), line
        count += 1
    assert count > 200


def outcome(encoder: Encoder, function: str, args: dict[str, Any]) -> Encoded | str:
    """What the call gives, or what its refusal says."""
    try:
        return encoder.run([(function, args)])
    except DeviceError as error:
        return error.message


@pytest.mark.parametrize("name", ["okk_encode_rejected", "bm_atomic_rejected"])
def test_refusals_say_the_same(encoders: tuple[Encoder, Encoder], name: str) -> None:
    texts = 0
    for line in lines(name):
        native, arm = (outcome(encoder, line["fn"], line["args"]) for encoder in encoders)
        assert native == arm
        texts += isinstance(native, str)
    assert texts > 0


@pytest.mark.parametrize("every", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_limits_are_the_same(encoders: tuple[Encoder, Encoder], every: int) -> None:
    """The controller refuses at the same limits, with the same words; what it takes, it encodes alike."""
    for call in itertools.islice(calls(), 0, None, every):
        native, arm = (outcome(encoder, call.function, call.args) for encoder in encoders)
        assert native == arm and isinstance(arm, str) is (call.says != ""), call


@pytest.mark.parametrize("name", ["okk_sequences"])
def test_sequences(encoders: tuple[Encoder, Encoder], name: str) -> None:
    for line in lines(name):
        calls = [(c["call"], c["args"]) for c in line["seq"]]
        assert encoders[0].run(calls) == encoders[1].run(calls)


def recorded(path: Path, name: str, args: bytes) -> list[list[CommandGroup]]:
    found = []
    for kind in KINDS:
        with Device(kernel_firmware([path], kind=kind)) as device:
            found.append(device.record_launch(name, args))
    return found


@pytest.mark.parametrize(
    ("name", "shape"),
    [("plus_one", (5, 70, 9, 7)), ("plus_one_ping_pong", (9, 64, 8, 8)), ("plus_n", (70_000, 1, 1, 1))],
)
def test_free_kernels(name: str, shape: tuple[int, ...]) -> None:
    native, arm = recorded(KERNELS, name, struct.pack("<QQ4i", 0x1_0600_0000, 0x1_0700_0000, *shape))
    assert native == arm
    assert sum(g.bd_num for g in native) > 0
    assert len(native) == (2 if name == "plus_n" else 1)


def test_numbers_computed_in_c(tmp_path: Path) -> None:
    (tmp_path / "computed.c").write_text(MATH)
    x = np.random.default_rng(7).standard_normal(64).astype(np.float32) * 5
    native, arm = recorded(tmp_path / "computed.c", "computed", x.tobytes())
    assert native == arm
    assert native[0].bd_num == 192


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return built_workspace(tmp_path_factory)


def test_static_and_dynamic_nets(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled and run by either firmware: the same files, commands and outputs."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(demo.COMPILED_SHAPE).astype(np.float32)
    found = {}
    for kind, dynamic in itertools.product(KINDS, (False, True)):
        folder = tmp_path / f"{kind}{dynamic}"
        with demo.build_graph(workspace, kind) as graph:
            graph.compile(dynamic=dynamic, directory=folder)
        streams = tmp_path / f"{kind}{dynamic}.streams"
        streams.touch()
        monkeypatch.setenv(FILE_VARIABLE, str(streams))
        image = firmware_image(workspace, kind)
        device = Device(image, processor="tests.support.stream_processor:make")
        with device, BModelRuntime(device) as runtime:
            runtime.load(folder / "compilation.bmodel")
            (y,) = runtime.launch("tpulayer", {"x": x})
            assert (device.instructions > 1000) == (kind == "arm")
        assert np.array_equal(y, demo.expected(x))
        found[kind, dynamic] = streams.read_bytes()
        assert len(found[kind, dynamic]) > 128
    for dynamic in (False, True):
        assert found["native", dynamic] == found["arm", dynamic]


def test_recorded_steps(workspace: Workspace) -> None:
    """Both tell the same places in the streams after each step of a program."""
    found: dict[str, Recorded] = {}
    program = None
    for kind in KINDS:
        with demo.build_graph(workspace, kind) as graph:
            (program,) = plan_net(gather_attributes(infer_shapes(graph), graph.toolkit)).programs
            assert program is not None
            found[kind] = graph.toolkit.device.record(program)
    assert program is not None and found["native"] == found["arm"]
    steps, groups = found["arm"].steps, found["arm"].groups
    assert len(steps) == len(program.steps)
    assert all(
        bd <= later_bd and gdma <= later_gdma
        for (bd, gdma), (later_bd, later_gdma) in itertools.pairwise(steps)
    )
    assert steps[-1] == (sum(g.bd_num for g in groups), sum(g.gdma_num for g in groups))
    transfers = sum(step.opcode in (StepOp.LOAD, StepOp.STORE) for step in program.steps)
    assert transfers > 0 and len(set(steps)) >= transfers


@pytest.fixture(scope="module", params=KINDS)
def image(request: pytest.FixtureRequest) -> FirmwareImage:
    return find_firmware(kernel_firmware([KERNELS], kind=request.param))


def test_pointers_reach_the_window_and_no_further(image: FirmwareImage) -> None:
    end = 0x1_0000_0000 + (2 << 30)
    with Device(image, check="off") as device:  # nobody allocates there
        device.write(end - 8, np.array([2.5, 0], np.float32))
        device.launch("by_pointer", struct.pack("<QQ4i", end - 4, end - 8, 0, 0, 0, 0))
        assert device.read_array(end - 4, (1,), "float32").tolist() == [3.5]
        with pytest.raises(DeviceError, match=r"okk_global_mem_addr: 0x180000000 is not in the 2048 MiB"):
            device.launch("by_pointer", struct.pack("<QQ4i", end, end - 8, 0, 0, 0, 0))
