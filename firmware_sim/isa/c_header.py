"""What C knows of the chip: its numbers, and the encoder made from the field tables.

`python -m user_layers.codegen.regenerate` writes both headers into sdk/generated. The encoder has one inline
setter per field with constant word, shift and mask, so a compiler reduces a sequence of them to plain stores.
A value that does not fit goes to fw_field_overflow, which the firmware defines.
"""

from __future__ import annotations

import enum
import struct

from firmware_sim import chip
from firmware_sim.isa import codes
from firmware_sim.isa.layout import BD, CHANNELS_MAX, EXTENT_MAX, GDMA, WINDOW_STEP_MAX, WORDS, Field, Layout

_ENUMS: tuple[tuple[str, type[enum.IntEnum], str], ...] = (
    ("bd_task", codes.Task, "tsk_typ"),
    ("bd_eu", codes.Eu, "tsk_eu_typ"),
    ("bd_other", codes.OtherEngine, "tsk_eu_typ"),
    ("bd_precision", codes.Precision, "opt_*_prec"),
    ("bd_stride", codes.Stride, "short_*_str"),
    ("gdma_direction", codes.Direction, "direction"),
    ("gdma_special", codes.Special, "special_func"),
    ("gdma_format", codes.Format, "src_data_format, dst_data_format"),
)

