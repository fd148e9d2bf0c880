"""Every range that the firmware checks, at its limit: the last value is taken and the next one refused.

The kernel API's are those of tests/support/api_limits.py; messages and programs are changed by the names of
the wire structs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from firmware_sim import chip, wire
from firmware_sim.wire import (
    DType,
    Program,
    ProgramTensor,
    RunMode,
    Status,
    Step,
    StepOp,
    StoreMode,
    TensorKind,
    TensorRecord,
    TType,
)
from firmware_sim.wire_structs import BY_NAME
from tests.support import firmware_harness as fh
from tests.support.api_limits import LOCAL_END, calls, usual_calls
from user_layers.encode.prototypes import Calls, functions

DDR_BYTES = 1 << 20
DDR_END = chip.DDR_BASE + DDR_BYTES
PASS, OPEN, L2, DIMS, DTYPE, VALUES = 0, 6, 11, 12, 13, 14  # of the fixture's probe layer
PROBE, DOUBLE = 2, 1
SHAPE = (2, 70, 6, 5)


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library, ddr_bytes=DDR_BYTES)


def check(reply: fh.Reply, says: str, what: object) -> None:
    """says: what the refusal says, "" where the request is to be taken."""
    if says:
        assert reply.status < 0 and re.search(says, reply.text), (what, says, reply)
    else:
        assert reply.status == 0, (what, reply.text)


# ---- the kernel API ----


def test_arguments_of_the_kernel_api(firmware: fh.Harness) -> None:
    commands = ("okk_bdc", "okk_gdma", "bm_atomic", "bm_local")
    issuing = {name for name in functions() if name.startswith(commands)}
    assert issuing == set(usual_calls())
    count = {True: 0, False: 0}
    for call in calls():
        reply = firmware.okk(call.function, call.args)
        check(reply, call.says, call)
        assert call.says == "" or reply.text.startswith(f"{call.function}: "), call
        count[call.says == ""] += 1
    assert min(count.values()) > 2000


@pytest.mark.parametrize(
    ("function", "argument", "first", "last"),
    [
        ("okk_local_mem_addr", "idx", 0, chip.NPU_NUM - 1),
        ("okk_local_mem_addr", "addr", 0, chip.LOCAL_BYTES - 1),
        ("okk_l2_sram_addr", "addr", chip.L2_BASE, chip.L2_BASE + chip.L2_BYTES - 1),
        (
            "okk_dtcm_addr",
            "addr",
            chip.DTCM_BASE + chip.DTCM_USER_OFFSET,
            chip.DTCM_BASE + chip.DTCM_USER_OFFSET + chip.DTCM_USER_BYTES - 1,
        ),
        ("okk_global_mem_addr", "addr", chip.DDR_BASE, DDR_END - 1),
    ],
)
def test_pointers_into_the_memories(
    firmware: fh.Harness, function: str, argument: str, first: int, last: int
) -> None:
    others = {name: 0 for _, name in functions()[function].parameters}
    starts = {}
    for value in (first - 1, first, first + 1, last - 1, last, last + 1):
        if value < 0:
            continue
        reply = firmware.okk(function, {**others, argument: value})
        check(reply, "" if first <= value <= last else f"0x{value:x}|NPU {value}|over the", value)
        if reply.status == 0:
            starts[value] = firmware.result()
    step = chip.LOCAL_BYTES if argument == "idx" else 1
    assert {pointer - value * step for value, pointer in starts.items()} == {starts[first] - first * step}


@pytest.mark.parametrize("which", [0, 1])
def test_command_ids(firmware: fh.Harness, which: int) -> None:
    def node(number: int, other: int = 0) -> dict[str, Any]:
        return {"node": [number, other, 0] if which == 0 else [other, number, 0]}

    for number in (65519, 65520):
        check(firmware.okk("okk_set_id_node", node(number)), "", number)
    check(firmware.okk("okk_set_id_node", node(65521)), "65521", which)
    for number, says in ((8, ""), (7, ""), (6, "go back behind")):
        both = Calls().call("okk_set_id_node", node(7, 7)).call("okk_set_id_node", node(number, 7))
        check(firmware.call_api(both), says, number)


@pytest.mark.parametrize(
    ("function", "args", "address"),
    [
        (
            "okk_bdc_32bit_cpy",
            {"shape": [65520, 1, 1, 1], "dst_stride": [1] * 4, "src_stride": [0] * 4, "src_addr": -4096},
            "dst_addr",
        ),
        (
            "okk_bdc_32bit_cpy",
            {"shape": [65520, 1, 1, 1], "dst_stride": [0] * 4, "src_stride": [1] * 4, "dst_addr": -4096},
            "src_addr",
        ),
        (
            "okk_gdma_32bit_cpy_S2L",
            {"shape": [65536, 1, 1, 1], "dst_stride": [1] * 4, "src_stride": [1] * 4, "src_addr": 1 << 32},
            "dst_addr",
        ),
    ],
)
def test_pieces_begin_inside_local_memory(
    firmware: fh.Harness, function: str, args: dict[str, Any], address: str
) -> None:
    """The second of two commands begins with the last word, or behind it."""
    args = {k: v + LOCAL_END if k.endswith("_addr") and v < 0 else v for k, v in args.items()}
    first = args["shape"][0] - 1
    names = [name for _, name in functions()[function].parameters]
    for begin, says in ((LOCAL_END - 4, ""), (LOCAL_END, "0x2000000")):
        given = {**args, address: begin - 4 * first}
        check(firmware.okk(function, {name: given[name] for name in names}), says, begin)
        assert len(firmware.bd) + len(firmware.gdma) == (2 if says == "" else 0)


def test_padded_rows_and_columns(firmware: fh.Harness) -> None:
    usual = usual_calls()["okk_bdc_max_pool2d"]
    for shape, padding, taken in (
        ([1, 1, 2047, 2], [0] * 4, True),
        ([1, 1, 2048, 2], [0] * 4, False),
        ([1, 1, 2, 2047], [0] * 4, True),
        ([1, 1, 2, 2048], [0] * 4, False),
        ([1, 1, 2017, 2], [15, 15, 0, 0], True),
        ([1, 1, 2018, 2], [15, 15, 0, 0], False),
        ([1, 1, 2, 2017], [0, 0, 15, 15], True),
        ([1, 1, 2, 2018], [0, 0, 15, 15], False),
        ([1, 1, (1 << 31) - 1, 2], [15, 15, 0, 0], False),
    ):
        args = {**usual, "input_shape": shape, "padding": padding}
        check(firmware.okk("okk_bdc_max_pool2d", args), "" if taken else "more than 2047", shape)


def test_pixels_of_converted_bytes(firmware: fh.Harness) -> None:
    for pixels, says in ((131_071, ""), (131_072, ""), (131_073, "131073 pixels of a channel")):
        addresses = {"dst_addr": 0, "src_addr": 4096, "work_addr": 8192, "shape": [1, 1, 1, pixels]}
        args = {**addresses, "is_signed": False, "is_aligned_layout": False}
        check(firmware.okk("okk_bdc_int8_to_fp32", args), says, pixels)


# ---- messages ----


def member(struct_name: str, name: str) -> tuple[int, struct.Struct]:
    """Where a member of a wire struct begins, and how it is packed."""
    codes = {"u64": "Q", "u32": "I", "i32": "i", "u8": "B", "char": "s", "pad": "x"}
    at = 0
    for m in BY_NAME[struct_name].members:
        if m.name == name:
            return at, struct.Struct(f"<{codes[m.kind]}")
        at += (
            BY_NAME[m.kind].form.size if m.kind in BY_NAME else m.count * struct.calcsize(f"<{codes[m.kind]}")
        )
    raise KeyError(name)


def changed(data: bytes, start: int, struct_name: str, name: str, value: int, index: int = 0) -> bytes:
    """The bytes with another number in the struct that begins at `start`; index: of an array's element."""
    at, form = member(struct_name, name)
    result = bytearray(data)
    form.pack_into(result, start + at + index * form.size, value)
    return bytes(result)


