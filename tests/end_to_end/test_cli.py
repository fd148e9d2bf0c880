"""The command line: what every command shares, and the commands that only print."""

from __future__ import annotations

import importlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.workspaces import children_seconds, environment, make_workspace, tpulayer
from user_layers import __version__
from user_layers.cli import main
from user_layers.cli.completing import candidates, script
from user_layers.cli.spelling import runnable
from user_layers.commands import COMMANDS, TOOLS

START_LIMIT = 0.15  # seconds of computing, for --help
MAIN = [sys.executable, "-m", "user_layers.cli.main"]


def test_help_lists_every_command(tmp_path: Path) -> None:
    done = tpulayer("--help", cwd=tmp_path)
    for command in COMMANDS.values():
        assert re.search(rf"^  {command.name} +{re.escape(command.help)}$", done.stdout, re.MULTILINE)
    assert done.stderr == ""
    assert tpulayer("-h", cwd=tmp_path).stdout == done.stdout
    assert tpulayer(cwd=tmp_path, code=2).stderr == done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, tmp_path: Path) -> None:
    done = tpulayer(name, "--help", cwd=tmp_path)
    assert done.stdout.startswith(f"Usage: tpulayer {name} ")
    function = getattr(importlib.import_module(f"user_layers.cli.{COMMANDS[name].module}"), name)
    assert function.__doc__
    assert function.__doc__.split()[0] in done.stdout
    hyphened = tpulayer(name.replace("_", "-"), "--help", cwd=tmp_path)
    assert hyphened.stdout == done.stdout


def test_help_is_fast(tmp_path: Path) -> None:
    times = []
    for _ in range(10):  # the best of several: other work on the machine only adds
        begin = children_seconds()
        subprocess.run([*MAIN, "--help"], env=environment(), capture_output=True, timeout=60, check=True)
        times.append(children_seconds() - begin)
    assert min(times) < START_LIMIT


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from user_layers.cli import main; main.run(['--help']); print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = set(re.findall(r"'([^'.]+)", done.stdout.splitlines()[-1]))
    assert loaded.isdisjoint(
        {"typer", "click", "rich", "numpy", "jinja2", "cffi", "pycparser", "flatbuffers"}
    )


