"""What a graph is made of, and the checks that need no layer."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from firmware_sim import shown
from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import UsageError
from firmware_sim.wire import QUANTISED, DType, Format, StoreMode
from user_layers.net.ops import OpInfo

MAX_ELEMENTS = 2**31 - 1  # elem_num of a tensor is an int
_PACKAGE = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True)
class Tensor:
    """A tensor that exists before any layer runs.

    data: the values of a constant, continuous; None for an input of the net. store_mode, scale: see
    firmware_sim.wire.Format.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    data: bytes | None = None
    store_mode: StoreMode = StoreMode.N1
    scale: float = 0.0

    @property
    def format(self) -> Format:
        """How its elements are stored."""
        return Format(self.dtype, self.store_mode, self.scale)

    @property
    def text(self) -> str:
        """`x [1, 3, 64, 64] float32`."""
        return shown.tensor(self.name, self.shape, self.format.text)

    def __repr__(self) -> str:
        what = "input" if self.data is None else f"constant of {len(self.data)} bytes"
        return f"<Tensor {self.text}, {what}>"


@dataclass(frozen=True)
class CpuPart:
    """What a CPU layer computes: a serialized ONNX model. reason: why no TPU layer does it.

    shape_varies: an output can come out smaller than the shape given.
    """

    model: bytes
    reason: str
    shape_varies: bool

    __repr__ = shown.brief


CPU_OP = OpInfo("CPU", 0xFFFF_FFFF, 0, 0, has_local=False)


@dataclass(frozen=True)
class LayerNode:
    """One layer of a graph, or (cpu) a part of it that runs on the host.

    param holds the bytes of its parameter struct. shapes, dims (how many extents) and dtypes are those given
    for the outputs, or None where the layer's own shape function decides. where: the line of the user's code
    that added it.
    """

    name: str
    op: OpInfo
    param: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...] | None
    dtypes: tuple[DType, ...] | None
    where: str
    cpu: CpuPart | None = None
    dims: tuple[int, ...] | None = None

    @property
    def title(self) -> str:
        """How messages call it: `crop_0 (TPU_CROP, model.py:12)`."""
        return f"{self.name} ({self.op.op}, {self.where})"

    def __repr__(self) -> str:
        return f"<LayerNode {self.title}: {shown.edges(self.inputs, self.outputs)}>"


CALLER: ContextVar[str | None] = ContextVar("CALLER", default=None)
"""What `caller` says where the code that calls is not Python."""


@contextmanager
def called(place: str) -> Iterator[None]:
    """Say this in the block."""
    before = CALLER.set(place)
    try:
        yield
    finally:
        CALLER.reset(before)


def caller() -> str:
    """file:line of the nearest code outside this package."""
    named = CALLER.get()
    if named is not None:
        return named
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def check_name(name: object, what: str) -> str:
    """A name is a non-empty text on one line."""
    if not isinstance(name, str) or not name or not name.isprintable():
        raise UsageError(f"{what}: {name!r} is not a name", hint="names are non-empty texts on one line")
    return name


def check_shape(shape: object, what: str) -> tuple[int, ...]:
    """1 to 8 positive extents with fewer than 2**31 elements in all."""
    try:
        result = tuple(operator.index(s) for s in shape)  # type: ignore[attr-defined]
    except TypeError:
        raise UsageError(
            f"{what}: the shape {shape!r} is not a sequence of whole numbers",
            hint="give a tuple such as (1, 3, 64, 64)",
        ) from None
    if not 1 <= len(result) <= MAX_SHAPE_DIMS:
        raise UsageError(
            f"{what}: the shape {list(result)} has {len(result)} dimensions",
            hint=f"the layers take 1 to {MAX_SHAPE_DIMS}",
        )
    count = 1
    for extent in result:
        if extent < 1:
            raise UsageError(f"{what}: the shape {list(result)} has an extent below 1")
        count *= extent
    if count > MAX_ELEMENTS:
        raise UsageError(
            f"{what}: the shape {list(result)} has {count} elements", hint=f"at most {MAX_ELEMENTS} fit"
        )
    return result


def check_scale(scale: object, what: str) -> float:
    """A positive number, rounded to what the bmodel holds (single precision)."""
    import numpy as np

    if isinstance(scale, (int, float, np.floating)) and not isinstance(scale, bool):
        with np.errstate(over="ignore"):
            rounded = float(np.float32(scale))
        if 0 < rounded < float("inf"):
            return rounded
    raise UsageError(
        f"{what}: the scale {scale!r} is not a positive number",
        hint="value = scale x integer; 0.05 for values of -6.4 to 6.35 in int8",
    )


def check_format(dtype: DType, store_mode: object, scale: object, what: str) -> Format:
    """Type, store mode and scale of a tensor.

    store_mode: "1N", "2N", "4N", its number, or None: 4N for quantised tensors of 8 bits, 2N for those of 16,
    else 1N. scale: None where the elements are the values.
    """
    given = 0.0 if scale is None else check_scale(scale, what)
    if given and dtype not in QUANTISED:
        raise UsageError(
            f"{what}: a scale for {dtype.numpy_name}",
            hint=f"quantised tensors are {', '.join(d.numpy_name for d in QUANTISED)}",
        )
    if store_mode is None:
        mode = {1: StoreMode.N4, 2: StoreMode.N2}[dtype.itemsize] if given else StoreMode.N1
    else:
        known = {key: m for m in StoreMode for key in (m.text, int(m))}
        if not isinstance(store_mode, (str, int)) or store_mode not in known:
            raise UsageError(
                f"{what}: no store mode is {store_mode!r}",
                hint=f"one of {', '.join(m.text for m in StoreMode)}",
            )
        mode = known[store_mode]
    made = Format(dtype, mode, given)
    if not made.is_possible:
        raise UsageError(
            f"{what}: {dtype.numpy_name} has no store mode {mode.text}",
            hint="4N is for 8-bit types, 2N for 16-bit types, 1N for all",
        )
    return made


def check_dtype(dtype: object, what: str) -> DType:
    """A numpy dtype, its name, or a DATA_TYPE_T code."""
    import numpy as np

    if isinstance(dtype, int) and not isinstance(dtype, bool):
        try:
            return DType(dtype)
        except ValueError:
            raise UsageError(
                f"{what}: no data type has the code {dtype}", hint=f"the codes are 0 to {max(DType).value}"
            ) from None
    try:
        return DType.from_numpy(np.dtype(dtype).name)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise UsageError(
            f"{what}: the BM1684 has no data type {dtype!r}", hint=f"one of {', '.join(_names())}"
        ) from None


def _names() -> Iterable[str]:
    return (d.numpy_name for d in DType)
