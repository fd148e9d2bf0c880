"""Descriptor layouts: encoding, decoding, columns, the C header made from them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import UsageError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.c_header import fields_header
from firmware_sim.isa.layout import BD, GDMA, Field, Layout
from tests.support.golden_vectors import encoded_descriptors

LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}


def _stream(descriptors: list[bytes]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    return np.frombuffer(b"".join(descriptors), np.uint32).reshape(-1, 32)


@pytest.mark.parametrize("layout", [BD, GDMA], ids=lambda layout: layout.name)
def test_fields_follow_each_other_without_overlap(layout: Layout) -> None:
    ends = [(f.offset, f.offset + f.width) for f in layout.fields]
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert ends[-1][1] <= 1024


@pytest.mark.parametrize("engine", list(Engine), ids=lambda e: e.value)
def test_every_golden_descriptor_survives_decoding_and_encoding(engine: Engine) -> None:
    layout = LAYOUTS[engine]
    descriptors = [d for e, d in encoded_descriptors() if e is engine]
    assert len(descriptors) > 150
    columns = layout.columns(_stream(descriptors))
    for i, descriptor in enumerate(descriptors):
        fields = layout.decode(descriptor)
        assert layout.encode(**fields) == descriptor
        assert all(columns.ints(name)[i] == value for name, value in fields.items())


@st.composite
def _values(draw: st.DrawFn) -> tuple[Layout, dict[str, int]]:
    layout = draw(st.sampled_from([BD, GDMA]))
    names = draw(st.lists(st.sampled_from([f.name for f in layout.fields]), unique=True))
    return layout, {n: draw(st.integers(0, layout[n].limit)) for n in names}


@given(_values())
def test_any_values_that_fit_survive(case: tuple[Layout, dict[str, int]]) -> None:
    layout, values = case
    expected = {f.name: values.get(f.name, 0) for f in layout.fields}
    data = layout.encode(**values)
    assert layout.decode(data) == expected
    row = layout.columns(_stream([data])).row(0)
    assert {f.name: row[f.name] for f in layout.fields} == expected


@pytest.mark.parametrize("value", [-1, 65536, 70_000])
def test_a_value_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(UsageError, match=rf"BD field res0_h: {value} does not fit in 16 bits \(0..65535\)"):
        BD.encode(res0_h=value)


def test_unknown_fields_and_wrong_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="GDMA descriptors have no field 'res0_h'"):
        GDMA.encode(res0_h=1)
    with pytest.raises(UsageError, match="has 128 bytes, not 127"):
        BD.decode(bytes(127))
    with pytest.raises(UsageError, match=r"a BD stream is uint32\[n, 32\]"):
        BD.columns(np.zeros((2, 31), np.uint32))


def test_mask_covers_exactly_the_fields() -> None:
    ones = {"cmd_id_tpu": BD["cmd_id_tpu"].limit, "cmd_id_gdma": BD["cmd_id_gdma"].limit}
    assert BD.mask(*ones).tobytes() == BD.encode(**ones)
    assert BD.covered.tobytes() == BD.encode(**{f.name: f.limit for f in BD.fields})


def test_defaults_are_what_unused_fields_hold_in_golden_descriptors() -> None:
    """In each field, the default (or 0) is what an encoder writes that has no use for it: it occurs."""
    for engine, layout in LAYOUTS.items():
        columns = layout.columns(_stream([d for e, d in encoded_descriptors() if e is engine]))
        # ids, addresses and the result's own sizes are always in use
        used = re.compile(r"cmd_id|sync_id|src_.size|dst_start_addr_l32|src_data_format")
        for f in layout.fields:
            if not used.match(f.name):
                assert layout.defaults.get(f.name, 0) in columns.ints(f.name), f.name


def _c_compiler(target: list[str]) -> list[str]:
    if not target and (gcc := shutil.which("gcc")):
        return [gcc]
    return [sys.executable, "-m", "ziglang", "cc", *target]


def _probe(field: Field, layout: Layout, value: int) -> str:
    return f"    {layout.name.lower()}_set_{field.name}(d, {value}u{'ll' if field.width > 32 else ''});"


_PROBE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bm1684_fields.h"
void fw_field_overflow(const char *field, uint32_t value, uint32_t max) {
    printf("%s %u %u", field, value, max);
    exit(9);
}
static void put(const uint32_t *d) { fwrite(d, 4, 32, stdout); }
int main(int argc, char **argv) {
    uint32_t d[32] = {0};
    if (argc > 1) { bd_set_res0_h(d, (uint32_t)atoi(argv[1])); return 0; }
STEPS
    return 0;
}
"""