def test_request_headers(firmware: fh.Harness) -> None:
    query = wire.REQUEST.pack(wire.Op.QUERY, 0, 0, 0)
    for op in (0, max(wire.Op) + 1):
        check(firmware.raw(changed(query, 0, "fw_request", "op", op)), "unknown request", op)
    for flags, says in ((0, ""), (1, ""), (2, "unknown request flags 0x2")):
        check(firmware.raw(changed(query, 0, "fw_request", "flags", flags)), says, flags)
    for size, says in ((0, ""), (1, "announces 1 bytes and has 0")):
        check(firmware.raw(changed(query, 0, "fw_request", "bytes", size)), says, size)
    needed = len(firmware.raw(query).payload) + wire.REPLY.size
    assert firmware.raw(query, needed).status == 0
    assert firmware.raw(query, needed - 1).status == Status.NO_MEMORY


def test_names_of_kernels(firmware: fh.Harness) -> None:
    for length, says in ((63, "has no kernel x{63};"), (64, "has no kernel x{64};"), (65, "more than 64")):
        reply = firmware.request(wire.Op.LAUNCH, [struct.pack("<65s3xI", b"x" * length, 0)])
        check(reply, says, length)


def test_tensors_of_a_layer_call(firmware: fh.Harness) -> None:
    tensor = TensorRecord((3, 4)).encode()

    def ask(ins: int, outs: int) -> fh.Reply:
        head = wire.LAYER_CALL.pack(PROBE, 4, ins, outs, 0, 0)
        return firmware.request(wire.Op.SHAPE, [head, tensor * ins, bytes(4)])

    # The probe fills its first output only: what is asked of the second is an empty shape.
    for ins, says in ((15, ""), (16, ""), (17, "17 inputs and 1 outputs; at most 16")):
        check(ask(ins, 1), says, ins)
    for outs, says in ((16, ""), (17, "1 inputs and 17 outputs; at most 16")):
        check(ask(1, outs), says, outs)