def test_version(tmp_path: Path) -> None:
    assert tpulayer("--version", cwd=tmp_path).stdout == f"tpulayer {__version__}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add_layr"], "unknown command add_layr; did you mean add_layer?"),
        (["--verbose"], "unknown option --verbose"),
        (["build_layers", "--nope"], "unknown option --nope\n"),
        (["add_layer", "x", "--frce"], "unknown option --frce; did you mean --force?"),
        (["add_layer"], "Missing argument 'name'"),
        (["add_layer", "x", "2"], "Invalid value for 'has_local'"),
        (["test_tpu_layer", "2"], "Invalid value for 'mode'"),
        (["build_layers"], "is not in a workspace"),
        (["tpu_model"], "tpu_model does one thing at a time: none is given"),
    ],
)
def test_wrong_words_are_usage_errors(words: list[str], message: str, tmp_path: Path) -> None:
    done = tpulayer(*words, cwd=tmp_path, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert message.lower() in done.stderr.lower()
    assert "\n  hint: " in done.stderr


def test_unknown_words_have_no_guess(tmp_path: Path) -> None:
    assert "did you mean" not in tpulayer("qqqqqqqq", cwd=tmp_path, code=2).stderr


def test_options_have_hyphen_forms_too(tmp_path: Path) -> None:
    for option in ("--context_dir", "--context-dir"):
        assert "compilation.bmodel" in tpulayer("bmrt_test", option, "none", cwd=tmp_path, code=1).stderr


def test_a_mistake_in_the_configuration_has_file_and_line(tmp_path: Path) -> None:
    make_workspace(tmp_path, config="\nHOST_ARCH = vax\n")
    done = tpulayer("build_layers", cwd=tmp_path, code=1)
    assert f"{tmp_path}/config/Makefile.config:2: HOST_ARCH = vax" in done.stderr


def test_an_internal_error_is_short_and_its_report_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(command: object, words: object) -> int:
        raise ValueError("something unforeseen")

    monkeypatch.setattr(main, "_run_command", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main.run(["doctor"]) == 4
    text = capsys.readouterr().err
    assert text.startswith("error: internal error: ValueError: something unforeseen\n")
    assert "Traceback" not in text
    report = Path(text.rsplit(" ", 1)[1].strip()).read_text()
    assert "Traceback" in report
    assert "in broken" in report


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    code = (
        "import time, user_layers.toolchain.doctor as d\n"
        "def slow():\n    print('started', flush=True)\n    time.sleep(60)\n"
        "d.examine = slow\n"
        "from user_layers.cli.main import main\nmain(['doctor'])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == ""


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*MAIN, "completion", "bash"],
            env=environment(),
            stdout=write,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert done.stderr == b""
    assert done.returncode in (0, 1)  # typer answers 1


def _on_terminal(words: list[str], cwd: Path, env: dict[str, str], answers: bytes = b"") -> tuple[int, str]:
    """Run a command whose input, output and errors are a terminal; its exit code and what it showed."""
    main_end, command_end = pty.openpty()
    process = subprocess.Popen(
        [*MAIN, *words], cwd=cwd, env=env, stdin=command_end, stdout=command_end, stderr=command_end
    )
    os.close(command_end)
    os.write(main_end, answers)
    shown = b""
    end = time.monotonic() + 60
    while select.select([main_end], [], [], max(0.0, end - time.monotonic()))[0]:
        try:
            data = os.read(main_end, 4096)
        except OSError:  # how Linux says that the command has closed the terminal
            break
        shown += data
    os.close(main_end)
    return process.wait(60), shown.decode()


def test_colour_only_on_a_terminal_that_wants_it(tmp_path: Path) -> None:
    code, shown = _on_terminal(["nothing"], tmp_path, environment())
    assert code == 2
    assert "\x1b[31;1merror:\x1b[0m" in shown
    _, shown = _on_terminal(["nothing"], tmp_path, environment(NO_COLOR="1"))
    assert "error:" in shown
    assert "\x1b" not in shown
    assert "\x1b" not in tpulayer("nothing", cwd=tmp_path, code=2).stderr


def test_del_layer_asks_on_a_terminal_only(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    files = sorted(path for path in tmp_path.rglob("*double*"))
    assert "add --yes" in tpulayer("del_layer", "double", cwd=tmp_path, code=2).stderr
    assert sorted(tmp_path.rglob("*double*")) == files
    code, shown = _on_terminal(["del_layer", "double"], tmp_path, environment(), b"n\ny\nn\n")
    assert code == 0
    assert shown.count("[y/N]") == 3
    assert len(list(tmp_path.rglob("*double*"))) == 2
    tpulayer("del_layer", "double", "--yes", "--dry-run", cwd=tmp_path)
    assert len(list(tmp_path.rglob("*double*"))) == 2
    tpulayer("del_layer", "double", "--yes", cwd=tmp_path)
    assert not list(tmp_path.rglob("*double*"))
    assert "no layer double" in tpulayer("del_layer", "double", "--yes", cwd=tmp_path, code=2).stderr


def test_init_add_and_list(tmp_path: Path) -> None:
    made = tpulayer("init", "w", "--demo", "--dry-run", cwd=tmp_path).stdout
    assert "would write config/Makefile.config" in made
    assert not (tmp_path / "w").exists()
    assert "next: cd w && source envsetup.sh" in tpulayer("init", "w", "--demo", cwd=tmp_path).stdout
    ws = tmp_path / "w"
    assert "kept envsetup.sh" in tpulayer("init", cwd=ws).stdout
    assert (
        "next: tpulayer build_layers && tpulayer test scale\n"
        in tpulayer("add-layer", "scale", "1", cwd=ws).stdout
    )
    before = {path: path.read_bytes() for path in ws.rglob("*") if path.is_file()}
    assert "--force" in tpulayer("add_layer", "scale", cwd=ws, code=2).stderr
    assert {path: path.read_bytes() for path in ws.rglob("*") if path.is_file()} == before
    tpulayer("add_layer", "scale", "0", "--force", cwd=ws)
    answer = json.loads(tpulayer("list_layers", "--json", cwd=ws).stdout)
    assert answer["problems"] == []
    layers = {layer["name"]: layer for layer in answer["layers"]}
    assert set(layers) == {"crop", "double", "scale"}
    assert layers["double"]["local"] == "double_local"
    assert layers["scale"]["local"] is None
    text = tpulayer("list_layers", cwd=ws).stdout
    assert "scale  TPU_SCALE = " in text
    assert "  files device/bm_device_scale.c, host/bm_host_scale.h, tests/test_scale.py\n" in text
    assert layers["double"]["files"][-1] == "tests/test_double.py"


def test_list_layers_shows_what_is_wrong(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path, layers=("double", "crop"))
    kernel = ws.device_dir / "bm_device_crop.c"
    kernel.write_text(kernel.read_text().replace("__BM_SHAPE__(TPU_CROP)", ""))
    done = tpulayer("list_layers", cwd=tmp_path, code=1)
    assert "double  TPU_DOUBLE" in done.stdout
    assert "TPU_CROP" in done.stderr


def test_doctor(tmp_path: Path) -> None:
    text = tpulayer("doctor", cwd=tmp_path).stdout
    assert re.search(r"^note +workspace", text, re.MULTILINE)
    answer = json.loads(tpulayer("doctor", "--json", cwd=ROOT).stdout)
    assert answer["ok"]
    found = {check["name"]: check for check in answer["checks"]}
    assert found["C compiler"]["state"] == "ok"
    assert str(ROOT) in found["workspace"]["value"]
    project = (ROOT / "pyproject.toml").read_text()
    table = re.search(r"^dependencies = \[(.*?)\]", project, re.DOTALL | re.MULTILINE)
    assert table is not None
    assert found["packages"]["value"] == f"all {table[1].count('>=')} are there"


def test_doctor_says_what_is_missing(tmp_path: Path) -> None:
    env = environment(TPULAYER_CC="/nowhere/cc", TPULAYER_CXX="zig", TPULAYER_CACHE=str(tmp_path))
    done = tpulayer("doctor", cwd=tmp_path, env=env, code=3)
    assert re.search(r"^missing +C compiler +TPULAYER_CC names /nowhere/cc", done.stdout, re.MULTILINE)
    answer = json.loads(tpulayer("doctor", "--json", cwd=tmp_path, env=env, code=3).stdout)
    assert not answer["ok"]


def test_doctor_tells_a_workspace_that_is_not_built(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    text = tpulayer("doctor", cwd=tmp_path).stdout
    assert re.search(
        r"^note +firmware .*is not built\n.*hint: run `tpulayer build_layers`", text, re.MULTILINE
    )


def test_set_bmkernel_path(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path / "w", config="# mine\n")
    kernels = str(ROOT / "bmkernel_demo")
    dry = tpulayer("set_bmkernel_path", kernels, "--dry-run", cwd=ws.root).stdout
    assert "would set BMKERNEL_PATH" in dry
    assert ws.config_file.read_text() == "# mine\n"
    tpulayer("set_bmkernel_path", kernels, cwd=ws.root)
    assert ws.config_file.read_text() == f"# mine\nBMKERNEL_PATH = {kernels}\n"
    assert "unchanged" in tpulayer("set_bmkernel_path", kernels, cwd=ws.root).stdout
    config = tpulayer("gen_config", cwd=ws.root).stdout
    assert f"bmkernel {kernels}, 1 C files" in config
    assert "no device/*.c" in tpulayer("set_bmkernel_path", str(tmp_path), cwd=ws.root, code=2).stderr
    tpulayer("set_bmkernel_path", "", cwd=ws.root)
    assert "names no bmkernel project" in tpulayer("build_bmkernel", cwd=ws.root, code=2).stderr


def test_the_launcher_runs_the_demo_of_its_workspace(tmp_path: Path) -> None:
    tpulayer("init", "w", cwd=tmp_path)
    tpulayer("build_layers", cwd=tmp_path / "w")
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    (bin_dir / "tpulayer").write_text(f'#!/bin/sh\nexec {" ".join(MAIN)} "$@"\n')
    (bin_dir / "tpulayer").chmod(0o755)
    launcher = tmp_path / "w" / "install" / "test" / "test_tpu_layer"
    done = subprocess.run(
        [str(launcher), "0"],
        cwd=tmp_path,
        env=environment(PATH=f"{bin_dir}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert f"tpulayer init {tmp_path / 'w'} --demo" in done.stderr
    done = subprocess.run(
        [str(launcher), "0"],
        cwd=tmp_path,
        env=environment(PATH="/usr/bin:/bin"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "source " in done.stderr


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["tpulayer", "build_"], ["build_layers", "build_bmkernel"]),
        (["tpulayer", ""], [*COMMANDS, "--help", "--version"]),
        (["tpulayer", "test_tpu_layer", ""], ["0", "1"]),
        (["tpulayer", "isa", "e"], ["encode"]),
        (["isa", "encode", "l"], []),
        (["/some/tool/add_layer", "x", ""], ["0", "1"]),
        (["build_layers", "--"], ["--dry-run", "--help", "--json", "--sanitize"]),
        (["bmrt_test", "--context_dir", ""], []),
        (["unheard_of", ""], []),
        ([], []),
    ],
)
def test_completion(words: list[str], found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert candidates(words) == found


def test_completion_knows_the_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_workspace(tmp_path, layers=("crop", "double"))
    monkeypatch.chdir(tmp_path)
    assert candidates(["tpulayer", "del_layer", "d"]) == ["double"]
    assert (
        candidates(["tpulayer", "test", "crop", ""]) == candidates(["test_layers", ""]) == ["crop", "double"]
    )
    monkeypatch.chdir("/")
    assert candidates(["tpulayer", "del_layer", "d"]) == []


def test_the_page_lists_every_command() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    table = page[page.index("| command |") : page.index("\n\n", page.index("| command |"))]
    rows = [row.split(" | ")[0] for row in table.splitlines()[2:]]
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert named == set(COMMANDS)


def test_every_command_has_a_bare_name_that_a_shell_can_run() -> None:
    renamed = {"test": "test_layers", "check": "check_model", "pack": "pack_net", "compare": "compare_result"}
    assert set(TOOLS) == {*COMMANDS, *renamed.values()} - renamed.keys()
    assert {path.name for path in (ROOT / "tool").iterdir()} == set(TOOLS)
    assert all(os.access(path, os.X_OK) for path in (ROOT / "tool").iterdir())
    shown = subprocess.run(
        ["bash", "-c", f"type -t {' '.join(TOOLS)} || true"],
        env=environment(PATH=f"{ROOT / 'tool'}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout.split() == ["file"] * len(TOOLS)  # no builtin, keyword or function
    for shell in ("bash", "zsh"):
        assert set(TOOLS) <= set(script(shell).split())


def test_advice_is_spelled_as_this_shell_can_run_it(monkeypatch: pytest.MonkeyPatch) -> None:
    advice = {
        "run build_layers": "run tpulayer build_layers",
        "`tpulayer build_layers` makes it": "`tpulayer build_layers` makes it",
        "load_firmware A B, or test_layers x.": "tpulayer load_firmware A B, or tpulayer test x.",
        "cd w && source envsetup.sh && build_layers": "cd w && source envsetup.sh && build_layers",
    }
    for text in (
        "see test_layers.py, install/test/test_tpu_layer",
        "compile it",
        "run_kernel(x), build_layers_x",
    ):
        advice[text] = text
    for path, bare in ((os.environ["PATH"], False), (f"{ROOT / 'tool'}:{os.environ['PATH']}", True)):
        monkeypatch.setenv("PATH", path)
        assert [runnable(text) for text in advice] == [*(advice if bare else advice.values())]


def test_a_hint_names_what_can_be_run(tmp_path: Path) -> None:
    ws = make_workspace(tmp_path)
    hint = tpulayer("host_flags", cwd=ws.root, code=3).stderr
    assert "hint: run `tpulayer build_layers`" in hint
    env = environment(PATH=f"{ROOT / 'tool'}:{os.environ['PATH']}")
    assert "hint: run `build_layers`" in tpulayer("host_flags", cwd=ws.root, env=env, code=3).stderr