def test_the_c_header_encodes_like_python(tmp_path: Path) -> None:
    """Every setter, on a descriptor of ones and one of zeros, against Layout.encode."""
    (tmp_path / "bm1684_fields.h").write_text(fields_header())
    steps, expected = [], []
    rng = np.random.default_rng(0)
    for layout in (BD, GDMA):
        steps.append(f"    {layout.name.lower()}_defaults(d); put(d);")
        expected.append(layout.encode(**layout.defaults))
        for f in layout.fields:
            value = int(rng.integers(0, f.limit, dtype=np.uint64, endpoint=True))
            rest = ~int.from_bytes(layout.mask(f.name).tobytes(), "little") & (1 << 1024) - 1
            for fill, base in ((0, 0), (0xFF, rest)):
                steps.append(f"    memset(d, {fill}, 128);\n{_probe(f, layout, value)}\n    put(d);")
                word = base | value << f.offset
                expected.append(word.to_bytes(128, "little"))
    program = _PROBE.replace("STEPS", "\n".join(steps))
    source, binary = tmp_path / "probe.c", tmp_path / "probe"
    source.write_text(program)
    warnings = ["-O1", "-Wall", "-Wextra", "-Werror"]
    compiler = _c_compiler([])
    subprocess.run([*compiler, *warnings, "-o", str(binary), str(source)], check=True, timeout=120)
    out = subprocess.run([str(binary)], check=True, capture_output=True, timeout=60).stdout
    assert [out[i : i + 128] for i in range(0, len(out), 128)] == expected

    over = subprocess.run([str(binary), "70000"], capture_output=True, text=True, timeout=60)
    assert (over.returncode, over.stdout) == (9, "bd.res0_h 70000 65535")


_LIMITS = """#include <setjmp.h>
#include <stdio.h>
#include "bm1684_fields.h"
static jmp_buf refused;
void fw_field_overflow(const char *field, uint32_t value, uint32_t max) {
    printf("%s %u %u\\n", field, value, max);
    longjmp(refused, 1);
}
int main(void) {
    static uint32_t d[32];
STEPS
    return 0;
}
"""


def test_every_field_of_the_c_header_takes_its_limit_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "bm1684_fields.h").write_text(fields_header())
    steps, expected = [], []
    for layout in (BD, GDMA):
        for f in layout.fields:
            if f.width >= 32:  # takes every number of its type
                continue
            name = f"{layout.name.lower()}.{f.name}"
            for value in (f.limit - 1, f.limit, f.limit + 1):
                call = _probe(f, layout, value).strip()
                steps.append(f'    if (setjmp(refused) == 0) {{ {call} puts("{name} takes {value}"); }}')
                taken = value <= f.limit
                expected.append(f"{name} takes {value}" if taken else f"{name} {value} {f.limit}")
    source, binary = tmp_path / "limits.c", tmp_path / "limits"
    source.write_text(_LIMITS.replace("STEPS", "\n".join(steps)))
    subprocess.run([*_c_compiler([]), "-O0", "-o", str(binary), str(source)], check=True, timeout=120)
    done = subprocess.run([str(binary)], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == expected
    assert len(expected) > 300


def test_the_c_header_is_freestanding_arm_c(tmp_path: Path) -> None:
    (tmp_path / "bm1684_fields.h").write_text(fields_header())
    source = tmp_path / "probe.c"
    source.write_text('#include "bm1684_fields.h"\nvoid f(uint32_t *d) { bd_defaults(d); }\n')
    target = ["-target", "arm-freestanding-eabi", "-mcpu=arm926ej_s", "-ffreestanding"]
    subprocess.run(
        [*_c_compiler(target), "-Wall", "-Werror", "-c", "-o", str(tmp_path / "o"), str(source)],
        check=True,
        timeout=120,
    )


def test_the_enums_of_the_header_are_the_codes() -> None:
    text = fields_header()
    assert "BD_TASK_ARITHMETIC = 3," in text
    assert "BD_EU_CMP_SELECT = 24\n" in text
    assert "GDMA_SPECIAL_CONSTANT = 4," in text
    assert "#define BD_TSK_LANE_NUM_OFFSET 134\n#define BD_TSK_LANE_NUM_WIDTH 64\n" in text
