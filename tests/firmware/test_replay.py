"""Executing a traced request again: forth and back, up to places, and what is in memory there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from firmware_sim.chip import DDR_BASE, LOCAL_BASE, LOCAL_BYTES
from firmware_sim.device import replay as replay_module
from firmware_sim.device.client import Device
from firmware_sim.device.replay import Replay
from firmware_sim.device.trace import TracedRequest, traced
from firmware_sim.errors import UsageError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = r"""
#include "okk.h"

typedef struct { unsigned long long x, y; } __attribute__((packed)) args_t;

#define X 0
#define Y 4096

static void add(int times, float number) {
    dim4 shape = {1, 4, 1, 8};
    for (int i = 0; i < times; i++)
        okk_bdc_add_C(Y, i ? Y : X, number, &shape, NULL, NULL);
}

void sums(const void *args) {
    const args_t *p = args;
    dim4 shape = {1, 4, 1, 8};
    okk_initialize();
    okk_gdma_32bit_cpy_S2L(X, p->x, &shape, NULL, NULL);
    okk_poll();
    add(3, 1.0f);
    okk_poll();
    *(float *)okk_local_mem_addr(1, Y + 4) = 40;
    add(1, 10.0f);
    okk_gdma_32bit_cpy_L2S(p->y, Y, &shape, NULL, NULL);
    okk_poll();
    *(float *)okk_global_mem_addr(p->y) = -1;
}
OKKERNEL_FUNC_REGISTER(sums)
"""
INPUT = np.arange(32, dtype=np.float32).reshape(1, 4, 1, 8)


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TracedRequest]:
    path = tmp_path_factory.mktemp("replay") / "sums.c"
    path.write_text(SOURCE)
    with Device(kernel_firmware([path], [], kind="native")) as device, traced(memories=True) as trace:
        x, y = device.malloc(INPUT.nbytes, "x"), device.malloc(INPUT.nbytes, "y")
        device.write(x, INPUT)
        device.launch("sums", np.array([x, y], np.uint64).tobytes())
    yield trace.requests[0]


def values(replay: Replay) -> np.ndarray:
    return replay.array(LOCAL_BASE + 4096, (1, 4, 1, 8))


def test_steps_forth_and_back(request_: TracedRequest) -> None:
    replay = Replay(request_)
    assert len(replay) == 6 and [c.engine.value for c in replay] == ["GDMA", "BD", "BD", "BD", "BD", "GDMA"]
    seen = []
    while (command := replay.next) is not None:
        seen.append(values(replay))
        replay.step()
        assert replay.last is not None and replay.last.number == command.number
    np.testing.assert_array_equal(seen[2], INPUT + 1)
    after = INPUT + 3
    after[0, 1, 0, 1] = 40  # the controller's, before the last sum
    np.testing.assert_array_equal(seen[4], after)
    for number in (5, 2, 4, 0, 3):
        replay.goto(number)
        np.testing.assert_array_equal(values(replay), seen[number])
    replay.back(2)
    assert replay.position == 1
    replay.step(100)
    final = INPUT + 10
    final[0, 0, 0, 0] = -1  # after the last command
    np.testing.assert_array_equal(replay.array(replay.buffer("y"), (1, 4, 1, 8)), final)


def test_copies_on_the_way_change_nothing(request_: TracedRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "_APART_S", 0.0)
    often, never = Replay(request_), Replay(request_)
    often.goto(len(often))
    for number in (4, 1, 5, 3, 6, 0, 2):
        often.goto(number)
        monkeypatch.setattr(replay_module, "_APART_S", 1e9)
        never.goto(number)
        for space in Space:
            np.testing.assert_array_equal(
                often.memory.flat(space)[: 1 << 20], never.memory.flat(space)[: 1 << 20]
            )


def test_up_to_lines_ids_and_bytes(request_: TracedRequest) -> None:
    replay = Replay(request_)
    lines = SOURCE.splitlines()
    second = replay.until_line("sums.c", lines.index("    add(1, 10.0f);") + 1)
    assert second is not None and second.number == 4 == replay.position
    assert replay.until_line("sums.c", lines.index("    add(3, 1.0f);") + 1) is None and replay.position == 4
    replay.goto(0)
    found = replay.until_id(Engine.BD, 3)
    assert found is not None and found.issued.name == "md_scalar.add" and replay.position == 3
    y = replay.buffer("y") - DDR_BASE
    wrote = replay.until_written(Space.DDR, y + 9, 1)
    assert wrote is not None and wrote.engine is Engine.GDMA and replay.position == 6
    blamed = replay.writer(Space.LOCAL, LOCAL_BYTES + 4096, before=6)
    assert blamed is not None and blamed.number == 4 and "sums.c" in blamed.place
    assert replay.writer(Space.LOCAL, 9 * LOCAL_BYTES + 4096) is None  # another lane
    assert replay.where(Space.DDR, y + 9) == "y +0x9"


def test_operands_as_arrays(request_: TracedRequest) -> None:
    replay = Replay(request_)
    replay.goto(4)
    command = replay.next
    assert command is not None
    assert command.dtype(command.tensor("opd0")) == "float32"
    np.testing.assert_array_equal(replay.operand(command, "opd0"), INPUT)
    assert replay.operand(command, "res0", "int32").dtype == np.int32
    with pytest.raises(UsageError, match="did you mean"):
        replay.operand(command, "opd9")


def test_what_cannot_be(request_: TracedRequest) -> None:
    replay = Replay(request_)
    with pytest.raises(UsageError, match="no command 7"):
        replay.goto(7)
    with pytest.raises(UsageError, match="buffer yy"):
        replay.buffer("yy")
    with pytest.raises(UsageError, match="four dimensions"):
        replay.array(LOCAL_BASE, (1, 1, 1, 1, 1))
    with pytest.raises(UsageError, match="without its memories"):
        Replay(TracedRequest("kernel sums", (), (), 0.0))
