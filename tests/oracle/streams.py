"""Static nets on the vendor's functional model: their streams, one descriptor after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import DDR_BASE, DESCRIPTOR_BYTES
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.isa.layout import BD, GDMA
from firmware_sim.wire import CommandGroup, DType
from tests.oracle.client import Oracle
from user_layers.bmodel.model import Stage

Array = npt.NDArray[np.generic]
DDR_BYTES = 256 << 20  # from the start of DDR to the end of a context


def run(oracle: Oracle, stage: Stage, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of a static stage, at the addresses that it was compiled for."""
    before = [(t.addr, a.tobytes()) for t, a in zip(stage.inputs, inputs, strict=True)]
    if stage.coeff is not None:
        before.append((stage.coeff.addr, stage.coeff.data))
    commands = [c for subnet in stage.subnets for group in subnet.groups for c in in_order(group)]
    answer = oracle.ask(
        commands,
        [(Space.DDR, addr - DDR_BASE, np.frombuffer(data, np.uint8)) for addr, data in before],
        [(Space.DDR, t.addr - DDR_BASE, t.size) for t in stage.outputs],
    )
    return [
        data.view(DType(t.dtype).numpy_name)[: t.elem_num].reshape(t.shape)
        for t, data in zip(stage.outputs, answer.after, strict=True)
    ]


def in_order(group: CommandGroup) -> list[tuple[Engine, bytes]]:
    """An order in which no command runs before the one it waits for."""
    queues = {
        Engine.GDMA: _queue(group.gdma, GDMA.columns, "eng0_sync_id"),
        Engine.BD: _queue(group.bd, BD.columns, "cmd_id_gdma"),
    }
    done = dict.fromkeys(queues, 0)
    order: list[tuple[Engine, bytes]] = []
    while any(done[e] < len(queue) for e, queue in queues.items()):
        before = len(order)
        for engine, other in ((Engine.GDMA, Engine.BD), (Engine.BD, Engine.GDMA)):
            queue = queues[engine]
            while done[engine] < len(queue) and queue[done[engine]][0] <= done[other]:
                order.append((engine, queue[done[engine]][1]))
                done[engine] += 1
        assert len(order) > before, f"the engines wait for one another after {done}"
    return order


def _queue(stream: bytes, columns: object, field: str) -> list[tuple[int, bytes]]:
    """(id of the other engine that it waits for, descriptor)."""
    assert callable(columns)
    words = np.frombuffer(stream, np.uint32).reshape(-1, DESCRIPTOR_BYTES // 4)
    waits = columns(words)[field]
    return [
        (int(waits[i]), stream[i * DESCRIPTOR_BYTES : (i + 1) * DESCRIPTOR_BYTES]) for i in range(len(words))
    ]
