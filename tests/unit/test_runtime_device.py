"""The runtime on the emulated chip: recorded streams from a bmodel, moved and run; and a dynamic program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceError, ModelError
from firmware_sim.wire import Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from tests.support.bmodel_samples import COEFF, static_net
from tpulayer import Graph
from user_layers.bmodel import read, write
from user_layers.bmrt.bmrt_test import BmrtTestOptions, run
from user_layers.graph import BINARY_MUL
from user_layers.runtime import BModelRuntime
from user_layers.toolchain import builtin_artifacts


@pytest.fixture(autouse=True)
def outside_of_any_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that graphs use the built-in layers alone, whether or not this repository is built."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    """With the built-in layers only."""
    with Device(builtin_artifacts().firmware) as opened:
        yield opened


def compiled(folder: Path, dynamic: bool) -> Path:
    """y = 1.5 * x, in front of it a new first dimension; with its reference data."""
    x = np.random.default_rng(1).standard_normal((5, 70, 9)).astype(np.float32)
    with Graph("BM1684", name="scaled") as graph:
        graph.add_input("x", x.shape)
        graph.add_expand_dims_layer("x", 0, "expanded")
        graph.add_const_binary_layer("expanded", 1.5, "y", BINARY_MUL)
        graph.compile(
            dynamic=dynamic,
            directory=folder,
            ref_inputs={"x": x},
            ref_outputs={"y": x[None] * np.float32(1.5)},
            log=lambda _: None,
        )
    return folder / "compilation.bmodel"


def test_written_by_hand(device: Device) -> None:
    """GDMA copies at addresses that malloc did not give."""
    model = read(write(replace(static_net(2, 3), layers=())))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with BModelRuntime(device) as runtime:
        device.malloc(1)  # so that nothing lies where it was compiled for
        runtime.load(model)
        (y,) = runtime.launch("twice", [x])
    assert y.tobytes() == x.tobytes() + COEFF


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_nets(device: Device, tmp_path: Path, dynamic: bool) -> None:
    path = compiled(tmp_path, dynamic)
    rng = np.random.default_rng(2)
    with BModelRuntime(device) as runtime:
        runtime.load(path)
        for shape in ((5, 70, 9), (2, 33, 4), (5, 70, 9)) if dynamic else ((5, 70, 9),) * 2:
            x = rng.standard_normal(shape).astype(np.float32)
            (y,) = runtime.launch("scaled", {"x": x})
            assert y.shape == (1, *shape) and np.array_equal(y[0], x * np.float32(1.5))


@pytest.mark.parametrize("dynamic", [False, True])
def test_bmrt_test_of_a_compiled_folder(tmp_path: Path, dynamic: bool) -> None:
    compiled(tmp_path, dynamic)
    lines: list[str] = []
    options = BmrtTestOptions(context_dir=tmp_path, accuracy_f=0, calculate_times=2, thread_num=2)
    assert (
        run(options, device=lambda n, _: Device(builtin_artifacts().firmware, dev_id=n), say=lines.append)
        == 0
    )
    assert "[BMRT][bmrt_test] INFO:+++ The network[scaled] stage[0] cmp success +++" in lines


def test_user_layers_that_the_firmware_has_not(device: Device) -> None:
    with (
        BModelRuntime(device) as runtime,
        pytest.raises(
            ModelError, match=r"TPU_TWICE \(op_type 0\), which the firmware does not have; it has no"
        ),
    ):
        runtime.load(write(static_net()))
    x = ProgramTensor(TensorKind.NEURON, TensorRecord((2, 4), addr=device.malloc(32)))
    program = Program([x], [Step(StepOp.GLOBAL, (0,), (0,), 0, "twice_0", bytes(8))])
    with pytest.raises(
        DeviceError, match="layer twice_0: this firmware has no layer with op_type 0; it has none"
    ):
        device.record(program)
