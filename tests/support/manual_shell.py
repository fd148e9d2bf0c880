"""A shell session as manuals have them: steps one after the other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.workspaces import environment

LIMIT = 300.0


class Shell:
    """One bash session; `run` gives what a step prints, on both streams."""

    def __init__(self, root: Path, state: Path) -> None:
        self._root = root
        env = environment(TPULAYER_STATE=str(state), TERM="dumb")
        env["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), env["PATH"]))
        self._env = env
        self._before: list[str] = []

    def run(self, line: str, code: int = 0) -> str:
        """Run a line after all that set variables before."""
        text = "\n".join(["set -e", *self._before, line])
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self._root,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == code, f"{line}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def keep(self, line: str) -> str:
        """The same for a line that sets variables: later ones see them."""
        text = self.run(line)
        self._before.append(f"{line} >/dev/null 2>&1")
        return text


def built(shell: Shell) -> None:
    """Steps 1 to 3 of the first demo."""
    said = shell.keep("source scripts/envsetup_cmodel.sh")
    assert "LD_LIBRARY_PATH" in said and "BMRUNTIME_FIRMWARE_PATH" in said
    shell.run(
        "sed -i 's/^HOST_ARCH.*/HOST_ARCH ?= x86/; s/^FIRMWARE_ARCH.*/FIRMWARE_ARCH ?= cmodel/' "
        "config/Makefile.config"
    )
    shell.keep("source envsetup.sh")
    shell.run("build_layers")
