"""Every range that the firmware checks of programs, at its limit: the last value is taken, the next refused.

Programs are changed by the names of the wire structs.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from firmware_sim import chip, wire
from firmware_sim.wire import (
    DType,
    Program,
    ProgramTensor,
    RunMode,
    Step,
    StepOp,
    StoreMode,
    TensorKind,
    TensorRecord,
    TType,
)
from tests.support import firmware_harness as fh
from tests.support.wire_limits import changed, check, member, run_bytes

DDR_BYTES = 1 << 20
DDR_END = chip.DDR_BASE + DDR_BYTES
PASS, OPEN, L2 = 0, 6, 11  # of the fixture's probe layer
PROBE = 2
SHAPE = (2, 70, 6, 5)


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, ddr_bytes=DDR_BYTES)


# ---- fixed programs ----


def probe(what: int, number: int = 0, opcode: StepOp = StepOp.GLOBAL, **more: Any) -> Step:
    given = {"inputs": (0,), "outputs": (1,), **more}
    param = struct.pack("<i", what | number << 8)
    return Step(opcode, op_type=PROBE, name="p", param=param, param_check=fh.param_check(PROBE), **given)


def tile(first: Sequence[int] = (0,) * 4, extent: Sequence[int] = SHAPE, **more: Any) -> ProgramTensor:
    given = {"shape": SHAPE, "processed": tuple(first), "slice_shape": tuple(extent), **more}
    return ProgramTensor(TensorKind.LOCAL, TensorRecord(**given))


def fixed(*steps: Step, tiles: Sequence[ProgramTensor] = ()) -> Program:
    """Two tensors in DDR and the tiles."""
    program = Program(steps=list(steps))
    for addr in (chip.DDR_BASE, chip.DDR_BASE + 65536):
        program.add(ProgramTensor(TensorKind.NEURON, TensorRecord(SHAPE, addr=addr)))
    program.tensors += tiles
    return program


STEPS = wire.PROGRAM.size + 3 * (wire.PROGRAM_TENSOR.size + wire.TENSOR.size)  # of `whole`


def whole() -> bytes:
    return fixed(probe(PASS), tiles=[tile()]).encode()


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("magic", ((-1, "this is not a program"), (0, ""), (1, "this is not a program"))),
        ("version", ((-1, "version 2"), (0, ""), (1, "version 4"))),
        ("data_bytes", ((-1, ""), (0, ""), (1, "the program's data"))),
        ("data_offset", ((1, "the program's data"), (8, "the program's data"))),
    ],
)
def test_program_headers(firmware: fh.Harness, name: str, steps: Sequence[tuple[int, str]]) -> None:
    at, form = member("fw_program", name)
    data = whole()
    if name == "data_bytes":
        data = changed(data + bytes(1), 0, "fw_program", name, form.unpack_from(data, at)[0] + 1)
    for step, says in steps:
        value = form.unpack_from(data, at)[0] + step
        check(run_bytes(firmware, changed(data, 0, "fw_program", name, value)), says, (name, step))


@pytest.mark.parametrize(("name", "size"), [("tensor_offset", 3 * 184), ("step_offset", 56)])
def test_sections_end_with_the_program(firmware: fh.Harness, name: str, size: int) -> None:
    data = whole()
    data += bytes(-len(data) % 8)
    at, form = member("fw_program", name)
    begin = form.unpack_from(data, at)[0]
    moved = data + data[begin : begin + size]
    for offset, says in (
        (begin, ""),
        (begin + 4, "not inside"),
        (len(data), ""),
        (len(data) + 4, "not inside"),
        (len(data) + 8, "not inside"),
    ):
        check(run_bytes(firmware, changed(moved, 0, "fw_program", name, offset)), says, offset)


def test_numbers_of_a_step(firmware: fh.Harness) -> None:
    data = whole()
    data += bytes(1)  # a name's end as the last byte
    data = changed(data, 0, "fw_program", "data_bytes", int.from_bytes(data[28:32], "little") + 1)
    last = int.from_bytes(data[28:32], "little")
    for name, number, says in (
        ("opcode", 0, "unknown opcode 0"),
        ("opcode", StepOp.GLOBAL, ""),
        ("opcode", max(StepOp) + 1, "unknown opcode 11"),
        ("name_offset", last - 1, ""),
        ("name_offset", last, "its name are not inside"),
        ("param_offset", 4, "not a multiple of 8"),
        ("param_offset", (last - 4) // 8 * 8, ""),
        ("param_offset", (last - 4) // 8 * 8 + 8, "its parameters are not inside"),
        ("in_offset", last - 4, ""),
        ("in_offset", last - 3, "its inputs are not inside"),
        ("out_offset", last - 3, "its outputs are not inside"),
    ):
        check(run_bytes(firmware, changed(data, STEPS, "fw_step", name, number)), says, (name, number))
    unended = data[:-1] + b"x"
    check(run_bytes(firmware, changed(unended, STEPS, "fw_step", "name_offset", last - 1)), "no end", "name")


def test_tensors_of_a_step(firmware: fh.Harness) -> None:
    for count, says in ((15, ""), (16, ""), (17, "has 17 inputs; at most 16")):
        program = fixed(probe(PASS, inputs=(0,) * count))
        check(firmware.run(program), says, count)
    for count, says in ((15, ""), (16, ""), (17, "has 17 outputs; at most 16")):
        program = fixed(tiles=[ProgramTensor(TensorKind.NEURON, TensorRecord(SHAPE))] * 17)
        program.steps = [probe(PASS, outputs=tuple(range(1, 1 + count)))]
        check(firmware.run(program), says, count)
    for index, says in ((0, ""), (1, ""), (2, "inputs name tensor 2 of 2")):
        check(firmware.run(fixed(probe(PASS, inputs=(index,)))), says, index)
    for outputs, says in (((0, 1), ""), ((1, 1), "makes tensor 1 twice")):
        check(firmware.run(fixed(probe(PASS, outputs=outputs))), says, outputs)
    for ins, outs, says in (((0,), (1,), ""), ((0, 0), (1,), "2 tensors to 1"), ((0,), (), "1 tensors to 0")):
        check(firmware.run(fixed(Step(StepOp.COPY, ins, outs))), says, (ins, outs))


def test_kinds_of_tensors(firmware: fh.Harness) -> None:
    for kind, says in ((5, ""), (6, "tensor 0 has the unknown kind 6")):
        data = changed(whole(), wire.PROGRAM.size, "fw_program_tensor", "kind", kind)
        data = changed(data, 0, "fw_program", "step_count", 0)
        check(run_bytes(firmware, data), says, kind)


def test_places_of_tensors(firmware: fh.Harness) -> None:
    """What a local function reads lies in local memory or in L2, or is the values of a shape."""
    l2 = ProgramTensor(TensorKind.L2, TensorRecord(SHAPE, addr=chip.L2_BASE))
    values = ProgramTensor(TensorKind.NEURON, TensorRecord((2,), DType.INT32, TType.NEURON_SHAPE))
    wrong = "is in the wrong memory for this step"
    for opcode, source, target, says in (
        (StepOp.LOCAL, 2, 2, ""),
        (StepOp.LOCAL, 3, 2, ""),
        (StepOp.LOCAL, 4, 2, ""),
        (StepOp.LOCAL, 0, 2, wrong),
        (StepOp.LOCAL, 2, 0, wrong),
        (StepOp.LOCAL, 2, 3, wrong),
        (StepOp.GLOBAL, 3, 1, ""),
        (StepOp.GLOBAL, 4, 1, ""),
        (StepOp.GLOBAL, 2, 1, wrong),
        (StepOp.GLOBAL, 0, 2, wrong),
        (StepOp.LOAD, 3, 2, ""),
        (StepOp.LOAD, 2, 2, wrong),
        (StepOp.STORE, 3, 1, wrong),
    ):
        step = probe(PASS, opcode=opcode, inputs=(source,), outputs=(target,))
        check(firmware.run(fixed(step, tiles=[tile(), l2, values])), says, (opcode, source, target))


def test_counts_of_inputs_and_outputs(firmware: fh.Harness) -> None:
    tensor = TensorRecord((8,), addr=chip.DDR_BASE)
    for ins, outs, says in (
        (1, 1, ""),
        (0, 1, "gives 0 and 1"),
        (1, 0, "gives 1 and 0"),
        (1, 2, "gives 1 and 2"),
    ):
        program = Program(in_num=1, out_num=1)
        reply = firmware.run(program, RunMode.DYNAMIC, [tensor] * ins, [tensor] * outs, (chip.DDR_BASE, 4096))
        check(reply, says, (ins, outs))


def test_modes(firmware: fh.Harness) -> None:
    data = Program().encode()
    for mode, says in ((0, ""), (1, ""), (2, "unknown program mode 2")):
        check(run_bytes(firmware, data, mode), says, mode)


def load(**changes: Any) -> Program:
    return fixed(Step(StepOp.LOAD, (0,), (2,)), tiles=[tile(**changes)])


def test_regions_of_tiles(firmware: fh.Harness) -> None:
    for axis, size in enumerate(SHAPE):
        for first, extent, taken in (
            (0, size, True),
            (0, size + 1, False),
            (1, size - 1, True),
            (1, size, False),
            (size - 1, 1, True),
            (size, 1, False),
            (0, 1, True),
            (0, 0, False),
            (-1, 1, False),
        ):
            at, extents = [0] * 4, list(SHAPE)
            at[axis], extents[axis] = first, extent
            reply = firmware.run(load(first=at, extent=extents))
            check(reply, "" if taken else f"dimension {axis}: elements", (axis, first, extent))
        shape = list(SHAPE)
        shape[axis] += 1
        check(firmware.run(load(shape=tuple(shape))), f"dimension {axis}: elements", shape)


def test_layouts_of_tiles(firmware: fh.Harness) -> None:
    says = "tiles have up to 4 dimensions, and their tensor's type and store mode"
    for changes, expected in (
        ({}, ""),
        ({"store_mode": StoreMode.N2}, "a store mode that its data type does not have"),
        ({"store_mode": StoreMode.N2, "dtype": DType.INT16}, says),
        ({"dtype": DType.INT32}, says),
        ({"shape": (*SHAPE, 1), "first": (0,) * 5, "extent": (*SHAPE, 1)}, says),
    ):
        check(firmware.run(load(**changes)), expected, changes)
    for record in (TensorRecord((*SHAPE, 1)), TensorRecord(SHAPE, DType.INT16)):
        program = load()
        program.tensors[0] = ProgramTensor(TensorKind.NEURON, record)
        check(firmware.run(program), says, record)


def test_tiles_of_whole_words(firmware: fh.Harness) -> None:
    """In 4N a tile begins at a word and ends at one, or where the batches end."""
    shape = (6, *SHAPE[1:])
    packed = {"dtype": DType.INT8, "store_mode": StoreMode.N4}
    for first, batches, taken in (
        *((0, 6, True), (0, 4, True), (4, 2, True), (0, 3, False), (0, 5, False)),
        *((1, 5, False), (3, 1, False), (4, 1, False), (5, 1, False)),
    ):
        program = load(shape=shape, first=(first, 0, 0, 0), extent=(batches, *SHAPE[1:]), **packed)
        record = TensorRecord(shape, DType.INT8, store_mode=StoreMode.N4, addr=chip.DDR_BASE)
        program.tensors[0] = ProgramTensor(TensorKind.NEURON, record)
        check(firmware.run(program), "" if taken else "do not fill words of 4", (first, batches))


def test_scales(firmware: fh.Harness) -> None:
    """Positive numbers, of integers of 8 and 16 bits."""
    for dtype, scale, says in (
        (DType.INT8, 0.5, ""),
        (DType.UINT16, 1e-30, ""),
        (DType.INT8, -0.5, "a scale that is not a positive number"),
        (DType.INT8, float("inf"), "a scale that is not a positive number"),
        (DType.INT8, float("nan"), "a scale that is not a positive number"),
        (DType.FP32, 0.5, "a scale, which only integers of 8 and 16 bits have"),
        (DType.INT32, 0.5, "a scale, which only integers of 8 and 16 bits have"),
    ):
        program = load(dtype=dtype)
        program.tensors[0] = ProgramTensor(TensorKind.NEURON, TensorRecord(SHAPE, dtype, scale=scale))
        check(firmware.run(program), says, (dtype, scale))


def test_tiles_in_another(firmware: fh.Harness) -> None:
    def move(channel: int = 0, **part: Any) -> fh.Reply:
        whole = tile(shape=(2, 160, 6, 5), extent=(2, 160, 6, 5))
        step = Step(StepOp.MOVE, (2,), (3,), channel=channel)
        return firmware.run(fixed(step, tiles=[tile(**part), whole]))

    for channel, says in ((89, ""), (90, ""), (91, "is not part of"), (1 << 40, "is not part of")):
        check(move(channel), says, channel)
    for channels, says in ((0, "is not part of"), (1, ""), (159, ""), (160, ""), (161, "is not part of")):
        check(move(shape=(2, 200, 6, 5), extent=(2, channels, 6, 5)), says, channels)
    for axis in (0, 2, 3):
        for step in (-1, 1):
            extent = list(SHAPE)
            extent[axis] += step
            check(move(shape=(9, 70, 9, 9), extent=extent), "is not part of", extent)
    for changes in ({"dtype": DType.INT32}, {"dtype": DType.INT16, "store_mode": StoreMode.N2}):
        check(move(**changes), "is not part of", changes)
    check(move(shape=(*SHAPE, 1), first=(0,) * 5, extent=(*SHAPE, 1)), "is not part of", "5 dimensions")


@pytest.mark.parametrize("engine", ["bd_after", "gdma_after"])
def test_steps_that_are_waited_for(firmware: fh.Harness, engine: str) -> None:
    for earlier, says in ((0, ""), (1, ""), (2, "step 2 waits for step 2, which is not an earlier one")):
        after = {"bd_after": 0, "gdma_after": 0, engine: earlier}
        wait = Step(StepOp.WAIT, bd_after=after["bd_after"], gdma_after=after["gdma_after"])
        steps = (Step(StepOp.PARALLEL_START), Step(StepOp.LOAD, (0,), (2,)), wait)
        program = fixed(*steps, Step(StepOp.PARALLEL_END), tiles=[tile()])
        check(firmware.run(program, record=True), says, earlier)


def test_local_functions_load_from_l2_only(firmware: fh.Harness) -> None:
    for number, says in (
        (-1, "only copies from L2"),
        (0, ""),
        (chip.L2_BYTES - 1, ""),
        (chip.L2_BYTES, "only copies from L2"),
    ):
        step = probe(L2, number, StepOp.LOCAL, inputs=(2,), outputs=(3,))
        check(firmware.run(fixed(step, tiles=[tile(), tile()])), says, number)


def test_copies(firmware: fh.Harness) -> None:
    for shape, dtype, says in (
        ((4200,), DType.FP32, ""),
        ((4200,), DType.INT32, ""),
        ((4199,), DType.FP32, "copies 4200 elements of 4 bytes to 4199 of 4 bytes"),
        ((4201,), DType.FP32, "copies 4200 elements of 4 bytes to 4201 of 4 bytes"),
        ((4200,), DType.INT16, "copies 4200 elements of 4 bytes to 4200 of 2 bytes"),
    ):
        program = fixed(Step(StepOp.COPY, (0,), (1,)))
        program.tensors[1] = ProgramTensor(TensorKind.NEURON, TensorRecord(shape, dtype, addr=chip.DDR_BASE))
        check(firmware.run(program), says, (shape, dtype))


# ---- dynamic programs ----


def dynamic(*steps: Step, **last: Any) -> Program:
    """x [8] -> y [8] by the steps."""
    program = Program(steps=list(steps) or [probe(PASS)], in_num=1, out_num=1)
    given = {"max_bytes": 32, **last}
    for kind in (TensorKind.INPUT, TensorKind.OUTPUT):
        program.add(ProgramTensor(kind, TensorRecord((8,)), **given))
    return program


def run_dynamic(
    firmware: fh.Harness, program: Program, x: TensorRecord | None = None, pool: tuple[int, int] | None = None
) -> fh.Reply:
    x = x or TensorRecord((8,), addr=chip.DDR_BASE)
    y = TensorRecord((1,), addr=chip.DDR_BASE + 4096)
    return firmware.run(program, RunMode.DYNAMIC, [x], [y], pool or (chip.DDR_BASE + 65536, 1 << 16))


def test_global_functions_of_dynamic_nets_close_their_parallel_sections(firmware: fh.Harness) -> None:
    says = r"^layer p \(TPU_PROBE\): global function returned inside a parallel section; it was opened \["
    check(run_dynamic(firmware, dynamic(probe(OPEN))), says, "open")
    check(run_dynamic(firmware, dynamic()), "", "closed")


def test_inputs_up_to_the_compiled_maximum(firmware: fh.Harness) -> None:
    compiled = "compiled for at most"
    for shape, says in (((7,), ""), ((8,), ""), ((9,), compiled), ((2, 4), compiled)):
        x = TensorRecord(shape, addr=chip.DDR_BASE)
        check(run_dynamic(firmware, dynamic(), x), says, shape)
    check(run_dynamic(firmware, dynamic(), TensorRecord((8,), DType.INT32)), compiled, "type")
    for most, says in ((31, compiled), (32, ""), (33, "")):
        check(run_dynamic(firmware, dynamic(max_bytes=most)), says, most)


def test_tensors_that_a_dynamic_program_names(firmware: fh.Harness) -> None:
    for index, says in ((0, ""), (1, "is input 1 of the net, which has fewer")):
        check(run_dynamic(firmware, dynamic(index=index)), says, index)
    for index, says in ((0, ""), (1, "is output 1 of the net, which has fewer")):
        program = dynamic()
        program.tensors[1] = ProgramTensor(TensorKind.OUTPUT, TensorRecord((8,)), index, max_bytes=32)
        check(run_dynamic(firmware, program), says, index)
    for alias, says in ((0, ""), (2, ""), (3, "shares the memory of tensor 3 of 3"), (wire.NONE, "")):
        program = dynamic(probe(PASS, outputs=(2,)))
        neuron = ProgramTensor(TensorKind.NEURON, TensorRecord((8,)), 0, 0, alias, 32)
        program.tensors.append(neuron)
        if alias == 2:
            says = "shares memory that does not exist yet"  # itself
        check(run_dynamic(firmware, program), says, alias)


def test_the_pool_of_neurons(firmware: fh.Harness) -> None:
    base = chip.DDR_BASE + 65536
    for begin, size, taken in (
        (base, 128, True),
        (base, 127, False),
        (base - 1, 129, True),  # from the next multiple of 128 on
        (base - 1, 128, False),
        (base + 1, 255, True),
        (base + 1, 254, False),
        (base, 0, False),
    ):
        program = dynamic(probe(PASS, outputs=(2,)))
        program.tensors.append(ProgramTensor(TensorKind.NEURON, TensorRecord((8,)), 0, 0, max_bytes=32))
        reply = run_dynamic(firmware, program, pool=(begin, size))
        check(reply, "" if taken else "needs 128 bytes more than", (begin, size))
    end = (1 << 64) - 1
    for size, says in ((end - base, ""), (end - base + 1, "the neuron memory ends behind the address space")):
        check(run_dynamic(firmware, dynamic(), pool=(base, size)), says, size)


@pytest.mark.parametrize("extra", [0, 1])
def test_work_buffers(firmware: fh.Harness, extra: int) -> None:
    for size, needs in ((127, 128), (128, 128), (129, 256)):
        program = dynamic(probe(PASS, buffer_bytes=size))
        pool = (chip.DDR_BASE + 65536, needs - extra)
        check(run_dynamic(firmware, program, pool=pool), f"needs {needs} bytes more" if extra else "", size)


def test_values_of_shape_tensors_lie_in_ddr(firmware: fh.Harness) -> None:
    for addr, says in (
        (chip.DDR_BASE - 4, "is not inside DDR"),
        (chip.DDR_BASE, ""),
        (chip.DDR_BASE + 2, "is not inside DDR"),
        (DDR_END - 32, ""),
        (DDR_END - 28, "is not inside DDR"),
        (DDR_END, "is not inside DDR"),
    ):
        program = dynamic()
        record = TensorRecord((8,), DType.INT32, TType.NEURON_SHAPE)
        for i, kind in enumerate((TensorKind.INPUT, TensorKind.OUTPUT)):
            program.tensors[i] = ProgramTensor(kind, record, max_bytes=32)
        check(run_dynamic(firmware, program, TensorRecord((8,), DType.INT32, addr=addr)), says, hex(addr))


def test_programs_in_ddr(firmware: fh.Harness) -> None:
    data = Program().encode()
    for addr, says in (
        (DDR_END - len(data), ""),
        (DDR_END - len(data) + 8, "is not inside DDR"),
        (chip.DDR_BASE, ""),
        (chip.DDR_BASE - 8, "is not inside DDR"),
    ):
        place = max(0, min(addr - chip.DDR_BASE, DDR_BYTES - len(data)))
        firmware.ddr[place : place + len(data)] = list(data)
        head = wire.RUN.pack(RunMode.FIXED, 0, 0, len(data), addr, chip.DDR_BASE, 0, 0)
        check(firmware.request(wire.Op.PROGRAM, [head]), says, hex(addr))
