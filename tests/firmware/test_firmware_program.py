"""Programs with fixed addresses: transfers, layer calls, what layers may do, and damaged programs."""

from __future__ import annotations

import ctypes
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from firmware_sim.instructions.disasm import LAYOUTS
from firmware_sim.instructions.instruction import Engine
from firmware_sim.wire import (
    DType,
    Program,
    ProgramTensor,
    Status,
    Step,
    StepOp,
    TensorKind,
    TensorRecord,
    TType,
)
from tests.support import firmware_harness as fh
from tests.support.examples import examples

PROBE = 2
CHECK = fh.param_check(PROBE)
PASS, FAIL, POLL, GDMA, READ, LIE, OPEN, _, OVERFLOW, GROW, _, L2 = range(12)
SHAPE = (2, 70, 6, 5)


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, executes=True)


def layer(
    what: int, opcode: StepOp = StepOp.GLOBAL, ins: tuple[int, ...] = (0,), outs: tuple[int, ...] = (1,)
) -> Step:
    return Step(
        opcode, ins, outs, PROBE, "probe_1", struct.pack("<i", what), param_check=fh.param_check(PROBE)
    )


def two_tensors(kind: TensorKind = TensorKind.NEURON, **record: Any) -> Program:
    program = Program()
    for addr in (fh.DDR, fh.DDR + 65536) if kind != TensorKind.LOCAL else (0, 65536):
        program.add(ProgramTensor(kind, TensorRecord(SHAPE, addr=addr, **record)))
    return program


def run(firmware: fh.Harness, program: Program, *steps: Step, record: bool = False) -> fh.Reply:
    program.steps += steps
    return firmware.run(program, record=record)


# ---- transfers ----


def tile(
    shape: tuple[int, ...], first: tuple[int, ...], extent: tuple[int, ...], addr: int, **more: Any
) -> ProgramTensor:
    record = TensorRecord(shape, addr=addr, processed=first, slice_shape=extent, **more)
    return ProgramTensor(TensorKind.LOCAL, record)


