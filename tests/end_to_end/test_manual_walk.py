"""The vendor's manual, section 6, step by step with its own commands, in a fresh workspace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.manual_shell import Shell, built
from tests.support.workspaces import built_demo


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_demo(tmp_path_factory, tmp_path_factory.mktemp("user_layers")).root


@pytest.fixture
def shell(root: Path, tmp_path: Path) -> Iterator[Shell]:
    yield Shell(root, tmp_path)


def test_the_first_demo_on_the_emulated_chip(shell: Shell, root: Path) -> None:
    built(shell)
    for made in (
        "firmware/firmware.so",
        "firmware/firmware_layer.a",
        "firmware/firmware_ddr.bin",
        "firmware/firmware_tcm.bin",
        "include/bmtpu.h",
        "bin/load_firmware",
        "test/test_tpu_layer",
        "plugin/libbmplugin_tpulayer.so",
    ):
        assert (root / "install" / made).is_file(), made
    shell.keep("export BMCOMPILER_PLUGIN_PATH=$PWD/install/plugin/libbmplugin_tpu_layer.so")
    for mode, folder in (("0", "tpulayer_static"), ("1", "tpulayer_dynamic")):
        said = shell.run(f"install/test/test_tpu_layer {mode}")
        lines = [line.split()[0] for line in said.splitlines() if "->" in line and ";" in line]
        assert lines == ["TPU(CROP)", "EXPAND_DIMS", "CONST_BINARY", "TPU(DOUBLE)"], said
        assert "equals numpy bit for bit" in said and "DIFFERS" not in said
        assert (root / folder / "compilation.bmodel").is_file()
    shell.keep("export BMRUNTIME_FIRMWARE_PATH=$PWD/install/firmware")
    for folder in ("tpulayer_static", "tpulayer_dynamic"):
        said = shell.run(f"bmrt_test --bmodel {folder}/compilation.bmodel")
        assert "recorded" not in said


def test_running_as_on_a_card(shell: Shell, root: Path) -> None:
    """load_firmware, then bmrt_test: on the controller's images, and it says so."""
    built(shell)
    shell.run("install/test/test_tpu_layer 0")
    shell.keep("unset BMRUNTIME_FIRMWARE_PATH")
    shell.run(
        "install/bin/load_firmware install/firmware/firmware_tcm.bin $PWD/install/firmware/firmware_ddr.bin"
    )
    said = shell.run("bmrt_test --bmodel tpulayer_static/compilation.bmodel")
    assert len([line for line in said.splitlines() if "load_firmware" in line]) == 1, said
    # A kernel that is built again is not the one that was loaded.
    shell.run("sed -i 's/2\\.0f/3.0f/' device/bm_device_double.c && build_layers")
    said = shell.run("bmrt_test --bmodel tpulayer_static/compilation.bmodel", code=3)
    assert "load_firmware" in said and "--forget" in said
    shell.run("sed -i 's/3\\.0f/2.0f/' device/bm_device_double.c && build_layers")
    shell.run("load_firmware --forget 0")
    said = shell.run("bmrt_test --bmodel tpulayer_static/compilation.bmodel")
    assert "load_firmware" not in said


def test_running_as_on_a_soc(shell: Shell, root: Path, tmp_path: Path) -> None:
    """What the manual copies to the SoC is enough: a folder with the program, both images and the bmodel."""
    built(shell)
    shell.run("install/test/test_tpu_layer 1")
    soc = tmp_path / "soc"
    soc.mkdir()
    shell.run(
        f"cp install/bin/load_firmware install/firmware/firmware_tcm.bin install/firmware/firmware_ddr.bin "
        f"tpulayer_dynamic/compilation.bmodel {soc}"
    )
    shell.keep("unset BMRUNTIME_FIRMWARE_PATH BMCOMPILER_PLUGIN_PATH")
    shell.keep(f"cd {soc}")
    shell.run("./load_firmware firmware_tcm.bin firmware_ddr.bin")
    said = shell.run("bmrt_test --bmodel compilation.bmodel")
    assert "load_firmware" in said


def test_other_values_of_the_configuration(shell: Shell, root: Path) -> None:
    """FIRMWARE_ARCH pcie and soc give the same files, and the manual's place for the file is understood."""
    built(shell)
    before = (root / "install" / "firmware" / "firmware_tcm.bin").read_bytes()
    for arch in ("pcie", "soc"):
        shell.run(f"printf 'HOST_ARCH ?= x86\\nFIRMWARE_ARCH ?= {arch}\\n' > Makefile.config")
        shell.run(f"sed -i 's/^FIRMWARE_ARCH.*/FIRMWARE_ARCH ?= {arch}/' config/Makefile.config")
        shell.run("build_layers")
        assert (root / "install" / "firmware" / "firmware_tcm.bin").read_bytes() == before
    shell.run(
        "rm Makefile.config && sed -i 's/^FIRMWARE_ARCH.*/FIRMWARE_ARCH ?= cmodel/' config/Makefile.config"
    )
    shell.run('source scripts/envsetup_pcie.sh; [ -z "${BMRUNTIME_FIRMWARE_PATH:-}" ]')
