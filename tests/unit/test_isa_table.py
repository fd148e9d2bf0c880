"""The instruction table and the disassembler."""

from __future__ import annotations

import numpy as np
import pytest

from firmware_sim.errors import DeviceError
from firmware_sim.instructions.disasm import disassemble, option_fields
from firmware_sim.instructions.instruction import Engine, Status
from firmware_sim.instructions.table import BY_NAME, TABLE, lookup
from firmware_sim.isa.codes import Direction, Eu, Special, Task
from firmware_sim.isa.layout import BD, GDMA
from tests.support.golden_vectors import encoded_descriptors

_LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}


def line(engine: Engine, **fields: int) -> str:
    layout = _LAYOUTS[engine]
    data = layout.encode(**{**layout.defaults, **fields})
    return disassemble(engine, np.frombuffer(data, np.uint32).reshape(1, 32))[0]


def test_names_are_unique_and_every_refusal_has_a_reason() -> None:
    assert len(BY_NAME) == len(TABLE)
    for instruction in TABLE:
        assert instruction.summary
        assert bool(instruction.reason) == (instruction.status is not Status.IMPLEMENTED), instruction.name
        assert set(instruction.match) <= {f.name for f in _LAYOUTS[instruction.engine].fields}


def test_every_golden_descriptor_has_its_instruction() -> None:
    names = set()
    placed = 0
    for engine, data in encoded_descriptors():
        row = _LAYOUTS[engine].columns(np.frombuffer(data, np.uint32).reshape(1, 32)).row(0)
        instruction = lookup(engine, row)
        names.add(instruction.name)
        if instruction.semantics is not None:
            try:
                footprint = instruction.footprint(row)
            except DeviceError as error:  # some encodings were taken with addresses beyond DDR
                assert "no memory at address" in error.message
                continue
            placed += 1
            assert footprint.writes, instruction.name
            cycles = instruction.semantics.cycles(row)
            assert cycles.chip > 0, instruction.name
            assert cycles.model > 0, instruction.name
    assert placed > 900
    assert {"ar.add", "ar.fixed.mac", "md_scalar.div", "md_cmp.select", "gdma.copy.s2l", "conv.fp32"} <= names


def test_every_task_of_the_tensor_engine_is_in_the_table() -> None:
    tasks = {t for i in TABLE if i.engine is Engine.BD for t in i.match["tsk_typ"]}
    assert tasks == {int(t) for t in Task}
    specials = {s for i in TABLE if i.engine is Engine.GDMA for s in i.match["special_func"]}
    assert specials == {int(s) for s in Special}


_SIZES = {"res0_n": 1, "res0_c": 64, "res0_h": 5, "res0_w": 7}


@pytest.mark.parametrize(
    ("engine", "fields", "text"),
    [
        (
            Engine.BD,
            {
                **_SIZES,
                "cmd_id_tpu": 3,
                "cmd_id_gdma": 2,
                "tsk_typ": Task.ARITHMETIC,
                "tsk_eu_typ": Eu.ADD,
                "res0_addr": 0x0800_1000,
                "opd0_addr": 0x0800_2000,
                "opt_opd1_const": 1,
                "opd1_addr": 0x4000_0000,
            },
            "BD 3 after GDMA 2: ar.add res0=lane 0 +0x1000 [1,64,5,7] strides [64,64,7,1] "
            "opd0=lane 0 +0x2000 [1,64,5,7] strides [64,64,7,1] opd1=0x40000000 (2)",
        ),
        (
            Engine.GDMA,
            {
                "cmd_id": 1,
                "stride_enable": 1,
                "direction": Direction.L2S,
                "src_data_format": 1,
                "dst_data_format": 1,
                "src_start_addr_l32": 0x0808_0010,
                "dst_start_addr_l32": 0x1000_0020,
                **{f"{s}_{a}size": 2 for s in ("src", "dst") for a in "nchw"},
                **{f"{s}_{a}stride": 64 for s in ("src", "dst") for a in "nc"},
                **{f"{s}_hstride": 2 for s in ("src", "dst")},
                **{f"{s}_wstride": 1 for s in ("src", "dst")},
            },
            "GDMA 1 after BD 0: gdma.copy.l2s dst=l2 +0x20 [2,2,2,2] strides [64,64,2,1] x2B "
            "src=lane 1 +0x10 [2,2,2,2] strides [64,64,2,1] x2B; dst_data_format 1, src_data_format 1",
        ),
        (
            Engine.BD,
            {"tsk_typ": Task.LOCAL_ARRANGE},
            "BD 0 after GDMA 0: local_arrange (unverified: no source tells what it does)",
        ),
        (
            Engine.BD,
            {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": Eu.COPY},
            "BD 0 after GDMA 0: ar.copy (illegal: res0: no memory at address 0x0)",
        ),
        (
            Engine.BD,
            {"tsk_typ": 15, "tsk_eu_typ": 9},
            "BD 0 after GDMA 0: unknown BD instruction: tsk_typ 15, tsk_eu_typ 9",
        ),
    ],
)
def test_disassembly(engine: Engine, fields: dict[str, int], text: str) -> None:
    assert line(engine, **fields) == text


@pytest.mark.parametrize("engine", Engine)
def test_a_line_says_every_option(engine: Engine) -> None:
    """Two golden descriptors that differ in an option have different lines."""
    layout, seen = _LAYOUTS[engine], set()
    for found, data in encoded_descriptors():
        fields = layout.decode(data) if found is engine else None
        kind = fields and (fields.get("tsk_typ"), fields.get("tsk_eu_typ"), fields.get("special_func"))
        if fields is None or kind in seen:
            continue
        seen.add(kind)
        plain = line(engine, **fields)
        for name, usual in option_fields(engine):
            changed = usual if fields[name] != usual else fields[name] ^ 1
            assert line(engine, **{**fields, name: changed}) != plain, (plain, name)
    assert len(seen) > 4


def test_the_model_estimates_of_the_documentation() -> None:
    """Published examples of the functional model's own estimate."""
    sizes = {
        f"{s}_{a}size": n for s in ("src", "dst") for a, n in zip("nchw", (1, 64, 128, 128), strict=True)
    }
    fields = {"direction": Direction.S2L, "src_start_addr_h8": 1, "dst_start_addr_l32": 0x0800_0000, **sizes}
    data = GDMA.encode(**{**GDMA.defaults, **fields})
    row = GDMA.columns(np.frombuffer(data, np.uint32).reshape(1, 32)).row(0)
    semantics = lookup(Engine.GDMA, row).semantics
    assert semantics is not None
    assert semantics.cycles(row).model == pytest.approx(78728, rel=1e-3)