@pytest.mark.parametrize("dtype", [DType.FP32, DType.INT16, DType.UINT8])
@pytest.mark.parametrize("ttype", [TType.NEURON, TType.COEFF, TType.COEFF_NEURON])
def test_load_and_store_move_the_region(firmware: fh.Harness, dtype: DType, ttype: TType) -> None:
    rng = np.random.default_rng(3)
    source = firmware.array(fh.DDR, SHAPE, dtype.numpy_name)
    target = firmware.array(fh.DDR + 65536, SHAPE, dtype.numpy_name)
    source[...] = rng.integers(0, 100, SHAPE).astype(source.dtype)
    target[...] = 0
    program = two_tensors(dtype=dtype)
    p = program.add(tile(SHAPE, (1, 0, 2, 1), (1, 70, 3, 4), 4096, dtype=dtype, ttype=ttype))
    reply = run(firmware, program, Step(StepOp.LOAD, (0,), (p,)), Step(StepOp.STORE, (p,), (1,)))
    assert reply.status == 0, reply.text
    region = np.s_[1:2, 0:70, 2:5, 1:5]
    wanted = np.zeros_like(source)
    wanted[region] = source[region]
    assert np.array_equal(target, wanted)
    # In local memory: channel 69 is the second slot of lane 5, in the layout of its type.
    stride = 12 if ttype != TType.NEURON else -(-12 * dtype.itemsize // 128) * 128 // dtype.itemsize
    base = 5 * (512 << 10) + 4096 + stride * dtype.itemsize
    local = firmware.local[base : base + 12 * dtype.itemsize].view(dtype.numpy_name)
    assert np.array_equal(local.reshape(3, 4), source[1, 69, 2:5, 1:5])


def test_tensors_with_fewer_dimensions(firmware: fh.Harness) -> None:
    source, target = firmware.array(fh.DDR, (3, 7)), firmware.array(fh.DDR + 65536, (3, 7))
    source[...] = np.arange(21, dtype=np.float32).reshape(3, 7)
    target[...] = 0
    program = Program()
    for addr in (fh.DDR, fh.DDR + 65536):
        program.add(ProgramTensor(TensorKind.NEURON, TensorRecord((3, 7), addr=addr)))
    p = program.add(tile((3, 7), (1, 0), (2, 7), 0))
    assert run(firmware, program, Step(StepOp.LOAD, (0,), (p,)), Step(StepOp.STORE, (p,), (1,))).status == 0
    assert np.array_equal(target[1:], source[1:])
    assert not target[0].any()


@pytest.mark.parametrize("first", [0, 3, 64, 90])
@pytest.mark.parametrize("batches", [1, 2])
def test_tiles_move_into_some_channels_of_another(firmware: fh.Harness, first: int, batches: int) -> None:
    rng = np.random.default_rng(5)
    parts, whole = (batches, 70, 3, 5), (batches, 160, 3, 5)
    source, target = firmware.array(fh.DDR, parts), firmware.array(fh.DDR + 65536, whole)
    source[...] = rng.random(parts)
    target[...] = rng.random(whole)
    want = target.copy()
    want[:, first : first + 70] = source
    program = Program()
    program.add(ProgramTensor(TensorKind.NEURON, TensorRecord(parts, addr=fh.DDR)))
    program.add(ProgramTensor(TensorKind.NEURON, TensorRecord(whole, addr=fh.DDR + 65536)))
    p = program.add(tile(parts, (0, 0, 0, 0), parts, 0))
    q = program.add(tile(whole, (0, 0, 0, 0), whole, 4096))
    steps = (
        Step(StepOp.LOAD, (0,), (p,)),
        Step(StepOp.LOAD, (1,), (q,)),
        Step(StepOp.MOVE, (p,), (q,), channel=first),
        Step(StepOp.STORE, (q,), (1,)),
    )
    assert run(firmware, program, *steps).status == 0
    assert np.array_equal(target, want)
    program.steps.clear()
    reply = run(firmware, program, Step(StepOp.MOVE, (p,), (q,), channel=91))
    assert reply.status == Status.SHAPE and "is not part of" in reply.text


@pytest.mark.parametrize("elements", [1, 32767, 32768, 100_001])
def test_copy_of_any_size(firmware: fh.Harness, elements: int) -> None:
    source = firmware.array(fh.DDR, (elements,), "uint8")
    target = firmware.array(fh.DDR + (1 << 19), (elements,), "uint8")
    source[...] = np.random.default_rng(1).integers(0, 256, elements)
    target[...] = 0
    program = Program()
    for addr in (fh.DDR, fh.DDR + (1 << 19)):
        program.add(ProgramTensor(TensorKind.NEURON, TensorRecord((elements,), DType.UINT8, addr=addr)))
    assert run(firmware, program, Step(StepOp.COPY, (0,), (1,))).status == 0
    assert np.array_equal(target, source)
    assert not any(firmware.batches[0].gdma_site)  # no line of a kernel issued it


def test_transfers_in_parallel_sections_wait_for_the_start_only(firmware: fh.Harness) -> None:
    program = two_tensors()
    p = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 0))
    load = Step(StepOp.LOAD, (0,), (p,))
    steps = [load, Step(StepOp.PARALLEL_START), load, load, Step(StepOp.PARALLEL_END)]
    assert run(firmware, program, *steps, record=True).status == 0
    assert len(firmware.gdma) == 3
    program = two_tensors()
    reply = run(firmware, program, Step(StepOp.PARALLEL_START), record=True)
    assert reply.text == "the program ends inside a parallel section"


