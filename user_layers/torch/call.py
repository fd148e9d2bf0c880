"""What spellings of ATen operators use: one call with its tensors, its other arguments and its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from user_layers.spelling.foreign import Array, Operation
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller, Unspelled
from user_layers.torch.program import Free, is_free

TORCH = Spellings()
_LEVELS = {"b": 0, "i": 1, "u": 1, "f": 2}  # of kinds of types: a higher one holds the lower ones
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float32}


class Call:
    """A call of an operator; its tensors by their place among the tensors of the schema."""

    def __init__(self, to: Speller, op: Operation) -> None:
        self.to = to
        self.op = op

    # ---- what is given ----

    def has(self, index: int) -> bool:
        """Whether the tensor is given."""
        return index < len(self.op.inputs) and self.op.inputs[index] is not None

    def name(self, index: int) -> str:
        """The name of a tensor. Raises Unspelled for one left out."""
        found = self.op.inputs[index] if index < len(self.op.inputs) else None
        if found is None:
            raise Unspelled(f"its tensor {index} is left out")
        return found

    def x(self, index: int = 0, dtype: np.dtype[Any] | None = None) -> str:
        """A tensor's value, in another type if one is asked for."""
        name = self.name(index)
        have = self.to.dtype(name)
        known = self.to.constant(name)
        if dtype is None or have == dtype:
            return self.to.own(name)
        if known is not None:
            return self.to.const(known.astype(dtype))
        return self.cast(self.to.own(name), dtype)

    def cast(self, value: str, dtype: np.dtype[Any]) -> str:
        """The value in another type."""
        import onnx

        return self.to.one("Cast", value, to=onnx.helper.np_dtype_to_tensor_dtype(dtype))

    def known(self, index: int, what: str) -> Array:
        """The elements of a tensor that must be a constant. Raises Unspelled, which calls it `what`."""
        return self.to.known(self.op.inputs[index] if index < len(self.op.inputs) else None, what)

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """The extents of a tensor; those that are free have the class Free."""
        return self.to.shape(self.name(index))

    def rank(self, index: int = 0) -> int:
        """How many dimensions a tensor has."""
        return len(self.shape(index))

    def dtype(self, index: int = 0) -> np.dtype[Any]:
        """The type of a tensor's elements."""
        return self.to.dtype(self.name(index))

    def get(self, name: str, default: Any = None) -> Any:
        """An argument that is no tensor; the default where it is None or not there. Raises Unspelled for one
        that depends on a free extent: its number would be the upper bound's."""
        found = self.op.attributes.get(name)
        if is_free(found):
            raise Unspelled(f"its argument {name} depends on an extent that is free")
        return default if found is None else found

    def axis(self, name: str = "dim", default: int | None = None, rank: int | None = None) -> int:
        """An axis counted from the front. rank: of the result where that has more axes."""
        count = self.rank() if rank is None else rank
        given = self.get(name, default)
        if given is None:
            raise Unspelled(f"its argument {name} is left out")
        return int(given) % max(count, 1)

    def axes(self, name: str = "dim") -> list[int]:
        """Axes counted from the front; all where none are named."""
        given = self.get(name)
        rank = self.rank()
        if given is None or given == ():
            return list(range(rank))
        return [int(axis) % max(rank, 1) for axis in ([given] if isinstance(given, int) else given)]

    # ---- what is made ----

    @property
    def out_shape(self) -> tuple[int, ...]:
        """The extents of the first result."""
        return self.to.shape(self.op.outputs[0])

    @property
    def out_dtype(self) -> np.dtype[Any]:
        """The type of the first result's elements."""
        return self.to.dtype(self.op.outputs[0])

    def one(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; returns its value."""
        return self.to.one(op, *inputs, **attributes)

    def const(self, value: Any, dtype: Any = None) -> str:
        """The value of a new constant; of the first result's type, where no other is said."""
        return self.to.const(value, self.out_dtype if dtype is None else dtype)

    def ints(self, values: Sequence[int] | int) -> str:
        """The value of a new constant of int64. Raises Unspelled for a free extent among them."""
        return self.to.const(fixed([values])[0] if isinstance(values, int) else fixed(values), np.int64)

    def reshaped(self, value: str, shape: Sequence[int], before: Sequence[int] = ()) -> str:
        """The same elements in other extents; one of them may be -1.

        before: the extents of the value. A free extent that stands where it stood stays as it is, and one
        follows from the others. Raises Unspelled where there are more.
        """
        target = list(shape)
        moved = [i for i, extent in enumerate(target) if isinstance(extent, Free)]
        if len(moved) != 1 or -1 in target:
            for i in list(moved):
                if i < len(before) and is_same(before[i], target[i]):
                    target[i] = 0
                    moved.remove(i)
        if len(moved) == 1 and -1 not in target:
            target[moved[0]] = -1
        return self.one("Reshape", value, self.ints(target))

    def expanded(self, value: str, before: Sequence[int], shape: Sequence[int]) -> str:
        """A value of the extents `before` repeated along its axes of one element, to those of `shape`."""
        if not is_free((*before, *shape)):
            return self.one("Expand", value, self.ints(shape))
        added = len(shape) - len(before)
        if added:
            value = self.one("Unsqueeze", value, self.ints(list(range(added))))
        pairs = zip([1] * added + list(before), shape, strict=True)
        times = [1 if is_same(have, want) else fixed([have, want])[1] for have, want in pairs]
        return self.one("Tile", value, self.ints(times)) if set(times) != {1} else value

    def pair(self, dtype: np.dtype[Any] | None = None, other: str = "other") -> tuple[str, str]:
        """Two operands, the second a tensor or a number, in one type: the result's if none is asked for."""
        wanted = dtype or self.out_dtype
        if self.has(1):
            return self.x(0, wanted), self.x(1, wanted)
        return self.x(0, wanted), self.const(self.get(other), wanted)

    def promoted(self, other: str = "other") -> np.dtype[Any]:
        """The type in which two operands are compared: the higher kind's; of one kind, the type of the one
        that has dimensions."""
        first, weak = self.dtype(0), not self.rank(0)
        if self.has(1):
            second, also_weak = self.dtype(1), not self.rank(1)
        else:
            number, also_weak = self.get(other), True
            second = np.dtype(_NUMBERS[type(number)])
        if _LEVELS[first.kind] != _LEVELS[second.kind]:
            return max(first, second, key=lambda dtype: _LEVELS[dtype.kind])
        if weak != also_weak:
            return second if weak else first
        return np.promote_types(first, second)


def fixed(extents: Sequence[int]) -> list[int]:
    """The extents as numbers that a constant may hold. Raises Unspelled for one that is free."""
    if is_free(tuple(extents)):
        raise Unspelled("it needs the number of an extent that is free")
    return [int(extent) for extent in extents]


def is_same(left: Any, right: Any) -> bool:
    """Whether two extents are equal whenever the program runs."""
    if isinstance(left, Free) and isinstance(right, Free):
        return left.expression == right.expression
    return not is_free((left, right)) and bool(left == right)


Function = Callable[[Call], str | Sequence[str | None]]


def aten(*names: str) -> Callable[[Function], Function]:
    """Register how these operators are spelled: "relu" is aten.relu.default, "add.Tensor" aten.add.Tensor.
    The function gives the results' values in order, None for one that cannot be had."""

    def register(function: Function) -> Function:
        def write(to: Speller, op: Operation) -> None:
            made = function(Call(to, op))
            for name, value in zip(op.outputs, [made] if isinstance(made, str) else made, strict=False):
                if value is not None:
                    to.put(name, value)

        TORCH.of(*(full_name(name) for name in names))(write)
        return function

    return register


def full_name(name: str) -> str:
    """aten.relu.default for "relu"; a name with its namespace stays ("dim_order_ops._clone_dim_order",
    "quantized_decomposed.quantize_per_tensor.tensor")."""
    if name.startswith("quantized_decomposed."):
        return name
    if name.startswith("dim_order_ops."):
        return f"{name}.default"
    return f"aten.{name}" if "." in name else f"aten.{name}.default"
