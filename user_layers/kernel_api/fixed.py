"""Rows of the table: arithmetic on packed 8-bit (4N) and 16-bit (2N) integers."""

from __future__ import annotations

from typing import Any

from user_layers.kernel_api.entry import FIELDS, Cost, Entry, Family, Layout, Level, Limit, Operand

_RSHIFT = Limit("rshift", 0, 31)
_LSHIFT = (
    Limit("lshift", None, 14, "lshift up to 14", level=Level.WARNING),
    Limit("lshift", 0, 16),
)
_OP_TYPE = Limit("op_type", None, 31, "op_type one of the 20 of op_type_t", level=Level.WARNING)
_RANGES: tuple[tuple[int, int, dict[str, Any]], ...] = (  # of a constant, by op_type
    (-128, 127, {"op_type": 31}),
    (0, 255, {"op_type": 9}),
    (-32768, 32767, {"op_type": 30}),
    (0, 65535, {"op_type": 8}),
)
_OF_BYTES = Limit("op_type", None, 31, "op_type one of those with 8-bit sources")
_BY_TYPE = "8-bit 4N or 16-bit 2N, by op_type"
_SIGNS = (
    "The result saturates to the range of its width: unsigned where both sources are, whatever op_type "
    "says of the "
    "result, else signed."
)


def _constant(count: int) -> tuple[Limit, ...]:
    """C in the range of its type: for as many of the types."""
    return tuple(
        Limit("C", low, high, "C in the range of its source's type", given, Level.WARNING, i > 0)
        for i, (low, high, given) in enumerate(_RANGES[:count])
    )


def _operands(result: str, *inputs: tuple[str, str], old: bool = False) -> tuple[Operand, ...]:
    return (
        Operand("dst", result, Layout.STRIDED, "result, its old value is read" if old else "result"),
        *(Operand(name, element, Layout.STRIDED) for name, element in inputs),
    )


def _entry(
    name: str,
    formula: str,
    operands: tuple[Operand, ...],
    limits: tuple[Limit, ...],
    costs: tuple[tuple[str, ...], str],
    notes: tuple[str, ...],
    in_place: tuple[str, ...] = (),
    apart: tuple[tuple[str, str], ...] = (),
) -> Entry:
    return Entry(
        f"okk_bdc_fixed_point_packed_{name}",
        "",
        formula,
        0.0,
        operands,
        FIELDS,
        limits,
        (Cost(*costs),),
        in_place,
        apart,
        notes,
    )


def _forms(formula: str, reversed_too: bool) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    forms = (
        ("{}", formula.format(a="src0", b="src1"), ("src0", "src1")),
        ("{}_C", formula.format(a="src", b="C"), ("src",)),
    )
    return (*forms, ("C_{}", formula.format(a="C", b="src"), ("src",))) if reversed_too else forms


_BY_RESULT = "2 * ceil(n / per_word) * L * P"


def _arithmetic() -> tuple[Entry, ...]:
    out = []
    for name, symbol, signs in (
        ("add", "+", _SIGNS),
        ("sub", "-", "The result saturates to the signed range of its width, whatever op_type says."),
        ("mul", "*", f"Both sources are 8-bit. {_SIGNS}"),
    ):
        for form, formula, inputs in _forms(
            f"saturated(half_up({{a}} {symbol} {{b}}, rshift))", name == "sub"
        ):
            limits: tuple[Limit, ...] = (_OF_BYTES if name == "mul" else _OP_TYPE, _RSHIFT)
            if "C" in form:
                limits += _constant(2 if name == "mul" else 4)
            source = "8-bit 4N" if name == "mul" else _BY_TYPE
            operands = _operands(_BY_TYPE, *((i, source) for i in inputs))
            out.append(
                _entry(
                    form.format(name),
                    formula,
                    operands,
                    limits,
                    ((f"ar.fixed.{name}",), _BY_RESULT),
                    (signs,),
                    inputs,
                )
            )
    for form, formula, inputs in _forms("saturated(half_up({a} * {b} + (old << lshift), rshift))", False):
        limits = (_OP_TYPE, _RSHIFT, *_LSHIFT, *(_constant(2) if "C" in form else ()))
        operands = _operands("16-bit 2N", *((i, "8-bit 4N") for i in inputs), old=True)
        note = (
            "The old dst counts as signed with is_origin_dst_signed. The result is unsigned where both "
            "sources are; "
            "sources are 8-bit and the result 16-bit whatever op_type says of widths; 16-bit sources in "
            "it are "
            "a warning."
        )
        cost = (("ar.fixed.mac",), "5 * ceil(n / 2) * L * P")
        out.append(_entry(form.format("mac"), formula, operands, limits, cost, (note,)))
    for name, formula in (("max", "maximum({a}, {b})"), ("min", "minimum({a}, {b})")):
        for form, text, inputs in _forms(formula, False):
            limits = (_OP_TYPE, *(_constant(4) if "C" in form else ()))
            operands = _operands(_BY_TYPE, *((i, _BY_TYPE) for i in inputs))
            note = (
                "Both sources are signed or both unsigned, and the result has their width and sign; "
                "another width in "
                "op_type is undefined."
            )
            cost = ((f"ar.fixed.{name}",), _BY_RESULT)
            out.append(_entry(form.format(name), text, operands, limits, cost, (note,), inputs))
    return tuple(out)


