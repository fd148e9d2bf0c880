"""New layers and workspaces: the files, what is refused, and that fresh layers compile."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.errors import MissingError, UsageError
from tests.paths import ROOT
from tests.support.layer_sources import compile_text
from user_layers.codegen import generate
from user_layers.commands import TOOLS
from user_layers.scaffold import (
    add_layer,
    del_layer,
    environment_scripts,
    init,
    layer_files,
    list_layers,
    tool_scripts,
)
from user_layers.scaffold import workspace as scaffold_workspace
from user_layers.scan import scan_layers
from user_layers.workspace import Workspace, sdk_dir


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    init(tmp_path / "ws")
    return tmp_path / "ws"


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


# ---- add_layer ----


def test_the_files_of_a_layer(ws: Path) -> None:
    made = add_layer(ws, "scale", True)
    names = [str(p.relative_to(ws)) for p in made.files]
    host = ["host/bm_host_scale.h", "host/bm_host_scale.cpp"]
    assert names == ["device/bm_device_scale.c", *host, "tests/test_scale.py"]
    assert made.next_command == "build_layers && test_layers scale"
    (layer,) = list_layers(ws).layers
    assert layer.op == "TPU_SCALE" and layer.param.c_type == "tpu_scale_param_t"
    assert layer.local_fn is not None
    found = (layer.global_fn.name, layer.local_fn.name, layer.shape_fn.name, layer.descriptor.name)
    assert found == ("scale_global", "scale_local", "scale_reshape", "ScaleDescriptor")


def test_without_local(ws: Path) -> None:
    add_layer(ws, "two_words")
    (layer,) = list_layers(ws).layers
    assert layer.local_fn is None and layer.descriptor.name == "TwoWordsDescriptor"
    assert "__BM_LOCAL__" not in (ws / "device/bm_device_two_words.c").read_text()


@pytest.mark.parametrize("name", ["scale", "double", "a", "x" * 40])
@pytest.mark.parametrize("has_local", [False, True])
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
def test_fresh_layers_compile_without_warnings(ws: Path, name: str, has_local: bool, dtype: str) -> None:
    add_layer(ws, name, has_local, dtype=dtype)
    w = Workspace(ws)
    table = scan_layers(
        w.device_dir, w.host_dir, [sdk_dir() / "include"], cache_dir=w.scan_cache_dir, op_lock=w.op_lock
    )
    generate(table, w.generated_dir)
    folders = (sdk_dir() / "include", w.host_dir, w.generated_dir)
    common = ["-c", "-o", str(ws / "checked.o"), "-Wall", "-Wextra", "-Werror", *(f"-I{p}" for p in folders)]
    for c in (w.device_dir / f"bm_device_{name}.c", w.generated_dir / "bmtpu_device_entry.c"):
        compile_text("c", [*common, "-std=gnu11", str(c)])
    for cpp in (w.host_dir / f"bm_host_{name}.cpp", w.generated_dir / "bmtpu_host_entry.cpp"):
        compile_text("c++", [*common, "-std=c++17", str(cpp)])


def test_a_layer_of_integers(ws: Path) -> None:
    made = add_layer(ws, "two_words", True, dtype="int8")
    assert made.files == add_layer(ws, "two_words", True, dry_run=True, force=True).files
    (layer,) = list_layers(ws).layers
    assert layer.local_fn is not None and layer.descriptor.name == "TwoWordsDescriptor"
    assert "input_dtype" in (ws / "host/bm_host_two_words.h").read_text()
    add_layer(ws, "two_words", dtype="int8", force=True)
    (layer,) = list_layers(ws).layers
    assert layer.local_fn is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int16"}, "--dtype int16: new layers take fp32 or int8"),
        ({"dtype": "uint8"}, "--dtype uint8: new layers take fp32 or int8"),
        ({"dtype": "int8", "caffe": "Scale"}, "--caffe and --dtype int8: "),
        ({"dtype": "int8", "caffe": "Scale", "cpp": True}, "--caffe and --dtype int8: "),
    ],
)
def test_types_that_are_refused(ws: Path, options: dict[str, Any], message: str) -> None:
    before = tree(ws)
    with pytest.raises(UsageError) as e:
        add_layer(ws, "scale", **options)
    assert message in e.value.message and e.value.hint
    assert tree(ws) == before


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_existing_files_are_never_overwritten_silently(ws: Path, kept: int) -> None:
    made = add_layer(ws, "scale", dry_run=True)
    path = made.files[kept]
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    before = tree(ws)
    with pytest.raises(UsageError) as e:
        add_layer(ws, "scale")
    assert str(path.relative_to(ws)) in e.value.message and "--force" in e.value.hint
    assert tree(ws) == before
    assert add_layer(ws, "scale", force=True).files == made.files
    assert path.read_text() != "mine"


def test_a_dry_run_writes_nothing(ws: Path) -> None:
    before = tree(ws)
    assert len(add_layer(ws, "scale", dry_run=True).files) == 4
    assert tree(ws) == before


def test_a_file_that_cannot_be_written_undoes_the_others(ws: Path) -> None:
    shutil.rmtree(ws / "host")
    (ws / "host").write_text("in the way")
    before = tree(ws)
    with pytest.raises(UsageError, match="nothing was changed"):
        add_layer(ws, "scale")
    assert tree(ws) == before


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("", "letters, digits and _ only", "for example crop or my_layer"),
        ("3d", "letters, digits and _ only", "for example"),
        ("my-layer", "letters, digits and _ only", "for example my_layer"),
        ("../evil", "letters, digits and _ only", "for example evil"),
        ("größe", "letters, digits and _ only", "for example gr_e"),
        ("MyLayer", "names are lower case", "use my_layer"),
        ("TPU_CROP", "names are lower case", "use crop"),
        ("_x", "leading or double underscores", "use x"),
        ("a__b", "leading or double underscores", "use a_b"),
        ("tpu", "the firmware's own functions begin with tpu_", "for example my_tpu"),
        ("x" * 41, "has 41 characters, at most 40", ""),
        ("expand_dims", "'expand_dims' is a built-in layer", "my_expand_dims"),
    ],
)
def test_names_that_are_refused(ws: Path, name: str, message: str, hint: str) -> None:
    before = tree(ws)
    with pytest.raises(UsageError) as e:
        add_layer(ws, name)
    assert message in e.value.message and hint in e.value.hint
    assert tree(ws) == before


# ---- del_layer, list_layers ----


def test_del_layer_asks_for_each_file(ws: Path) -> None:
    made = add_layer(ws, "scale")
    asked: list[Path] = []

    def confirm(path: Path) -> bool:
        asked.append(path)
        return path.suffix == ".cpp"

    assert del_layer(ws, "scale", confirm=confirm) == [made.files[2]]
    assert asked == list(made.files)
    left = [*made.files[:2], made.files[3]]
    assert layer_files(ws, "scale") == left
    assert del_layer(ws, "scale", dry_run=True) == left
    assert del_layer(ws, "scale", confirm=lambda path: path != made.files[3]) == left[:2]
    assert layer_files(ws, "scale") == [made.files[3]]
    assert del_layer(ws, "scale") == [made.files[3]]
    (ws / "tests" / "test_scale.py").write_text("def test_nothing_of_a_layer() -> None: ...\n")
    with pytest.raises(UsageError, match="there is no layer scale; the workspace has none"):
        del_layer(ws, "scale")
    with pytest.raises(UsageError, match="is not a layer's name"):
        del_layer(ws, "../x")


def test_list_layers_shows_sound_layers_beside_broken_ones(ws: Path) -> None:
    add_layer(ws, "scale")
    (ws / "device/bm_device_bad.c").write_text("__BM_GLOBAL__(TPU_BAD) int f(void) { return 0; }\n")
    listing = list_layers(ws)
    assert [x.op for x in listing.layers] == ["TPU_SCALE"]
    assert any("it has 0 parameters, expected 8" in p.message for p in listing.problems)
    assert not (ws / "config/op_types.lock").exists()


# ---- init ----


def test_a_new_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = init(Path("ws"))
    root = tmp_path / "ws"
    assert {p.name for p in root.iterdir()} == {
        ".gitignore",
        "Makefile",
        "config",
        "device",
        "envsetup.sh",
        "host",
        "include",
        "scripts",
        "tool",
    }
    assert made.next_command == "cd ws && source envsetup.sh && add_layer crop 1"
    assert Workspace.find(root / "device").root == root
    assert Workspace(root).config.bmkernel_path is None
    assert all(os.access(root / "tool" / name, os.X_OK) for name in TOOLS)
    assert list_layers(root).layers == ()


def test_init_again_keeps_what_is_there_and_adds_the_demo(ws: Path) -> None:
    (ws / "Makefile").write_text("mine\n")
    before = tree(ws)
    again = init(ws)
    assert again.files == () and tree(ws) == before and ws.resolve() / "Makefile" in again.kept
    demo = init(ws, demo=True)
    assert sorted(p.name for p in demo.files) == [
        "bm_device_crop.c",
        "bm_device_double.c",
        "bm_host_crop.cpp",
        "bm_host_crop.h",
        "bm_host_double.cpp",
        "bm_host_double.h",
        "test_crop.py",
        "test_double.py",
        "test_tpu_layer_cpp.cpp",
    ]
    assert "test_tpu_layer 0" in demo.next_command
    assert [x.op for x in list_layers(ws).layers] == ["TPU_CROP", "TPU_DOUBLE"]
    assert (ws / "Makefile").read_text() == "mine\n"
    init(ws, force=True)
    assert (ws / "Makefile").read_text() != "mine\n"


def test_files_for_an_editor(ws: Path) -> None:
    folder = ws / ".vscode"
    assert not folder.exists()
    made = init(ws, vscode=True)
    assert sorted(p.relative_to(ws.resolve()).as_posix() for p in made.files) == [
        ".vscode/launch.json",
        ".vscode/tasks.json",
    ]
    launch, tasks = (json.loads((folder / name).read_text()) for name in ("launch.json", "tasks.json"))
    commands = {task["label"]: task["command"] for task in tasks["tasks"]}
    assert commands["tpulayer: build"] == "source ./envsetup.sh && tpulayer build_layers"
    for one in launch["configurations"]:
        port = one["miDebuggerServerAddress"].removeprefix("127.0.0.1:")
        assert commands[one["preLaunchTask"]].endswith(f" --gdb-port {port}")
    native, controller = launch["configurations"]
    assert native["program"] == sys.executable
    assert controller["program"].endswith("/install/firmware/firmware.elf")
    asked = {name for text in commands.values() for name in re.findall(r"\$\{input:(\w+)\}", text)}
    assert asked == {one["id"] for one in tasks["inputs"]}
    needed = {task["dependsOn"] for task in tasks["tasks"] if "dependsOn" in task}
    assert needed <= commands.keys()
    (folder / "tasks.json").write_text("mine\n")
    again = init(ws, vscode=True)
    assert again.files == () and ws.resolve() / ".vscode" / "tasks.json" in again.kept
    assert (folder / "tasks.json").read_text() == "mine\n"


def test_init_dry_run_and_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert init(tmp_path / "new", dry_run=True).files
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        init(tmp_path / "file")
    monkeypatch.setattr(scaffold_workspace, "DEMO_LAYERS", ("crop", "lost"))
    with pytest.raises(MissingError, match="the demo layers are missing"):
        init(tmp_path / "new", demo=True)
    assert not (tmp_path / "new").exists()


def test_the_repositorys_scripts_are_those_of_new_workspaces() -> None:
    scripts = tool_scripts()
    committed = {p.name: p.read_text() for p in (ROOT / "tool").iterdir()}
    assert committed == scripts, "run python -m user_layers.codegen.regenerate"
    assert {p.name: p.read_text() for p in (ROOT / "scripts").iterdir()} == environment_scripts()


def test_init_keeps_a_configuration_in_the_root(tmp_path: Path) -> None:
    (tmp_path / "Makefile.config").write_text("FIRMWARE_ARCH ?= pcie\n")
    made = init(tmp_path)
    assert tmp_path.resolve() / "Makefile.config" in made.kept
    assert not (tmp_path / "config" / "Makefile.config").exists()
    assert Workspace.find(tmp_path / "device").config.firmware_arch == "pcie"


def test_make_forwards(ws: Path, tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    env = _with_fake_tpulayer(tmp_path)
    for target, expected in (("all", "build_layers"), ("install", "build_layers"), ("clean", "clean")):
        run = subprocess.run(
            [make, "-s", target], cwd=ws, env=env, capture_output=True, text=True, timeout=60
        )
        assert run.stdout == f"tpulayer {expected}\n", run.stderr


# ---- envsetup.sh ----


def _with_fake_tpulayer(tmp_path: Path) -> dict[str, str]:
    fake = tmp_path / "bin"
    fake.mkdir(exist_ok=True)
    (fake / "tpulayer").write_text('#!/bin/sh\necho "tpulayer $*"\n')
    (fake / "tpulayer").chmod(0o755)
    return {**os.environ, "PATH": f"{fake}:/usr/bin:/bin"}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_envsetup(ws: Path, tmp_path: Path, shell: str) -> None:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    script = (
        "set -u; source ws/envsetup.sh; source ws/envsetup.sh; add_layer x 1; echo $PATH; "
        "set | grep -c ^_tpulayer"
    )
    run = subprocess.run(
        [path, "-c", script],
        cwd=tmp_path,
        env=_with_fake_tpulayer(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = run.stdout.splitlines()
    assert lines[0] == "tpulayer add_layer x 1", run.stderr
    assert lines[1].split(":").count(f"{ws.resolve()}/tool") == 1
    assert lines[2] == "0"


def test_envsetup_without_the_package(ws: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("dirname", "grep"):
        os.symlink(str(shutil.which(name)), tmp_path / "empty" / name)
    env = {**os.environ, "PATH": str(tmp_path / "empty")}
    bash = str(shutil.which("bash"))
    run = subprocess.run(
        [bash, "-c", "source ws/envsetup.sh; echo $?"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout == "3\n" and "pip install CLONE" in run.stderr


def test_envsetup_that_is_run_instead_of_sourced(ws: Path, tmp_path: Path) -> None:
    run = subprocess.run(
        ["bash", str(ws / "envsetup.sh")],
        env=_with_fake_tpulayer(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.returncode == 2 and "source envsetup.sh" in run.stderr


# ---- scripts/envsetup_*.sh ----


def _sourced(ws: Path, shell: str, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    names = ("LD_LIBRARY_PATH", "BMRUNTIME_FIRMWARE_PATH", "BMCOMPILER_PLUGIN_PATH")
    env = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [path, "-c", f"set -u; {script}"],
        cwd=ws,
        env={**env, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )


_SHOW = (
    'echo "${LD_LIBRARY_PATH-unset} ${BMRUNTIME_FIRMWARE_PATH-unset} ${BMCOMPILER_PLUGIN_PATH-unset}"; '
    "set | grep ^_tpulayer"
)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_scripts_of_the_environment(ws: Path, shell: str) -> None:
    install = f"{ws.resolve()}/install"
    for before, after, left in (
        ({}, f"{install}/lib", ""),
        ({"LD_LIBRARY_PATH": "/a:/b"}, f"{install}/lib:/a:/b", "/a:/b"),
    ):
        run = _sourced(
            ws, shell, f". scripts/envsetup_cmodel.sh; . scripts/envsetup_cmodel.sh; {_SHOW}", **before
        )
        assert run.stdout == f"{after} {install}/firmware {install}/plugin\n", run.stderr
        assert run.stderr.count("emulated chip") == 2 and len(run.stderr.splitlines()) == 4
        card = (
            f". scripts/envsetup_cmodel.sh; . scripts/envsetup_pcie.sh; . scripts/envsetup_pcie.sh; {_SHOW}"
        )
        run = _sourced(ws, shell, card, **before)
        assert run.stdout == f"{left} unset {install}/plugin\n", run.stderr
        assert run.stderr.count("a card needs the vendor's libbmlib.so") == 2
    between = _sourced(
        ws, shell, f". scripts/envsetup_pcie.sh; {_SHOW}", LD_LIBRARY_PATH=f"/a:{install}/lib:/b"
    )
    assert between.stdout.startswith("/a:/b unset ")


@pytest.mark.parametrize("name", ["cmodel", "pcie"])
def test_a_script_of_the_environment_that_is_run_instead_of_sourced(ws: Path, name: str) -> None:
    run = _sourced(ws, "bash", f"bash scripts/envsetup_{name}.sh; echo $?")
    assert run.stdout == "2\n" and "source it" in run.stderr
