"""One random descriptor on the emulator and on the vendor's model, all of memory compared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import DeviceError
from firmware_sim.isa.codes import Task
from firmware_sim.isa.footprint import Space
from firmware_sim.tpu import Tpu
from tests.oracle.client import Oracle, Refused
from tests.support.golden_vectors import same_bits
from tests.support.isa_cases import LANE, Case, execute, fill, windows, words_of

U8 = npt.NDArray[np.uint8]


def compare(oracle: Oracle, tpu: Tpu, case: Case, seed: int) -> str | None:
    """What the two do differently, or None. A descriptor that both refuse is not a difference."""
    local, ddr = windows(tpu.memory)
    fill(tpu.memory, seed)
    before = [(Space.LOCAL, lane * LANE, local[lane].copy()) for lane in range(len(local))]
    before.append((Space.DDR, 0, ddr.copy()))
    read = [(space, at, len(data)) for space, at, data in before]
    mine = theirs = ""
    try:
        execute(tpu, case)
    except DeviceError as error:
        mine = str(error)
    try:
        checks = case[1].get("tsk_typ") != Task.MD_SUM
        answer = oracle.ask([(case[0], words_of(case).tobytes())], before, read, checks=checks)
    except Refused as error:
        theirs = str(error)
    if mine or theirs:
        return None if mine and theirs else f"emulator: {mine or 'executed'}; model: {theirs or 'executed'}"
    for (space, at, _), data in zip(read, answer.after, strict=True):
        got = tpu.memory.flat(space)[at : at + len(data)]
        if not same_bits(got, data):
            i = int(np.nonzero(got != data)[0][0])
            return f"{space.name} byte 0x{at + i:x}: emulator {got[i]}, model {data[i]}"
    return None
