"""What the commands of a static net come from: layer, node and tile, and the lines of C that issued them.

A compile records it; a file beside the bmodel keeps it for later processes. Which streams it is about, a hash
of them says.
"""

from __future__ import annotations

import bisect
import hashlib
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.finding import Frame
from firmware_sim.firmware.controller_log import Frames
from firmware_sim.firmware.source_lines import SourceLines
from firmware_sim.shown import brief
from firmware_sim.wire import CommandGroup, Recorded
from user_layers.net.compiled import CompiledNet, StaticBody

VERSION = 1
_NUMBERS = np.dtype("<u4")
_Numbers = npt.NDArray[np.uint32]


class StepOf(NamedTuple):
    """What a step of the program was for; tile: "2 of 8", and which tensor a transfer moves."""

    layer: str
    node: str
    tile: str


class Issuer(NamedTuple):
    """Who issued a command. frames: the user's functions, innermost first; step: of the program, from 0."""

    frames: tuple[Frame, ...]
    layer: str
    node: str
    tile: str
    step: int


def streams_hash(groups: Iterable[CommandGroup]) -> str:
    """What tells the streams of one subnet from all others."""
    digest = hashlib.sha256()
    for group in groups:
        digest.update(f"{len(group.bd)} {len(group.gdma)}\n".encode())
        digest.update(group.bd)
        digest.update(group.gdma)
    return digest.hexdigest()


@dataclass(frozen=True)
class CommandMap:
    """Who issued the commands of one subnet's streams.

    groups: how many BD and GDMA commands each group has. ends: of each step, how many commands of each
    engine there are up to its end, over all groups. chains: which `frames` each command has, over all groups.
    """

    streams: str
    groups: tuple[tuple[int, int], ...]
    steps: tuple[StepOf, ...]
    ends: tuple[tuple[int, int], ...]
    frames: tuple[tuple[Frame, ...], ...]
    chains: tuple[_Numbers, _Numbers]

    __repr__ = brief

    def issued(self, group: int, engine_is_bd: bool, index: int) -> Issuer | None:
        """Who issued the command at this index, from 0, of a command group, from 1. None where there is no
        such command."""
        engine = 0 if engine_is_bd else 1
        if not 0 < group <= len(self.groups) or not 0 <= index < self.groups[group - 1][engine]:
            return None
        at = index + sum(counts[engine] for counts in self.groups[: group - 1])
        step = bisect.bisect_right(self._ends[engine], at)
        of = self.steps[step] if step < len(self.steps) else StepOf("", "", "")
        return Issuer(self.frames[int(self.chains[engine][at])], of.layer, of.node, of.tile, step)

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        return [bd for bd, _ in self.ends], [gdma for _, gdma in self.ends]


def command_maps(net: CompiledNet) -> list[CommandMap]:
    """Those of all static subnets of a net that was compiled in this process; finding the lines takes a
    moment."""
    bodies = (subnet.body for stage in net.stages for subnet in stage.subnets)
    return [
        body.commands.map for body in bodies if isinstance(body, StaticBody) and body.commands is not None
    ]


@dataclass(frozen=True)
class RecordedCommands:
    """What a compile knows of a subnet's commands. steps: of the program; image: has the debug information of
    the firmware that issued them."""

    recorded: Recorded
    steps: tuple[StepOf, ...]
    image: Path

    __repr__ = brief

    @cached_property
    def map(self) -> CommandMap:
        """With lines, which takes a moment to find."""
        recorded, sites = self.recorded, self.recorded.sites
        sizes = tuple((group.bd_num, group.gdma_num) for group in recorded.groups)
        if sites is None:
            frames: list[tuple[Frame, ...]] = [()]
            chains = [np.zeros(sum(pair[i] for pair in sizes), _NUMBERS) for i in range(2)]
        else:
            chains = [np.frombuffer(numbers, _NUMBERS) for numbers in (sites.bd, sites.gdma)]
            lines = Frames(lambda: _lines(self.image))
            frames = [
                tuple(Frame(x.file, x.line, x.function) for x in lines(*chain)) for chain in sites.chains
            ]
        return CommandMap(
            streams_hash(recorded.groups),
            sizes,
            self.steps,
            recorded.steps,
            tuple(frames),
            (chains[0], chains[1]),
        )


_LINES: dict[tuple[Path, int], SourceLines] = {}


def _lines(image: Path) -> SourceLines:
    key = image, image.stat().st_mtime_ns
    if key not in _LINES:
        _LINES.clear()
        _LINES[key] = SourceLines(image)
    return _LINES[key]


# ---- the file ----


def encoded(maps: Sequence[CommandMap]) -> bytes:
    """The contents of the file beside a bmodel."""
    frames = list(dict.fromkeys(frame for one in maps for chain in one.frames for frame in chain))
    number = {frame: i for i, frame in enumerate(frames)}
    about = {
        "version": VERSION,
        "frames": [[frame.file, frame.line, frame.function] for frame in frames],
        "subnets": [
            {
                "streams": one.streams,
                "groups": one.groups,
                "steps": one.steps,
                "frames": [[number[frame] for frame in chain] for chain in one.frames],
            }
            for one in maps
        ],
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "about": np.frombuffer(json.dumps(about, separators=(",", ":")).encode(), np.uint8)
    }
    for i, one in enumerate(maps):
        arrays[f"ends{i}"] = np.array(one.ends, np.int64).reshape(-1, 2)
        arrays[f"bd{i}"], arrays[f"gdma{i}"] = one.chains
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def decoded(data: bytes) -> Iterator[CommandMap]:
    """The maps in such a file. Raises ValueError for anything else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            if about["version"] != VERSION:
                raise ValueError(f"version {about['version']}")
            frames = [Frame(str(file), int(line), str(function)) for file, line, function in about["frames"]]
            for i, one in enumerate(about["subnets"]):
                yield _decoded(one, frames, arrays[f"ends{i}"], arrays[f"bd{i}"], arrays[f"gdma{i}"])
    except (ValueError, KeyError, TypeError, IndexError, OSError, EOFError, RecursionError) as error:
        raise ValueError(f"it does not say who issued commands: {error}") from None
    except Exception as error:  # zipfile and zlib have errors of their own
        raise ValueError(f"it is damaged: {error}") from None


def _decoded(
    one: Mapping[str, Any],
    frames: Sequence[Frame],
    ends: npt.NDArray[Any],
    bd: npt.NDArray[Any],
    gdma: npt.NDArray[Any],
) -> CommandMap:
    groups = tuple((int(a), int(b)) for a, b in one["groups"])
    steps = tuple(StepOf(str(layer), str(node), str(tile)) for layer, node, tile in one["steps"])
    chains = tuple(tuple(frames[int(k)] for k in chain) for chain in one["frames"])
    numbers = bd.astype(np.uint32), gdma.astype(np.uint32)
    for engine, part in enumerate(numbers):
        if part.shape != (sum(counts[engine] for counts in groups),):
            raise ValueError("another number of commands")
        if part.size and int(part.max()) >= len(chains):
            raise ValueError("a chain that is not there")
    pairs = tuple((int(a), int(b)) for a, b in ends.tolist())
    if any(b < a for column in zip(*pairs, strict=True) for a, b in itertools.pairwise(column)):
        raise ValueError("steps that go back")
    return CommandMap(str(one["streams"]), groups, steps, pairs, chains, numbers)
