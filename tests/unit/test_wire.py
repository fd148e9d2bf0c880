"""firmware_sim/wire.py and fw_wire.h describe the same bytes."""

from __future__ import annotations

import enum
import re
import struct
import subprocess
from typing import Any

import pytest

from firmware_sim import wire, wire_c
from firmware_sim.wire import DType, Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord
from firmware_sim.wire_structs import BY_NAME, OPERANDS, RECORDS, Record
from tests.support import firmware_harness as fh

HEADER = fh.SDK / "generated" / "fw_wire.h"


def test_the_header_is_up_to_date() -> None:
    assert HEADER.read_text() == wire_c.c_header(), "run python -m user_layers.codegen.regenerate"


@pytest.mark.parametrize(
    ("prefix", "suffix", "codes"),
    [("DTYPE_", "", wire.DType), ("BMNET_", "", wire.TType), ("STORE_MODE_", "N", wire.StoreMode)],
)
def test_codes_of_tensors_are_those_of_the_layer_api(
    prefix: str, suffix: str, codes: type[enum.IntEnum]
) -> None:
    text = (fh.SDK / "include" / "bmcompiler_tpulayer_device.h").read_text()
    in_c = {name: int(value) for name, value in re.findall(rf"\b{prefix}(\w+) = (\d+)", text)}
    names = {code.name if not suffix else code.name[1:] + suffix: code.value for code in codes}
    assert in_c == names


def offsets(record: Record) -> list[int]:
    """Of each member, then the size: what Python packs by."""
    found, at = [], 0
    for m in record.members:
        found.append(at)
        nested = BY_NAME.get(m.kind)
        one = Record("one", (m,))
        at += nested.form.size if nested is not None else one.form.size
    return [*found, at]


@pytest.fixture(scope="module")
def c_offsets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """From the C compiler: for each struct its offsets, then its size."""
    folder = tmp_path_factory.mktemp("wire")
    lines = ["#include <stddef.h>", "#include <stdio.h>", f'#include "{HEADER}"', "int main(void) {"]
    for record in RECORDS:
        lines.append(f'    printf("{record.name}");')
        lines += [f'    printf(" %zu", offsetof({record.name}, {m.name}));' for m in record.members]
        lines.append(f'    printf(" %zu\\n", sizeof({record.name}));')
    lines += ["    return 0;", "}"]
    (folder / "sizes.c").write_text("\n".join(lines))
    compiler = next(iter(fh.compilers().values()))
    command = [*compiler, *fh.INCLUDES, "-o", str(folder / "sizes"), str(folder / "sizes.c")]
    subprocess.run(command, check=True, timeout=840)
    out = subprocess.run(
        [str(folder / "sizes")], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    rows = [line.split() for line in out.splitlines()]
    return {row[0]: [int(v) for v in row[1:]] for row in rows}


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_structs_have_no_hidden_padding(record: Record, c_offsets: dict[str, list[int]]) -> None:
    assert offsets(record) == c_offsets[record.name]


def test_every_kind_of_step_is_described() -> None:
    assert [kind.opcode for kind in wire.STEP_KINDS] == list(StepOp)
    for kind in wire.STEP_KINDS:
        given: dict[str, Any] = {name: 7 + i for i, name in enumerate(kind.operands)}
        assert Step(kind.opcode, **given).operands == (*given.values(), 0, 0)[:OPERANDS]
        others = {n for k in wire.STEP_KINDS for n in k.operands} - set(kind.operands)
        foreign: dict[str, Any] = dict.fromkeys(others, 5)
        assert Step(kind.opcode, **foreign).operands == (0, 0)


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