def test_tensors_of_a_run(firmware: fh.Harness) -> None:
    program = Program().encode()
    for ins, outs, says in (
        (16, 0, ""),
        (0, 16, ""),
        (17, 0, "17 inputs and 0 outputs|at most 16"),
        (0, 17, "0 inputs and 17 outputs|at most 16"),
    ):
        head = wire.RUN.pack(RunMode.FIXED, ins, outs, len(program), 0, chip.DDR_BASE, 0, 0)
        tensors = TensorRecord((1,)).encode() * (ins + outs)
        check(firmware.request(wire.Op.PROGRAM, [head, tensors, program]), says, (ins, outs))


def test_boot(firmware: fh.Harness) -> None:
    platform = firmware.platform
    for name, good, bad in (
        ("abi_version", (wire.ABI_VERSION,), (wire.ABI_VERSION - 1, wire.ABI_VERSION + 1)),
        ("capacity", (1, firmware.capacity), (0,)),
    ):
        usual = getattr(platform, name)
        try:
            for value, status in (*((v, 0) for v in good), *((v, -1) for v in bad)):
                setattr(platform, name, value)
                assert firmware.boot() == status, (name, value)
        finally:
            setattr(platform, name, usual)
    assert firmware.boot() == 0


# ---- tensors ----


def tensor_limits() -> Iterator[tuple[str, int, int, str]]:
    """(member, index, number, what the refusal says)."""
    for dims, says in ((0, ""), (7, ""), (8, ""), (9, "has 9 dimensions; at most 8")):
        yield "dims", 0, dims, says
    for dtype, says in ((0, ""), (6, ""), (7, ""), (8, "unknown data type 8")):
        yield "dtype", 0, dtype, says
    for size, says in ((-1, r"the shape \[-1"), (0, r"the shape \[0"), (1, ""), (2, "")):
        yield "shape", 0, size, says
    most = (1 << 31) - 1
    for size, says in ((most // 2 - 1, ""), (most // 2, ""), (most // 2 + 1, "elements at most 2147483647")):
        yield "shape", 1, size, says  # beside 2
    for offset, says in ((0, ""), (4, ""), (5, "host data"), (8, ""), (12, "host data"), (16, "host data")):
        yield "host_offset", 0, offset, says


@pytest.mark.parametrize("where", ["message", "program"])
def test_numbers_of_a_tensor(firmware: fh.Harness, where: str) -> None:
    for name, index, number, says in tensor_limits():
        shape = (2, 1) if name in ("shape", "host_offset") else (1, 1, 1, 1)
        record = TensorRecord(shape).encode()
        record = changed(record, 0, "fw_tensor", name, number, index)
        if where == "message":
            head = wire.LAYER_CALL.pack(PROBE, 4, 1, 1, 16, 0)
            reply = firmware.request(wire.Op.SHAPE, [head, record, bytes(4), bytes(16)])
        else:
            program = Program()
            program.add(ProgramTensor(TensorKind.NEURON, TensorRecord(shape, host_data=(1, 2, 3, 4)[:2])))
            data = program.encode() + bytes(8)
            data = changed(data, 0, "fw_program", "data_bytes", 16)
            at = wire.PROGRAM.size + wire.PROGRAM_TENSOR.size
            reply = run_bytes(firmware, data[:at] + record + data[at + wire.TENSOR.size :])
        check(reply, says, (name, number))


@pytest.mark.parametrize(
    ("what", "values"),
    [
        (DIMS, ((7, ""), (8, ""), (9, "9 dimensions; at most 8"))),
        (DTYPE, ((6, ""), (7, ""), (8, "unknown data type 8"))),
        (VALUES, ((63, ""), (64, ""), (65, "holds 65 shape values; at most 64"))),
    ],
)
def test_what_a_shape_function_gives(
    firmware: fh.Harness, what: int, values: Sequence[tuple[int, str]]
) -> None:
    head = wire.LAYER_CALL.pack(PROBE, 4, 1, 1, 0, 0)
    for number, says in values:
        tensor = TensorRecord((1,)).encode()
        reply = firmware.request(wire.Op.SHAPE, [head, tensor, struct.pack("<i", what | number << 8)])
        check(reply, says, number)


# ---- programs ----


def run_bytes(firmware: fh.Harness, data: bytes, mode: int = RunMode.FIXED, record: bool = False) -> fh.Reply:
    head = wire.RUN.pack(mode, 0, 0, len(data), 0, chip.DDR_BASE, 1 << 19, 0)
    return firmware.request(wire.Op.PROGRAM, [head, b"", data], record=record)


def probe(what: int, number: int = 0, opcode: StepOp = StepOp.GLOBAL, **more: Any) -> Step:
    given = {"inputs": (0,), "outputs": (1,), **more}
    param = struct.pack("<i", what | number << 8)
    return Step(opcode, op_type=PROBE, name="p", param=param, param_check=fh.param_check(PROBE), **given)


def piece(first: Sequence[int] = (0,) * 4, extent: Sequence[int] = SHAPE, **more: Any) -> ProgramTensor:
    given = {"shape": SHAPE, "processed": tuple(first), "slice_shape": tuple(extent), **more}
    return ProgramTensor(TensorKind.LOCAL, TensorRecord(**given))


def fixed(*steps: Step, pieces: Sequence[ProgramTensor] = ()) -> Program:
    """Two tensors in DDR and the pieces."""
    program = Program(steps=list(steps))
    for addr in (chip.DDR_BASE, chip.DDR_BASE + 65536):
        program.add(ProgramTensor(TensorKind.NEURON, TensorRecord(SHAPE, addr=addr)))
    program.tensors += pieces
    return program


STEPS = wire.PROGRAM.size + 3 * (wire.PROGRAM_TENSOR.size + wire.TENSOR.size)  # of `whole`


def whole() -> bytes:
    return fixed(probe(PASS), pieces=[piece()]).encode()


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("magic", ((-1, "this is not a program"), (0, ""), (1, "this is not a program"))),
        ("version", ((-1, "version 0"), (0, ""), (1, "version 2"))),
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


@pytest.mark.parametrize(("name", "size"), [("tensor_offset", 3 * 176), ("step_offset", 56)])
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
        ("opcode", max(StepOp) + 1, "unknown opcode 10"),
        ("name_offset", last - 1, ""),
        ("name_offset", last, "its name are not inside"),
        ("param_offset", 4, "no multiple of 8"),
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
        program = fixed(pieces=[ProgramTensor(TensorKind.NEURON, TensorRecord(SHAPE))] * 17)
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
        check(firmware.run(fixed(step, pieces=[piece(), l2, values])), says, (opcode, source, target))


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
    return fixed(Step(StepOp.LOAD, (0,), (2,)), pieces=[piece(**changes)])


def test_regions_of_pieces(firmware: fh.Harness) -> None:
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


def test_layouts_of_pieces(firmware: fh.Harness) -> None:
    says = "pieces have up to 4 dimensions, 1N, and their tensor's type"
    for changes, expected in (
        ({}, ""),
        ({"store_mode": StoreMode.N2}, says),
        ({"dtype": DType.INT32}, says),
        ({"shape": (*SHAPE, 1), "first": (0,) * 5, "extent": (*SHAPE, 1)}, says),
    ):
        check(firmware.run(load(**changes)), expected, changes)
    for record in (TensorRecord((*SHAPE, 1)), TensorRecord(SHAPE, store_mode=StoreMode.N4)):
        program = load()
        program.tensors[0] = ProgramTensor(TensorKind.NEURON, record)
        check(firmware.run(program), says, record)


def test_pieces_in_another(firmware: fh.Harness) -> None:
    def move(channel: int = 0, **part: Any) -> fh.Reply:
        whole = piece(shape=(2, 160, 6, 5), extent=(2, 160, 6, 5))
        step = Step(StepOp.MOVE, (2,), (3,), channel=channel)
        return firmware.run(fixed(step, pieces=[piece(**part), whole]))

    for channel, says in ((89, ""), (90, ""), (91, "is not part of"), (1 << 40, "is not part of")):
        check(move(channel), says, channel)
    for channels, says in ((0, "is not part of"), (1, ""), (159, ""), (160, ""), (161, "is not part of")):
        check(move(shape=(2, 200, 6, 5), extent=(2, channels, 6, 5)), says, channels)
    for axis in (0, 2, 3):
        for step in (-1, 1):
            extent = list(SHAPE)
            extent[axis] += step
            check(move(shape=(9, 70, 9, 9), extent=extent), "is not part of", extent)
    for changes in ({"dtype": DType.INT32}, {"store_mode": StoreMode.N2}):
        check(move(**changes), "is not part of", changes)
    check(move(shape=(*SHAPE, 1), first=(0,) * 5, extent=(*SHAPE, 1)), "is not part of", "5 dimensions")


@pytest.mark.parametrize("engine", ["bd_after", "gdma_after"])
def test_steps_that_are_waited_for(firmware: fh.Harness, engine: str) -> None:
    for earlier, says in ((0, ""), (1, ""), (2, "step 2 waits for step 2, which is not an earlier one")):
        after = {"bd_after": 0, "gdma_after": 0, engine: earlier}
        wait = Step(StepOp.WAIT, bd_after=after["bd_after"], gdma_after=after["gdma_after"])
        steps = (Step(StepOp.PARALLEL_START), Step(StepOp.LOAD, (0,), (2,)), wait)
        program = fixed(*steps, Step(StepOp.PARALLEL_END), pieces=[piece()])
        check(firmware.run(program, record=True), says, earlier)


def test_local_functions_load_from_l2_only(firmware: fh.Harness) -> None:
    for number, says in (
        (-1, "only copies from L2"),
        (0, ""),
        (chip.L2_BYTES - 1, ""),
        (chip.L2_BYTES, "only copies from L2"),
    ):
        step = probe(L2, number, StepOp.LOCAL, inputs=(2,), outputs=(3,))
        check(firmware.run(fixed(step, pieces=[piece(), piece()])), says, number)


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


def test_global_functions_close_their_parallel_sections_in_dynamic_nets_too(firmware: fh.Harness) -> None:
    says = r"^layer p \(TPU_PROBE\): global function returned inside a parallel section$"
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
