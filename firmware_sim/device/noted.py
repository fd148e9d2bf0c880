"""What the device process notes while the engines work (Link.notes), so that the report of an end can name the
command: the engine, the place in its arena, and what the native firmware's code addresses count from."""

from __future__ import annotations

NOTED_NOTHING, NOTED_BD, NOTED_GDMA = range(3)
