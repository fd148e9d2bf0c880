"""The files of a compiled folder: the bmodel, data to check it with, and its report."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import ModelError
from firmware_sim.shown import brief
from user_layers.files import read_input

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BMODEL = "compilation.bmodel"
INPUT_REFERENCE = "input_ref_data.dat"
OUTPUT_REFERENCE = "output_ref_data.dat"
OUTPUT_SHAPES = "output_ref_shapes.json"  # of the arrays in OUTPUT_REFERENCE, where running alone tells them
LAYERS = "layers"  # a folder like this one, with a net for each layer
LAYERS_OF = "bmodel.sha256"  # in it: which bmodel's layers they are
SITES = "compilation.sites.npz"  # who issued the commands of BMODEL (net/command_map.py)
QUANTISED = "int8.json"  # of a net in integers: the model and the table that it was made of
REPORT_TEXT = "report.txt"
REPORT_JSON = "report.json"
REPORT_PICTURE = "local_memory.svg"

Shape = tuple[int, ...]
_MAX_BYTES = 1 << 24  # of OUTPUT_SHAPES


@dataclass(frozen=True)
class References:
    """Raw arrays of one net, or of one stage of it, one after the other: stage by stage, tensor by tensor.

    output_shapes: of each stage the shapes of its outputs as they are here, perhaps smaller than compiled.
    """

    inputs: bytes
    outputs: bytes
    output_shapes: tuple[tuple[Shape, ...], ...]

    __repr__ = brief

    @classmethod
    def of(cls, inputs: Iterable[NDArray[np.generic]], outputs: Sequence[NDArray[np.generic]]) -> References:
        """Those of one stage, from its arrays in their order."""
        return cls(
            b"".join(array.tobytes() for array in inputs),
            b"".join(array.tobytes() for array in outputs),
            (tuple(array.shape for array in outputs),),
        )

    @classmethod
    def joined(cls, stages: Iterable[References]) -> References:
        """Those of several stages, one after the other."""
        found = list(stages)
        return cls(
            b"".join(r.inputs for r in found),
            b"".join(r.outputs for r in found),
            tuple(shapes for r in found for shapes in r.output_shapes),
        )


def shapes_text(stages: Iterable[Sequence[Shape]]) -> str:
    """The contents of OUTPUT_SHAPES: a JSON array with an array of shapes for each stage, each in a line."""
    lines = ",\n".join(json.dumps([list(shape) for shape in shapes]) for shapes in stages)
    return f"[\n{lines}\n]\n"


def read_shapes(path: Path, stages: Sequence[Sequence[Shape]]) -> list[tuple[Shape, ...]] | None:
    """The shapes of the outputs in the reference data beside `path`, an OUTPUT_SHAPES; None where it is not.

    stages: the largest shapes of each stage's outputs. Raises ModelError for a file that does not fit them.
    """
    try:
        data = read_input(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError(f"{len(data)} bytes, at most {_MAX_BYTES}")
        found = [tuple(_shape(shape) for shape in _list(shapes)) for shapes in _list(json.loads(data))]
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelError(
            f"{path} does not hold shapes: {error}", hint="compile again, or run with --compare 0"
        ) from error
    counts = [len(shapes) for shapes in stages]
    if [len(shapes) for shapes in found] != counts:
        raise ModelError(
            f"{path} has shapes of {_counted([len(shapes) for shapes in found])}; the nets of {BMODEL} "
            f"beside it have {_counted(counts)}",
            hint="compile again, or run with --compare 0",
        )
    for shape, most in zip(itertools.chain(*found), itertools.chain(*stages), strict=True):
        if len(shape) != len(most) or math.prod(shape) > math.prod(most):
            raise ModelError(
                f"{path}: an output of the shape {list(shape)}, compiled was {list(most)} at most"
            )
    return found


def _counted(counts: Sequence[int]) -> str:
    return f"{len(counts)} stages with {', '.join(map(str, counts)) or 'no'} outputs"


def _shape(value: Any) -> Shape:
    shape = tuple(_list(value))
    if len(shape) > MAX_SHAPE_DIMS or any(type(n) is not int or not 0 <= n < 1 << 31 for n in shape):
        raise ValueError(f"{value} is not a shape")
    return shape


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
