"""Whether processes end with the one that started them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

_LIMIT = 60.0  # s


def ended_with_its_parent(pid: int) -> None:
    """Fail, and kill the process, when it still runs a minute after its parent's end."""
    status = Path(f"/proc/{pid}/stat")
    end = time.monotonic() + _LIMIT
    while time.monotonic() < end:
        # An orphan is reaped by init; where no init does that it stays a zombie, which holds nothing.
        if not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the process outlived its parent")