def test_waits_inside_a_section_name_earlier_steps(firmware: fh.Harness) -> None:
    program = two_tensors()
    p = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 0))
    q = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 4096))
    load, store = Step(StepOp.LOAD, (0,), (p,)), Step(StepOp.STORE, (q,), (1,))
    copy = Step(StepOp.LOCAL, (p,), (q,), 1, "double", bytes(4), param_check=fh.param_check(1))
    steps = [
        Step(StepOp.PARALLEL_START),
        load,
        Step(StepOp.WAIT, bd_after=1, gdma_after=0),
        copy,
        load,
        Step(StepOp.WAIT, bd_after=1, gdma_after=3),
        store,
        copy,
        Step(StepOp.PARALLEL_END),
    ]
    assert run(firmware, program, *steps, record=True).status == 0
    bd = LAYOUTS[Engine.BD].columns(np.frombuffer(b"".join(firmware.bd), np.uint32).reshape(-1, 32))
    gdma = LAYOUTS[Engine.GDMA].columns(np.frombuffer(b"".join(firmware.gdma), np.uint32).reshape(-1, 32))
    assert len(bd) % 2 == 0
    assert set(bd["cmd_id_gdma"].tolist()) == {1}  # the second load is not waited for
    assert gdma["eng0_sync_id"].tolist() == [0, 0, len(bd) // 2]
    for at, wait in ((2, Step(StepOp.WAIT, bd_after=2)), (2, Step(StepOp.WAIT, gdma_after=1 << 40))):
        program.steps.clear()
        reply = run(firmware, program, *steps[:at], wait, record=True)
        assert reply.status == Status.BAD_MESSAGE and "which is not an earlier one" in reply.text
    program.steps.clear()
    reply = run(firmware, program, load, Step(StepOp.WAIT), record=True)
    assert "waits outside a parallel section" in reply.text


def _waits(firmware: fh.Harness) -> list[int]:
    """Of each BD command: the GDMA command that it waits for."""
    words = np.frombuffer(b"".join(firmware.bd), np.uint32).reshape(-1, 32)
    waits: list[int] = LAYOUTS[Engine.BD].columns(words)["cmd_id_gdma"].tolist()
    return waits


def test_a_later_wait_for_an_earlier_step_takes_nothing_back(firmware: fh.Harness) -> None:
    program = two_tensors()
    p = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 0))
    q = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 4096))
    load = Step(StepOp.LOAD, (0,), (p,))
    waits = (Step(StepOp.WAIT, bd_after=2), Step(StepOp.WAIT, bd_after=1))
    copy = Step(StepOp.LOCAL, (p,), (q,), 1, "double", bytes(4), param_check=fh.param_check(1))
    ends = Step(StepOp.PARALLEL_START), Step(StepOp.PARALLEL_END)
    assert run(firmware, program, ends[0], load, load, *waits, copy, ends[1], record=True).status == 0
    assert set(_waits(firmware)) == {2}


def test_nobody_waits_for_commands_before_new_ids(firmware_library: Path) -> None:
    """When the queues are full all commands are done, and ids begin anew."""
    firmware = fh.Harness(firmware_library, capacity=4)
    program = two_tensors()
    p = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 0))
    q = program.add(tile(SHAPE, (0, 0, 0, 0), SHAPE, 4096))
    loads = [Step(StepOp.LOAD, (0,), (p,))] * 5
    copy = Step(StepOp.LOCAL, (p,), (q,), 1, "double", bytes(4), param_check=fh.param_check(1))
    ends = Step(StepOp.PARALLEL_START), Step(StepOp.PARALLEL_END)
    steps = (ends[0], *loads, Step(StepOp.WAIT, bd_after=4), copy, ends[1])
    assert run(firmware, program, *steps).status == 0
    assert [len(batch.gdma) for batch in firmware.batches][:2] == [4, 1]
    assert set(_waits(firmware)) == {0}
    program.steps.clear()
    steps = (ends[0], *loads, Step(StepOp.WAIT, bd_after=5), copy, ends[1])
    assert run(firmware, program, *steps).status == 0
    assert set(_waits(firmware)) == {1}


def test_what_a_local_function_loads_is_there_for_what_follows(firmware: fh.Harness) -> None:
    """Also inside a section, where nothing waits for transfers of the compiler's but what it says."""
    program = two_tensors(TensorKind.LOCAL)
    copy = Step(StepOp.LOCAL, (0,), (1,), 1, "double", bytes(4), param_check=fh.param_check(1))
    ends = Step(StepOp.PARALLEL_START), Step(StepOp.PARALLEL_END)
    steps = (ends[0], copy, layer(L2, StepOp.LOCAL), copy, ends[1])
    assert run(firmware, program, *steps, record=True).status == 0
    waits = _waits(firmware)
    half = len(waits) // 2
    assert waits == [0] * half + [1] * half


