"""The chip's numbers stand in firmware_sim/chip.py and, made from it, in sdk/generated; nowhere else in C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firmware_sim import chip
from firmware_sim.isa.c_header import chip_header
from firmware_sim.isa.layout import BD
from tests.paths import ROOT
from user_layers.codegen.regenerate import generated

SDK = ROOT / "sdk"
FILES = sorted(
    path
    for folder in ("layers", "firmware")
    for path in (SDK / folder).rglob("*")
    if path.suffix in (".c", ".h", ".cpp")
)
CHANNELS = BD["res0_c"].limit
EXTENT = BD["res0_n"].limit
NUMBERS = {
    chip.NPU_NUM,
    chip.NPU_NUM - 1,
    chip.LOCAL_BYTES,
    chip.LOCAL_BYTES // 1024,  # in products: 512 * 1024
    chip.LOCAL_BYTES // 4,
    chip.BANK_BYTES,
    chip.BANK_BYTES // 4,
    chip.ALIGN_BYTES,
    chip.ALIGN_BYTES - 1,
    chip.ALIGN_BYTES // 4 - 1,  # in (words + 31) / 32
    chip.WINDOW_SIDE_MAX,
    CHANNELS,
    CHANNELS // chip.NPU_NUM * chip.NPU_NUM,
    EXTENT,
    EXTENT // 2 + 1,
    chip.LOCAL_BASE,
    chip.L2_BASE,
    chip.DTCM_BASE,
    chip.DDR_BASE,
}
# Line, as far as it tells them apart, and what its number is.
ALLOWED = {
    "fw_internal.h: char error[512];": "room for a text",
    "fw_core.c: static char text[64];": "room for a text",
    "fw_message.h: FW_ARENA = 65536": "descriptors in an arena, by choice",
    "fw_native_watch_calls.c: ATOMIC(64, uint64_t)": "bits of a word",
    "fw_native_watch_calls.c: ATOMIC(128, uint128)": "bits of a word",
    "fw_internal.h: #define FW_SHAPE_VALUES 64": "values of a shape tensor",
    "bm_device_attention.c: #define HEADS_SCALED 64": "heads with factors of their own",
    "bm_device_attention_int8.c: #define HEADS_SCALED 64": "heads with factors of their own",
    "fw_dynamic.c: #define NEURON_ALIGN 128u": "bytes of DDR",
    "fw_dynamic.c: char is[128], was[128];": "room for a text",
    "fw_tensor.c: char text[128];": "room for a text",
    "fw_kernels.c: #define MAX_KERNELS 512": "kernels of a firmware",
    "fw_native_address.c: enum { ROOM = 0x10000": "room for a stack frame",
    "fw_nn.c: while (value < 128) {": "digits of a fixed-point factor",
    "okk_fixed_point.c: #define SHIFT_MAX 31": "bits of a word",
    "okk_fixed_point.c: if (t > 31": "codes of types",
    "okk_fixed_point.c: bits((uint32_t)-128)": "the smallest int8",
    "okk_sfu.c: #define SERIES_MAX 64": "terms of a series",
    "okk_common.c: unsigned int okk_64_byte_aligned_feature_size": "what the function's name says",
    "bm_atomic_gdma.c: if (param->dst_global_mem_addr % 512 != 0)": "bytes of DDR",
    "bm_device_binary.c: shift_C(u, u, -31,": "bits of a word",
    "bm_layer_functions.c: shift_C(t0, t0, 31,": "bits of a word",
    "bm_device_cast.c: bm_word(0xffff)": "the low half of a word",
    "bm_layer_rows_bytes.c: bm_word(0xffff)": "the low half of a word",
    "bm_device_cast.c: bm_word(0x8000)": "the sign of a half word",
    "bm_device_matmul.c: #define ROWS_MAX 512": "the layer's own choice",
    "bm_device_pool_int8.c: #define TAPS_MAX 16384": "the layer's own limit",
    "bm_device_resize.c: #define MOST_TAPS 64": "the layer's own limit",
    "bm_device_upsample.c: #define SCALE_MAX 64": "the layer's own limit",
    "bm_layer_packed.h: #define BM_PACKED_MAX 127": "the greatest int8",
    "bm_layer_move.h: #define BM_ORDER_MOST 64": "the library's own choice",
    "bm_layer_packed.h: #define BM_SHIFT_MAX 31": "bits of a word",
}
_NOT_CODE = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_INTEGER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|[1-9]\d*)[uUlL]*(?![\w.])")


def found(path: Path) -> list[str]:
    """Lines with one of the numbers, comments and texts aside."""
    text = _NOT_CODE.sub(lambda m: "\n" * m[0].count("\n"), path.read_text())
    return [
        f"{path.name}: {line.strip()}"
        for line in text.splitlines()
        if any(int(n, 0) in NUMBERS for n in _INTEGER.findall(line))
    ]


def allowed(line: str) -> str | None:
    """The entry of ALLOWED that a line is under."""
    name, code = line.split(": ", 1)
    for entry in ALLOWED:
        file, part = entry.split(": ", 1)
        if file == name and part in code:
            return entry
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_repeats_them(path: Path) -> None:
    wrong = [line for line in found(path) if allowed(line) is None]
    assert not wrong, "use the names of bm1684_chip.h, or state the reason in ALLOWED:\n" + "\n".join(wrong)


def test_what_is_allowed_is_there() -> None:
    used = {allowed(line) for path in FILES for line in found(path)}
    assert used - {None} == set(ALLOWED)


def test_a_number_is_found(tmp_path: Path) -> None:
    source = tmp_path / "bm_layer_x.h"
    source.write_text(
        "#define LANES 64\n/* 64 */ int a = 0x40; // 64\nfloat f = 64.0f;\nint x64 = 640;\n"
        'f("64");\nint y = (x + 127) / 128;\nint z = 512 * 1024;\n'
    )
    assert [line.split(": ")[1] for line in found(source)] == [
        "#define LANES 64",
        "int a = 0x40;",
        "int y = (x + 127) / 128;",
        "int z = 512 * 1024;",
    ]


def test_the_headers_are_those_of_the_tables() -> None:
    """What `python -m user_layers.codegen.regenerate` writes is what is committed."""
    headers = {path: text for path, text in generated().items() if path.parent == SDK / "generated"}
    assert set(headers) == set((SDK / "generated").iterdir())
    for path, text in headers.items():
        assert path.read_text() == text, f"{path.name}: run python -m user_layers.codegen.regenerate"


def test_the_header_has_the_numbers() -> None:
    names = dict(re.findall(r"^#define CHIP_(\w+) (\w+)", chip_header(), re.MULTILINE))
    assert int(names["NPU_NUM"]) == chip.NPU_NUM
    assert int(names["LOCAL_WORDS"]) * 4 == chip.LOCAL_BYTES
    assert int(names["L2_BASE"], 0) == chip.L2_BASE
    assert names["DDR_BASE"] == f"{chip.DDR_BASE:#x}ull"
    assert (names["EXTENT_MAX"], names["CHANNELS_MAX"]) == ("65535", "4095")
