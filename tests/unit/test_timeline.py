"""Modelled time of recorded streams: the same as the emulator's own count, and precise about waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from firmware_sim.chip import DDR_BASE, LOCAL_BASE, LOCAL_BYTES
from firmware_sim.errors import DeviceError
from firmware_sim.isa.codes import Direction, Format, Special
from firmware_sim.isa.layout import GDMA
from firmware_sim.timeline import Timer
from firmware_sim.wire import CommandGroup, Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from tests.support import firmware_harness as fh

SHAPE = (1, 64, 64, 64)
NBYTES = 64 * 64 * 64 * 4


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def recorded(firmware: fh.Harness, *steps: Step) -> CommandGroup:
    """The steps over tensors 0, 1 in DDR and 2, 3 in local memory."""
    program = Program()
    for i in range(2):
        record = TensorRecord(SHAPE, addr=fh.DDR + i * NBYTES)
        program.add(ProgramTensor(TensorKind.NEURON, record))
    for i in range(2):
        program.add(ProgramTensor(TensorKind.LOCAL, TensorRecord(SHAPE, addr=i * 65536, slice_shape=SHAPE)))
    program.steps += steps
    assert firmware.run(program, record=True).status == 0
    return CommandGroup(b"".join(firmware.bd), b"".join(firmware.gdma))


LOAD = Step(StepOp.LOAD, (0,), (2,))
DOUBLE = Step(StepOp.LOCAL, (2,), (3,), 1, "double", bytes(4), param_check=fh.param_check(1))
STORE = Step(StepOp.STORE, (3,), (1,))


def test_engines_wait_or_run_at_the_same_time(firmware: fh.Harness) -> None:
    timer = Timer()
    after = timer.timeline(recorded(firmware, LOAD, DOUBLE, STORE))
    assert after.cycles == pytest.approx(after.bd_busy + after.gdma_busy)
    section = (Step(StepOp.PARALLEL_START), LOAD, DOUBLE, STORE, Step(StepOp.PARALLEL_END))
    beside = timer.timeline(recorded(firmware, *section))
    assert beside.cycles == pytest.approx(max(after.bd_busy, after.gdma_busy))
    assert (beside.bd_busy, beside.gdma_busy) == pytest.approx((after.bd_busy, after.gdma_busy))


def test_traffic_with_ddr_by_command(firmware: fh.Harness) -> None:
    found = list(Timer().timeline(recorded(firmware, LOAD, DOUBLE, STORE)).transfers())
    first = fh.DDR - DDR_BASE
    assert [(t.offset, t.nbytes, t.written) for t in found] == [
        (first, NBYTES, False),
        (first + NBYTES, NBYTES, True),
    ]


def test_an_empty_group_takes_no_time() -> None:
    assert Timer().timeline(CommandGroup(b"", b"")).cycles == 0


def test_a_wait_that_never_ends_is_an_error(firmware: fh.Harness) -> None:
    group = recorded(firmware, LOAD, DOUBLE)
    with pytest.raises(DeviceError, match="waits for GDMA command 1, which never comes"):
        Timer().timeline(CommandGroup(group.bd, b""))


def test_operands_may_end_where_local_memory_ends() -> None:
    fields = {"special_func": Special.CONSTANT, "direction": Direction.L2L, "stride_enable": 1, "cmd_id": 1}
    fields |= {"src_data_format": Format.INT8, "dst_data_format": Format.INT8, "dst_wstride": 1}
    fields |= {f"dst_{axis}size": 1 for axis in "nchw"}
    last = LOCAL_BASE + LOCAL_BYTES - 1
    fields["dst_start_addr_l32"] = last
    assert Timer().timeline(CommandGroup(b"", GDMA.encode(**{**GDMA.defaults, **fields}))).cycles > 0
    fields["dst_wsize"] = 2
    with pytest.raises(DeviceError, match=f"dst reaches to byte {LOCAL_BYTES + 1} of LOCAL memory"):
        Timer().timeline(CommandGroup(b"", GDMA.encode(**{**GDMA.defaults, **fields})))


def test_waits_end_with_the_command_that_they_name(firmware: fh.Harness) -> None:
    """Each begins when its engine is free and the newest command that it waits for is done, never before."""
    timeline = Timer().timeline(recorded(firmware, LOAD, DOUBLE, STORE, LOAD, DOUBLE))
    load, store, again = timeline.gdma
    assert [span.start for span in timeline.bd] == pytest.approx([load.end, again.end])
    assert store.start == pytest.approx(timeline.bd[0].end)
    assert again.start == pytest.approx(store.end)
