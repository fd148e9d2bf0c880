"""Random descriptors, executed by the emulated engines: fields of real ones changed, and noise."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np

from firmware_sim.chip import DDR_BASE
from firmware_sim.device.client import Device, StreamGroup
from firmware_sim.instructions.instruction import Engine
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa.layout import BD, GDMA, Layout
from tests.fuzz.driver import Case, Finding, Target
from tests.fuzz.mutate import number
from tests.fuzz.processors import DDR_BYTES
from tests.support.golden_vectors import executions
from user_layers.toolchain.builtin import builtin_artifacts

ENGINE_LIMIT = 20.0  # s
LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}
_ID = {Engine.BD: "cmd_id_tpu", Engine.GDMA: "cmd_id"}
_WAITS = {Engine.BD: ("cmd_id_gdma",), Engine.GDMA: ("eng0_sync_id", "eng1_sync_id", "eng3_sync_id")}
_PATTERN = 0xA5


@cache
def bases() -> tuple[list[tuple[Engine, dict[str, int]]], ...]:
    """Real descriptors, one list for each class of them."""
    found: dict[str, list[tuple[Engine, dict[str, int]]]] = {}
    for case in executions():
        for engine, data in case.descriptors:
            found.setdefault(case.cls, []).append((engine, LAYOUTS[engine].decode(data)))
    return tuple(found[name] for name in sorted(found))


def _changed(rng: random.Random, layout: Layout, values: dict[str, int]) -> dict[str, int]:
    out = dict(values)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 5, 12))):
        field = rng.choice(layout.fields)
        if field.name.endswith("_addr") and rng.randrange(3):
            # somewhere in local memory or L2, often at the end of a lane
            base = rng.choice((0x800_0000, 0x800_0000, 0x1000_0000))
            lane = rng.choice((0, 0, 1, 63, rng.randrange(64)))
            inside = rng.choice((0, 0x7_FF80, 0x7_FFFC, rng.randrange(0x8_0000), rng.randrange(4096) * 128))
            out[field.name] = base + lane * 0x8_0000 + inside
        elif rng.randrange(8) == 0:
            _, other = rng.choice(rng.choice(bases()))
            out[field.name] = other.get(field.name, 0) & field.limit
        else:
            out[field.name] = number(rng, field.width, values[field.name])
    return out


def _noise(rng: random.Random, layout: Layout) -> dict[str, int]:
    values = layout.decode(rng.randbytes(128))
    if rng.randrange(3):
        row = rng.choice([i for i in TABLE if LAYOUTS[i.engine] is layout])
        values |= {name: rng.choice(sorted(allowed)) for name, allowed in row.match.items()}
    if rng.randrange(2):
        for field in layout.fields:  # small sizes and strides get further
            if field.width in (12, 16, 19):
                values[field.name] = rng.choice((0, 1, 1, 2, 3, 5, 64))
    return values


def descriptor(rng: random.Random) -> tuple[Engine, dict[str, int]]:
    engine, values = rng.choice(rng.choice(bases()))
    layout = LAYOUTS[engine]
    kind = rng.randrange(10)
    if kind < 8:
        return engine, _changed(rng, layout, values)
    return engine, _noise(rng, layout)


def streams(rng: random.Random) -> dict[Engine, list[bytes]]:
    """One to four descriptors whose ids count up, mostly."""
    out: dict[Engine, list[bytes]] = {Engine.BD: [], Engine.GDMA: []}
    for _ in range(rng.choice((1, 1, 1, 1, 1, 2, 4))):
        engine, values = descriptor(rng)
        other = Engine.GDMA if engine is Engine.BD else Engine.BD
        if rng.randrange(50):
            values[_ID[engine]] = len(out[engine]) + 1
            values |= dict.fromkeys(_WAITS[engine], 0)
            values[_WAITS[engine][0]] = len(out[other])
        out[engine].append(LAYOUTS[engine].encode(**values))
    return out


class Descriptors(Target):
    """A case is {"bd": [hex], "gdma": [hex]}."""

    crashes_are_findings = True

    def __init__(self) -> None:
        self._device = Device(
            builtin_artifacts().firmware,
            processor="tests.fuzz.processors:make",
            time_limit=ENGINE_LIMIT,
            on_log=lambda text: None,
            check="off",  # random commands read what nothing wrote
        )
        memory = self._device._open()
        # no command may write where the firmware's own things are
        self._untouched = [memory.dtcm, *(a.reshape(-1).view(np.uint8) for a in (memory.bd, memory.gdma))]
        for part in self._untouched:
            part[:] = _PATTERN
        rng = np.random.default_rng(1)
        self._device.local_memory[:] = rng.integers(0, 256, self._device.local_memory.shape, np.uint8)
        self._device.l2[: 3 << 20] = rng.integers(0, 256, 3 << 20, np.uint8)
        self._ddr = memory.ddr
        self._ddr[: 1 << 20] = rng.integers(0, 256, 1 << 20, np.uint8)

    def make(self, rng: random.Random) -> Case:
        made = streams(rng)
        return {engine.value.lower(): [d.hex() for d in made[engine]] for engine in Engine}

    def run(self, case: Case) -> str:
        bd, gdma = (b"".join(map(bytes.fromhex, case[name])) for name in ("bd", "gdma"))
        at = DDR_BASE + DDR_BYTES  # behind what commands can reach
        self._device.write(at, bd + gdma)
        self._device.run_streams([StreamGroup(at, at + len(bd), len(bd) // 128, len(gdma) // 128)])
        return "executed"

    def check(self) -> None:
        for part in self._untouched:
            if part.min() != _PATTERN or part.max() != _PATTERN:
                part[:] = _PATTERN
                raise Finding("written outside the memories of the engines")
        self._device.run_streams([])
        memory = self._device._open()
        memory.discard_ddr(1 << 20, DDR_BYTES - (1 << 20))

    def close(self) -> None:
        self._device.close()


def make() -> Any:
    return Descriptors()
