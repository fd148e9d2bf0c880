"""Random fixed-point arithmetic, special functions, lookups and vector operations for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.codes import Eu, Precision, Task
from tests.support.isa_cases import LANE, LOCAL, Case, Fields, lanes, shapes, strides

_AXES = "nchw"
_WIDTHS = [Precision.INT8, Precision.INT16]
_EUS = [Eu.MUL, Eu.MAC, Eu.ADD, Eu.SUB, Eu.MAX, Eu.MIN, Eu.SHIFT, Eu.AND, Eu.OR, Eu.XOR, Eu.COPY]


@st.composite
def fixed(draw: st.DrawFn) -> Case:
    """What the vendor's model takes: products of 8-bit elements, equal signs and widths for the rest."""
    eu = draw(st.sampled_from(_EUS))
    shape, lane, bit = draw(shapes), draw(lanes), st.integers(0, 1)
    narrow = eu in (Eu.MUL, Eu.MAC)
    width = Precision.INT8 if narrow else draw(st.sampled_from(_WIDTHS))
    out = Precision.INT16 if eu is Eu.MAC else draw(st.sampled_from(_WIDTHS))
    if eu in (Eu.MAX, Eu.MIN, Eu.AND, Eu.OR, Eu.XOR, Eu.COPY):
        out = width
    if eu is Eu.SHIFT:
        width = out = Precision.INT16
    fields: Fields = {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": eu}
    fields.update(opt_res0_prec=out, opt_opd0_prec=width, opt_opd1_prec=width)
    signs = (draw(bit), draw(bit))
    if eu in (Eu.MAX, Eu.MIN, Eu.AND, Eu.OR, Eu.XOR):
        signs = (signs[0], signs[0])
    fields.update(opt_opd0_sign=signs[0], opt_opd1_sign=signs[1], opt_res_add_sign=draw(bit))
    if eu is Eu.SHIFT:
        fields.update(opt_opd1_sign=1, opt_shift_typ=signs[0])
    if eu in (Eu.MUL, Eu.MAC, Eu.ADD, Eu.SUB):
        fields.update(opt_right_shift=draw(st.sampled_from([0, 1, 5, 9])))
    if eu is Eu.MAC:
        fields.update(opt_left_shift=draw(st.integers(0, 8)))
    fields.update((f"res0_{a}", n) for a, n in zip(_AXES, shape, strict=True))
    for name, base in (("res0", 0), ("opd0", 0x3000), ("opd1", 0x6000)):
        start = lane if draw(st.integers(0, 3)) else draw(lanes)
        fields[f"{name}_addr"] = LOCAL + start * LANE + base + draw(st.integers(0, 12)) * 4
        fields[f"short_{name}_str"] = 3
        steps = draw(strides(shape, False))
        fields.update((f"{name}_{a}_str", s) for a, s in zip(_AXES, steps, strict=True))
    if eu is Eu.SHIFT or (eu is not Eu.COPY and draw(st.integers(0, 3)) == 0):
        name = "opd1" if eu is Eu.SHIFT else draw(st.sampled_from(["opd0", "opd1"]))
        value = draw(st.integers(-16, 16)) if eu is Eu.SHIFT else draw(st.integers(-(2**15), 2**15 - 1))
        fields.update({f"opt_{name}_const": 1, f"{name}_addr": value & 0xFFFF_FFFF})
    elif eu is not Eu.COPY and draw(st.integers(0, 3)) == 0:
        fields.update(opd1_neq1=1, opd1_n_str=0)
    return Engine.BD, fields


@st.composite
def special(draw: st.DrawFn) -> Case:
    task = draw(st.sampled_from([Task.MD_SFU, Task.TABLE_LOOKUP]))
    shape, lane = draw(shapes), draw(lanes)
    fields: Fields = {"tsk_typ": task}
    fields.update((f"res0_{a}", n) for a, n in zip(_AXES, shape, strict=True))
    places = st.sampled_from([0, 0x1800, 0x3000])
    fields.update(res0_addr=LOCAL + lane * LANE + draw(places), opd0_addr=LOCAL + lane * LANE + draw(places))
    if task is Task.MD_SFU:
        eus = [Eu.TAYLOR, Eu.FP32_TO_INT, Eu.INT_NORMALIZE, Eu.FP32_NORMALIZE, Eu.RSQRT]
        fields["tsk_eu_typ"] = draw(st.sampled_from(eus))
        fields.update(opd1_n=draw(st.sampled_from([1, 5, 32])), opd1_addr=0x300C00)
    else:
        eight = draw(st.booleans())
        fields.update(opd1_h=8, opd1_addr=draw(st.sampled_from([0x300400, 0x301300])))
        fields["opt_opd0_prec"] = Precision.INT8 if eight else Precision.FP32
        if eight:  # apart: results are wider than indices
            fields["opd0_addr"] = LOCAL + draw(lanes) * LANE + 0x6000
            fields["res0_addr"] = LOCAL + lane * LANE
    return Engine.BD, fields


@st.composite
def vector(draw: st.DrawFn) -> Case:
    eus = [Eu.MUL, Eu.ADD, Eu.SUB, Eu.MAX, Eu.MIN, Eu.AND, Eu.OR, Eu.XOR, Eu.DIV]
    eu, lane, width = draw(st.sampled_from(eus)), draw(lanes), draw(st.integers(1, 5))
    integers = eu in (Eu.AND, Eu.OR, Eu.XOR)
    return Engine.BD, {
        "tsk_typ": Task.VECTOR_CORRELATION,
        "tsk_eu_typ": eu,
        "opt_res0_prec": Precision.INT32 if integers else Precision.FP32,
        "opd0_c": draw(st.integers(1, 5)),
        "opd0_w": width,
        "opd1_w": draw(st.integers(1, width)),
        "res0_c": draw(st.sampled_from([1, 2, 64, 66])),
        "res0_w": draw(st.integers(1, 9)),
        "res0_addr": LOCAL + lane * LANE,
        "opd0_addr": LOCAL + draw(lanes) * LANE + 0x6000,
        "opd1_addr": LOCAL + lane * LANE + 0x7000,
    }
