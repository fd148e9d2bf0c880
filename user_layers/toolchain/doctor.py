"""What is on this machine and what a build would use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from firmware_sim.errors import TpulayerError
from firmware_sim.firmware.image import FIRMWARE_VARIABLE
from firmware_sim.firmware.sanitized import sanitized
from firmware_sim.instructions.loops.library import is_built, location
from user_layers import __version__
from user_layers.toolchain.builtin import builtin_location
from user_layers.toolchain.cache import cache_root
from user_layers.toolchain.compilers import choose, zig
from user_layers.toolchain.firmware import recorded_notes
from user_layers.toolchain.ninja_run import ninja_binary
from user_layers.toolchain.targets import manifest_path
from user_layers.workspace import Workspace, machine_arch, sdk_dir

OLDEST_PYTHON = (3, 10)
PLUGIN_VARIABLE = "BMCOMPILER_PLUGIN_PATH"
_PACKAGES = (
    *("cffi", "elftools", "flatbuffers", "jinja2", "llvmlite", "ninja", "numpy", "pcpp", "pycparser"),
    *("typer", "unicorn", "ziglang"),
)


@dataclass(frozen=True)
class Check:
    """One line of the report. state: ok, missing (required, exit code 3), note (may matter)."""

    name: str
    state: str
    value: str
    hint: str = ""


def examine() -> list[Check]:
    """All checks; none of them raises for something that is missing, and none builds anything."""
    checks = [Check("tpulayer", "ok", f"{__version__} in {Path(__file__).resolve().parents[2]}"), _python()]
    lacking = [name for name in _PACKAGES if find_spec(name) is None]
    if lacking:
        checks.append(Check("packages", "missing", ", ".join(lacking), f"pip install {' '.join(lacking)}"))
    else:
        checks.append(Check("packages", "ok", f"all {len(_PACKAGES)} are there"))
    system = f"{sys.platform} {os.uname().machine}"
    if sys.platform == "linux" and machine_arch() in ("x86", "aarch64"):
        checks.append(Check("machine", "ok", system))
    else:
        checks.append(Check("machine", "missing", system, "builds work on Linux, x86-64 and aarch64"))
    checks += [
        _try("C sources", lambda: str(sdk_dir())),
        _try("C compiler", lambda: f"{choose().c.title}, for the firmware"),
        _try("C++ compiler", lambda: f"{choose().cxx.title}, for the plugin"),
        _try("zig", lambda: f"{zig('c', machine_arch()).version}, for what no other compiler does"),
        _try("--sanitize", _checks),
        _try("ninja", _ninja),
        _try("cache", lambda: str(cache_root())),
    ]
    if all(check.state == "ok" for check in checks):
        checks += [_try("built-in layers", _builtin), _try("loops", _loops)]
    return checks + _workspace()


def _try(name: str, ask: Callable[[], str]) -> Check:
    try:
        return Check(name, "ok", ask())
    except TpulayerError as error:
        return Check(name, "missing", error.message, error.hint)


def _python() -> Check:
    value = f"{sys.version.split()[0]} ({sys.executable})"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Check("python", "missing", value, "Python 3.10 or newer is needed")
    return Check("python", "ok", value)


def _ninja() -> str:
    binary = ninja_binary()
    done = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30, check=False)
    return f"{done.stdout.strip()} ({binary})"


def _checks() -> str:
    from user_layers.toolchain.sanitize import sanitizers

    found = sanitizers(choose().c)
    only = f"UndefinedBehaviorSanitizer only: {found.lacking}"
    return only if found.lacking else f"UndefinedBehaviorSanitizer and AddressSanitizer ({found.runtime})"


def _builtin() -> str:
    builtin = builtin_location(choose())
    return f"built in {builtin.directory}" if builtin.exists() else "not built yet; the first build does it"


def _loops() -> str:
    place = location()
    if place is None:
        return "none: this processor does not flush denormals as the chip does; the emulator is slower"
    return f"compiled in {place}" if is_built() else "not compiled yet; the first build does it"


def _workspace() -> list[Check]:
    try:
        ws = Workspace.find()
    except TpulayerError as error:
        return [Check("workspace", "note", error.message, error.hint)]
    try:
        config = ws.config
    except TpulayerError as error:
        return [Check("workspace", "note", error.message, error.hint)]
    checks = [
        Check(
            "workspace",
            "ok",
            f"{ws.root} (HOST_ARCH {config.host_arch}, FIRMWARE_ARCH {config.firmware_arch})",
        )
    ]
    for name, variable, path in (
        ("firmware", FIRMWARE_VARIABLE, ws.firmware),
        ("plugin", PLUGIN_VARIABLE, ws.plugin),
    ):
        named = os.environ.get(variable)
        if named:
            checks.append(Check(name, "ok", f"{named} ({variable})"))
        elif path.is_file():
            found = sanitized(path)
            checks.append(Check(name, "ok", f"{path}, sanitized: {found}" if found else str(path)))
        else:
            checks.append(Check(name, "note", f"{path} is not built", "run `build_layers`"))
    checks += [Check("load_firmware", "note", *note) for note in recorded_notes(ws)]
    if ws.firmware.is_file() and not _current(ws, sanitized(ws.firmware) is not None):
        checks.append(Check("build", "note", "something changed since the last build", "run `build_layers`"))
    return checks


def _current(ws: Workspace, sanitize: bool) -> bool:
    from user_layers.toolchain import manifest

    return manifest.is_current(manifest_path(ws, sanitize))
