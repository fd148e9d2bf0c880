"""Rows of the table: arithmetic of the tensor engine on 32-bit elements in local memory."""

from __future__ import annotations

from user_layers.kernel_api.entry import (
    CUT,
    CUT_WITH_STRIDES,
    FIELDS,
    Cost,
    Entry,
    Family,
    Layout,
    Level,
    Limit,
    Operand,
)

_DIVISION = 4e-7
_AR = 2  # cycles for 16 elements


def _strided(*names: str, element: str = "fp32") -> tuple[Operand, ...]:
    """The result, then the inputs."""
    first, *others = names
    return (
        Operand(first, element, Layout.STRIDED, "result"),
        *(Operand(name, element, Layout.STRIDED) for name in others),
    )


def _cycles(factor: int) -> str:
    return f"{factor} * n * L * P" if factor > 1 else "n * L * P"


def _both(aligned: str, strided: str, factors: tuple[int, int]) -> tuple[Cost, ...]:
    """An instruction that implies the aligned layout, and one that takes strides."""
    return (
        Cost((aligned,), _cycles(factors[0]), "aligned operands"),
        Cost((strided,), _cycles(factors[1]), "else"),
    )


def _forms(name: str, symbol: str, formula: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """okk_bdc_NAME, _C, and C_ where the operands cannot be exchanged: name, formula, inputs."""
    made = [
        (f"okk_bdc_{name}", formula.format(a="src0", b="src1"), ("src0", "src1")),
        (f"okk_bdc_{name}_C", formula.format(a="src", b="C"), ("src",)),
    ]
    if symbol in "-/":
        made.append((f"okk_bdc_C_{name}", formula.format(a="C", b="src"), ("src",)))
    return made


_NANS = {
    "max": "max(nan, x) is x and max(x, nan) is nan: where the comparison does not hold, the second "
    "operand is taken.",
    "min": "min(nan, x) is x and min(x, nan) is nan: where the comparison does not hold, the second "
    "operand is taken.",
    "div": "A quotient is a * r * r with r the reciprocal square root of |b|: 1 / 1 is 0.99999988. x / 0 "
    "is inf, "
    "0 / 0 nan.",
    "mac": "The product is rounded before it is added.",
}


def _arithmetic() -> tuple[Entry, ...]:
    out = []
    for name, symbol, formula, factors in (
        ("add", "+", "{a} + {b}", (1, 2)),
        ("sub", "-", "{a} - {b}", (1, 2)),
        ("mul", "*", "{a} * {b}", (1, 2)),
        ("div", "/", "{a} / {b}", (30, 30)),
        ("mac", "+=", "{a} * {b} + old", (1, 5)),
        ("max", ">", "where({a} > {b}, {a}, {b})", (1, 2)),
        ("min", "<", "where({a} <= {b}, {a}, {b})", (0, 2)),
    ):
        aligned = {"mac": "md_scalar.mul", "max": "md_cmp.max"}.get(name, f"md_scalar.{name}")
        costs = _both(aligned, f"ar.{name}", factors)
        if name == "min":
            costs = (Cost(("ar.min",), _cycles(2)),)
        for function, text, inputs in _forms(name, symbol, formula):
            operands = _strided("dst", *inputs)
            if name == "mac":
                operands = (
                    Operand("dst", "fp32", Layout.STRIDED, "result, its old value is read"),
                    *operands[1:],
                )
            out.append(
                Entry(
                    function,
                    "",
                    text,
                    _DIVISION if name == "div" else 0.0,
                    operands,
                    CUT if name == "min" else CUT_WITH_STRIDES,
                    costs=costs,
                    in_place=inputs,
                    notes=(_NANS[name],) if name in _NANS else (),
                )
            )
    for function, text, instruction, factors, note in (
        ("relu", "where(src > 0, src, 0)", ("md_cmp.max", "ar.max"), (1, 2), "relu(nan) is 0."),
        ("reciprocal", "1 / src", ("md_scalar.div", "ar.div"), (30, 30), _NANS["div"]),
        ("neg", "0 - src", ("md_scalar.sub", "ar.sub"), (1, 2), "neg(0) is 0, not -0."),
    ):
        out.append(
            Entry(
                f"okk_bdc_{function}",
                "",
                text,
                _DIVISION if function == "reciprocal" else 0.0,
                _strided("dst", "src"),
                CUT_WITH_STRIDES,
                costs=_both(*instruction, factors),
                in_place=("src",),
                notes=(note,),
            )
        )
    return tuple(out)


def _linear() -> tuple[Entry, ...]:
    out = []
    for name, text, vectors, strided in (
        ("bias", "src + bias", ("bias",), ("ar.add",)),
        ("scale", "src * scale", ("scale",), ("ar.mul",)),
        ("scale_bias", "src * scale + bias", ("scale", "bias"), ("ar.mul", "ar.add")),
    ):
        operands = (
            *_strided("dst", "src"),
            *(Operand(v, "fp32", Layout.CHANNEL, extent="c elements") for v in vectors),
        )
        costs = (
            Cost(
                ("md_linear.mac",),
                _cycles(4),
                "aligned dst and src",
            ),
            Cost(strided, _cycles(_AR * len(strided)), "else"),
        )
        notes = ("With strides dst holds the product between the two commands.",) if len(strided) == 2 else ()
        out.append(
            Entry(
                f"okk_bdc_{name}",
                "",
                text,
                0.0,
                operands,
                CUT_WITH_STRIDES,
                costs=costs,
                in_place=("src",),
                notes=notes,
            )
        )
    return tuple(out)


_COUNT = "A count is positive to the left; right shifts truncate, left shifts drop what leaves the word."


def _words() -> tuple[Entry, ...]:
    word = "32-bit"

    def row(
        name: str, text: str, inputs: tuple[str, ...], instruction: str, note: str, *limits: Limit
    ) -> Entry:
        return Entry(
            f"okk_bdc_32bit_{name}",
            "",
            text,
            0.0,
            tuple(Operand(o.name, word, o.layout, o.role) for o in _strided("dst", *inputs)),
            CUT,
            limits,
            (Cost((instruction,), _cycles(_AR)),),
            inputs,
            notes=(note,) if note else (),
        )

    out = [
        row("cpy", "src", ("src",), "ar.copy", "All bits are kept, of denormals and nan too."),
        row("set_C", "C", (), "ar.or", ""),
    ]
    for name, symbol in (("and", "&"), ("or", "|"), ("xor", "^")):
        out.append(row(name, f"src0 {symbol} src1", ("src0", "src1"), f"ar.{name}", ""))
        out.append(row(f"{name}_C", f"src {symbol} C", ("src",), f"ar.{name}", ""))
    for kind in ("arithmetic", "logical"):
        shifted = f"{kind}_shift"
        counts = f"{_COUNT} Counts in src1 beyond 31 count modulo 32: 32 and -32 change nothing."
        count = Limit("C", -32, 32, level=Level.WARNING)
        out.append(row(shifted, f"{shifted}(src0, src1)", ("src0", "src1"), "ar.shift", counts))
        note = f"{_COUNT} A count of 32 or -32 changes nothing."
        out.append(row(f"{shifted}_C", f"{shifted}(src, C)", ("src",), "ar.shift", note, count))
        out.append(
            row(
                f"C_{shifted}",
                f"{shifted}(C, src)",
                ("src",),
                "ar.shift",
                f"C is what is shifted, src holds the counts. {counts}".replace("src1", "src"),
            )
        )
    return tuple(out)


def _selection() -> tuple[Entry, ...]:
    out = []
    for name, text, inputs, instruction in (
        ("greater_select_value", "where(src0 > src1, select_val, 0)", ("src0", "src1"), "ar.select_gt"),
        ("greater_C_select_value", "where(src > C, select_val, 0)", ("src",), "ar.select_gt"),
        ("C_greater_select_value", "where(C > src, select_val, 0)", ("src",), "ar.select_gt"),
        (
            "equal_select_value",
            "where(same_bits(src0, src1), select_val, 0)",
            ("src0", "src1"),
            "ar.select_eq",
        ),
        ("equal_C_select_value", "where(same_bits(src, C), select_val, 0)", ("src",), "ar.select_eq"),
    ):
        note = "A comparison with nan does not hold, and -0 is not greater or less than 0."
        if instruction == "ar.select_eq":
            note = (
                "Bits are compared: -0 is not 0, and a nan equals the same nan. Integers can be "
                "compared so too."
            )
        operands = (Operand("dst", "32-bit", Layout.STRIDED, "result"), *_strided("dst", *inputs)[1:])
        out.append(
            Entry(
                f"okk_bdc_{name}",
                "",
                text,
                0.0,
                operands,
                CUT,
                costs=(Cost((instruction,), _cycles(_AR)),),
                in_place=inputs,
                notes=(note,),
            )
        )
    for name, text, issues, note in (
        (
            "greater_select",
            "where(src0 > src1, select0, select1)",
            ("md_cmp.select",),
            "A comparison with nan does not hold. Denormals and nan among the selected values keep their "
            "bits.",
        ),
        (
            "equal_select",
            "where((src0 > src1) | (src1 > src0), select1, select0)",
            ("md_cmp.select",) * 2,
            "Equal means that neither is greater: -0 equals 0, and nan equals everything. Both sources "
            "are tensors or "
            "both constants; okk_bdc_equal_C_select_value compares a tensor with a constant.",
        ),
    ):
        operands = (
            Operand("dst", "32-bit", Layout.ALIGNED, "result", 128),
            *(Operand(s, "fp32", Layout.ALIGNED, unit=128, note="or a constant") for s in ("src0", "src1")),
            *(
                Operand(s, "32-bit", Layout.ALIGNED, unit=128, note="or a constant")
                for s in ("select0", "select1")
            ),
        )
        one = len(issues) == 1
        out.append(
            Entry(
                f"okk_bdc_{name}",
                "",
                text,
                0.0,
                operands,
                FIELDS,
                costs=(Cost(issues, _cycles(len(issues))),),
                in_place=("src0", "src1", "select0", "select1") if one else ("select0",),
                notes=(note,),
            )
        )
    return tuple(out)


FAMILIES = (
    Family(
        "Arithmetic on fp32",
        "Each operation rounds to nearest even; denormals count as 0, among operands and in results. "
        "`_C` has a constant "
        "as the second operand, `C_` as the first.",
        _arithmetic(),
    ),
    Family(
        "A number for each channel",
        "The vectors hold one 32-bit word for each channel, compact: channel c on NPU (NPU + c) % 64, 4 "
        "bytes further "
        "after every round of the NPUs. Products are rounded before they are added.",
        _linear(),
    ),
    Family(
        "32-bit words of any meaning",
        "Bits go through these unchanged, whatever they mean.",
        _words(),
    ),
    Family(
        "Selection",
        "`where(condition, a, b)` is a where the condition holds and b elsewhere. Sources are fp32, what "
        "is selected are "
        "32-bit words of any meaning; denormals among the sources count as 0 in a comparison of numbers.",
        _selection(),
    ),
)
