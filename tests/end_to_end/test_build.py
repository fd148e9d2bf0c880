"""Building a workspace as a user does: what is rebuilt, what is said, and what stays whole when it fails."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from firmware_sim.errors import BuildError, MissingError, UsageError
from tests.paths import ROOT
from tests.support.workspaces import add_repository_layer, built_copy, environment, make_workspace, tpulayer
from tpulayer import Graph
from user_layers.bmcompiler.c_source import HEADERS
from user_layers.toolchain import builtin_artifacts, firmware_image, targets
from user_layers.toolchain.builtin import builtin_location
from user_layers.toolchain.cache import locked
from user_layers.toolchain.compilers import choose
from user_layers.toolchain.plan import HOST_HEADERS
from user_layers.toolchain.report import Reporter
from user_layers.toolchain.targets import (
    BuildResult,
    build_bmkernel,
    build_layers,
    clean,
    manifest_path,
)
from user_layers.toolkit import Toolkit
from user_layers.workspace import Workspace

INSTALLED = (
    "firmware/firmware.so",
    "firmware/firmware_tcm.bin",
    "firmware/firmware_ddr.bin",
    "firmware/firmware.elf",
    "firmware/firmware_layer.a",
    "plugin/libbmplugin_tpulayer.so",
    "include/bmtpu.h",
    "include/bmtpu.json",
    "test/test_tpu_layer",
    "include/bmlib_runtime.h",
    "include/bmlib_card.h",
    "include/bmlib_u64.h",
    "include/okk.h",
    "include/bm_atomic.h",
    "include/bmdef.h",
    "include/bmruntime_interface.h",
    "include/bmruntime_cpp.h",
    "include/bmruntime_legacy.h",
    "include/imp_bmnetu.h",
    "include/bmcompiler_if.h",
    "include/bmcompiler_op_code.h",
    "include/bmcompiler_defs.h",
    "lib/libbmcompiler.so",
    "lib/libbmlib.so",
    "lib/libbmrt.so",
    "bin/load_firmware",
)
IMAGES = ("firmware_tcm.bin", "firmware_ddr.bin", "firmware.elf")
HOST = (*HOST_HEADERS, *HEADERS, "libbmcompiler.so", "libbmlib.so", "libbmrt.so", "load_firmware")


def build(ws: Workspace) -> BuildResult:
    return build_layers(
        Workspace(ws.root), Reporter(quiet=True)
    )  # a fresh object reads the configuration again


def names(paths: list[Path]) -> set[str]:
    return {path.name for path in paths}


def settle(*paths: Path) -> None:
    """Make files older than a build that follows at once, as a user's are."""
    old = time.time_ns() - 10**9
    for path in paths:
        os.utime(path, ns=(old, old))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    settle(path)


def age(ws: Workspace) -> None:
    """Let everything of a new workspace look a second older."""
    for folder in ("device", "host", "include", "config"):
        settle(*(ws.root / folder).iterdir(), ws.root / folder)


SPECIAL = "a $in b's: ü"  # what shells and ninja treat specially


