"""Work for tests of who does it: squares, slowly; processes that write down who they are."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from firmware_sim.errors import UsageError


@contextmanager
def squares(folder: Path, slow: float = 0.0) -> Iterator[Callable[[int], int]]:
    """Leaves opened.PID in the folder, closed.PID at the end, and a line of did.PID for each case. -1 fails,
    -2 ends the process."""
    (folder / f"opened.{os.getpid()}").touch()

    def square(case: int) -> int:
        if case == -1:
            raise UsageError("the case -1", hint="another one")
        if case == -2:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(slow)
        with (folder / f"did.{os.getpid()}").open("a") as did:
            did.write(f"{case}\n")
        return case * case

    yield square
    (folder / f"closed.{os.getpid()}").touch()
