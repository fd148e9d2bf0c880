"""Random convolutions, pools, matrix products and sums for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.codes import Eu, Precision, Task
from tests.support.isa_cases import LANE, LOCAL, Case, Fields, lanes

# places of the operands in a lane, far enough apart for the sizes below
_RESULT, _INPUT, _WEIGHT, _BIAS = 0, 0x3000, 0x6000, 0x8800
_PRECISIONS = [Precision.FP32, Precision.INT8, Precision.INT16]


def _window(
    draw: st.DrawFn,
    axis: str,
    *,
    kernel: int | None = None,
    plain: bool = False,
    inserts: bool = True,
    extra: int = 4,
) -> tuple[Fields, int]:
    """Fields of one direction and the size of the result. extra: of the input, more than it needs."""
    letter, before, after = ("y", "up", "dn") if axis == "h" else ("x", "lf", "rt")
    k = kernel or draw(st.integers(1, 3))
    dilation = 1 if plain else draw(st.sampled_from([1, 1, 1, 2, 3]))
    stride = 1 if plain else draw(st.sampled_from([1, 1, 2, 3]))
    insert = draw(st.sampled_from([0, 0, 0, 1, 2])) if inserts else 0
    pads = draw(st.sampled_from([(0, 0), (0, 0), (1, 1), (0, 2), (3, 1)]))
    extent = (k - 1) * dilation + 1
    least = max(1, -(-(extent - sum(pads) - 1) // (insert + 1)) + 1)
    size = draw(st.integers(least, least + extra))
    result = ((size - 1) * (insert + 1) + 1 + sum(pads) - extent) // stride + 1
    return {
        f"opd0_{axis}": size,
        f"opd1_{axis}": k,
        f"opd1_{letter}_ins0": dilation - 1,
        f"opd0_{letter}_ins0": insert,
        f"res_op_{letter}_str": stride,
        f"opd0_{before}_pad": pads[0],
        f"opd0_{after}_pad": pads[1],
        f"res0_{axis}": result,
    }, result


def _signs(draw: st.DrawFn) -> Fields:
    bit = st.integers(0, 1)
    return {name: draw(bit) for name in ("opt_opd0_sign", "opt_opd1_sign", "opt_opd2_sign", "opt_relu")}


def _batches(draw: st.DrawFn) -> int:
    return draw(st.sampled_from([1, 2, 3, 4, 5, 8]))


@st.composite
def convolution(draw: st.DrawFn, *, only: Precision | None = None, extra: int = 4) -> Case:
    precision = only or draw(st.sampled_from(_PRECISIONS))
    winograd = draw(st.integers(0, 2)) == 0
    fixed = precision is not Precision.FP32
    fields: Fields = {"tsk_typ": Task.CONV, "opt_res0_prec": precision, "opt_winograd": int(winograd)}
    for axis in "hw":
        more, _ = _window(draw, axis, kernel=3 if winograd else None, plain=winograd, extra=extra)
        fields.update(more)
    if winograd:
        fields.update(opd1_h=4, opd1_w=4)
    kh, kw = fields["opd1_h"], fields["opd1_w"]
    channels = draw(st.sampled_from([1, 2, 3, 4, 5, 9]))
    out = draw(st.sampled_from([1, 2, 5, 63, 66]))
    lane = draw(lanes)
    fields.update(res0_n=min(_batches(draw), 8 if fixed else 3), res0_c=out, opd0_c=channels, **_signs(draw))
    fields.update(
        res0_addr=LOCAL + lane * LANE + _RESULT,
        opd0_addr=LOCAL + draw(lanes) * LANE + _INPUT,
        opd1_addr=LOCAL + lane * LANE + _WEIGHT + 8 * draw(st.integers(0, 3)),
        opd2_addr=LOCAL + lane * LANE + _BIAS + 4 * draw(st.integers(0, 3)),
        tsk_opd_num=draw(st.sampled_from([2, 3])),
        opt_right_shift=draw(st.sampled_from([0, 1, 5, 7])),
        opt_kernel_rotate=draw(st.integers(0, 0 if winograd else 1)),
        opt_res_add=0 if fixed else draw(st.integers(0, 1)),
    )
    if draw(st.booleans()):
        groups = -(-channels // (4 if fixed else 2))
        fields.update(short_opd1_str=3, opd1_h_str=kw, opd1_w_str=1)
        by_group = draw(st.booleans())
        plane = kh * kw
        slots = -(-(lane + out) // 64)
        fields.update(
            opd1_n_str=plane * slots if by_group else plane, opd1_c_str=plane if by_group else plane * groups
        )
    if draw(st.integers(0, 3)) == 0:
        w = fields["opd0_w"]
        c_str = fields["opd0_h"] * (w + 1) + 1
        fields.update(
            short_opd0_str=3, opd0_n_str=2 * c_str, opd0_c_str=c_str, opd0_h_str=w + 1, opd0_w_str=1
        )
        fields["opd0_addr"] += 4 * draw(st.integers(0, 3))
    if not winograd and draw(st.integers(0, 5)) == 0:
        fields.update(opt_opd1_const=1, opd1_addr=draw(st.integers(0, 2**32 - 1)))
    return Engine.BD, fields


@st.composite
def depthwise(draw: st.DrawFn) -> Case:
    precision = draw(st.sampled_from(_PRECISIONS))
    fixed = precision is not Precision.FP32
    fields: Fields = {"tsk_typ": Task.DEPTHWISE, "opt_res0_prec": precision}
    fields["opt_opd0_prec"] = Precision.INT8 if fixed else Precision.FP32
    maximum = precision is not Precision.INT16 and draw(st.booleans())
    for axis in "hw":
        more, result = _window(draw, axis, inserts=fixed or not maximum)  # fp32 maxima ignore the field
        if result > 1 and draw(st.integers(0, 4)) == 0:
            more[f"res0_{axis}"] -= 1
        fields.update(more)
    lane = draw(lanes)
    fields.update(
        tsk_eu_typ=Eu.MAX if maximum else Eu.MAC,
        res0_n=min(_batches(draw), 8 if fixed else 3),
        res0_c=draw(st.sampled_from([1, 2, 5, 63, 66])),
        res0_addr=LOCAL + lane * LANE + _RESULT,
        opd0_addr=LOCAL + lane * LANE + _INPUT,
        opd1_addr=LOCAL + lane * LANE + _WEIGHT + 4 * draw(st.integers(0, 3)),
        opd2_addr=LOCAL + lane * LANE + _BIAS + 4 * draw(st.integers(0, 3)),
        tsk_opd_num=1 if maximum else draw(st.sampled_from([2, 3])),
        opt_right_shift=0 if maximum else draw(st.sampled_from([0, 1, 5, 7])),
        **_signs(draw),
    )
    if not maximum and precision is not Precision.INT16 and draw(st.booleans()):
        fields.update(opt_opd1_const=1, opd1_addr=draw(st.integers(0, 2**32 - 1)))
    return Engine.BD, fields


@st.composite
def product(draw: st.DrawFn) -> Case:
    precision = draw(st.sampled_from(_PRECISIONS))
    fixed = precision is not Precision.FP32
    lane, bit = draw(lanes), st.integers(0, 1)
    width = draw(st.integers(1, 5))
    fields: Fields = {
        "tsk_typ": Task.MATMUL,
        "opt_res0_prec": precision,
        "opt_left_tran": draw(bit),
        "opt_res_add": draw(bit),
        "opt_res_add_sign": draw(bit),
        "opt_left_shift": draw(st.integers(0, 3)) if fixed else 0,
        "opt_right_shift": draw(st.sampled_from([0, 1, 7])),
        "opd0_n": draw(st.sampled_from([1, 2, 3, 7])),
        "opd0_c": draw(st.sampled_from([1, 2, 3, 5])),
        "opd0_w": width,
        "opd1_w": draw(st.integers(1, width)),
        "res0_c": draw(st.sampled_from([1, 2, 5, 64, 66])),
        "res0_w": draw(st.sampled_from([1, 2, 3, 5, 8, 9, 17, 50])),
        "res0_addr": LOCAL + lane * LANE + _RESULT,
        "opd0_addr": LOCAL + draw(lanes) * LANE + _INPUT,
        "opd1_addr": LOCAL + lane * LANE + _WEIGHT,
        "opd2_addr": LOCAL + lane * LANE + _BIAS,
        "tsk_opd_num": draw(st.sampled_from([2, 3])),
        **_signs(draw),
    }
    if draw(st.integers(0, 5)) == 0:
        fields.update(opt_opd0_const=1, opd0_addr=draw(st.integers(0, 2**32 - 1)))
    return Engine.BD, fields


@st.composite
def correlation(draw: st.DrawFn) -> Case:
    fields: Fields = {"tsk_typ": Task.CORRELATION, "opt_res_add": draw(st.integers(0, 1))}
    for axis in "hw":
        more, result = _window(draw, axis, kernel=draw(st.sampled_from([1, 2, 3, 7])))
        letter = "y" if axis == "h" else "x"
        if more[f"opd0_{letter}_ins0"] or more[f"opd1_{letter}_ins0"]:
            # these fields are not read: the smallest result that is certainly there
            pads = sum(more[f"opd0_{p}_pad"] for p in (("up", "dn") if axis == "h" else ("lf", "rt")))
            more[f"opd0_{axis}"] = max(more[f"opd0_{axis}"], more[f"opd1_{axis}"] - pads)
            more[f"res0_{axis}"] = result = 1
        if result > 1 and draw(st.integers(0, 4)) == 0:
            more[f"res0_{axis}"] -= 1
        fields.update(more)
    lane = draw(lanes)
    fields.update(
        res0_n=draw(st.sampled_from([1, 1, 2, 3, 66])),
        res0_c=draw(st.sampled_from([1, 2, 5, 63, 66])),
        res0_addr=LOCAL + lane * LANE + _RESULT + 4 * draw(st.integers(0, 3)),
        opd0_addr=LOCAL + draw(lanes) * LANE + _INPUT + 128 * draw(st.integers(0, 3)),
        opd1_addr=LOCAL + lane * LANE + _WEIGHT + 128 * draw(st.integers(0, 3)),
    )
    if fields["res0_n"] * fields["res0_c"] > 100:  # the result must not reach the input
        fields.update(res0_h=1, res0_w=1)
    return Engine.BD, fields


@st.composite
def channel_sum(draw: st.DrawFn) -> Case:
    lane = draw(lanes)
    return Engine.BD, {
        "tsk_typ": Task.MD_SUM,
        "opt_res_add": draw(st.integers(0, 1)),
        "opd0_n": draw(st.sampled_from([1, 1, 2, 3])),
        "opd0_h": draw(st.integers(1, 9)),
        "opd0_w": draw(st.sampled_from([1, 2, 5, 8, 31, 32, 33])),
        "res0_c": draw(st.sampled_from([1, 2, 5, 63, 66, 130])),
        "res0_addr": LOCAL + lane * LANE + _RESULT + 4 * draw(st.integers(0, 3)),
        "opd0_addr": LOCAL + lane * LANE + _INPUT + 128 * draw(st.integers(0, 3)),
    }
