"""What the device process notes while the engines work (Link.notes), for the report of an end: the engine,
the place in its arena, and what code addresses of the native firmware count from."""

from __future__ import annotations

NOTED_NOTHING, NOTED_BD, NOTED_GDMA = range(3)