@pytest.fixture
def ws(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Workspace:
    """A built workspace with the layer double."""
    return built_copy(tmp_path_factory, tmp_path / SPECIAL)


def test_everything_is_installed(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path / SPECIAL)
    build(ws)
    files = {str(path.relative_to(ws.install_dir)) for path in ws.install_dir.rglob("*") if path.is_file()}
    assert files == set(INSTALLED)
    assert b"tpu_global_calculate_entry" in ws.firmware.read_bytes()
    assert ws.firmware_layer.read_bytes().startswith(b"!<arch>\n")
    assert b"fw_handle" not in ws.firmware_layer.read_bytes()  # the user's objects only
    assert os.access(ws.launcher, os.X_OK)
    assert firmware_image(ws).path == ws.firmware


def test_nothing_changed_does_nothing(ws: Workspace) -> None:
    before = {path: path.stat().st_mtime_ns for path in ws.install_dir.rglob("*")}
    result = build(ws)
    assert result.nothing_to_do
    assert result.skipped == ["everything: no input or output changed since the last build"]
    assert {path: path.stat().st_mtime_ns for path in ws.install_dir.rglob("*")} == before


def test_one_kernel_changed(ws: Workspace) -> None:
    edit(ws.device_dir / "bm_device_double.c", "2.0f", "3.0f")
    result = build(ws)
    assert [step for step in result.commands if step.startswith("compiling")] == [
        "compiling device/bm_device_double.c",
        "compiling device/bm_device_double.c for the controller",
    ]
    assert names(result.installed) == {"firmware.so", "firmware_layer.a", *IMAGES}
    assert names(result.kept) == {
        "libbmplugin_tpulayer.so",
        "bmtpu.h",
        "bmtpu.json",
        "test_tpu_layer",
        *HOST,
    }
    assert any(line.startswith("gen_entry: 1 layer;") for line in result.skipped)
    assert build(ws).nothing_to_do


def test_a_header_that_a_kernel_includes(ws: Workspace) -> None:
    header = ws.include_dir / "factor.h"
    header.write_text("#define FACTOR 2.0f\n")
    kernel = ws.device_dir / "bm_device_double.c"
    edit(kernel, '#include "okk.h"', '#include "okk.h"\n#include "factor.h"')
    settle(header, ws.include_dir)
    build(ws)
    assert build(ws).nothing_to_do
    header.write_text("#define FACTOR 3.0f\n")
    assert "compiling device/bm_device_double.c" in build(ws).commands


def test_a_description_changed(ws: Workspace) -> None:
    edit(ws.host_dir / "bm_host_double.h", '"DOUBLE"', '"TWICE"')
    result = build(ws)
    assert names(result.installed) == {"libbmplugin_tpulayer.so"}
    assert not any("device/" in step for step in result.commands)


def test_layers_come_and_go(ws: Workspace) -> None:
    add_repository_layer(ws.root, "crop")
    age(ws)
    build(ws)
    assert "TPU_CROP" in ws.bmtpu_header.read_text()
    for path in (*ws.device_dir.glob("*_crop.c"), *ws.host_dir.glob("*_crop.*")):
        path.unlink()
    age(ws)
    result = build(ws)
    assert "TPU_CROP" not in ws.bmtpu_header.read_text()
    assert {"firmware.so", "bmtpu.h", "bmtpu.json", "libbmplugin_tpulayer.so"} <= names(result.installed)
    assert b"bm_device_crop.c.o" not in ws.firmware_layer.read_bytes()


def test_a_file_missing_in_install_comes_back(ws: Workspace) -> None:
    ws.plugin.unlink()
    result = build(ws)
    assert names(result.installed) == {"libbmplugin_tpulayer.so"}
    assert result.commands == []  # it was built, only not installed


def test_a_file_edited_while_it_is_built_is_built_again(ws: Workspace) -> None:
    kernel = ws.device_dir / "bm_device_double.c"
    future = time.time_ns() + 10**9  # as if it were saved while the compiler ran
    os.utime(kernel, ns=(future, future))
    assert build(ws).commands != []
    dry = tpulayer("build_layers", "--dry-run", cwd=ws.root).stdout
    assert "a file was saved while it ran" in dry


def test_a_file_replaced_by_an_older_one(ws: Workspace) -> None:
    header = ws.include_dir / "factor.h"
    header.write_text("#define FACTOR 2.0f\n")
    kernel = ws.device_dir / "bm_device_double.c"
    edit(kernel, '#include "okk.h"', '#include "okk.h"\n#include "factor.h"')
    build(ws)
    for path in (header, kernel):
        path.write_text(path.read_text() + "/* other */\n")
        os.utime(path, ns=(10**18, 10**18))  # in 2001
        assert "compiling device/bm_device_double.c" in build(ws).commands
    settle(ws.include_dir)
    build(ws)
    assert build(ws).nothing_to_do


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"files": 3}', '{"files": {}, "key": 1}'])
def test_a_damaged_record_only_costs_time(ws: Workspace, damage: str) -> None:
    manifest_path(ws).write_text(damage)
    result = build(ws)
    assert result.commands == []
    assert result.installed == []
    assert build(ws).skipped[0].startswith("everything")


