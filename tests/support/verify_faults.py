"""Layers with one mistake each, made of the correct one in tests/sources/verify_layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.paths import SOURCES

FOLDER = SOURCES / "verify_layers"
DEVICE, HOST = "bm_device_rows.c", "bm_host_rows.h"


@dataclass(frozen=True)
class Fault:
    """name: the layer's. file, old, new: what is changed. property: what fails then. case: the smallest one
    (its text begins so). line: text of the line that is named, in the layer's source; "" where none is."""

    name: str
    file: str
    old: str
    new: str
    property: str
    case: str
    line: str = ""


_MUL = "    okk_bdc_mul_C(y, y, factor, out, NULL, NULL);"
_LOAD = "            okk_gdma_32bit_cpy_S2L(x, in->addr + plane * in_plane, &from, NULL, NULL);"
_SUMS = "            sums(y, x, &from, &to, 0, step, factor_of(param));"

FAULTS: Sequence[Fault] = (
    Fault("halo", HOST, "* step() + 3", "* step() + 2", "local", "[1, 1, 3, 1]"),
    Fault(
        "lanes",
        DEVICE,
        "            okk_gdma_32bit_cpy_L2S(out->addr + plane * out_plane",
        "            if (!c) okk_gdma_32bit_cpy_L2S(out->addr + plane * out_plane",
        "golden",
        "[1, 65, 3, 1]",
    ),
    Fault(
        "odd",
        DEVICE,
        _MUL,
        "    const dim4 even = {out->n, out->c, out->h, out->w > 1 ? out->w & ~1 : 1};\n"
        "    dim4 all;\n"
        "    okk_128_byte_aligned_stride_for_32bit(&all, 0, out);\n"
        "    okk_bdc_mul_C(y, y, factor, &even, &all, &all);",
        "golden",
        "[1, 1, 3, 3]",
        "okk_bdc_add(y, y, x + 2 * line",
    ),
    Fault(
        "batch",
        DEVICE,
        "to = {o[0], o[1], o[2], o[3]};",
        "to = {1, o[1], o[2], o[3]};",
        "local",
        "[2, 1, 3, 1]",
    ),
    Fault(
        "strided",
        DEVICE,
        "    out->shape[2] = (in->shape[2] - KERNEL) / step + 1;",
        "    out->shape[2] = (in->shape[2] - KERNEL + step - 1) / step + 1;",
        "golden",
        "[1, 1, 4, 1]",
    ),
    Fault(
        "remembered",
        DEVICE,
        "in_plane = 4ull * (u64)(in->shape[2] * in->shape[3]);",
        "in_plane = buffer_size;",
        "dynamic",
        "[1, 65, 5, 1]",
        "okk_gdma_32bit_cpy_S2L(x, in->addr",
    ),
    Fault(
        "unwritten",
        DEVICE,
        "    okk_bdc_add(y, x, x + line, out, NULL, &rows, &rows);",
        "    okk_bdc_mul_C(y, y, 0.0f, out, NULL, NULL);\n"
        "    okk_bdc_add(y, y, x, out, NULL, NULL, &rows);\n"
        "    okk_bdc_add(y, y, x + line, out, NULL, NULL, &rows);",
        "golden",
        "[1, 1, 3, 1]",
        "okk_bdc_mul_C(y, y, 0.0f",
    ),
    Fault(
        "beyond",
        DEVICE,
        "    okk_poll();\n",
        "    const dim4 one = {1, 1, 1, 1};\n"
        "    okk_gdma_32bit_cpy_L2S(out->addr + 4ull * (u64)out->elem_num, y, &one, NULL, NULL);\n"
        "    okk_poll();\n",
        "checks",
        "[1, 1, 3, 1]",
        "okk_gdma_32bit_cpy_L2S(out->addr + 4ull",
    ),
    Fault(
        "unawaited",
        DEVICE,
        f"{_LOAD}\n{_SUMS}",
        f"            okk_parallel_start();\n{_LOAD}\n{_SUMS}\n            okk_parallel_end();",
        "golden",
        "[1, 1, 3, 1]",
        "okk_bdc_mul_C(y, y, factor",
    ),
    Fault(
        "packed",
        DEVICE,
        "in->addr + plane * in_plane",
        "(unsigned long)in->addr + plane * in_plane",
        "arm",
        "[1, 1, 3, 1]",
        "okk_gdma_32bit_cpy_S2L(x, (unsigned long)",
    ),
    Fault(
        "ignored",
        DEVICE,
        "&from, &to, row, step, factor_of(param));",
        "&from, &to, row, step, 1.0f);",
        "local",
        "[1, 1, 3, 1]",
        "okk_bdc_mul_C(y, y, factor",
    ),
)


def add_layer(root: Path, fault: Fault | None = None) -> None:
    """Write the files of a layer with this mistake, or of the correct one, into a workspace."""
    name = fault.name if fault is not None else "rows"
    for folder, file, made in (
        ("device", DEVICE, f"bm_device_{name}.c"),
        ("host", HOST, f"bm_host_{name}.h"),
        ("tests", "test_rows.py", f"test_{name}.py"),
    ):
        text = (FOLDER / file).read_text()
        if fault is not None and fault.file == file:
            assert text.count(fault.old) == 1, (fault.name, text.count(fault.old))
            text = text.replace(fault.old, fault.new)
        for old, new in (("ROWS", name.upper()), ("Rows", name.capitalize()), ("rows", name)):
            text = _whole_names(text, old, new)
        path = root / folder / made
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def line_of(root: Path, fault: Fault) -> int:
    """The number of the line that is to be named."""
    lines = (root / "device" / f"bm_device_{fault.name}.c").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if fault.line in line)


def _whole_names(text: str, old: str, new: str) -> str:
    """Replace the layer's name where it is one: TPU_ROWS, rows_shape, RowsDescriptor, "ROWS"."""
    for before in (f"TPU_{old}", f"{old}Descriptor", f'"{old}"', f"{old}_shape", f"{old}_global"):
        text = text.replace(before, before.replace(old, new))
    for before in (f"{old}_local", f"tpu_{old}_param_t", f"test_{old}"):
        text = text.replace(before, before.replace(old, new))
    return text
