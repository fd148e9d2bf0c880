"""Compiled loops (numba), one module per family, loaded on first use and cached on disk.

They run in threads that flush denormals (firmware_sim.flush) and without fast-math, so each is bit for
bit the reference beside it in firmware_sim.instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit


def loop(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled when it is first called, and kept on disk; it runs beside other threads."""
    compiled: Callable[..., Any] = njit(nogil=True, cache=True, error_model="numpy")(function)
    return compiled