def test_a_compile_error_shows_the_compilers_text(ws: Workspace) -> None:
    before = {path: path.read_bytes() for path in ws.install_dir.rglob("*") if path.is_file()}
    kernel = ws.device_dir / "bm_device_double.c"
    edit(kernel, "    okk_initialize();", "    okk_initialise();")
    line = next(n for n, text in enumerate(kernel.read_text().splitlines(), 1) if "okk_initialise" in text)
    done = tpulayer("build_layers", cwd=ws.root, code=1)
    assert f"device/bm_device_double.c:{line}:" in done.stderr
    assert "okk_initialise" in done.stderr
    for noise in ("FAILED", "ninja:", "-ffp-contract"):
        assert noise not in done.stderr
    assert {path: path.read_bytes() for path in ws.install_dir.rglob("*") if path.is_file()} == before
    edit(kernel, "okk_initialise", "okk_initialize")
    build(ws)
    assert build(ws).nothing_to_do


@pytest.mark.parametrize(
    "method",
    [
        "bool must_dynamic_run() { return true; }",  # for want of a const
        "int backward_kh() const { return 3; }",
        "virtual u32 get_local_buffer_size(int *) const { return 3; }",
        "bool can_inplace(DATA_TYPE_T) override { return true; }",
    ],
)
def test_a_method_that_hides_one_of_the_descriptor_is_an_error(ws: Workspace, method: str) -> None:
    header = ws.host_dir / "bm_host_double.h"
    edit(header, "bool can_inplace(DATA_TYPE_T dtype) const override;", f"{method}\n")
    line = next(n for n, text in enumerate(header.read_text().splitlines(), 1) if method in text)
    (ws.host_dir / "bm_host_double.cpp").write_text('#include "bm_host_double.h"\n')
    done = tpulayer("build_layers", cwd=ws.root, code=1)
    assert f"host/bm_host_double.h:{line}:" in done.stderr


def test_errors_of_all_files_come_at_once(ws: Workspace) -> None:
    edit(ws.device_dir / "bm_device_double.c", "    okk_initialize();", "    first_mistake();")
    (ws.device_dir / "helper.c").write_text("int helper(void) { return second_mistake(); }\n")
    with pytest.raises(BuildError) as caught:
        build(ws)
    assert "first_mistake" in caught.value.message
    assert "device/helper.c:1:" in caught.value.message


def test_an_undefined_function_is_named_by_the_linker(ws: Workspace) -> None:
    edit(
        ws.device_dir / "bm_device_double.c",
        "    okk_initialize();",
        "    { extern void nowhere_to_be_found(void); nowhere_to_be_found(); }",
    )
    with pytest.raises(BuildError, match="nowhere_to_be_found"):
        build(ws)


def test_warnings_are_shown_once(ws: Workspace) -> None:
    edit(
        ws.device_dir / "bm_device_double.c", "    okk_initialize();", "    okk_initialize(); int unused_one;"
    )
    assert "unused_one" in tpulayer("build_layers", cwd=ws.root).stderr
    assert "unused_one" not in tpulayer("build_layers", cwd=ws.root).stderr


def test_a_mistake_in_the_markers_leaves_generated_code_alone(ws: Workspace) -> None:
    before = (ws.generated_dir / "bmtpu.h").read_bytes()
    edit(ws.device_dir / "bm_device_double.c", "__BM_SHAPE__(TPU_DOUBLE)", "")
    done = tpulayer("build_layers", cwd=ws.root, code=1)
    assert "__BM_SHAPE__(TPU_DOUBLE)" in done.stderr
    assert (ws.generated_dir / "bmtpu.h").read_bytes() == before


def test_two_builds_at_once(ws: Workspace) -> None:
    edit(ws.device_dir / "bm_device_double.c", "2.0f", "2.0f + 0.0f")
    with ThreadPoolExecutor(3) as pool:
        results = [job.result() for job in [pool.submit(build, ws) for _ in range(3)]]
    assert sorted(len(result.commands) for result in results)[:2] == [0, 0]  # one did it, two waited
    assert build(ws).nothing_to_do