_COUNT = "A count is positive to the left; right shifts truncate, left shifts drop what leaves the element."


def _shifts() -> tuple[Entry, ...]:
    out = []
    for kind in ("arithmetic", "logical"):
        shift = f"{kind}_shift"
        element = "16-bit 2N"
        for name, formula, inputs, note in (
            (shift, f"{shift}(src0, src1)", ("src0", "src1"), f"Counts in src1 are -16..16. {_COUNT}"),
            (f"{shift}_C", f"{shift}(src, C)", ("src",), _COUNT),
            (
                f"C_{shift}",
                f"{shift}(C, src)",
                ("src",),
                f"C is what is shifted, src holds the counts. {_COUNT}",
            ),
        ):
            limits = (Limit("C", -16, 16, level=Level.WARNING),) if name.endswith("_C") else ()
            operands = _operands(element, *((i, element) for i in inputs))
            cost = (("ar.fixed.shift",), "2 * ceil(n / 2) * L * P")
            out.append(_entry(f"16bit_{name}", formula, operands, limits, cost, (note,), inputs))
    return tuple(out)


def _parts() -> tuple[Entry, ...]:
    def work(name: str, element: str) -> Operand:
        return Operand(name, element, Layout.STRIDED, "work buffer")

    return (
        _entry(
            "16bit_split_high_8bit",
            "src >> 8",
            _operands("signed 8-bit 4N", ("src", "16-bit 2N")),
            (),
            (("ar.fixed.add",), "2 * ceil(n / 4) * L * P"),
            ("The high byte of each element, as it is for a signed one.",),
        ),
        _entry(
            "16bit_split_low_8bit",
            "src & 255",
            (*_operands("unsigned 8-bit 4N", ("src", "16-bit 2N")), work("work", "16-bit 2N")),
            (),
            (("ar.and", "ar.fixed.add"), "2 * (ceil(n / 2) + ceil(n / 4)) * L * P"),
            ("work is as large as src and may be src.",),
            apart=(("work", "dst"),),
        ),
        _entry(
            "16bit_mul_8bit",
            "saturated(half_up((src0_high * 256 + src0_low) * src1, rshift))",
            _operands(
                "16-bit 2N",
                ("src0_high", "8-bit 4N"),
                ("src0_low", "unsigned 8-bit 4N"),
                ("src1", "8-bit 4N"),
            ),
            (_RSHIFT,),
            (("ar.fixed.mul", "ar.fixed.mac"), "7 * ceil(n / 2) * L * P"),
            (
                "high and low are what the two split functions make of the 16-bit source. With "
                "S16_MUL_U8_TO_S16 nothing "
                "is issued, which is a warning; okk_bdc_fixed_point_packed_s16_mul_u8_to_s16 does that "
                "product.",
                "Signs are those of mul_type; the low byte is unsigned.",
            ),
        ),
        _entry(
            "s16_mul_u8_to_s16",
            "saturated_to_zero(src0 * src1, rshift)",
            (
                *_operands("signed 16-bit 2N", ("src0", "signed 16-bit 2N"), ("src1", "unsigned 8-bit 4N")),
                work("work", "16-bit 2N"),
                work("work_high", "8-bit 4N"),
                work("work_low", "8-bit 4N"),
            ),
            (_RSHIFT,),
            (
                (
                    *(f"ar.fixed.{name}" for name in ("max", "min", "sub", "add")),
                    *("ar.and", "ar.fixed.add", "ar.fixed.mul", "ar.fixed.mac", "ar.fixed.min", "ar.and"),
                    *("ar.fixed.shift", "ar.fixed.sub", "ar.xor", "ar.and", "ar.fixed.sub", "ar.fixed.sub"),
                ),
                "(31 * ceil(n / 2) + 4 * ceil(n / 4)) * L * P",
            ),
            (
                "The magnitude is rounded half up and limited to 32767, then gets the sign of src0 back: "
                "-2.5 becomes -3. "
                "work is as large as dst, work_high and work_low as large as src1; all are apart from "
                "one another and "
                "from the sources.",
            ),
        ),
    )


FAMILIES = (
    Family(
        "Packed 8-bit and 16-bit integers",
        "8-bit tensors hold four batches to a word (4N), 16-bit ones two (2N); extents count elements, "
        "strides words. "
        "`half_up(x, rshift)` is `(x + 2**(rshift - 1)) >> rshift` in wide integers, x itself for "
        "rshift 0: halves go up, "
        "-2.5 to -2 and 2.5 to 3. `per_word` is 4 for an 8-bit result and 2 for a 16-bit one. The "
        "constants of op_type_t "
        "name source 0, source 1 and the result, with S for signed.",
        (*_arithmetic(), *_shifts(), *_parts()),
    ),
)
