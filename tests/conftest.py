"""Fixtures that several test modules share."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests import thorough
from tests.paths import GOLDEN
from tests.support import examples as _profiles  # noqa: F401 (registers hypothesis' profiles)
from tests.support import firmware_harness
from tests.support.shared import made_once

if TYPE_CHECKING:
    from user_layers.toolkit import Toolkit


settings.load_profile("suite")

# envsetup.sh puts the bare commands there; advice is worded by it, and should be however the suite is called
os.environ["PATH"] = os.pathsep.join(
    part for part in os.environ["PATH"].split(os.pathsep) if not Path(part, "build_layers").exists()
)

# The tests start thousands of processes: none but the first compiles the toolkit's modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_FRAMEWORKS = ("litert", "executorch", "mindspore")
_FOLDERS = ("unit", "firmware", "end_to_end", "oracle", *_FRAMEWORKS)  # each is a marker
_ASKED_FOR = ("oracle", "slow", "thorough", *_FRAMEWORKS)  # run only when -m names them


collect_ignore = ["sources"]  # workspaces' own tests, which tests of theirs run


def pytest_configure(config: pytest.Config) -> None:
    """The emulator's compiled loops are made once, before any test, and not by the processes of xdist."""
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        from user_layers.toolchain.loops import build_loops

        build_loops()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files again; review the diff"
    )
    parser.addoption(
        "--part",
        type=thorough.part,
        metavar="K/N",
        help="of the thorough tests the files whose turn is K (0 to N - 1)",
    )


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folder, and the longest; leave out what runs only when asked for.

    Not by a -m in addopts: one on the command line would replace it, and `-m unit` take in the slow ones.
    """
    longest = thorough.read()
    for item in items:
        folder = item.path.parent.name
        item.add_marker(folder if folder in _FOLDERS else "end_to_end")  # the demo layers' own tests
        if item.nodeid in longest:
            item.add_marker("thorough")
    named = set(re.findall(r"\w+", config.option.markexpr))
    silent = [name for name in _ASKED_FOR if name not in named]
    part = config.getoption("--part")
    others = longest - thorough.of_part(longest, *part) if part else frozenset()
    left_out = {
        item: None
        for item in items
        if item.nodeid in others or any(item.get_closest_marker(name) for name in silent)
    }
    if left_out:
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with tests/golden/NAME, or write it with --update-golden."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"{path} is missing: make it with --update-golden"
        assert text == path.read_text(), f"{path} differs: if that is meant, use --update-golden and review"

    return check


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is an empty one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C reaches this process and those it starts, also where a script runs them in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """One device for the tests of a module, without a workspace: the built-in layers."""
    from user_layers.toolkit import Toolkit

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("nowhere"))
        opened = Toolkit()
        assert opened.workspace is None
        assert "TPU_RESHAPE" in opened.ops  # what has to be built is built here, not in a test
    with opened:
        yield opened


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolkit]:
    """The same on the emulated controller."""
    from user_layers.toolkit import Toolkit

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("nowhere"))
        opened = Toolkit(firmware="arm")
        assert opened.workspace is None
    with opened:
        yield opened


@pytest.fixture(scope="session")
def demo_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A built workspace with the demo layers."""
    from tests.support.workspaces import built_workspace

    return built_workspace(tmp_path_factory).root


@pytest.fixture(autouse=True)
def _demo_layers_are_built(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo layers' own tests (with golden and CASES) find a build of what the sources are now."""
    if hasattr(request.module, "golden") and hasattr(request.module, "CASES"):
        monkeypatch.setenv("TPULAYER_WORKSPACE", str(request.getfixturevalue("demo_workspace")))


@pytest.fixture(autouse=True)
def _settings_of_commands_end() -> Iterator[None]:
    """A command that a test runs in its own process sets variables for the processes that it starts."""
    before = {name: value for name, value in os.environ.items() if name.startswith("TPULAYER_")}
    yield
    for name in [name for name in os.environ if name.startswith("TPULAYER_") and name not in before]:
        del os.environ[name]
    os.environ.update(before)


@pytest.fixture(scope="session", autouse=True)
def _no_recorded_firmware(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What the tester's own load_firmware recorded is not what the tests run."""
    os.environ["TPULAYER_STATE"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(scope="session")
def firmware_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A firmware.so with the tests' kernels and layers (tests/sources/firmware_fixture.c)."""
    return made_once(tmp_path_factory, "firmware", firmware_harness.build) / firmware_harness.LIBRARY
