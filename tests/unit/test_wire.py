"""firmware_sim/wire.py and fw_message.h describe the same bytes."""

from __future__ import annotations

import re
import struct
import subprocess

import pytest

from firmware_sim import chip, wire
from firmware_sim.wire import DType, Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from tests.support import firmware_harness as fh

HEADER = fh.SDK / "firmware" / "fw_message.h"

# The C struct, its format here, and its fields with the place of each in the format.
STRUCTS: dict[str, tuple[str, str]] = {
    "fw_request": (wire.REQUEST.format, "op bytes flags reserved"),
    "fw_reply": (wire.REPLY.format, "status bytes"),
    "fw_tensor": (
        "<QIi32s32s32s32sI4B",
        "addr dims elem_num shape slice_pad slice_shape processed host_offset "
        "ttype dtype store_mode reserved",
    ),
    "fw_info": (wire.INFO.format, "abi_version layer_count kernel_count reserved"),
    "fw_layer_info": (wire.LAYER_INFO.format, "op_type param_bytes param_hash name"),
    "fw_launch": ("<65s3sI", "name reserved arg_bytes"),
    "fw_layer_call": (wire.LAYER_CALL.format, "op_type param_bytes in_num out_num host_bytes reserved"),
    "fw_run": (
        wire.RUN.format,
        "mode in_num out_num program_bytes program_addr neuron_addr neuron_bytes coeff_addr",
    ),
    "fw_streams": (wire.STREAMS.format, "group_count reserved"),
    "fw_group": (wire.GROUP.format, "bd_addr gdma_addr bd_num gdma_num"),
    "fw_program_tensor": (
        wire.PROGRAM_TENSOR.format + "152s",
        "kind index last_step alias_of max_bytes tensor",
    ),
    "fw_step": (
        wire.STEP.format,
        "opcode op_type name_offset param_offset param_bytes in_offset in_num out_offset out_num param_check "
        "buffer_addr buffer_bytes",
    ),
    "fw_program": (
        wire.PROGRAM.format,
        "magic version tensor_count step_count tensor_offset step_offset data_offset data_bytes in_num "
        "out_num reserved64",
    ),
}


def places(fmt: str) -> list[int]:
    """The offset of each value of a little-endian format."""
    codes = re.findall(r"(\d*)([a-zA-Z])", fmt.lstrip("<"))
    singles: list[str] = []
    for count, code in codes:
        singles += [f"{count}{code}"] if code in "sx" else [code] * int(count or 1)
    return [struct.calcsize("<" + "".join(singles[:i])) for i in range(len(singles))]


@pytest.fixture(scope="module")
def c_offsets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """From the C compiler: for each struct its offsets, then its size."""
    folder = tmp_path_factory.mktemp("wire")
    lines = ["#include <stddef.h>", "#include <stdio.h>", f'#include "{HEADER}"', "int main(void) {"]
    for name, (_, fields) in STRUCTS.items():
        lines.append(f'    printf("{name}");')
        lines += [f'    printf(" %zu", offsetof({name}, {f}));' for f in fields.split()]
        lines.append(f'    printf(" %zu\\n", sizeof({name}));')
    lines += ["    return 0;", "}"]
    (folder / "sizes.c").write_text("\n".join(lines))
    compiler = next(iter(fh.compilers().values()))
    command = [*compiler, *fh.INCLUDES, "-o", str(folder / "sizes"), str(folder / "sizes.c")]
    subprocess.run(command, check=True, timeout=240)
    out = subprocess.run(
        [str(folder / "sizes")], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: [int(v) for v in row[1:]] for row in rows}


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_agree(name: str, c_offsets: dict[str, list[int]]) -> None:
    fmt, fields = STRUCTS[name]
    assert len(places(fmt)) == len(fields.split())
    assert [*places(fmt), struct.calcsize(fmt)] == c_offsets[name]


def test_the_formats_written_apart_here_are_those_of_wire_py() -> None:
    assert struct.calcsize(STRUCTS["fw_tensor"][0]) == wire.TENSOR.size
    assert struct.calcsize(STRUCTS["fw_launch"][0]) == wire.LAUNCH.size
    assert struct.calcsize(STRUCTS["fw_program_tensor"][0]) == wire.PROGRAM_TENSOR.size + wire.TENSOR.size


def c_numbers() -> dict[str, int]:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
    found = {n: int(v.rstrip("u"), 0) for n, v in re.findall(r"#define (FW_\w+) \(?(-?\w+)\)?", text)}
    for body in re.findall(r"enum \{(.*?)\}", text, re.S):
        found |= {n: int(v) for n, v in re.findall(r"(FW_\w+) = (\d+)", body)}
    return found


def test_numbers_agree() -> None:
    c = c_numbers()
    for prefix, values in (
        ("FW_OP_", wire.Op),
        ("FW_TENSOR_", TensorKind),
        ("FW_STEP_", StepOp),
        ("FW_MODE_", wire.RunMode),
    ):
        assert {n: v for n, v in c.items() if n.startswith(prefix)} == {
            prefix + v.name: int(v) for v in values
        }
    statuses = {n.removeprefix("FW_STATUS_"): v for n, v in c.items() if n.startswith("FW_STATUS_")}
    assert statuses == {s.name: int(s) for s in wire.Status if s <= -100}
    assert c["FW_ABI_VERSION"] == wire.ABI_VERSION
    assert c["FW_PROGRAM_MAGIC"] == wire.PROGRAM_MAGIC
    assert c["FW_PROGRAM_VERSION"] == wire.PROGRAM_VERSION
    assert c["FW_NONE"] == wire.NONE
    assert c["FW_NAME_BYTES"] == wire.NAME_BYTES
    assert c["FW_BUILTIN_OP_BASE"] == wire.BUILTIN_OP_BASE
    assert c["FW_FLAG_RECORD"] == wire.FLAG_RECORD
    assert c["FW_DIMS"] == chip.MAX_SHAPE_DIMS
    assert c["FW_MAX_TENSORS"] == chip.MAX_TENSORS


def test_tensor_records_round_trip() -> None:
    host = struct.pack("<3i", 7, 8, 9)
    record = TensorRecord(
        (1, 3),
        DType.INT32,
        wire.TType.NEURON_SHAPE,
        addr=0x1_2345_6780,
        slice_pad=(0, 1),
        slice_shape=(1, 2),
        processed=(0, 1),
        host_data=(7, 8, 9),
    )
    assert TensorRecord.decode(record.encode(0), host=host) == record


def test_programs_keep_their_parts_aligned() -> None:
    program = Program()
    program.add(ProgramTensor(TensorKind.COEFF, TensorRecord((3,), DType.INT32, host_data=(1, 2, 3))))
    program.steps.append(Step(StepOp.GLOBAL, (0,), (0,), 1, "odd", b"123"))
    program.steps.append(Step(StepOp.GLOBAL, (0,), (0,), 1, "x", b"1234567890"))
    data = program.encode()
    head = wire.PROGRAM.unpack_from(data)
    assert head[0] == wire.PROGRAM_MAGIC
    tensors, steps, section, size = head[4:8]
    assert (tensors % 8, steps % 8, section % 8) == (0, 0, 0)
    assert section + size == len(data)
    for i in range(2):
        step = wire.STEP.unpack_from(data, steps + i * wire.STEP.size)
        assert step[3] % 8 == 0
        name = data[section + step[2] :].split(b"\0")[0].decode()
        assert name == program.steps[i].name
        assert data[section + step[3] :][: step[4]] == program.steps[i].param
