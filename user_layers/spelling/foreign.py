"""A model of another framework as its reader gives it: operations between tensors, whatever the format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
QUANTIZED = "is quantized in a way of which no scales are known here"
"""What a `Tensor` without a type is."""


@dataclass(frozen=True)
class Scaled:
    """What a quantized tensor stands for: (integer - zero point) * scale + shift; one of each, or for each
    place along `axis`. dtype: of the integers; data: them, for a constant; shifts: None for 0."""

    dtype: np.dtype[Any]
    scales: Array = field(compare=False, repr=False)
    zero_points: Array = field(compare=False, repr=False)
    axis: int
    data: Array | None = field(default=None, compare=False, repr=False)
    shifts: Array | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Tensor:
    """shape: extents in the framework's own order, below 0 those known only when the model runs. dtype: None
    for what is not an array of numbers or bools. data: its elements, for a constant. odd: what it is that has
    no dtype ("is quantized"), for messages; scaled: what it stands for then."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any] | None
    data: Array | None = field(default=None, compare=False, repr=False)
    odd: str = "is not an array of numbers"
    scaled: Scaled | None = None


@dataclass(frozen=True)
class Operation:
    """kind: as the framework calls it (CONV_2D, aten.convolution.default, Conv2DFusion). inputs, outputs:
    names of tensors, None for one left out. attributes: numbers, texts, tuples of them, arrays, by the
    framework's names. own: an operation of the user's; `kind` is the layer, or `call` adds the layers (a
    function of a graph and a MappedNode of user_layers/onnx/custom.py). odd: what is wrong with its
    attributes, for messages; it can be no layer then."""

    kind: str
    name: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    own: bool = False
    call: Callable[[Any, Any], None] | None = field(default=None, compare=False)
    odd: str = ""


@dataclass(frozen=True)
class ForeignModel:
    """Operations in an order in which they can run. tensors: all that these, inputs and outputs name.
    what: the framework's name for messages ("TFLite"). notes: what its user should know of the reading."""

    what: str
    name: str
    tensors: Mapping[str, Tensor]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    operations: tuple[Operation, ...]
    notes: tuple[str, ...] = ()

    def part(self, indices: tuple[int, ...], name: str = "") -> ForeignModel:
        """Some of the operations as a model of their own. Its inputs are the computed tensors that they read
        from outside, its outputs those that others or the model's outputs need, in order of first use."""
        chosen = [self.operations[index] for index in indices]
        made = dict.fromkeys(t for operation in chosen for t in operation.outputs)
        read = dict.fromkeys(t for operation in chosen for t in operation.inputs if t is not None)
        rest = [op for index, op in enumerate(self.operations) if index not in set(indices)]
        wanted = {t for operation in rest for t in operation.inputs if t is not None} | set(self.outputs)
        used = {t: self.tensors[t] for t in (*read, *made)}
        return replace(
            self,
            name=name or self.name,
            tensors=used,
            inputs=tuple(t for t in read if t not in made and used[t].data is None),
            outputs=tuple(t for t in made if t in wanted),
            operations=tuple(chosen),
        )