def test_a_killed_build_is_repaired(ws: Workspace) -> None:
    clean(ws)
    process = subprocess.Popen(
        [sys.executable, "-m", "user_layers.cli.main", "build_layers"],
        cwd=ws.root,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while not (ws.build_dir / "build.ninja").exists() and time.monotonic() < end:
        time.sleep(0.005)
    process.kill()
    process.wait(30)
    assert not ws.install_dir.exists() or not list(ws.install_dir.rglob("*.tmp"))
    build(ws)
    assert all((ws.install_dir / name).is_file() for name in INSTALLED)
    assert build(ws).nothing_to_do


def test_clean_keeps_the_op_types(ws: Workspace) -> None:
    numbers = ws.op_lock.read_text()
    assert clean(ws, dry_run=True) == [ws.generated_dir, ws.build_dir, ws.install_dir]
    assert ws.firmware.exists()
    clean(ws)
    assert not any(path.exists() for path in (ws.generated_dir, ws.build_dir, ws.install_dir))
    assert ws.op_lock.read_text() == numbers
    assert clean(ws) == []


def test_clean_follows_no_links(ws: Workspace, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    shutil.move(ws.build_dir, kept)
    ws.build_dir.symlink_to(kept)
    with pytest.raises(UsageError, match="is a link"):
        clean(ws)
    assert (kept / "build.ninja").exists()


def test_dry_runs_write_nothing(ws: Workspace) -> None:
    assert "would do nothing" in tpulayer("build_layers", "--dry-run", cwd=ws.root).stdout
    add_repository_layer(ws.root, "crop")
    before = {path: path.stat().st_mtime_ns for path in ws.root.rglob("*")}
    for command in ("build_layers", "gen_entry", "gen_config", "rebuild_layers", "clean"):
        tpulayer(command, "--dry-run", cwd=ws.root)
    entry = tpulayer("gen_entry", "--dry-run", cwd=ws.root).stdout
    assert "would write generated/bmtpu.h" in entry
    assert "TPU_CROP = 1" in entry
    answer = json.loads(tpulayer("build_layers", "--dry-run", "--json", cwd=ws.root).stdout)
    assert any(str(ws.device_dir) in change for change in answer["changes"])
    assert {path: path.stat().st_mtime_ns for path in ws.root.rglob("*")} == before


@pytest.mark.parametrize("arch", ["pcie", "soc"])
def test_the_images_are_the_same_for_card_and_chip(ws: Workspace, arch: str) -> None:
    images = [ws.firmware.with_name(name) for name in IMAGES[:2]]
    before = [path.read_bytes() for path in images]
    ws.config_file.write_text(f"FIRMWARE_ARCH = {arch}\n")
    done = tpulayer("rebuild_layers", cwd=ws.root)
    assert f"gen_config: x86, {arch}" in done.stdout + done.stderr
    assert [path.read_bytes() for path in images] == before
    config = json.loads((ws.generated_dir / "build_config.json").read_text())
    assert config["firmware_arch"] == arch


def test_a_configuration_added_in_the_root_counts(ws: Workspace) -> None:
    (ws.root / "Makefile.config").write_text("FIRMWARE_ARCH ?= soc\n")
    build(ws)
    config = json.loads((ws.generated_dir / "build_config.json").read_text())
    assert config["firmware_arch"] == "soc"
    edit(ws.root / "Makefile.config", "soc", "pcie")
    build(ws)
    assert '"pcie"' in (ws.generated_dir / "build_config.json").read_text()


@pytest.mark.slow
def test_the_plugin_for_another_machine(ws: Workspace) -> None:
    other, number = ("aarch64", 183) if os.uname().machine == "x86_64" else ("x86", 62)
    ws.config_file.write_text(f"HOST_ARCH = {other}\n")
    build(ws)
    crossed = Workspace(ws.root)
    assert crossed.local_plugin != crossed.plugin
    machine = [int.from_bytes(path.read_bytes()[18:20], "little") for path in (ws.plugin, ws.firmware)]
    assert machine[0] == number
    for name in ("bin/load_firmware", "lib/libbmlib.so", "lib/libbmrt.so"):
        assert int.from_bytes((ws.install_dir / name).read_bytes()[18:20], "little") == number
    assert machine[1] != number  # the firmware runs here
    assert crossed.local_plugin.read_bytes()[18:20] == ws.firmware.read_bytes()[18:20]
    assert build(ws).nothing_to_do


def test_firmware_of_the_environment(ws: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BMRUNTIME_FIRMWARE_PATH", str(ws.firmware.parent))
    assert firmware_image(None).path == ws.firmware
    monkeypatch.setenv("BMRUNTIME_FIRMWARE_PATH", str(ws.firmware))
    assert firmware_image(None).path == ws.firmware
    monkeypatch.setenv("BMRUNTIME_FIRMWARE_PATH", str(tmp_path))
    with pytest.raises(MissingError, match=r"no firmware at .* \(BMRUNTIME_FIRMWARE_PATH\)"):
        firmware_image(ws)
    monkeypatch.delenv("BMRUNTIME_FIRMWARE_PATH")
    ws.firmware.unlink()
    with pytest.raises(MissingError, match="is not built"):
        firmware_image(ws)


def test_the_builtin_part_is_built_once_and_whole() -> None:
    builtin = builtin_artifacts()
    for path in (builtin.libtpufw, builtin.firmware, builtin.plugin, builtin.layer_record):
        assert path.is_file()
    before = builtin.libtpufw.stat()
    assert builtin_artifacts() == builtin
    assert builtin.libtpufw.stat() == before
    assert builtin_location(choose("aarch64")) != builtin_location(choose("x86"))
    assert not Path(
        f"{builtin.directory}.{os.getpid()}.tmp"
    ).exists()  # others' may lie there, of killed builds


def test_a_lock_that_stays_held(tmp_path: Path) -> None:
    told = []
    with (
        locked(tmp_path / "lock"),
        pytest.raises(BuildError, match="has held"),
        locked(tmp_path / "lock", limit=0.2, waiting=lambda: told.append(1)),
    ):
        pass
    assert told == [1]
    with locked(tmp_path / "lock", limit=0.2):  # free again
        pass


def test_a_compiler_that_never_ends(ws: Workspace, tmp_path: Path) -> None:
    from user_layers.toolchain.ninja_run import run_ninja

    script = "rule wait\n  command = echo $$$$ >pid; exec sleep 600\nbuild never: wait\n"
    (tmp_path / "build.ninja").write_text(script)
    with pytest.raises(BuildError, match="no compiler call ended within"):
        run_ninja(tmp_path, tmp_path / "build.ninja", [tmp_path / "never"], Reporter(quiet=True), limit=3.0)
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# ---- a bmkernel project ----


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy = tmp_path / "kernels"
    shutil.copytree(ROOT / "bmkernel_demo", copy, ignore=shutil.ignore_patterns("build", "install"))
    for path in copy.rglob("*"):
        settle(path)
    return copy


def test_a_layer_calls_a_bmkernel_function(tmp_path: Path, project: Path) -> None:
    ws = make_workspace(tmp_path / "w", layers=())
    add_repository_layer(ws.root, "scale_add", project / "layer")
    assert "scale_add.h" in tpulayer("build_layers", cwd=ws.root, code=1).stderr
    done = tpulayer("set_bmkernel_path", "../kernels", cwd=ws.root)
    assert "BMKERNEL_PATH" in done.stdout
    age(ws)
    result = build(ws)
    assert any("bm_kernel_scale_add.c" in step for step in result.commands)
    alone = (project / "install" / "firmware" / "firmware.so").read_bytes()
    assert b"scale_add" in alone
    assert b"scale_add_global" not in alone  # the project's own firmware has no layers
    assert b"scale_add_global" in ws.firmware.read_bytes()
    assert build(ws).nothing_to_do
    edit(project / "device" / "bm_kernel_scale_add.c", "MAX_W 4096", "MAX_W 2048")
    changed = build(ws)
    assert len([path for path in changed.installed if path.name == "firmware.so"]) == 2
    assert build_bmkernel(Workspace(ws.root), Reporter(quiet=True)).commands == []
    libraries = [path for path in (project / "install").rglob("libbmlib*") if path.is_file()]
    assert libraries
    libraries[0].unlink()  # a program of the host could not be linked: it is put there again
    build_bmkernel(Workspace(ws.root), Reporter(quiet=True))
    assert libraries[0].is_file()


def test_build_bmkernel_needs_a_project(ws: Workspace) -> None:
    with pytest.raises(UsageError, match="names no bmkernel project") as caught:
        targets.build_bmkernel(ws)
    assert "set_bmkernel_path" in caught.value.hint


def test_a_descriptor_class_in_a_source_file_is_linked_once(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path / "w")
    header = ws.host_dir / "bm_host_double.h"
    source = ws.host_dir / "bm_host_double.cpp"
    methods = source.read_text().replace('#include "bm_host_double.h"\n', "")
    source.write_text(header.read_text() + methods)
    header.unlink()
    build(ws)
    assert ws.plugin.exists()
    source.write_text(source.read_text().replace('"DOUBLE"', '"TWICE"'))
    assert ws.plugin in build(ws).installed


def test_a_descriptor_in_a_header_needs_no_source(tmp_path: Path) -> None:
    """Methods are defined in the header's class; what another header only declares is in its source."""
    ws = make_workspace(tmp_path / "w", ("double", "crop"))
    edit(
        ws.host_dir / "bm_host_double.h",
        "can_inplace(DATA_TYPE_T dtype) const override;",
        "can_inplace(DATA_TYPE_T dtype) const override { return dtype == DTYPE_FP32; }",
    )
    (ws.host_dir / "bm_host_double.cpp").unlink()
    built = build(ws)
    assert ws.plugin in built.installed
    assert [step for step in built.commands if ".cpp" in step and "double" in step] == []
    with Toolkit(ws) as toolkit:
        graph = Graph(name="both", toolkit=toolkit)
        graph.add_input("x", (1, 4, 8, 8))
        graph.add_tpu_layer("TPU_DOUBLE", ["x"], {}, ["y"])
        graph.compile()
        x = np.arange(256, dtype=np.float32).reshape(1, 4, 8, 8)
        assert np.array_equal(graph.run({"x": x})[0], 2 * x)
    (ws.host_dir / "bm_host_crop.cpp").unlink()
    with pytest.raises(BuildError, match="CropDescriptor"):
        build(ws)


def test_flags_for_host_programs(ws: Workspace, tmp_path: Path) -> None:
    """Quoted for the shell; the workspace's path needs it."""
    compiling, folder = [f"-I{ws.install_dir}/include"], ws.install_dir / "lib"
    linking = [f"-L{folder}", "-lbmcompiler", "-lbmrt", "-lbmlib", f"-Wl,-rpath,{folder}"]
    for options, words in (((), compiling + linking), (("--cflags",), compiling), (("--libs",), linking)):
        assert shlex.split(tpulayer("host_flags", *options, cwd=ws.root).stdout) == words
    fresh = make_workspace(tmp_path / "fresh")
    assert "is not built" in tpulayer("host_flags", cwd=fresh.root, code=3).stderr


def test_flags_outside_of_workspaces(tmp_path: Path) -> None:
    """The toolkit's own libraries; --into makes a folder that any makefile can name."""
    words = shlex.split(tpulayer("host_flags", cwd=tmp_path).stdout)
    folders = [Path(word[2:]) for word in words if word.startswith(("-I", "-L"))]
    assert len(folders) == 3 and (folders[0] / "okk.h").is_file() and (folders[2] / "libbmlib.so").is_file()
    before = sorted(tmp_path.iterdir())
    assert (
        "--into: the folder has no name" in tpulayer("host_flags", "--into", "", cwd=tmp_path, code=2).stderr
    )
    assert sorted(tmp_path.iterdir()) == before
    words = shlex.split(tpulayer("host_flags", "--into", "lib/cmodel", "--libs", cwd=tmp_path).stdout)
    place = tmp_path / "lib" / "cmodel"
    assert words[0] == f"-L{place}" and words[-1] == f"-Wl,-rpath,{place}"
    assert {path.name for path in place.iterdir()} == {
        "include",
        "libbmcompiler.so",
        "libbmlib.so",
        "libbmrt.so",
    }
    assert {"okk.h", "bm_atomic.h", "bmlib_runtime.h", "bmlib_u64.h"} <= {
        path.name for path in (place / "include").iterdir()
    }