@pytest.mark.parametrize(
    ("first", "extent"),
    [((0, 0, 4, 0), (2, 70, 3, 5)), ((-1, 0, 0, 0), (1, 70, 6, 5)), ((0, 0, 0, 0), (2, 70, 0, 5))],
)
def test_tiles_outside_their_tensor(
    firmware: fh.Harness, first: tuple[int, ...], extent: tuple[int, ...]
) -> None:
    program = two_tensors()
    p = program.add(tile(SHAPE, first, extent, 0))
    assert run(firmware, program, Step(StepOp.LOAD, (0,), (p,))).status == Status.SHAPE


# ---- layer calls ----


def test_global_layers_see_whole_tensors(firmware: fh.Harness) -> None:
    program = two_tensors(slice_shape=(1, 1, 1, 1), processed=(1, 1, 1, 1))
    step = Step(StepOp.GLOBAL, (0,), (1,), PROBE, "p", struct.pack("<i", PASS), 0x1_0000_4000, 256, CHECK)
    assert run(firmware, program, step).status == 0
    seen = TensorRecord.decode(_bytes(firmware, "test_in"), host=b"")
    assert (seen.shape, seen.slice_shape, seen.processed) == (SHAPE, SHAPE, (0, 0, 0, 0))
    assert struct.unpack("<Q", _bytes(firmware, "test_buffer", 8)) == (0x1_0000_4000,)
    assert struct.unpack("<Q", _bytes(firmware, "test_buffer_size", 8)) == (256,)


def _bytes(firmware: fh.Harness, name: str, size: int = 0) -> bytes:
    """The bytes of an exported variable; a tpu_tensor_t as an fw_tensor."""
    raw = bytes((ctypes.c_char * (size or 160)).in_dll(firmware.lib, name))
    return (
        raw
        if size
        else raw[:144] + struct.pack("<I", 0xFFFF_FFFF) + raw[152:155] + b"\0" + raw[156:160] + bytes(4)
    )


def test_local_layers_see_tiles(firmware: fh.Harness) -> None:
    program = Program()
    program.add(tile(SHAPE, (0, 0, 2, 0), (2, 70, 3, 5), 256, slice_pad=(0, 0, 1, 0)))
    program.add(tile(SHAPE, (0, 0, 3, 0), (2, 70, 2, 5), 512))
    assert run(firmware, program, layer(PASS, StepOp.LOCAL)).status == 0
    into, out = (TensorRecord.decode(_bytes(firmware, n)) for n in ("test_in", "test_out"))
    assert (into.addr, into.processed, into.slice_pad) == (256, (0, 0, 2, 0), (0, 0, 1, 0))
    assert (out.addr, out.processed, out.slice_shape) == (512, (0, 0, 3, 0), (2, 70, 2, 5))


def test_layer_errors_name_layer_function_and_code(firmware: fh.Harness) -> None:
    reply = run(firmware, two_tensors(), layer(FAIL))
    assert reply.status == Status.LAYER
    assert reply.text == ("layer probe_1 (TPU_PROBE): global function returned -2 (BM_LAYER_PARAM_INVALID)")
    assert firmware.activity.value == b"layer probe_1 (TPU_PROBE), global function"


@pytest.mark.parametrize("what", [POLL, OPEN, GDMA])
def test_local_functions_leave_order_and_transfers_to_the_compiler(firmware: fh.Harness, what: int) -> None:
    reply = run(firmware, two_tensors(TensorKind.LOCAL), layer(what, StepOp.LOCAL))
    assert reply.status == Status.ASSERT
    name = {POLL: "okk_poll", OPEN: "okk_parallel_start", GDMA: "okk_gdma_32bit_cpy_S2L"}[what]
    assert reply.text.startswith(f"probe_1 (TPU_PROBE): {name}: ")


