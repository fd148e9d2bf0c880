"""What a trace holds: commands and who issued them, what the controller wrote, what was there before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from firmware_sim.chip import DDR_BASE
from firmware_sim.device.client import Device
from firmware_sim.device.trace import TracedRequest, traced
from firmware_sim.errors import DeviceError, UsageError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = r"""
#include "okk.h"

typedef struct { unsigned long long output_addr; } __attribute__((packed)) args_t;

static void add(int times) {
    dim4 shape = {1, 4, 1, 8};
    for (int i = 0; i < times; i++)
        okk_bdc_add_C(64 * 64, 0, 1.0f, &shape, NULL, NULL);
}

void fill(const void *args) {
    const args_t *p = args;
    dim4 shape = {1, 4, 1, 8};
    okk_initialize();
    *(float *)okk_global_mem_addr(p->output_addr) = 7;
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 3.0f}, &shape, NULL);
    okk_poll();
    *(float *)okk_local_mem_addr(2, 4) = 40;
    add(2);
    okk_gdma_32bit_cpy_L2S(p->output_addr + 4, 64 * 64, &shape, NULL, NULL);
    okk_poll();
}
OKKERNEL_FUNC_REGISTER(fill)

void wrong(const void *args) {
    (void)args;
    dim4 shape = {1, 4, 1, 8};
    okk_initialize();
    okk_bdc_32bit_set_C(0, (x32){.fp32 = 3.0f}, &shape, NULL);
    okk_poll();
    OKKERNEL_ASSERT(args == (void *)1);
}
OKKERNEL_FUNC_REGISTER(wrong)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "fill.c"
    path.write_text(SOURCE)
    return path


def replayed(request: TracedRequest) -> Memory:
    """The memories after the batches of a request."""
    assert request.before is not None
    m = request.before
    memory = Memory(m.ddr, m.local.reshape(64, -1), m.l2)
    tpu = Tpu(memory)
    for batch in request.batches:
        for one in batch.written:
            place = slice(one.offset, one.offset + len(one.data))
            memory.flat(one.space)[place] = np.frombuffer(one.data, np.uint8)
        tpu.execute(batch.bd, batch.gdma)
    return memory


@pytest.mark.parametrize("kind", ["native", "arm"])
def test_every_command_with_its_line(source: Path, kind: str) -> None:
    image = kernel_firmware([source], [], kind="arm" if kind == "arm" else "native")
    with Device(image) as device, traced(memories=True) as trace:
        at = device.malloc(4 * 33)
        device.write(at, np.arange(33, dtype=np.float32))
        before = device.cycles
        device.launch("fill", at.to_bytes(8, "little"))
        [request] = trace.requests
        assert (request.what, request.failed, request.cycles) == ("kernel fill", "", device.cycles - before)
        assert [(len(b.bd), len(b.gdma)) for b in request.batches] == [(1, 0), (2, 1)]
        assert not any(b.streamed for b in request.batches) and all(b.complete for b in request.batches)
        lines = SOURCE.splitlines()

        def site(batch: int, engine: Engine, index: int) -> list[str]:
            issued = request.issuer(request.batches[batch], engine, index)
            assert issued.engine == engine.value
            return [lines[f.line - 1].strip().partition("(")[0] for f in issued.frames]

        assert site(0, Engine.BD, 0) == ["okk_bdc_32bit_set_C"]
        assert site(1, Engine.BD, 1) == ["okk_bdc_add_C", "add"]
        assert site(1, Engine.GDMA, 0) == ["okk_gdma_32bit_cpy_L2S"]
        first, second = (b.written for b in request.batches)
        assert (Space.DDR, at - DDR_BASE, np.float32(7).tobytes()) in [
            (one.space, one.offset, one.data) for one in first
        ]
        assert [one.space for one in second] == [Space.LOCAL]
        memory = replayed(request)
        got = memory.ddr[at - DDR_BASE :][: 4 * 33].view(np.float32)
        np.testing.assert_array_equal(got, device.read_array(at, (33,), np.float32))
        assert got[0] == 7 and 40 not in got[1:]  # lane 2's word 1 is the sum's operand only
        np.testing.assert_array_equal(memory.flat(Space.LOCAL), device.local_memory.reshape(-1))


def test_a_request_that_fails_is_there_as_far_as_it_came(source: Path) -> None:
    image = kernel_firmware([source], [], kind="native")
    with Device(image) as device, traced() as trace:
        with pytest.raises(DeviceError):
            device.launch("wrong")
        device.launch("fill", device.malloc(4 * 33).to_bytes(8, "little"))
    failed, good = trace.requests
    assert "assert" in failed.failed.lower() and len(failed) == 1 and failed.before is None
    assert not good.failed and len(good) == 4


def test_one_at_a_time() -> None:
    with traced(), pytest.raises(UsageError, match="inside"), traced():
        pass
