"""Which compiler is chosen, and that it makes no difference."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from io import StringIO
from pathlib import Path

import pytest

from firmware_sim.errors import BuildError, MissingError
from user_layers.toolchain import builtin, cache
from user_layers.toolchain import compilers as toolchain
from user_layers.toolchain.compilers import Compiler, choose, zig, zig_environment
from user_layers.toolchain.ninja_run import run_ninja
from user_layers.toolchain.report import Reporter
from user_layers.workspace import machine_arch

_PATH = os.environ["PATH"]  # before the fixture below takes it away


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any compiler: an empty PATH, an empty cache; the folder that is its PATH."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("TPULAYER_CACHE", str(tmp_path / "cache"))
    for name in ("TPULAYER_CC", "TPULAYER_CXX"):
        monkeypatch.delenv(name, raising=False)
    return path


def fake_compiler(path: Path, *, banner: str = "gcc (Fake) 12.3.4", link: str = "exit 1") -> Path:
    """A compiler that only answers --version; every call leaves a line in `calls`."""
    path.write_text(
        f'#!/bin/sh\necho "$0 $1" >>{path.parent}/calls\n'
        f'if [ "$1" = --version ]; then echo "{banner}"; exit 0; fi\n{link}\n'
    )
    path.chmod(0o755)
    return path


def system_compiler(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    if found is None:
        pytest.skip(f"this machine has no {name}, so only zig can be used")
    return found


def test_without_a_system_compiler_it_is_zig(machine: Path) -> None:
    chain = choose()
    assert chain.c.family == chain.cxx.family == "zig"
    assert chain.c.argv[1:] == ("cc", "-target", f"{_zig_name(machine_arch())}-linux-gnu.2.17")
    assert chain.cxx.argv[1] == "c++"
    assert "-fno-sanitize=all" in chain.c.flags


def _zig_name(machine: str) -> str:
    return {"x86": "x86_64"}.get(machine, machine)


def test_a_compiler_that_does_not_work_is_passed_over(machine: Path) -> None:
    fake_compiler(machine / "cc", link="echo 'fatal error: stdint.h' >&2; exit 1")
    assert choose().c.family == "zig"


def test_a_compiler_whose_output_does_not_load_is_passed_over(machine: Path) -> None:
    link = 'while [ "$1" != -o ]; do shift; done; echo rubbish >"$2"'
    fake_compiler(machine / "cc", link=link)
    assert choose().c.family == "zig"


def test_a_working_system_compiler_is_used(machine: Path) -> None:
    (machine / "cc").symlink_to(system_compiler("cc"))
    for tool in ("as", "ld", "ar"):
        (machine / tool).symlink_to(system_compiler(tool))
    chain = choose()
    assert chain.c.family in ("gcc", "clang")
    assert chain.c.argv == (str(machine / "cc"),)
    assert chain.c.version[0].isdigit()
    assert chain.cxx.family == "zig"  # C and C++ are chosen apart


def test_a_compiler_is_tried_once_per_version(machine: Path) -> None:
    compiler = fake_compiler(machine / "cc")
    choose()
    calls = (machine / "calls").read_text()
    assert calls.count("\n") == 2  # --version, and one compilation
    choose()
    assert (machine / "calls").read_text() == calls
    fake_compiler(compiler, banner="gcc (Fake) 13.0.0")
    choose()
    assert (machine / "calls").read_text() != calls


def test_damaged_memory_of_compilers_is_asked_again(machine: Path, tmp_path: Path) -> None:
    choose()
    store = tmp_path / "cache" / "compilers.json"
    for damage in ("", "{", "[]", "17"):
        store.write_text(damage)
        assert choose().c.family == "zig"


def test_the_compiler_asked_for_is_used_or_refused(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_CC", "zig")
    assert choose().cxx.family == "zig"
    monkeypatch.setenv("TPULAYER_CC", str(machine / "nothing"))
    with pytest.raises(MissingError, match=r"TPULAYER_CC names .*nothing, which is not an executable"):
        choose()
    broken = fake_compiler(machine / "gcc-99", link="echo 'no space left' >&2; exit 1")
    monkeypatch.setenv("TPULAYER_CC", str(broken))
    with pytest.raises(MissingError, match="which does not work: no space left"):
        choose()


def test_the_other_compiler_follows_from_one(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = toolchain._asked_for
    for c, cxx in (("/opt/gcc-12", "/opt/g++-12"), ("clang", "clang++"), ("/usr/bin/cc", "/usr/bin/c++")):
        monkeypatch.setenv("TPULAYER_CC", c)
        assert asked("c++") == cxx
        monkeypatch.delenv("TPULAYER_CC")
        monkeypatch.setenv("TPULAYER_CXX", cxx)
        assert asked("c") == c
        monkeypatch.delenv("TPULAYER_CXX")
    monkeypatch.setenv("TPULAYER_CC", "/opt/icx")
    with pytest.raises(MissingError, match="TPULAYER_CXX"):
        asked("c++")


def test_another_machine_is_built_for_with_zig() -> None:
    other = "aarch64" if machine_arch() == "x86" else "x86"
    chain = choose(other)
    assert chain.cxx.argv[2:] == ("-target", f"{_zig_name(other)}-linux-gnu.2.17")
    assert chain.identity != choose().identity


def test_zig_keeps_its_files_in_the_cache(
    machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    monkeypatch.delenv("ZIG_LOCAL_CACHE_DIR", raising=False)
    assert zig_environment()["ZIG_GLOBAL_CACHE_DIR"] == str(tmp_path / "cache" / "zig")
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "/elsewhere")
    assert zig_environment()["ZIG_LOCAL_CACHE_DIR"] == "/elsewhere"


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TPULAYER_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(MissingError, match="cache folder") as caught:
        choose()
    assert "TPULAYER_CACHE" in caught.value.hint


# Each value differs between compilers or switches: contraction to fma, overflow, char's sign, enum's size.
SAME = """
typedef enum { small } tiny;
float fused(float a, float b, float c) { return a * b + c; }
int wrapped(int a) { return a + 1 < a; }
int negative_char(int a) { return (char)a; }
int enum_bytes(void) { return sizeof(tiny); }
int shifted(int a) { return (a << 31) / 2; }
"""


def _results(compiler: Compiler, folder: Path) -> list[object]:
    source, library = folder / "same.c", folder / f"same-{compiler.family}.so"
    source.write_text(SAME)
    call = [*compiler.argv, *compiler.flags, *compiler.link_flags, str(source), "-lm", "-o", str(library)]
    subprocess.run(call, check=True, timeout=120, env=zig_environment())
    loaded = ctypes.CDLL(str(library))
    loaded.fused.restype = ctypes.c_float
    loaded.fused.argtypes = [ctypes.c_float] * 3
    fused = loaded.fused(1 + 2**-12, 1 + 2**-12, -(1 + 2**-11))
    overflow = [loaded.wrapped(n) for n in (0, 2**31 - 1)]
    return [fused, *overflow, loaded.negative_char(200), loaded.enum_bytes(), loaded.shifted(1)]


@pytest.mark.slow
def test_compilers_compute_the_same(tmp_path: Path) -> None:
    expected = [0.0, 0, 1, -56, 4, -(2**30)]
    assert _results(zig("c", machine_arch()), tmp_path) == expected
    system = choose().c
    if system.family != "zig":
        assert _results(system, tmp_path) == expected


def test_a_long_step_shows_that_time_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[Reporter] = []
    monkeypatch.setattr(Reporter, "tick", lambda self: ticks.append(self))
    (tmp_path / "build.ninja").write_text("rule wait\n  command = sleep 1.7; touch $out\nbuild made: wait\n")
    run_ninja(tmp_path, tmp_path / "build.ninja", [tmp_path / "made"], Reporter(quiet=True), limit=60.0)
    assert ticks


def test_a_quiet_reporter_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, said in ((True, ""), (False, "note\nprogress\n")):
        reporter = Reporter(quiet=quiet)
        reporter.note("note")
        reporter.progress("progress")
        reporter.close()
        assert "".join(capsys.readouterr()) == said


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    assert cache.cache_root() == tmp_path / "cache"
    # the system's administrator may write everywhere
    monkeypatch.setattr("firmware_sim.cache_folder.os.access", lambda path, mode: False)
    with pytest.raises(MissingError, match=rf"the cache folder {tmp_path}/cache cannot be written") as caught:
        cache.cache_root()
    assert "TPULAYER_CACHE" in caught.value.hint


def test_the_builtin_part_is_named_by_the_contents_of_each_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all contents together are the same."""
    files = [tmp_path / "a.c", tmp_path / "b.c"]
    monkeypatch.setattr(builtin, "toolkit_files", lambda: {path.name: path for path in files})
    found = []
    for contents in (("xy", ""), ("x", "y"), ("", "xy"), ("xy", "")):
        for path, text in zip(files, contents, strict=True):
            path.write_text(text)
        found.append(builtin.builtin_location(choose()))
    assert found[0] == found[3] and len(set(found)) == 3