def test_local_functions_may_load_from_l2(firmware: fh.Harness) -> None:
    assert run(firmware, two_tensors(TensorKind.LOCAL), layer(L2, StepOp.LOCAL)).status == 0
    assert len(firmware.gdma) == 1


def test_global_functions_poll_and_do_not_restart_ids(firmware: fh.Harness) -> None:
    assert run(firmware, two_tensors(), layer(POLL), layer(GDMA), record=True).status == 0
    assert [b.reason for b in firmware.batches] == [fh.STEP, fh.STEP, fh.END]


def test_recording_tells_where_steps_end(firmware: fh.Harness) -> None:
    program = two_tensors()
    steps = Step(StepOp.PARALLEL_START), layer(GDMA), Step(StepOp.COPY, (0,), (1,)), Step(StepOp.PARALLEL_END)
    assert run(firmware, program, *steps, record=True).status == 0
    assert [(b.reason, len(b.gdma)) for b in firmware.batches] == [
        (fh.STEP, 0),
        (fh.STEP, 1),
        (fh.STEP, 1),
        (fh.STEP, 0),
        (fh.END, 0),
    ]
    recorded = firmware.gdma
    assert firmware.run(program).status == 0
    assert [b.reason for b in firmware.batches] == [fh.END]
    assert firmware.gdma == recorded


def test_global_functions_close_their_parallel_sections(firmware: fh.Harness) -> None:
    reply = run(firmware, two_tensors(), layer(OPEN))
    says = r"layer probe_1 \(TPU_PROBE\): global function returned inside a parallel section; it was opened.*"
    assert re.fullmatch(says, reply.text)


def test_layers_that_read_memory_cannot_be_recorded(firmware: fh.Harness) -> None:
    assert run(firmware, two_tensors(), layer(READ)).status == 0
    reply = run(firmware, two_tensors(), layer(READ), record=True)
    assert reply.status == Status.NOT_RECORDABLE
    assert reply.text.startswith("okk_global_mem_addr: probe_1 (TPU_PROBE) reads device memory while")


def test_broken_rules_in_layers_name_the_layer(firmware: fh.Harness) -> None:
    reply = run(firmware, two_tensors(), layer(OVERFLOW), record=True)
    assert reply.status == Status.ASSERT
    assert reply.text.startswith("probe_1 (TPU_PROBE): okk_bdc_add_C: 70000 in bd.res0_w is over its limit")


def test_shape_function_and_backward_methods_must_agree(firmware: fh.Harness) -> None:
    reply = run(firmware, two_tensors(TensorKind.LOCAL), layer(LIE, StepOp.LOCAL))
    assert reply.status == Status.SHAPE
    assert "extent [1, 0, 99, 0] at [0, 0, 0, 0]; the compiler asked for [2, 70, 6, 5] at" in reply.text


@pytest.mark.parametrize("opcode", [StepOp.GLOBAL, StepOp.LOCAL])
def test_layers_that_the_firmware_has_not_are_refused(firmware: fh.Harness, opcode: StepOp) -> None:
    for op_type in (3, -1):
        reply = run(firmware, two_tensors(), replace(layer(PASS, opcode), op_type=op_type))
        assert reply.status == Status.LAYER
        assert reply.text == (
            f"layer probe_1: this firmware has no layer with op_type {op_type}; "
            "it has TPU_CROP (0), TPU_DOUBLE (1), TPU_PROBE (2)"
        )


@pytest.mark.parametrize("opcode", [StepOp.GLOBAL, StepOp.LOCAL])
def test_layers_whose_parameters_changed_are_refused(firmware: fh.Harness, opcode: StepOp) -> None:
    step = layer(PASS, opcode)
    for changed in (replace(step, param_check=CHECK ^ 1), replace(step, param=bytes(8))):
        reply = run(firmware, two_tensors(), changed)
        assert reply.status == Status.LAYER
        assert reply.text == (
            "layer probe_1 (TPU_PROBE): its parameter struct has changed since the program was compiled; "
            "compile it again"
        )
    assert not firmware.batches  # nothing of a refused program runs


