"""How long onnxruntime may compute on the host, and how much memory it may take for that.

A few bytes of a model can ask for a loop without end or for any number of gigabytes; what is legal may be
large. So the limits follow the machine, and two variables of the environment move them.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

from firmware_sim.device.time_limit import VARIABLE, time_limit
from firmware_sim.variables import HOST_MEMORY

RUN_S = 20.0  # for a run of a model or of a part of a net
FOLD_S = 10.0  # for what is done ahead of a run: one constant, or the shapes of a model
MORE_TIME = f"give it more with {VARIABLE}: seconds, 0 for any time"
MORE_MEMORY = f"give it more with {HOST_MEMORY.name}: gigabytes, 0 for any"
_GIB = 1 << 30
_LEAST = 4 * _GIB  # on machines with less there is little else to protect
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def seconds(usual: float) -> float:
    """The time limit that the environment gives for launches, else the usual one; infinite for 0.

    UsageError for what is no number.
    """
    limit = time_limit()
    return limit.seconds or math.inf if limit.chosen else usual


def memory_bytes() -> int:
    """What onnxruntime's process may allocate: TPULAYER_HOST_MEMORY, else half of what this machine, or this
    container, has; 0 for any. UsageError for what is no number."""
    gigabytes = HOST_MEMORY.get()
    if gigabytes is not None:
        return int(gigabytes * _GIB)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # no cgroups, or no limit
        total = min(total, int(_CGROUP.read_text()))
    return max(total // 2, _LEAST)
