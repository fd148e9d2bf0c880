"""The second demo of the manual (section 6), step by step with its own commands: yolov3 whose last layer
is an own one, through imp_bmnetu and bmnetu. The network has 1/16 of the channels."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.manual_shell import Shell, built
from tests.support.workspaces import built_demo

pytest.importorskip("google.protobuf", reason="reading Caffe's files needs protobuf")
pytestmark = pytest.mark.thorough  # the first step, which all others need, compiles a large network
EXAMPLE = ROOT / "examples" / "yolov3"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = built_demo(tmp_path_factory, tmp_path_factory.mktemp("user_layers")).root
    for folder in ("device", "host", "include", "imp_bmnetu"):
        shutil.copytree(EXAMPLE / folder, root / folder, dirs_exist_ok=True)
    return root


@pytest.fixture(scope="module")
def shell(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    yield Shell(root, tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="module")
def log(shell: Shell, root: Path) -> str:
    """Steps 1 to 5: what bmnetu tells."""
    built(shell)
    shell.keep("export BMCOMPILER_PLUGIN_PATH=$PWD/install/plugin/libbmplugin_tpu_layer.so")
    shell.run("cd imp_bmnetu && make && make install")
    assert (root / "install" / "plugin" / "libimpbmnetu.so").is_file()
    shell.run(
        f"{sys.executable} {EXAMPLE / 'make_model.py'} . --width 1/16 --size 96 --confidence-threshold 0.2"
    )
    return shell.run("bmnetu –model yolov3.prototxt –weight yolov3.caffemodel –target=BM1684 –v=4")


def test_the_log_shows_the_layer(log: str, root: Path) -> None:
    """Step 6, and 7: the bmodel is there."""
    found = re.findall(r"layer_id\s+(\d+)\s+\"?TPU\(YOLOV3_DETECT_OUT\)", log)
    assert len(found) == 1 and int(found[0]) > 100, log
    assert (root / "compilation" / "compilation.bmodel").is_file()


def test_running_on_the_emulated_chip(log: str, shell: Shell) -> None:
    said = shell.run(
        "export BMRUNTIME_FIRMWARE_PATH=$PWD/install/firmware; "
        "bmrt_test --bmodel compilation/compilation.bmodel"
    )
    assert "recorded" not in said
    said = shell.run("bmrt_test --context_dir compilation")
    assert "compare    time(s)" in said, said  # and its exit code says that all is equal


def test_running_as_on_a_card(log: str, shell: Shell) -> None:
    shell.run(
        "unset BMRUNTIME_FIRMWARE_PATH; "
        "install/bin/load_firmware install/firmware/firmware_tcm.bin $PWD/install/firmware/firmware_ddr.bin; "
        "bmrt_test --bmodel compilation/compilation.bmodel; load_firmware --forget 0"
    )


def test_running_as_on_a_soc(log: str, shell: Shell, tmp_path: Path) -> None:
    """What the manual copies to the SoC is enough."""
    shell.run(
        f"cp install/bin/load_firmware install/firmware/firmware_tcm.bin install/firmware/firmware_ddr.bin "
        f"compilation/compilation.bmodel {tmp_path}; cd {tmp_path}; "
        "unset BMRUNTIME_FIRMWARE_PATH BMCOMPILER_PLUGIN_PATH; "
        "./load_firmware firmware_tcm.bin firmware_ddr.bin; bmrt_test --bmodel compilation.bmodel"
    )