def test_built_in_layers_are_those_of_the_firmware(firmware: fh.Harness) -> None:
    step = Step(StepOp.GLOBAL, (0,), (1,), 0x10001, "c", struct.pack("<fii", 1.0, 0, 0), param_check=77)
    assert run(firmware, two_tensors(), step).status == 0
    expand = Step(StepOp.LOCAL, (0,), (1,), 0x10000, "e", struct.pack("<i", 0))
    reply = run(firmware, two_tensors(TensorKind.LOCAL), expand)
    assert reply.text == "layer e (TPU_EXPAND_DIMS): local function returned -1 (BM_LAYER_NOT_SUPPORTED)"
    reply = run(firmware, two_tensors(), replace(step, op_type=0x1FFFF))
    assert reply.text.startswith(
        "layer c: this firmware has no built-in layer with op_type 131071: it was built"
    )


@pytest.mark.slow
def test_many_layers_are_counted(tmp_path: Path) -> None:
    """The list in the message ends where the reply has no more room for it."""
    source = tmp_path / "many.c"
    rows = "".join(f'{{{i}, 4, 1, "TPU_LAYER_{"X" * 40}_{i}"}}, ' for i in range(50))
    source.write_text(
        f'#include "bmcompiler_tpulayer_device.h"\nconst tpu_layer_entry_t bmtpu_layers[] = {{{rows}'
        "{-1, 0, 0, 0}};\nconst unsigned int bmtpu_layer_count = 50;\n"
    )
    fh.build(tmp_path, source)
    firmware = fh.Harness(tmp_path / fh.LIBRARY)
    reply = run(firmware, two_tensors(), replace(layer(PASS), op_type=99))
    assert reply.text.endswith(f"TPU_LAYER_{'X' * 40}_3 (3) and 46 more")


# ---- damaged programs ----


def test_steps_must_fit_the_places_of_their_tensors(firmware: fh.Harness) -> None:
    for opcode in (StepOp.LOCAL, StepOp.LOAD, StepOp.STORE):
        reply = run(
            firmware, two_tensors(), Step(opcode, (0,), (1,), PROBE, "x", bytes(4), param_check=CHECK)
        )
        assert reply.status == Status.BAD_MESSAGE
        assert "is in the wrong memory for this step" in reply.text
    assert run(firmware, two_tensors(TensorKind.LOCAL), layer(PASS)).status == Status.BAD_MESSAGE
    assert run(firmware, two_tensors(), layer(PASS, ins=(7,))).status == Status.BAD_MESSAGE
    assert run(firmware, two_tensors(), layer(PASS, ins=(0,) * 17)).status == Status.BAD_MESSAGE


@examples(400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=3))
def test_changed_programs_end_in_a_status(firmware: fh.Harness, changes: list[tuple[int, int]]) -> None:
    program = two_tensors()
    p = program.add(tile(SHAPE, (0, 0, 2, 0), (2, 70, 3, 5), 0))
    program.steps += [Step(StepOp.LOAD, (0,), (p,)), layer(PASS), layer(PASS, StepOp.LOCAL, (p,), (p,))]
    program.steps += [Step(StepOp.STORE, (p,), (1,)), Step(StepOp.COPY, (0,), (1,))]
    data = bytearray(program.encode())
    for at, value in changes:
        data[at % len(data)] = value

    class Damaged(Program):
        def encode(self) -> bytes:
            return bytes(data)

    reply = firmware.run(Damaged(), record=True)
    assert reply.status in set(Status)
    assert reply.status == 0 or reply.text


def test_every_cut_of_a_program_is_refused(firmware: fh.Harness) -> None:
    program = two_tensors()
    program.steps.append(layer(PASS))
    data = program.encode()

    class Cut(Program):
        size = 0

        def encode(self) -> bytes:
            return data[: self.size]

    cut = Cut()
    for cut.size in range(len(data)):
        assert firmware.run(cut).status == Status.BAD_MESSAGE, cut.size
