"""The tests of one framework, with its packages.

    python -m tests.frameworks litert|executorch|mindspore [OPTIONS OF PYTEST]

LiteRT and ExecuTorch are installed into the cache the first time (60 MB; 1.1 GB with PyTorch's build for the
CPU, where the registry has one), apart from the environment that this runs in: the exact versions of
requirements-NAME.lock. MindSpore Lite is fetched by its tests. Where packages cannot be had this says why,
and ends with 0: nothing to test.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from firmware_sim.errors import TpulayerError
from tests.paths import ROOT
from user_layers.toolchain import entries
from user_layers.toolchain.cache import cache_root

INSTALLED, FETCHED = ("litert", "executorch"), ("mindspore",)
_INSTALL_SECONDS = 600.0
_FREE = 4 * 10**9  # bytes that pip wants at most, for what is packed and unpacked


def packages(name: str) -> Path:
    """The folder with a framework's packages, installed once. RuntimeError says why there is none."""
    lock = ROOT / f"requirements-{name}.lock"
    kept = [sys.version.encode(), lock.read_bytes()]
    folder = cache_root() / "frameworks" / f"{name}-{hashlib.sha256(b''.join(kept)).hexdigest()[:16]}"
    try:
        return entries.built_once(folder, lambda empty: _install(lock, empty))
    except (OSError, TpulayerError) as error:
        raise RuntimeError(str(error)) from None


def _install(lock: Path, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < _FREE:
        raise RuntimeError(f"{folder.parent} has {free / 1e9:.1f} GB free, {_FREE / 1e9:.0f} are wanted")
    for line in lock.read_text().splitlines():
        if line.startswith("torch==") and _needs_cuda(line):
            raise RuntimeError(f"the registry has {line} only as a build for CUDA, of several gigabytes")
    print(f"installing {lock.name} into {folder.parent} (once)", file=sys.stderr, flush=True)
    _pip("--only-binary=:all:", "--target", str(folder), "-r", str(lock))


def _needs_cuda(requirement: str) -> bool:
    """Whether pip would take a file that asks for CUDA's packages; asked without fetching it."""
    told = json.loads(_pip("--dry-run", "--ignore-installed", "--report", "-", requirement))
    asks = [text for one in told["install"] for text in one["metadata"].get("requires_dist", [])]
    return any(text.startswith(("nvidia-", "cuda-")) for text in asks)


def _pip(*words: str) -> str:
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"pip took longer than {_INSTALL_SECONDS:g} s") from None
    if done.returncode:
        raise RuntimeError(f"pip: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Install what is missing and run pytest, whose exit code is returned."""
    if not arguments or arguments[0] not in INSTALLED + FETCHED:
        print(__doc__, file=sys.stderr)
        return 2
    name, *more = arguments
    environment = dict(os.environ)
    if name in INSTALLED:
        try:
            found = packages(name)
        except RuntimeError as error:
            print(f"skipped: the tests of {name}: {error}")
            return 0
        # Behind nothing but the checkout: what both have is of the same version, or not in the lock.
        paths = [str(ROOT), environment.get("PYTHONPATH", ""), str(found)]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, "-m", "pytest", "-m", f"{name} and not slow", f"tests/{name}", *more]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
