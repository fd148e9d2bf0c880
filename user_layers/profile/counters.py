"""What a run uses over time: local memory, DDR, and what each engine does, exactly and in slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from firmware_sim.chip import ALIGN_BYTES, CLOCK_HZ, LOCAL_BYTES
from firmware_sim.instructions.instruction import Engine
from user_layers.profile.model import ENGINES, STALLS, Cause, Profile, Times

Steps = tuple[Times, Times]
"""Times, and the value from each of them on."""
_LINES = LOCAL_BYTES // ALIGN_BYTES


def local_in_use(profile: Profile) -> Steps:
    """Bytes of each lane that hold something that is read later: from the begin of the command that writes
    it to the end of the last one that reads it, in lines of 128 bytes, whichever lanes."""
    c, forms = profile.columns, profile.forms
    since, until = np.zeros(_LINES), np.full(_LINES, -1.0)
    begins: list[Times] = []
    ends: list[Times] = []
    sizes: list[Times] = []

    def close(a: int, b: int) -> None:
        """What was in these lines is not needed any more."""
        used = until[a:b] > since[a:b]
        if not used.any():
            return
        # lines that came and go together are one
        new = np.concatenate([[True], (np.diff(since[a:b]) != 0) | (np.diff(until[a:b]) != 0)])
        first = np.nonzero(new)[0]
        count = np.diff(np.concatenate([first, [b - a]]))
        kept = used[first]
        begins.append(since[a:b][first][kept])
        ends.append(until[a:b][first][kept])
        sizes.append(count[kept] * float(ALIGN_BYTES))

    start, end, form = c.start.tolist(), c.end.tolist(), c.form.tolist()
    for i in np.lexsort((c.end, c.start)).tolist():
        for first, last in forms[form[i]].reads:
            lines = slice(first // ALIGN_BYTES, -(-last // ALIGN_BYTES))
            np.maximum(until[lines], end[i], out=until[lines])
        for first, last in forms[form[i]].writes:
            a, b = first // ALIGN_BYTES, -(-last // ALIGN_BYTES)
            close(a, b)
            since[a:b] = np.maximum(until[a:b], start[i])  # what is read meanwhile is there already
            until[a:b] = since[a:b]
    close(0, _LINES)
    if not begins:
        return np.zeros(0), np.zeros(0)
    size = np.concatenate(sizes)
    return _added(np.concatenate([*begins, *ends]), np.concatenate([size, -size]))


def ddr_bandwidth(profile: Profile) -> Steps:
    """GB/s from and to DDR, of both engines; a command moves its bytes at one pace."""
    c = profile.columns
    moved = profile.by_form([form.moved.ddr for form in profile.forms])
    busy = c.busy
    of = (moved > 0) & (busy > 0)
    rate = moved[of] / busy[of] * CLOCK_HZ / 1e9
    return _added(np.concatenate([c.start[of], c.end[of]]), np.concatenate([rate, -rate]))


def _added(times: Times, changes: Times) -> Steps:
    order = np.argsort(times, kind="stable")
    at, first = np.unique(times[order], return_index=True)
    values = np.add.accumulate(changes[order])
    last = np.concatenate([first[1:], [len(order)]]) - 1
    return at, np.maximum(values[last], 0.0) if len(at) else values


@dataclass(frozen=True)
class Slices:
    """A run in slices of equal length. edges: times, one more than slices. does: of each engine the share of
    each slice that it works (Cause.NONE) and that it waits, by cause. local: bytes of each lane in use; ddr:
    GB/s; both on average."""

    edges: Times
    does: dict[Engine, dict[Cause, Times]]
    local: Times
    ddr: Times


def slices(profile: Profile, number: int) -> Slices:
    """The whole run in so many slices. ValueError where it takes no time."""
    if not profile.cycles:
        raise ValueError("a run that takes no time")
    edges = np.linspace(0.0, profile.cycles, number + 1)
    does = {}
    for which, engine in enumerate(ENGINES):
        spans = _spans(profile, which)
        does[engine] = {cause: _covered(*spans[cause], edges) for cause in (Cause.NONE, *STALLS)}
    return Slices(
        edges,
        does,
        _average(local_in_use(profile), edges),
        _average(ddr_bandwidth(profile), edges),
    )


def _spans(profile: Profile, which: int) -> dict[Cause, tuple[Times, Times]]:
    """Begins and ends of what one engine does, by cause of waiting."""
    c = profile.columns
    of = c.engine == which
    start, end, stall, cause = c.start[of], c.end[of], c.stall[of], c.cause[of]
    found = {Cause.NONE: (start, end)}
    for one in STALLS:
        at = cause == one
        found[one] = start[at] - stall[at], start[at]
    batch = np.array([(b.end - b.idle[which], b.end) for b in profile.batches]).reshape(-1, 2)
    launch = np.array([(r.end - r.launch, r.end) for r in profile.requests]).reshape(-1, 2)
    found[Cause.BATCH] = batch[:, 0], batch[:, 1]
    found[Cause.LAUNCH] = launch[:, 0], launch[:, 1]
    return found


def _covered(begins: Times, ends: Times, edges: Times) -> Times:
    """The share of each slice that spans cover, which do not overlap and are in order."""
    if not len(begins):
        return np.zeros(len(edges) - 1)
    sums = np.concatenate([[0.0], np.add.accumulate(ends - begins)])
    at = np.stack([begins, ends], axis=1).reshape(-1)
    value = np.stack([sums[:-1], sums[1:]], axis=1).reshape(-1)
    share: Times = np.diff(np.interp(edges, at, value)) / np.diff(edges)
    return share


def _average(steps: Steps, edges: Times) -> Times:
    times, values = steps
    if not len(times):
        return np.zeros(len(edges) - 1)
    area = np.concatenate([[0.0], np.add.accumulate(values[:-1] * np.diff(times))])
    mean: Times = np.diff(np.interp(edges, times, area)) / np.diff(edges)
    return mean


def at_most(steps: Sequence[float] | Times) -> float:
    """The largest value; 0 of none."""
    return float(np.max(steps)) if len(steps) else 0.0
