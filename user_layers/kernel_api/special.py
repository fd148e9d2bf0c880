"""Rows of the table: special functions, lookups, sequences of them, and conversions of 8-bit integers."""

from __future__ import annotations

from dataclasses import replace

from user_layers.kernel_api.entry import (
    CUT,
    FIELDS,
    Cost,
    Entry,
    Extents,
    Family,
    Layout,
    Level,
    Limit,
    Operand,
    aligned,
)

_PACKING = Extents({"n": 32767, "c": 4095, "h": 65535, "w": 65535})
_SERIES = (
    Limit("num_series", None, 64, "num_series up to 64", level=Level.WARNING),
    Limit("num_series", 1, 4095),
)


def _pair(result: str = "fp32", source: str = "fp32") -> tuple[Operand, ...]:
    return aligned("dst", result, "result"), aligned("src", source)


def _entry(
    name: str,
    formula: str,
    within: float,
    operands: tuple[Operand, ...],
    issues: tuple[str, ...],
    factor: str,
    notes: tuple[str, ...] = (),
    in_place: tuple[str, ...] = ("src",),
    limits: tuple[Limit, ...] = (),
    apart: tuple[tuple[str, str], ...] = (),
) -> Entry:
    cost = Cost(issues, f"{factor} * n * L * P" if factor else "n * L * P")
    return Entry(
        f"okk_bdc_{name}", "", formula, within, operands, FIELDS, limits, (cost,), in_place, apart, notes
    )


EXP = (
    "md_sfu.fp32_to_int",
    "table_lookup",
    "md_scalar.sub",
    "md_sfu.fp32_to_int",
    "table_lookup",
    "md_sfu.taylor",
    "md_scalar.mul",
)
SIGMOID = ("md_scalar.sub", *EXP, "md_scalar.add", "md_scalar.div")
TANH = (*EXP, "md_scalar.div", "md_scalar.add", "md_scalar.div", "md_linear.mac")
_WORK = aligned("work", role="work buffer, as large as dst")
_APART = (("work", "dst"), ("work", "src"))
_OF_EXP = 54  # cycles for 16 elements of e^src, without four for each term of the series
_DEFAULT_TERMS = 32


def _single() -> tuple[Entry, ...]:
    return (
        _entry(
            "fp32_to_int32",
            "to_int32(src)",
            0.0,
            _pair("int32"),
            ("md_sfu.fp32_to_int",),
            "",
            (
                "Truncates: 1.9 becomes 1, -1.9 becomes -1. Saturates at -2147483648 and 2147483647, "
                "which nan becomes.",
            ),
        ),
        _entry(
            "lookup_int32_to_fp32",
            "src",
            0.0,
            _pair(source="int32"),
            ("table_lookup",),
            "24",
            (
                "src is in -128..127: its low 8 bits index a table in L2, so 128 becomes -128. Nothing "
                "is refused.",
            ),
        ),
        _entry(
            "rsqrt",
            "1 / sqrt(src)",
            2e-7,
            _pair(),
            ("md_sfu.rsqrt",),
            "27",
            ("Three steps of Newton's method, so not always the nearest number. src is above 0.",),
        ),
        _entry(
            "sqrt",
            "sqrt(src)",
            5e-7,
            _pair(),
            ("md_sfu.rsqrt", "md_scalar.div"),
            "57",
            ("1 / rsqrt(src) by the division of okk_bdc_div. src is above 0.",),
        ),
        _entry(
            "taylor_exp",
            "1 + sum(src**k / factorial(k) for k in range(1, num_series + 1))",
            1e-6,
            _pair(),
            ("md_sfu.taylor", "md_scalar.add"),
            "(3 + 4 * num_series)",
            ("The series of e^src around 0, for small |src|: in -1..1 ten terms give e^src to 1e-6.",),
            limits=_SERIES,
        ),
        _entry(
            "lookup_exp",
            "exp(src)",
            2e-7,
            _pair(source="int32"),
            ("table_lookup",),
            "24",
            (
                "src is a 32-bit integer in -103..88: its low 8 bits index a table in L2, which holds 0 "
                "for the others. "
                "Nothing is refused. Results below 1.2e-38 are denormals.",
            ),
        ),
    )