def test_sources_that_change_while_they_are_built_make_no_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "a.c"
    source.write_text("before")

    def build(folder: Path, *_: object) -> None:
        (folder / "made").write_text("what was built")
        if change:
            source.write_text("after")

    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(builtin, "toolkit_files", lambda: {"a.c": source})
    monkeypatch.setattr(builtin, "_scan", lambda: None)
    monkeypatch.setattr(builtin, "_build", build)
    monkeypatch.setattr(builtin, "build_loops", lambda *_: None)
    change, quiet = False, Reporter(quiet=True)
    made = builtin.builtin_artifacts(choose(), quiet)
    assert (made.directory / "made").exists()
    change = True
    shutil.rmtree(made.directory)
    with pytest.raises(BuildError, match="changed while they were built"):
        builtin.builtin_artifacts(choose(), quiet)
    assert not any(path.is_dir() for path in made.directory.parent.iterdir())


class Terminal(StringIO):
    """A terminal of unknown width that shows one line at a time."""

    def isatty(self) -> bool:
        return True

    @property
    def left(self) -> str:
        """What stands in the last line."""
        return self.getvalue().rpartition("\n")[2].rpartition("\r\x1b[K")[2]


def test_nothing_of_the_progress_is_left_before_an_error(tmp_path: Path) -> None:
    """The error begins a line of its own: after the step that failed, and after time that passed."""
    rule = "rule fails\n  command = false\n  description = a step that fails\nbuild never: fails\n"
    (tmp_path / "build.ninja").write_text(rule)
    terminal = Terminal()
    with pytest.raises(BuildError):
        run_ninja(tmp_path, tmp_path / "build.ninja", [tmp_path / "never"], Reporter(terminal))
    assert "a step that fails" in terminal.getvalue() and terminal.left == ""
    reporter = Reporter(terminal)
    reporter.tick()
    assert terminal.left == "building"
    reporter.note("a note")
    assert terminal.getvalue().endswith("\r\x1b[Ka note\n")
    reporter.progress("x" * 200)
    assert terminal.left == "x" * 79
    reporter.close()
    assert terminal.left == ""