# Name, value and meaning of every number. Windows are those of convolutions and pools.
_NUMBERS: tuple[tuple[str, int, str], ...] = (
    ("NPU_NUM", chip.NPU_NUM, "lanes"),
    ("EU_NUM", chip.EU_NUM, "fp32 execution units of a lane"),
    ("LOCAL_BYTES", chip.LOCAL_BYTES, "local memory of a lane"),
    ("LOCAL_WORDS", chip.LOCAL_BYTES // 4, "the same in 32-bit words"),
    ("LOCAL_BANKS", chip.LOCAL_BANKS, ""),
    ("BANK_BYTES", chip.BANK_BYTES, ""),
    ("BANK_WORDS", chip.BANK_BYTES // 4, ""),
    ("ALIGN_BYTES", chip.ALIGN_BYTES, "a line of local memory"),
    ("ALIGN_WORDS", chip.ALIGN_BYTES // 4, ""),
    ("EXTENT_MAX", EXTENT_MAX, "extent of a dimension in an instruction or a DMA command"),
    ("CHANNELS_MAX", CHANNELS_MAX, "channels in an instruction of the tensor unit"),
    ("WINDOW_SIDE_MAX", chip.WINDOW_SIDE_MAX, "rows or columns of what a window reads, pads included"),
    ("WINDOW_STEP_MAX", WINDOW_STEP_MAX, "pad, stride and dilation of a window"),
    ("MATRIX_WIDTH_MAX", chip.MATRIX_WIDTH_MAX, "columns of a matrix in one channel"),
    ("ID_MAX", chip.ID_MAX, "id of a command; ids start at 1"),
    ("DESCRIPTOR_BYTES", chip.DESCRIPTOR_BYTES, ""),
    ("LOCAL_BASE", chip.LOCAL_BASE, ""),
    ("L2_BASE", chip.L2_BASE, ""),
    ("L2_BYTES", chip.L2_BYTES, ""),
    ("L2_TABLE_OFFSET", chip.L2_TABLE_OFFSET, "tables of the instructions"),
    ("L2_USER_OFFSET", chip.L2_USER_OFFSET, "what kernels may use"),
    ("L2_USER_BYTES", chip.L2_USER_BYTES, ""),
    ("L2_LOOKUP_START", chip.L2_LOOKUP_START, "tables for users, as the vendor's firmware reports them"),
    ("L2_LOOKUP_BYTES", chip.L2_LOOKUP_BYTES, ""),
    ("DTCM_BASE", chip.DTCM_BASE, ""),
    ("DTCM_USER_OFFSET", chip.DTCM_USER_OFFSET, "what kernels may use"),
    ("DTCM_USER_BYTES", chip.DTCM_USER_BYTES, ""),
    ("DDR_BASE", chip.DDR_BASE, ""),
    ("DDR_BYTES", chip.DDR_BYTES, ""),
    ("CLOCK_HZ", chip.CLOCK_HZ, ""),
)
_ADDRESSES = ("_BASE", "_OFFSET", "_START")
_BANNER = "/* Made by `python -m user_layers.codegen.regenerate` from {}. Do not edit. */"


def _setter(layout: Layout, field: Field) -> list[str]:
    prefix = layout.name.lower()
    wide = field.width > 32
    ctype = "uint64_t" if wide else "uint32_t"
    limit = f"{field.limit}u"
    lines = [f"static inline void {prefix}_set_{field.name}(uint32_t *d, {ctype} v) {{"]
    if field.width < 32:
        lines.append(f'    if (v > {limit}) fw_field_overflow("{prefix}.{field.name}", v, {limit});')
    elif wide and field.width != 64:
        raise AssertionError(f"{field.name}: fields of 33 to 63 bits need a wide overflow report")
    for word, shift, bits, place in field.words:
        part = f"(v >> {place})" if place else "v"
        if wide:
            part = f"(uint32_t){part}"
        mask = (1 << bits) - 1
        if bits == 32:
            lines.append(f"    d[{word}] = {part};")
            continue
        if place + bits < field.width:  # a part that is not the last one carries bits of the next
            part = f"({part} & 0x{mask:x}u)"
        if shift:
            part = f"{part} << {shift}"
        lines.append(f"    d[{word}] = (d[{word}] & 0x{0xFFFF_FFFF ^ (mask << shift):08x}u) | ({part});")
    lines.append("}")
    return lines


def c_headers() -> dict[str, str]:
    """File names and texts of the headers in sdk/generated."""
    return {"bm1684_chip.h": chip_header(), "bm1684_fields.h": fields_header()}


def chip_header() -> str:
    """The text of bm1684_chip.h: CHIP_NAME for every number that C needs."""
    lines = []
    for name, value, meaning in _NUMBERS:
        text = f"{value:#X}".replace("X", "x") if name.endswith(_ADDRESSES) else f"{value}"
        line = f"#define CHIP_{name} {text}{'ull' if value > 0x7FFF_FFFF else ''}"
        lines.append(f"{line} /* {meaning} */" if meaning else line)
    return "\n".join(
        (
            _BANNER.format("firmware_sim/chip.py and the field tables"),
            "#ifndef BM1684_CHIP_H",
            "#define BM1684_CHIP_H",
            "",
            *lines,
            "",
            "/* The most channels of an instruction in whole rounds of the lanes. */",
            "#define CHIP_CHANNELS_WHOLE (CHIP_CHANNELS_MAX / CHIP_NPU_NUM * CHIP_NPU_NUM)",
            "",
            "#endif",
            "",
        )
    )


def fields_header() -> str:
    """The text of bm1684_fields.h."""
    out = [
        _BANNER.format("the field tables"),
        "#ifndef BM1684_FIELDS_H",
        "#define BM1684_FIELDS_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define BM1684_DESCRIPTOR_WORDS {WORDS}",
        "",
        "/* Defined by the firmware: reports the field, the value and the largest value; does not return. */",
        "#ifdef __cplusplus",
        'extern "C"',
        "#else",
        "extern",
        "#endif",
        "void fw_field_overflow(const char *field, uint32_t value, uint32_t max)",
        "    __attribute__((noreturn, cold));",
    ]
    for name, values, field_names in _ENUMS:
        out += ["", f"enum {name} {{ /* {field_names} */"]
        out += [f"    {name.upper()}_{v.name} = {v.value}," for v in values]
        out[-1] = out[-1].rstrip(",")
        out.append("};")
    for layout in (BD, GDMA):
        prefix = layout.name.lower()
        out.append("")
        for f in layout.fields:
            out += [
                f"#define {layout.name}_{f.name.upper()}_OFFSET {f.offset}",
                f"#define {layout.name}_{f.name.upper()}_WIDTH {f.width}",
            ]
        for f in layout.fields:
            out += ["", *_setter(layout, f)]
        words = struct.unpack(f"<{WORDS}I", layout.encode(**layout.defaults))
        out += [
            "",
            "/* Sets all words: the vendor encoder's values of fields that an instruction does not use. */",
            f"static inline void {prefix}_defaults(uint32_t *d) {{",
            f"    static const uint32_t words[{WORDS}] = {{",
        ]
        for i in range(0, WORDS, 6):
            out.append("        " + ", ".join(f"0x{w:08x}u" for w in words[i : i + 6]) + ",")
        out += [
            "    };",
            f"    for (int i = 0; i < {WORDS}; i++) d[i] = words[i];",
            "}",
        ]
    out += ["", "#endif", ""]
    return "\n".join(out)
