"""What is tried: the inputs of a layer, its parameters, and how exact the result must be."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firmware_sim.errors import UsageError

Array = NDArray[Any]
Param = Mapping[str, Any]
Golden = Callable[[list[Array], Param], list[Array]]
"""golden(inputs, param) -> outputs: what a layer computes, in numpy.

inputs: the layer's inputs in order, constants among them as they are in the graph; they may be changed.
param: every field of the parameter struct as the kernel sees it: fields that were left out are 0, floats are
rounded to the field's precision, arrays are lists of their full length, enums numbers. Returns one array for
each output, of exactly the output's shape and dtype.
"""

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]

MODES = ("opt 0", "opt 1", "opt 2", "dynamic")
SEED = 1684
QUANTISED = ("int8", "uint8", "int16", "uint16")


@dataclass(frozen=True)
class Input:
    """An input of random numbers, the same every time.

    low, high: they are drawn uniformly from low to high (integers: high included). Without both: floats are
    normally distributed, integers lie from -100 (unsigned: 0) to 100, quantised ones anywhere in their type.
    scale: of a quantised input, whose values are scale x integer.
    """

    shape: Shape
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None
    scale: float | None = None

    def draw(self, rng: np.random.Generator, shape: Shape) -> Array:
        """Numbers of its kind, in this shape."""
        dtype = np.dtype(self.dtype)
        if dtype.kind == "f":
            if self.low is None and self.high is None:
                return rng.standard_normal(shape).astype(dtype)
            low, high = (0.0 if x is None else x for x in (self.low, self.high))
            return rng.uniform(low, high, shape).astype(dtype)
        least, most = (0 if dtype.kind == "u" else -100), 100
        if self.scale is not None:
            least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        low, high = least if self.low is None else self.low, most if self.high is None else self.high
        return rng.integers(int(low), int(high), shape, dtype, endpoint=True)


class Const:
    """An input that is a constant of the net: an array, an Input to draw, or the shape of one."""

    def __init__(self, value: Array | Input | Sequence[int]) -> None:
        self.value: Array | Input = _input(value, "float32", None, "Const")
        if isinstance(self.value, Input) and self.value.scale is not None:
            raise UsageError(
                "Const: constants have no scale", hint="the layer's descriptor knows what they mean"
            )


class Case:
    """One thing to try with a layer.

    inputs: for each input of the layer a shape (random numbers of `dtype`), an Input, an array, or a Const.
    param: fields of the parameter struct by name; those left out are 0.
    scale: of all inputs of 8 and 16 bits that are no Const and have none of their own: they are quantised.
    out_scale: the scale that the layer must give all its outputs; None: it is not looked at.
    smaller: with which input shapes the dynamic net also runs, after those it is compiled for: a shape for
    each input that is neither a Const nor an array (one input: the shape alone). None: once with every extent
    halved, where all inputs are random numbers, otherwise not.
    atol, rtol: how far a result may be from golden's: atol + rtol * |golden|. Without both the bits must be
    the same, but any NaN equals any NaN.
    modes: of MODES, those to try.

    Errors: UsageError, when it is made, for what means nothing.
    """

    def __init__(
        self,
        *inputs: Array | Input | Const | Sequence[int],
        param: Param | None = None,
        dtype: str = "float32",
        scale: float | None = None,
        out_scale: float | None = None,
        smaller: Iterable[Sequence[int] | Sequence[Sequence[int]]] | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        modes: Sequence[str] = MODES,
    ) -> None:
        if not inputs:
            raise UsageError(
                "Case() without inputs", hint="give a shape for each input: Case((1, 3, 17, 23))"
            )
        unknown = [mode for mode in modes if mode not in MODES]
        if unknown:
            raise UsageError(f"Case: {unknown[0]!r} is not a mode", hint=f"the modes are {', '.join(MODES)}")
        _check_scale(scale, "Case")
        self.inputs = tuple(x if isinstance(x, Const) else _input(x, dtype, scale, "Case") for x in inputs)
        self.scales = tuple(_scale(x, scale) for x in self.inputs)
        self.out_scale = out_scale
        if scale is not None and not any(self.scales):
            raise UsageError(
                f"Case: scale={scale:g} without an input of 8 or 16 bits", hint='dtype="int8" makes such'
            )
        self.param: Param = dict(param or {})
        self.modes = tuple(modes)
        self.atol, self.rtol = atol, rtol
        self.drawn = tuple(i for i, x in enumerate(self.inputs) if isinstance(x, Input))
        self.smaller = None if smaller is None else tuple(self._shapes(entry) for entry in smaller)

    def _shapes(self, entry: Sequence[int] | Sequence[Sequence[int]]) -> Shapes:
        """An entry of `smaller` as a shape for each drawn input."""
        listed: Sequence[Any] = entry
        shapes = (_shape(listed),) if all(isinstance(x, int) for x in listed) else tuple(map(_shape, listed))
        if len(shapes) != len(self.drawn):
            raise UsageError(
                f"Case: an entry of smaller has {len(shapes)} shapes for {len(self.drawn)} inputs",
                hint="give a shape for each input that is neither a Const nor an array",
            )
        return shapes

    @property
    def shapes(self) -> Shapes:
        """The shapes of the drawn inputs, as the case gives them."""
        return tuple(x.shape for x in self.inputs if isinstance(x, Input))

    def halved(self, may_change: Callable[[int], bool]) -> tuple[Shapes, ...]:
        """What `smaller` is when it is not given. may_change: of which dimensions."""
        if len(self.drawn) < len(self.inputs):
            return ()
        half = tuple(
            tuple((n + 1) // 2 if may_change(axis) else n for axis, n in enumerate(shape))
            for shape in self.shapes
        )
        return (half,) if half != self.shapes else ()

    def like(self, shapes: Sequence[Shape], param: Param) -> Case:
        """This case with other shapes, one for each input (an array keeps its own), and other parameters."""
        changed = copy.copy(self)
        changed.inputs = tuple(_reshaped(x, shape) for x, shape in zip(self.inputs, shapes, strict=True))
        changed.param = dict(param)
        if self.smaller and changed.shapes != self.shapes:
            changed.smaller = None
        return changed

    def arrays(self, shapes: Shapes | None = None, salt: int = 0) -> list[Array]:
        """The values of all inputs; shapes: of those that are drawn.

        Other numbers for each salt and each shape, so that what an earlier run left in the device's memory is
        not what a later one should make; a constant depends on the salt alone.
        """
        found: list[Array] = []
        drawn = iter(self.shapes if shapes is None else shapes)
        for i, x in enumerate(self.inputs):
            value = x.value if isinstance(x, Const) else x
            if isinstance(x, Input):
                shape = next(drawn)
                found.append(x.draw(np.random.default_rng((SEED, salt, i, *shape)), shape))
            elif isinstance(value, Input):
                found.append(value.draw(np.random.default_rng((SEED, salt, i)), value.shape))
            else:
                found.append(value)
        return found

    def __str__(self) -> str:
        """Shapes, types other than float32, scales, parameters: `[2, 3] int8 x 0.05, {'axis': 1}`."""
        words = []
        for x, scale in zip(self.inputs, self.scales, strict=True):
            value = x.value if isinstance(x, Const) else x
            kind = "" if str(value.dtype) == "float32" else f" {value.dtype}"
            kind += "" if scale is None else f" x {scale:g}"
            words.append(f"{'const ' if isinstance(x, Const) else ''}{list(value.shape)}{kind}")
        return ", ".join(words) + (f", {dict(self.param)}" if self.param else "")

    def __repr__(self) -> str:
        return f"Case({self})"


def _input(value: Array | Input | Sequence[int], dtype: str, scale: float | None, what: str) -> Array | Input:
    """scale: of what is quantised and has none of its own."""
    if isinstance(value, np.ndarray):
        return value
    made = value if isinstance(value, Input) else Input(_shape(value), dtype)
    try:
        numeric = np.dtype(made.dtype).kind in "fiu"
    except TypeError:
        numeric = False
    if not numeric:
        raise UsageError(
            f"{what}: {made.dtype!r} is not a data type of numbers", hint="for example float32, int32"
        )
    name = np.dtype(made.dtype).name
    _check_scale(made.scale, what)
    if made.scale is not None and name not in QUANTISED:
        raise UsageError(f"{what}: {name} with a scale", hint=f"quantised numbers are {', '.join(QUANTISED)}")
    own = scale if made.scale is None and name in QUANTISED else made.scale
    return Input(_shape(made.shape), name, made.low, made.high, own)


def _reshaped(x: Array | Input | Const, shape: Shape) -> Array | Input | Const:
    if isinstance(x, Input):
        return replace(x, shape=shape)
    if isinstance(x, Const) and isinstance(x.value, Input):
        return Const(replace(x.value, shape=shape))
    return x


def _scale(x: Array | Input | Const, scale: float | None) -> float | None:
    """Of an input of a case with this scale."""
    if isinstance(x, Input):
        return x.scale
    return scale if isinstance(x, np.ndarray) and x.dtype.name in QUANTISED else None


def _check_scale(scale: float | None, what: str) -> None:
    if scale is not None and not (scale > 0 and math.isfinite(scale)):
        raise UsageError(f"{what}: scale={scale:g} is not a positive number")


def _shape(value: Any) -> Shape:
    if (
        not isinstance(value, (tuple, list))
        or not all(isinstance(n, int) and n > 0 for n in value)
        or not value
    ):
        raise UsageError(
            f"Case: {value!r} is not a shape, array, Input or Const",
            hint="a shape is a tuple such as (1, 3, 17, 23)",
        )
    return tuple(value)
