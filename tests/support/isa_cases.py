"""Random descriptors for property tests, and memory that is small enough to compare whole."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.codes import Direction, Eu, Format, Special, Task
from firmware_sim.isa.footprint import Block, Space
from firmware_sim.isa.layout import BD, GDMA, U32
from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu

LOCAL, DDR = 0x0800_0000, 0x1_0000_0000
LANE = 512 * 1024
WINDOW = 0x9000  # bytes of each lane that the cases use
DDR_WINDOW = 0x20000

Fields = dict[str, int]
Case = tuple[Engine, Fields]

NO_COMMANDS: U32 = np.zeros((0, 32), np.uint32)
_LAYOUTS = {Engine.BD: BD, Engine.GDMA: GDMA}


def words_of(case: Case, **more: int) -> U32:
    engine, fields = case
    layout = _LAYOUTS[engine]
    first = {"cmd_id_tpu": 1} if engine is Engine.BD else {"cmd_id": 1}
    data = layout.encode(**{**layout.defaults, **first, **fields, **more})
    return np.frombuffer(data, np.uint32).reshape(1, 32)


def execute(tpu: Tpu, case: Case) -> None:
    tpu.restart()
    words = words_of(case)
    tpu.execute(*((words, NO_COMMANDS) if case[0] is Engine.BD else (NO_COMMANDS, words)))


def windows(memory: Memory) -> list[npt.NDArray[np.uint8]]:
    return [memory.local[:, :WINDOW], memory.ddr[:DDR_WINDOW]]


@lru_cache(maxsize=4)
def noise(seed: int) -> tuple[npt.NDArray[np.uint8], ...]:
    """Contents for the windows: a third denormals or zeros, some infinities and NaNs."""
    rng = np.random.default_rng(seed)
    out = []
    for shape in ((64, WINDOW), (DDR_WINDOW,)):
        size = math.prod(shape) // 4
        bits = rng.integers(0, 2**32, size, dtype=np.uint32)
        kind = rng.integers(0, 6, size)
        plain = rng.standard_normal(size).astype(np.float32).view(np.uint32)
        bits = np.where(kind < 2, bits & np.uint32(0x80FF_FFFF), np.where(kind < 5, plain, bits))
        out.append(bits.view(np.uint8).reshape(shape))
    return tuple(out)


def fill(memory: Memory, seed: int) -> None:
    for window, data in zip(windows(memory), noise(seed), strict=True):
        window[...] = data


def covered(blocks: tuple[Block, ...], space: Space) -> npt.NDArray[np.bool_]:
    """The bytes of the blocks, one by one: [64, WINDOW] or [DDR_WINDOW] flags.

    Raises AssertionError where a case leaves the windows.
    """
    flags = np.zeros((64, WINDOW) if space is Space.LOCAL else DDR_WINDOW, np.bool_)
    for block in blocks:
        if block.space is not space:
            continue
        for index in np.ndindex(*block.shape):
            start = block.start + sum(i * s for i, s in zip(index, block.strides, strict=True))
            lane, within = divmod(start, LANE) if space is Space.LOCAL else (0, start)
            assert 0 <= within <= within + block.itemsize <= flags.shape[-1], (block, hex(start))
            assert 0 <= lane < 64, (block, hex(start))
            here = flags[lane] if space is Space.LOCAL else flags
            here[within : within + block.itemsize] = True
    return flags


# --- strategies ----------------------------------------------------------------------------------

shapes = st.tuples(
    st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([1, 2, 5, 63, 64, 65, 70, 130]),
    st.integers(1, 3),
    st.integers(1, 5),
)
lanes = st.sampled_from([0, 0, 1, 5, 62, 63])
_AXES = "nchw"


@st.composite
def strides(draw: st.DrawFn, shape: tuple[int, int, int, int], broadcast: bool) -> tuple[int, ...]:
    """Apart from each other from any lane on, or (broadcast) anything small, 0 included."""
    if broadcast:
        return tuple(draw(st.integers(0, 12)) for _ in range(4))
    w = draw(st.sampled_from([1, 1, 1, 2]))
    h = w * shape[3] + draw(st.integers(0, 2))
    c = h * shape[2] + draw(st.integers(0, 3))
    lines = -(-(63 + shape[1]) // 64)  # more would take 70 batches of a transposed tensor out of the window
    return c * lines + draw(st.integers(0, 4)), c, h, w


@st.composite
def arithmetic(draw: st.DrawFn) -> Case:
    eu = draw(st.sampled_from([e for e in Eu if e <= Eu.DIV or e is Eu.COPY]))
    shape = draw(shapes)
    lane = draw(lanes)
    fields: Fields = {"tsk_typ": Task.ARITHMETIC, "tsk_eu_typ": eu, "opt_shift_typ": draw(st.integers(0, 1))}
    fields.update((f"res0_{a}", n) for a, n in zip(_AXES, shape, strict=True))
    if eu in (Eu.SELECT_GT, Eu.SELECT_EQ):
        fields.update(opt_opd2_const=1, opd2_addr=draw(st.integers(0, 2**32 - 1)))
    together = draw(st.booleans())
    for name, base in (("res0", 0), ("opd0", 0x1000), ("opd1", 0x2000)):
        offset = draw(st.integers(0, 12)) * 4 + (0 if together else base)
        start = lane if together or draw(st.integers(0, 3)) else draw(lanes)
        fields[f"{name}_addr"] = LOCAL + start * LANE + offset
        fields[f"short_{name}_str"] = draw(st.sampled_from([0, 3, 3]))
        steps = draw(strides(shape, draw(st.integers(0, 3)) == 0))
        fields.update((f"{name}_{a}_str", s) for a, s in zip(_AXES, steps, strict=True))
        if draw(st.integers(0, 4)) == 0:
            fields.update(
                {f"{name}_h_shift": draw(st.integers(0, 2)), f"{name}_w_shift": draw(st.integers(0, 2))}
            )
    for name in ("opd0", "opd1"):
        if eu is not Eu.COPY and draw(st.integers(0, 5)) == 0:
            fields.update({f"opt_{name}_const": 1, f"{name}_addr": draw(st.integers(0, 2**32 - 1))})
    return Engine.BD, fields


_MD_EUS = {
    Task.MD_SCALAR: [Eu.MUL, Eu.ADD, Eu.SUB, Eu.DIV],
    Task.MD_LINEAR: [Eu.MAC, Eu.SQUARE_SUM, Eu.SQUARE_DIFF],
    Task.MD_CMP: [Eu.CMP, Eu.SELECT, Eu.CMP_SELECT],
}


@st.composite
def md(draw: st.DrawFn) -> Case:
    task = draw(st.sampled_from(list(_MD_EUS)))
    shape, lane = draw(shapes), draw(lanes)
    fields: Fields = {"tsk_typ": task, "tsk_eu_typ": draw(st.sampled_from(_MD_EUS[task]))}
    fields.update((f"res0_{a}", n) for a, n in zip(_AXES, shape, strict=True))
    fields["opt_res_add"] = draw(st.integers(0, 1))
    places = st.sampled_from([0, 0x600, 0xC00, 0x1200, 0x1800, 0x1E00])
    for name in ("res0", "opd0", "opd1", "opd2", "opd3", "res1"):
        fields[f"{name}_addr"] = LOCAL + lane * LANE + draw(places)
    for name in {Task.MD_LINEAR: ("opd1", "opd2")}.get(task, ("opd0", "opd1", "opd2", "opd3")):
        if draw(st.integers(0, 4)) == 0:
            fields.update({f"opt_{name}_const": 1, f"{name}_addr": draw(st.integers(0, 2**32 - 1))})
    return Engine.BD, fields


_CONVERSIONS = [
    (a, b)
    for a in Format
    for b in Format
    if a != b and Format.INT16 not in (a, b) and {a, b} != {Format.INT8, Format.UINT8}
]


_DEADLY_MASK = 0xFFFF  # as its lower 32 bits: the vendor's model ends with a segmentation fault


def _mask_fields(mask: int) -> Fields:
    return {"localmem_mask_l32": mask & 0xFFFF_FFFF, "localmem_mask_h32": mask >> 32}


lane_masks: st.SearchStrategy[Fields] = st.one_of(
    st.just({}),
    st.just({}),
    st.integers(0, 2**64 - 1).filter(lambda mask: mask & 0xFFFF_FFFF != _DEADLY_MASK).map(_mask_fields),
)
"""Fields that switch off lanes, in one case of three."""


@st.composite
def lrn_shift(draw: st.DrawFn) -> Case:
    shape = draw(shapes)
    fields: Fields = {"special_func": Special.LRN_SHIFT, "direction": Direction.L2L}
    fields.update(lrn_shift_num=draw(st.integers(0, 15)), lrn_shift_dir=draw(st.integers(0, 1)))
    data_format = draw(st.sampled_from([Format.FP32, Format.INT16, Format.INT8, Format.FP16]))
    fields.update(src_data_format=data_format, dst_data_format=data_format)
    if draw(st.booleans()):  # else batches may overlap on dst's lanes, settled for a plain copy only
        if data_format is Format.FP32:
            fields["acc_write_enable"] = draw(st.sampled_from([0, 0, 1]))
        steps = draw(strides(shape, False))
        fields.update(stride_enable=1, **{f"src_{a}stride": s for a, s in zip(_AXES, steps, strict=True)})
        fields.update(draw(lane_masks))
    for side, base in (("src", 0x1000), ("dst", 0x5000)):  # room for a channel before the first
        fields.update((f"{side}_{a}size", s) for a, s in zip(_AXES, shape, strict=True))
        fields[f"{side}_start_addr_l32"] = (
            LOCAL + draw(lanes) * LANE + base + draw(st.integers(0, 9)) * data_format.itemsize
        )
    return Engine.GDMA, fields


@st.composite
def dma_winograd(draw: st.DrawFn) -> Case:
    kernels, channels = draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 5, 64, 66, 130]))
    fields: Fields = {"special_func": Special.WINOGRAD, "direction": Direction.S2L}
    fields.update(
        src_data_format=Format.INT8, dst_data_format=Format.INT8, stride_enable=draw(st.integers(0, 1))
    )
    sides = (("src", 9 * kernels, DDR), ("dst", 16 * kernels, LOCAL + draw(lanes) * LANE))
    for side, width, base in sides:
        sizes, row = (1, channels, 1, width), width + draw(st.integers(0, 5))
        fields.update((f"{side}_{a}size", s) for a, s in zip(_AXES, sizes, strict=True))
        fields.update((f"{side}_{a}stride", s) for a, s in zip(_AXES, (0, row, row, 1), strict=True))
        address = base + draw(st.integers(0, 130))
        fields.update(
            {f"{side}_start_addr_l32": address & 0xFFFF_FFFF, f"{side}_start_addr_h8": address >> 32}
        )
    word, byte = st.integers(0, 2**32 - 1), st.integers(0, 255)
    fields.update(src_hshift=draw(word) & 0xFFFFFF, constant_value=draw(word), dst_wshift=draw(byte))
    fields.update(src_wshift=draw(byte), dst_hshift=draw(byte))
    fields.update(draw(lane_masks))
    return Engine.GDMA, fields


@st.composite
def dma(draw: st.DrawFn) -> Case:
    """Copies, transposes, conversions and fills in all directions; src and dst lie apart."""
    special = draw(st.sampled_from([Special.COPY, Special.TRANSPOSE_NC, Special.FORMAT, Special.CONSTANT]))
    direction = draw(st.integers(0, 3) if special is not Special.CONSTANT else st.integers(2, 3))
    src_format = dst_format = draw(st.sampled_from(list(Format)))
    if special is Special.FORMAT:
        src_format, dst_format = draw(st.sampled_from(_CONVERSIONS))
    shape = n, c, h, w = draw(shapes)
    if special is Special.TRANSPOSE_NC:  # so many batches would not fit in a window
        shape = n, c, h, w = n, min(c, 70), h, w
    target = (c, n, h, w) if special is Special.TRANSPOSE_NC else shape
    if special in (Special.COPY, Special.FORMAT) and draw(st.booleans()):
        target = (1, n * c, h, w) if draw(st.booleans()) else (n, c, 1, h * w)
    explicit = direction == 2 or draw(st.booleans())
    fields: Fields = {"special_func": special, "direction": direction, "stride_enable": int(explicit)}
    fields.update(src_data_format=src_format, dst_data_format=dst_format)
    if special is Special.CONSTANT:
        fields["constant_value"] = draw(st.integers(0, 2**32 - 1))
    if special is Special.COPY and src_format is Format.FP32:
        fields["acc_write_enable"] = draw(st.sampled_from([0, 0, 1]))
    fields.update(draw(lane_masks))
    sides = (
        ("src", shape, direction in (1, 3), src_format, 0),
        ("dst", target, direction in (0, 3), dst_format, 0x2000),
    )
    for side, sizes, local, data_format, base in sides:
        fields.update((f"{side}_{a}size", s) for a, s in zip(_AXES, sizes, strict=True))
        steps = draw(strides(sizes, side == "src" and draw(st.integers(0, 3)) == 0))
        if not local:
            row = steps[2]
            steps = (row * sizes[2] * sizes[1], row * sizes[2], row, steps[3]) if side == "dst" else steps
        fields.update((f"{side}_{a}stride", s) for a, s in zip(_AXES, steps, strict=True))
        address = base * (1 if local else 8) + draw(st.integers(0, 9)) * data_format.itemsize
        address += LOCAL + draw(lanes) * LANE if local else DDR
        if special is Special.CONSTANT and side == "src":
            address = 0
        fields.update(
            {f"{side}_start_addr_l32": address & 0xFFFF_FFFF, f"{side}_start_addr_h8": address >> 32}
        )
    if special is Special.TRANSPOSE_NC and draw(st.booleans()):  # dst's own n and c do not count
        fields.update(dst_nsize=n, dst_csize=c)
    return Engine.GDMA, fields