def _sequences() -> tuple[Entry, ...]:
    out = []
    for name, formula, within, issues, more, in_place, note in (
        (
            "exp",
            "exp(src)",
            5e-7,
            EXP,
            0,
            (),
            "src is in -103..88. e^whole by a table, times e^rest by the first terms of its series. "
            "Products below 1.2e-38 are 0: results below 1e-31 may lack as much.",
        ),
        (
            "sigmoid",
            "1 / (1 + exp(-src))",
            5e-7,
            SIGMOID,
            32,
            ("src",),
            "src is in -88..103. With e = e^-src: 1 / (1 + e).",
        ),
        (
            "tanh",
            "tanh(src)",
            1e-6,
            TANH,
            65,
            (),
            "src is in -86..88. With e = e^src: 1 - 2 / e / (e + 1 / e).",
        ),
    ):
        notes = (
            note,
            "Beyond that range results are wrong (bm_local_act limits src first); nothing is refused.",
        )
        base = _OF_EXP + more
        operands = (*_pair(), _WORK)
        out.append(
            _entry(
                name,
                formula,
                within,
                operands,
                issues,
                str(base + 4 * _DEFAULT_TERMS),
                notes,
                in_place,
                (),
                _APART,
            )
        )
        terms = "num_series terms of the series; the function without it takes 32."
        out.append(
            _entry(
                f"{name}_tunable",
                formula,
                within,
                operands,
                issues,
                f"({base} + 4 * num_series)",
                (*notes, terms),
                in_place,
                _SERIES,
                _APART,
            )
        )
    return tuple(replace(entry, within_of="1") if "tanh" in entry.name else entry for entry in out)


_IN_WORK = "Where work is src, the first copy is left out."


def _numbers_of_bytes() -> tuple[Entry, ...]:
    def operands(source: str, layout: str) -> tuple[Operand, ...]:
        return (
            Operand("dst", "fp32", Layout.ALIGNED, "result", note=layout),
            Operand("src", source, Layout.ALIGNED, note=layout),
            Operand("work", source, Layout.ALIGNED, "work buffer, as large as src; may be src", note=layout),
        )

    either = "or compact without is_aligned_layout"
    first, rest = ("ar.copy", "ar.xor"), ("ar.and", "ar.shift", "ar.or", "ar.sub", "ar.mul")
    return (
        Entry(
            "okk_bdc_4N_int8_to_fp32",
            "",
            "src",
            0.0,
            operands("8-bit 4N", either),
            CUT,
            costs=(
                Cost(
                    (*first, *rest),
                    "2 * L * P * ((1 + is_signed) * ceil(n / 4) + (4 + (n > 1)) * n)",
                    commands="4 + is_signed + min(n, 4) + (n > 1)",
                ),
            ),
            apart=(("work", "dst"),),
            notes=(
                "is_signed: bytes are -128..127, else 0..255. The strides of src are those of dst, in words.",
                _IN_WORK,
            ),
        ),
        Entry(
            "okk_bdc_int8_to_fp32",
            "",
            "src",
            0.0,
            operands("8-bit, four pixels to a word", either),
            None,
            (),
            (
                Cost(
                    (*first, *rest),
                    "2 * n * L * ((5 + is_signed) * ceil(h * w / 64) + 4 * P)",
                    "h * w a multiple of 4",
                    "9 + is_signed",
                ),
            ),
            apart=(("work", "dst"),),
            notes=(
                "is_signed: bytes are -128..127, else 0..255. A channel of src begins at a word. h * w "
                "is at most 131072.",
                _IN_WORK,
            ),
        ),
        Entry(
            "okk_bdc_fp32_to_4N_int8",
            "",
            "to_int32(clip(src, -128 if is_signed else 0, 127 if is_signed else 255))",
            0.0,
            (
                aligned("dst", "8-bit 4N", "result"),
                aligned("src"),
                aligned("work", role="work buffer, as large as src; may be src"),
            ),
            _PACKING,
            costs=(
                Cost(
                    ("md_cmp.max", "ar.min", "md_sfu.fp32_to_int", "ar.fixed.add", "ar.fixed.add"),
                    "L * P * (4 * n + 2 * ceil(n / 2) + 2 * ceil(n / 4))",
                ),
            ),
            in_place=("src",),
            notes=("Truncates and saturates.",),
        ),
    )


FAMILIES = (
    Family(
        "Special functions",
        "All on the aligned layout, dst and src from one NPU on. `exp`, `sigmoid` and `tanh` take 32 "
        "terms of the series, "
        "`_tunable` as many as num_series says. A work buffer is as large as dst and starts on its NPU.",
        (*_single(), *_sequences()),
    ),
    Family(
        "8-bit integers to fp32 and back",
        "4N: byte k of a word belongs to batch 4 * i + k, so a tensor of n batches takes ceil(n / 4) "
        "batches of words.",
        _numbers_of_bytes(),
    ),
)
