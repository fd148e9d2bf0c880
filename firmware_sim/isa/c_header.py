"""The C encoder header, made from the field tables: `python -m firmware_sim.isa.c_header`.

One inline setter per field with constant word, shift and mask, so a compiler reduces a sequence of
them to plain stores. A value that does not fit goes to fw_field_overflow, which the firmware defines.
"""

from __future__ import annotations

import enum
import struct
import sys

from firmware_sim.isa import codes
from firmware_sim.isa.layout import BD, GDMA, WORDS, Field, Layout

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
    for word, shift, bits, place in field.words():
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


def c_header() -> str:
    """The text of bm1684_fields.h."""
    out = [
        "/* Made by `python -m firmware_sim.isa.c_header` from the field tables. Do not edit. */",
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


if __name__ == "__main__":
    sys.stdout.write(c_header())
