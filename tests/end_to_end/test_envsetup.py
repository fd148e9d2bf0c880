"""envsetup.sh as users source it: a fresh machine, the second time, after a failure, with things missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.workspaces import children_seconds, environment

SETUP_LIMIT = 280.0  # seconds: the packages are downloaded
NO_OP_LIMIT = 0.25  # seconds of computing
PACKAGES = pytest.mark.slow  # they are downloaded
POSIX_TOOLS = ("bash", "cat", "cksum", "dirname", "env", "grep", "mkdir", "mv", "rm", "sh")


def clean_environment(**changes: str) -> dict[str, str]:
    env = environment(**changes)
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "TPULAYER_HOME"):
        env.pop(name, None)
    own = Path(sys.executable).parent
    env["PATH"] = os.pathsep.join(
        entry for entry in env["PATH"].split(os.pathsep) if Path(entry) not in (own, ROOT / "tool")
    )
    return {**env, **changes}


def shell(
    script: str, cwd: Path, *, program: str = "bash", limit: float = 60.0, **changes: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "-c", script],
        cwd=cwd,
        env=clean_environment(**changes),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )


def copy_checkout(target: Path) -> Path:
    """What a clone of this repository holds, with the changes that are not committed yet."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("this is not a git checkout, so what a clone would hold is unknown")
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that was set up after a first try without a package index had failed."""
    root = copy_checkout(tmp_path_factory.mktemp("envsetup") / "a check out")
    failed = shell(
        "source envsetup.sh; echo code $?; type tpulayer",
        root,
        limit=SETUP_LIMIT,
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS="",
        PIP_CONFIG_FILE=os.devnull,
    )
    assert "code 3\n" in failed.stdout
    assert "error: the packages could not be installed" in failed.stderr
    assert "tpulayer is" not in failed.stdout  # PATH is as it was
    done = shell("source envsetup.sh", root, limit=SETUP_LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""  # progress goes to stderr
    assert done.stderr.splitlines()[-1] == "ready"
    return root


@PACKAGES
def test_the_commands_are_there(checkout: Path, tmp_path: Path) -> None:
    script = f"source '{checkout}/envsetup.sh' && type -P tpulayer add_layer pytest && tpulayer --version"
    done = shell(script, tmp_path)
    assert done.returncode == 0, done.stderr
    tpulayer, add_layer, pytest_path, version = done.stdout.splitlines()
    assert tpulayer == f"{checkout}/.venv/bin/tpulayer"
    assert add_layer == f"{checkout}/tool/add_layer"
    assert pytest_path == f"{checkout}/.venv/bin/pytest"
    assert version.startswith("tpulayer ")


@PACKAGES
def test_the_second_time_is_quick_and_silent(checkout: Path) -> None:
    times = []
    for _ in range(5):
        begin = children_seconds()
        done = shell("source envsetup.sh", checkout)
        times.append(children_seconds() - begin)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert min(times) < NO_OP_LIMIT


@PACKAGES
def test_sourcing_twice_adds_to_the_path_once(checkout: Path) -> None:
    script = 'source envsetup.sh; once=$PATH; source envsetup.sh; [ "$PATH" = "$once" ] && echo same'
    assert shell(script, checkout).stdout == "same\n"


# Functions, options, and names of variables, but for those that bash changes all the time.
_CHANGING = "BASH_.*|_|PIPESTATUS|RANDOM|SECONDS|EPOCH.*|SRANDOM|FUNCNAME|LINENO|before|after"
_STATE = f"declare -F; set -o; shopt; compgen -v | grep -vxE '{_CHANGING}'"


@PACKAGES
@pytest.mark.parametrize("options", ["", "set -eu -o pipefail;", "set -f;"])
def test_nothing_stays_in_the_shell(checkout: Path, options: str) -> None:
    script = (
        f"{options} before=$({_STATE}); source envsetup.sh; after=$({_STATE}); "
        'diff <(echo "$before") <(echo "$after") || true'
    )
    done = shell(script, checkout)
    assert done.returncode == 0, done.stderr
    changed = [line for line in done.stdout.splitlines() if line.startswith(("<", ">"))]
    assert changed == ["> TPULAYER_HOME"]


@PACKAGES
def test_in_an_interactive_shell_completion_works(checkout: Path) -> None:
    script = (
        "source envsetup.sh; complete -p add_layer; COMP_WORDS=(tpulayer list_l); COMP_CWORD=1; "
        'COMPREPLY=(); _tpulayer; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-ic", script],
        cwd=checkout,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert "-F _tpulayer" in lines[0]
    assert lines[1] == "list_layers"


@PACKAGES
def test_zsh(checkout: Path) -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        pytest.skip("this machine has no zsh")
    script = (
        f"cd /; source '{checkout}/envsetup.sh'; echo $?; whence -p add_layer; "
        "functions | grep -c '^_tpulayer'; echo $TPULAYER_HOME"
    )
    done = shell(script, checkout, program=zsh)
    assert done.stdout.splitlines() == ["0", f"{checkout}/tool/add_layer", "0", str(checkout)]


@PACKAGES
def test_other_shells_are_refused(checkout: Path) -> None:
    sh = shutil.which("dash")
    if sh is None:
        pytest.skip("this machine has no dash")
    done = shell(". ./envsetup.sh; echo $?", checkout, program=sh)
    assert "envsetup.sh is for bash and zsh" in done.stderr


@PACKAGES
def test_a_changed_lock_file_sets_up_again(checkout: Path) -> None:
    lock = checkout / "requirements.lock"
    lock.write_text(lock.read_text() + "# changed\n")
    done = shell("source envsetup.sh", checkout, limit=SETUP_LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "ready"
    assert shell("source envsetup.sh", checkout).stderr == ""


# ---- machines where something is missing ----


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The PATH of a machine that has bash and the POSIX tools, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in POSIX_TOOLS:
        found = shutil.which(name)
        assert found is not None, f"this machine lacks {name}"
        (folder / name).symlink_to(found)
    return folder


def fake_python(path: Path, *, version: str, refuses: str) -> None:
    """A Python that fails for the command lines that the shell pattern `refuses` matches."""
    path.write_text(
        f'#!/bin/sh\ncase "$*" in\n--version) echo "Python {version}"; exit 0 ;;\n'
        f"{refuses}) exit 1 ;;\nesac\n"
        f'exec "{sys.executable}" "$@"\n'
    )
    path.chmod(0o755)


def test_without_python(machine: Path, tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "w")
    for script in ("source envsetup.sh; echo code $?", "bash envsetup.sh; echo code $?"):
        done = shell(script, root, PATH=str(machine))
        assert done.stdout == "code 3\n"
        assert done.stderr.startswith("error: no Python 3.10 or newer was found")
        assert "hint: install one" in done.stderr


def test_with_an_old_python_only(machine: Path, tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "w")
    fake_python(machine / "python3", version="3.8.1", refuses="*version_info*")
    done = shell("source envsetup.sh; echo code $?", root, PATH=str(machine))
    assert done.stdout == "code 3\n"
    assert "no Python 3.10 or newer" in done.stderr


def test_a_newer_python_beside_an_old_one(machine: Path, tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "w")
    fake_python(machine / "python3", version="3.8.1", refuses="*version_info*")
    fake_python(machine / "python3.12", version="3.12.0", refuses="*ensurepip*|*-m?pip*")
    done = shell("source envsetup.sh; echo code $?", root, PATH=str(machine))
    assert "python3.12 (Python 3.12.0) has neither venv nor pip" in done.stderr


def test_with_neither_venv_nor_pip(machine: Path, tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "w")
    fake_python(machine / "python3", version="3.11.0", refuses="*ensurepip*|*-m?pip*")
    done = shell("source envsetup.sh; echo code $?", root, PATH=str(machine))
    assert done.stdout == "code 3\n"
    assert "error: python3 (Python 3.11.0) has neither venv nor pip" in done.stderr
    assert "apt-get install python3-venv" in done.stderr
    assert not (root / ".venv").exists()


@PACKAGES
def test_with_pip_but_no_venv(machine: Path, tmp_path: Path) -> None:
    root = copy_checkout(tmp_path / "w")
    fake_python(machine / "python3", version="3.11.0", refuses="*ensurepip*")
    script = "source envsetup.sh && tpulayer --version"
    done = shell(script, root, limit=SETUP_LIMIT, PATH=str(machine))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tpulayer ")
    assert not (root / ".venv-bootstrap").exists()


@PACKAGES
def test_a_moved_checkout_is_set_up_for_its_new_place(checkout: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(checkout, moved, symlinks=True)
    done = shell("source envsetup.sh && type -P tpulayer && tpulayer --version", moved, limit=SETUP_LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{moved}/.venv/bin/tpulayer"
    assert str(checkout) not in (moved / ".venv" / "bin" / "tpulayer").read_text()
