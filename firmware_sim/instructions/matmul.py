"""Matrix products (tsk_typ 2): fp32 and 8-bit.

Matrices lie with rows on n and columns over channels, opd0_w or res0_w columns to a channel, in the
aligned layout. The left one is [opd0_n, K], the last channel holding opd1_w columns, or with
opt_left_tran [K, opd0...] transposed; the right one and the bias have the result's columns.
fp32: two chains by the parity of k, then bias, then the old result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from firmware_sim import chip
from firmware_sim.errors import DeviceError
from firmware_sim.instructions import fp32, small, sums, workers
from firmware_sim.instructions.dense import Array, Dense
from firmware_sim.instructions.elementwise import check_aligned
from firmware_sim.instructions.instruction import Engine, Instruction, Run, Semantics
from firmware_sim.instructions.local_operand import local_offset
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.rows import Indices, planes_at
from firmware_sim.instructions.saturate import saturate, shift_half_up
from firmware_sim.isa import timing
from firmware_sim.isa.codes import Precision, Task
from firmware_sim.isa.footprint import Access, Constant, Operand, Space, Tensor, aligned_strides
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory


def _matrix(
    row: Row, name: str, access: Access, rows: int, channels: int, width: int, itemsize: int
) -> Tensor:
    offset = local_offset(row[f"{name}_addr"], name)
    shape = (rows, channels, 1, width)
    strides = aligned_strides(offset // chip.LOCAL_BYTES, shape, itemsize)
    return Tensor(name, access, Space.LOCAL, offset, shape, strides, itemsize)


@dataclass(frozen=True)
class Product:
    """Sizes: result [m, channels * width], sums over k; the left matrix is stored as rows x columns."""

    rows: int
    columns: int
    m: int
    k: int
    channels: int
    width: int


def product_of(row: Row) -> Product:
    """Raises DeviceError when a size is zero or the last channel holds more than its width."""
    for name in ("opd0_n", "opd0_c", "opd0_w", "opd1_w", "res0_c", "res0_w"):
        if row[name] == 0:
            raise DeviceError(f"{name} is zero", hint="sizes start at 1")
    if row["opd1_w"] > row["opd0_w"]:
        raise DeviceError(
            f"opd1_w: the left matrix's last channel holds {row['opd1_w']} columns, "
            f"but a channel has {row['opd0_w']}",
            hint="opd1_w is between 1 and opd0_w",
        )
    rows, columns = row["opd0_n"], (row["opd0_c"] - 1) * row["opd0_w"] + row["opd1_w"]
    m, k = (columns, rows) if row["opt_left_tran"] else (rows, columns)
    return Product(rows, columns, m, k, row["res0_c"], row["res0_w"])


def _left(row: Row, p: Product, itemsize: int) -> tuple[Operand, ...]:
    """The left matrix: its full channels, and the last one when it is shorter."""
    if row["opt_opd0_const"]:
        return (Constant("opd0", row["opd0_addr"]),)
    whole = _matrix(row, "opd0", Access.READ, p.rows, row["opd0_c"], row["opd0_w"], itemsize)
    short = row["opd1_w"]
    if short == row["opd0_w"]:
        return (whole,)
    found = []
    if row["opd0_c"] > 1:
        shape = (p.rows, row["opd0_c"] - 1, 1, row["opd0_w"])
        found.append(Tensor("opd0", Access.READ, Space.LOCAL, whole.offset, shape, whole.strides, itemsize))
    slot, lane = divmod(whole.lane + row["opd0_c"] - 1, chip.NPU_NUM)
    offset = lane * chip.LOCAL_BYTES + whole.offset % chip.LOCAL_BYTES + slot * whole.strides[1] * itemsize
    shape = (p.rows, 1, 1, short)
    found.append(Tensor("opd0", Access.READ, Space.LOCAL, offset, shape, whole.strides, itemsize))
    return tuple(found)


class _Left:
    """The left matrix prepared for loading as [m, k]."""

    def __init__(
        self, memory: Memory, row: Row, p: Product, left: tuple[Operand, ...], dtype: type[np.generic]
    ) -> None:
        self._row, self._product = row, p
        self._parts = [Dense(memory, t, dtype) for t in left if isinstance(t, Tensor)]
        self._constant = 0
        if isinstance(left[0], Constant):
            bits = np.array([left[0].bits], np.uint32).view(dtype)
            self._constant = bits[0]

    def load(self) -> Array:
        p = self._product
        if not self._parts:
            return np.full((p.m, p.k), self._constant)
        stored = np.concatenate([part.load().reshape(p.rows, -1) for part in self._parts], axis=1)
        turned: Array = stored.T if self._row["opt_left_tran"] else stored
        return turned


def _constant(left: tuple[Operand, ...]) -> int | None:
    return left[0].bits if isinstance(left[0], Constant) else None


def _left_at(row: Row, p: Product, left: tuple[Operand, ...]) -> Array:
    """Where the elements of the left matrix lie, [m, k]; 0 for a constant."""
    tensors = [t for t in left if isinstance(t, Tensor)]
    if not tensors:
        return np.zeros((p.m, p.k), np.int64)
    stored = np.concatenate([t.indices().reshape(p.rows, -1) for t in tensors], axis=1)
    turned: Array = stored.T if row["opt_left_tran"] else stored
    return turned


def _check(operands: tuple[Operand, ...]) -> None:
    tensors = [o for o in operands if isinstance(o, Tensor)]
    seen = set()
    for t in tensors:
        if t.name not in seen:  # the last channel follows from the first ones
            check_aligned(t, chip.ALIGN_BYTES)
        seen.add(t.name)


def _has_bias(row: Row) -> bool:
    return row["tsk_opd_num"] >= 3


# --- where matrices lie, for compiled loops ------------------------------------------------------


@lru_cache(maxsize=4096)
def _planes_of(lane: int, rows: int, channels: int, width: int, itemsize: int) -> tuple[Indices, int, int]:
    """Of a matrix at the begin of a lane: where its planes begin, [rows, channels]; elements from row to row;
    the bytes of a lane that it reaches over."""
    shape = (rows, channels, 1, width)
    strides = aligned_strides(lane, shape, itemsize)
    tensor = Tensor("", Access.READ, Space.LOCAL, lane * chip.LOCAL_BYTES, shape, strides, itemsize)
    ends = [
        block.start - part.lane * chip.LOCAL_BYTES + block.span()
        for part in tensor.parts()
        for block in (tensor.block(part),)
    ]
    return planes_at(tensor), strides[0], max(ends)


@lru_cache(maxsize=4096)
def _multiples(step: int, count: int) -> Indices:
    return np.arange(count, dtype=np.int64) * step


@lru_cache(maxsize=4096)
def _columns_of(lane: int, channels: int, width: int, count: int, itemsize: int) -> Indices:
    """Where the first `count` columns of a row of such a matrix lie."""
    planes, _, _ = _planes_of(lane, 1, channels, width, itemsize)
    return np.ascontiguousarray((planes[0][:, None] + np.arange(width)).reshape(-1)[:count])


@dataclass(frozen=True)
class _Place:
    """A matrix: planes as in _planes_of, to which `first` is added, all in elements; the bytes of a lane
    in which it lies."""

    planes: Indices
    rows: Indices
    first: int
    begin: int
    end: int

    def meets(self, other: _Place) -> bool:
        """Whether they may have bytes in common: they reach over the same part of a lane."""
        return self.begin < other.end and other.begin < self.end


@dataclass(frozen=True)
class _Layout:
    """Where the matrices of a product lie; element (i, k) of the left one at m_at[i] + k_at[k]."""

    product: Product
    places: dict[str, _Place]
    m_at: Indices
    k_at: Indices


def _layout(row: Row, itemsize: int, result_bytes: int) -> _Layout | None:
    """For elements of a size, bias and old results being as wide as `result_bytes`; None where something is
    wrong with an operand, or the left matrix is a constant."""
    if row["opt_opd0_const"]:
        return None
    p = product_of(row)
    wide = {4: 4, 1: 2}[itemsize]
    sizes = {
        "res0": (p.m, p.channels, p.width, result_bytes),
        "opd0": (p.rows, row["opd0_c"], row["opd0_w"], itemsize),
        "opd1": (p.k, p.channels, p.width, itemsize),
    }
    if _has_bias(row):
        sizes["opd2"] = (1, p.channels, p.width, wide)
    places: dict[str, _Place] = {"opd2": _NOWHERE}
    lanes: dict[str, int] = {}
    for name, (rows, channels, width, size) in sizes.items():
        lane, begin = divmod(local_offset(row[f"{name}_addr"], name), chip.LOCAL_BYTES)
        planes, step, span = _planes_of(lane, rows, channels, width, size)
        if begin % chip.ALIGN_BYTES or begin + span > chip.LOCAL_BYTES:
            return None
        if name != "opd0" and lane != lanes.setdefault("res0", lane):
            return None
        lanes[name] = lane
        places[name] = _Place(planes, _multiples(step, rows), begin // size, begin, begin + span)
    left = places["opd0"]
    columns = _columns_of(lanes["opd0"], row["opd0_c"], row["opd0_w"], p.columns, itemsize)
    m_at, k_at = (columns, left.rows) if row["opt_left_tran"] else (left.rows, columns)
    return _Layout(p, places, m_at, k_at)


_FIXED_TIMES = 16  # the usual limit of small commands: up to there a loop is as fast as numpy
_NOTHING: Indices = np.zeros(0, np.int64)
_NOWHERE = _Place(_NOTHING, _NOTHING, 0, 0, 0)


# --- fp32 ----------------------------------------------------------------------------------------


def _fp32_parts(row: Row) -> tuple[Tensor, tuple[Operand, ...], Tensor, tuple[Tensor, ...]]:
    p = product_of(row)
    access = Access.UPDATE if row["opt_res_add"] else Access.WRITE
    bias = (_matrix(row, "opd2", Access.READ, 1, p.channels, p.width, 4),) if _has_bias(row) else ()
    return (
        _matrix(row, "res0", access, p.m, p.channels, p.width, 4),
        _left(row, p, 4),
        _matrix(row, "opd1", Access.READ, p.k, p.channels, p.width, 4),
        bias,
    )


def _fp32_operands(row: Row) -> tuple[Operand, ...]:
    out, left, right, bias = _fp32_parts(row)
    return (out, *left, right, *bias)


def _fp32_bind(row: Row, memory: Memory) -> Run:
    compiled = _fp32_tiles(row, memory)
    if compiled is not None:
        return compiled
    out, first, second, bias = _fp32_parts(row)
    _check(_fp32_operands(row))
    p = product_of(row)
    source = _Left(memory, row, p, first, np.float32)
    other = Dense(memory, second, np.float32)
    added = [Dense(memory, b, np.float32) for b in bias]
    target = Dense(memory, out, np.float32)
    adds_old = Access.READ in out.access

    if small.wanted(p.m * p.k * p.channels * p.width):
        return small.bind_products(
            memory,
            second.indices().reshape(1, 1, p.k, -1),
            _left_at(row, p, first)[None],
            _constant(first),
            out,
            [t.indices() for t in (*bias, *([out] if adds_old else []))],
        )

    def run() -> None:
        left, right = source.load(), other.load().reshape(p.k, -1)
        # without a sum, a product of -0 stays
        results = fp32.mul(left, right) if p.k == 1 else sums.matrix_product(left, right)
        for b in added:
            results = fp32.add(results, b.load().reshape(1, -1))
        results = results.reshape(out.shape)
        if adds_old:
            results = fp32.add(results, target.load())
        target.store(results)

    return run


def _fp32_tiles(row: Row, memory: Memory) -> Run | None:
    """A function that performs the product by a compiled loop which reads and writes local memory itself.

    None where the general way is to do it, or to say what is wrong: where it is not a sum, and where the
    result overlaps what is read while results are written.
    """
    layout = _layout(row, 4, 4) if native.ready() else None
    if layout is None or layout.product.k == 1:
        return None
    p = layout.product
    out, left, right, bias = (layout.places[name] for name in ("res0", "opd0", "opd1", "opd2"))
    if out.meets(right) or (_has_bias(row) and out.meets(bias)):
        return None
    # a loop reads all of the left matrix before it writes, but not before others write
    pieces = 1 if out.meets(left) else workers.pieces(p.m * p.k * p.channels * p.width)
    words = memory.flat(Space.LOCAL).view(np.float32)
    bias_at = bias.planes[0] if _has_bias(row) else _NOTHING
    places = words, layout.m_at, layout.k_at, right.rows, right.planes[0], bias_at, out.planes
    given = *places, p.width, row["opt_res_add"], left.first, right.first, bias.first, out.first
    return workers.in_threads(
        [native.bound("product_product", *given, c0, c1) for c0, c1 in workers.cut(p.channels, 1, pieces)]
    )


def _fp32_cycles(row: Row) -> timing.Cycles:
    p = product_of(row)
    lane = local_offset(row["res0_addr"], "res0") // chip.LOCAL_BYTES
    return timing.matrix_product(p.m, lane, (p.channels, p.width), p.k, bias=_has_bias(row))


# --- 8-bit ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _FixedParts:
    out: Tensor
    old: tuple[Tensor, ...]  # the old result is 16 bit wide, whatever the new one is
    left: tuple[Operand, ...]
    right: Tensor
    bias: tuple[Tensor, ...]

    def all(self) -> tuple[Operand, ...]:
        return (self.out, *self.old, *self.left, self.right, *self.bias)


def _result_bytes(row: Row) -> int:
    return 1 if row["opt_res0_prec"] == Precision.INT8 else 2


def _fixed_parts(row: Row) -> _FixedParts:
    p = product_of(row)
    old = (_matrix(row, "res0", Access.READ, p.m, p.channels, p.width, 2),) if row["opt_res_add"] else ()
    bias = (_matrix(row, "opd2", Access.READ, 1, p.channels, p.width, 2),) if _has_bias(row) else ()
    return _FixedParts(
        _matrix(row, "res0", Access.WRITE, p.m, p.channels, p.width, _result_bytes(row)),
        old,
        _left(row, p, 1),
        _matrix(row, "opd1", Access.READ, p.k, p.channels, p.width, 1),
        bias,
    )


def _wide(values: Array, signed: bool) -> Array:
    """16-bit words as int64."""
    out: Array = values.view(np.int16).astype(np.int64) if signed else values.astype(np.int64)
    return out


def _fixed_tiles(row: Row, memory: Memory) -> Run | None:
    """A function that performs a small product by a compiled loop.

    None for others, where numpy's products of floating point are faster, and where the general way is to
    say what is wrong.
    """
    layout = _layout(row, 1, _result_bytes(row)) if native.ready() else None
    if layout is None:
        return None
    p, places = layout.product, layout.places
    if not small.wanted(p.m * p.k * p.channels * p.width, _FIXED_TIMES):
        return None
    left_signed, right_signed = row["opt_opd0_sign"], row["opt_opd1_sign"]
    signed = left_signed or right_signed or (_has_bias(row) and row["opt_opd2_sign"])
    finish = small.Finish(
        8 * _result_bytes(row),
        bool(signed and not row["opt_relu"]),
        row["opt_right_shift"],
        bool(row["opt_opd2_sign"]),
        bool(row["opt_res_add_sign"]),
        row["opt_left_shift"],
    )
    old_at, old_first = _NOTHING, 0
    if row["opt_res_add"]:
        out = places["res0"]
        lane = local_offset(row["res0_addr"], "res0") // chip.LOCAL_BYTES
        old_at, _, span = _planes_of(lane, p.m, p.channels, p.width, 2)
        old_first = out.begin // 2
        if out.begin + span > chip.LOCAL_BYTES:
            return None
    right, bias = places["opd1"], places["opd2"]
    bias_at = bias.planes[0] if _has_bias(row) else _NOTHING
    return native.bound(
        "product_fixed",
        memory.flat(Space.LOCAL),
        *(layout.m_at, layout.k_at, right.rows, right.planes[0], bias_at, old_at, places["res0"].planes),
        *(p.width, places["opd0"].first, right.first, bias.first, old_first, places["res0"].first),
        finish.how(bool(left_signed), bool(right_signed)),
    )


def _fixed_bind(row: Row, memory: Memory) -> Run:
    compiled = _fixed_tiles(row, memory)
    if compiled is not None:
        return compiled
    parts = _fixed_parts(row)
    _check(parts.all())
    p = product_of(row)
    left_signed, right_signed = bool(row["opt_opd0_sign"]), bool(row["opt_opd1_sign"])
    bias_signed, old_signed = bool(row["opt_opd2_sign"]), bool(row["opt_res_add_sign"])
    signed = left_signed or right_signed or (_has_bias(row) and bias_signed)
    limit = (128 if left_signed else 255) * (128 if right_signed else 255)
    source = _Left(memory, row, p, parts.left, np.int8 if left_signed else np.uint8)
    other = Dense(memory, parts.right, np.int8 if right_signed else np.uint8)
    bias = [Dense(memory, b, np.uint16) for b in parts.bias]
    old = [Dense(memory, o, np.uint16) for o in parts.old]
    bits = 8 * _result_bytes(row)
    target = Dense(memory, parts.out, np.uint8 if bits == 8 else np.uint16)
    left_shift, right_shift = row["opt_left_shift"], row["opt_right_shift"]
    to_signed = signed and not row["opt_relu"]

    if small.wanted(p.m * p.k * p.channels * p.width):
        return small.bind_fixed_products(
            memory,
            (parts.right.indices().reshape(p.k, -1).T[None], right_signed),
            (_left_at(row, p, parts.left)[None], left_signed),
            _constant(parts.left),
            parts.out,
            parts.bias[0] if parts.bias else None,
            small.Finish(bits, to_signed, right_shift, bias_signed, old_signed, left_shift),
            old=parts.old[0] if parts.old else None,
        )

    def run() -> None:
        total = sums.integer_product(source.load(), other.load().reshape(p.k, -1), limit).astype(np.int64)
        for b in bias:
            total += _wide(b.load(), bias_signed).reshape(1, -1)
        for o in old:
            total += _wide(o.load(), old_signed).reshape(total.shape) << left_shift
        results = saturate(shift_half_up(total, right_shift), bits, to_signed)
        target.store(results.reshape(parts.out.shape))

    return run


def _fixed_cycles(row: Row) -> timing.Cycles:
    p = product_of(row)
    lane = local_offset(row["res0_addr"], "res0") // chip.LOCAL_BYTES
    return timing.matrix_product_fixed(
        p.m, lane, (p.channels, p.width), p.k, bias=_has_bias(row), add=bool(row["opt_res_add"])
    )


def _match(*precisions: Precision) -> dict[str, frozenset[int]]:
    return {
        "tsk_typ": frozenset({int(Task.MATMUL)}),
        "tsk_eu_typ": frozenset(range(32)),
        "opt_res0_prec": frozenset(map(int, precisions)),
    }


_EXAMPLE = {"opd0_n": 16, "opd0_c": 4, "opd1_w": 16}

INSTRUCTIONS = (
    Instruction(
        "matmul.fp32",
        Engine.BD,
        _match(Precision.FP32, Precision.INT32),
        "matrix product (+ bias) (+ old with opt_res_add), fp32",
        Semantics(_fp32_operands, _fp32_cycles, _fp32_bind),
        example=_EXAMPLE,
    ),
    Instruction(
        "matmul.int8",
        Engine.BD,
        _match(Precision.INT8, Precision.INT16),
        "matrix product of 8-bit elements (+ 16-bit bias) (+ old shifted left), 8-bit or 16-bit result",
        Semantics(lambda row: _fixed_parts(row).all(), _fixed_cycles, _fixed_bind),
        example=_EXAMPLE,
    ),
)
