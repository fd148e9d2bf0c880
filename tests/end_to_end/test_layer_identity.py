"""Compiled nets outlive other layers of their workspace, but not a change of their own parameters."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.device.client import Device
from firmware_sim.errors import CompileError, DeviceError, ModelError
from firmware_sim.firmware.image import DDR_NAME, TCM_NAME
from tests.support.workspaces import add_repository_layer, built_copy, make_workspace
from tpulayer import Graph
from user_layers.bmodel import read
from user_layers.bmodel.model import BModel
from user_layers.bmrt import load_firmware
from user_layers.compiler.attributes import gather_attributes
from user_layers.compiler.pipeline import plan_net
from user_layers.graph.shapes import infer_shapes
from user_layers.runtime import BModelRuntime
from user_layers.toolchain.builtin import builtin_artifacts
from user_layers.toolchain.targets import build_layers, manifest_path
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace

SHAPE = (2, 70, 5, 3)


def doubling(ws: Workspace, firmware: str | None = None) -> Graph:
    graph = Graph(name="doubling", toolkit=Toolkit(ws, firmware=firmware))
    graph.add_input("x", SHAPE)
    graph.add_tpu_layer("TPU_DOUBLE", ["x"], None, ["y"])
    return graph


def check_runs(device: Device, model: BModel) -> None:
    x = np.random.default_rng(4).standard_normal(SHAPE).astype(np.float32)
    with BModelRuntime(device) as runtime:
        runtime.load(model)
        (y,) = runtime.launch("doubling", [x])
    assert np.array_equal(y, x * np.float32(2))


@pytest.mark.slow
def test_old_nets_run_until_their_own_layer_changes(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    ws = built_copy(tmp_path_factory, tmp_path / "w")
    models = []
    for dynamic in (False, True):
        with doubling(ws) as graph:
            graph.compile(dynamic, directory=tmp_path / f"net{dynamic}")
            (planned,) = plan_net(gather_attributes(infer_shapes(graph), graph.toolkit), opt=0).programs
        models.append(read(tmp_path / f"net{dynamic}" / "compilation.bmodel"))

    assert planned is not None
    program = planned
    add_repository_layer(ws.root, "crop")  # unrelated, and before TPU_DOUBLE in the alphabet
    build_layers(ws)
    with Device(ws.firmware) as device:
        assert [(layer.op, layer.op_type) for layer in device.query().layers] == [
            ("TPU_DOUBLE", 0),
            ("TPU_CROP", 1),
        ]
        for model in models:
            check_runs(device, model)
        device.record(program)

    source = ws.device_dir / "bm_device_double.c"
    text = source.read_text()
    assert text.count("int reserved;") == 1
    source.write_text(text.replace("int reserved;", "float reserved;"))  # as large as before
    build_layers(ws)
    with Device(ws.firmware) as device, BModelRuntime(device) as runtime:
        for model in models:
            with pytest.raises(ModelError, match=r"TPU_DOUBLE .* parameter struct has changed since"):
                runtime.load(model)
        with pytest.raises(DeviceError, match=r"layer \w+ \(TPU_DOUBLE\): its parameter struct has changed"):
            device.record(program)


def test_a_firmware_with_other_layers_is_refused_before_it_is_asked(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph on the firmware of another workspace, whose layer of the same number would answer."""
    ws, other = built_copy(tmp_path_factory, tmp_path / "w"), make_workspace(tmp_path / "other", ("crop",))
    build_layers(other)
    before = shutil.copytree(ws.firmware.parent, tmp_path / "before")
    source = ws.device_dir / "bm_device_double.c"
    source.write_text(source.read_text().replace("int reserved;", "float reserved;"))
    build_layers(ws)
    layer = r"double_0 \(TPU_DOUBLE, .*\): the plugin has the layer TPU_DOUBLE \(op_type 0\)"
    for folder, message in (
        (other.firmware.parent, r", but op_type 0 of the firmware {} is TPU_CROP"),
        (before, r", whose parameter struct has changed since: 4 bytes .* in the plugin, 4 bytes .* in the "),
        (builtin_artifacts().directory, r", which the firmware {} does not have; it has no user layers"),
    ):
        for kind in ("firmware.so", TCM_NAME):
            path = str(folder / kind)
            text = layer + message.format(re.escape(path))
            with doubling(ws, path) as graph, pytest.raises(CompileError, match=text) as caught:
                graph.compile()
            assert "build_layers" in caught.value.hint
            with doubling(ws, path) as graph, pytest.raises(CompileError, match=text):
                graph.shape("y")
    monkeypatch.chdir(ws.root)
    tcm, ddr = (other.firmware.with_name(name) for name in (TCM_NAME, DDR_NAME))
    load_firmware.run(tcm, ddr, 0, as_json=False)
    with doubling(ws) as graph, pytest.raises(CompileError, match="is TPU_CROP") as caught:
        graph.compile(dynamic=True)
    assert caught.value.hint.startswith("load_firmware recorded it: ") and caught.value.exit_code == 1
    load_firmware.forget(0)


def test_a_build_of_an_older_toolkit_is_told(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its built-in layers may differ from what the compiler expects."""
    ws = built_copy(tmp_path_factory, tmp_path)
    state = json.loads(manifest_path(ws).read_text())
    for changes in (False, True):
        capsys.readouterr()
        if changes:
            name = next(n for n in state["files"] if n.endswith("okk.h"))
            state["files"][name][1] -= 1
            manifest_path(ws).write_text(json.dumps(state))
        with doubling(ws) as graph:
            graph.resolve()
            assert graph.toolkit.old_build is changes
        said = capsys.readouterr().err
        assert ("okk.h has changed); run `build_layers`" in said) is changes
