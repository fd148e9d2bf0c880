"""The compiled net against onnxruntime, on seeded random inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.chip import DDR_BYTES
from firmware_sim.errors import CompileError, ModelError
from user_layers.onnx.apart import run_model
from user_layers.onnx.model import Array, Model, shown
from user_layers.onnx.proto import part_proto, serialized
from user_layers.onnx.steps_first import with_steps_first

TOLERANCE = 1e-4  # of the largest value of an output
SEED = 1684
_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


def tolerance(dtype: np.dtype[Any] | None) -> float:
    """How far an output of this type may be from onnxruntime's, in parts of its largest value: of float16 one
    step more, for two numbers that are nearly the same can be rounded to neighbours."""
    return TOLERANCE + (float(np.finfo(np.float16).eps) if dtype == np.float16 else 0.0)


@dataclass(frozen=True)
class Difference:
    """The largest difference of an output, absolute and in parts of its largest value."""

    output: str
    absolute: float
    relative: float


def random_inputs(model: Model, seed: int = SEED, whole: int | None = None) -> dict[str, Array]:
    """Inputs for a check: normal numbers for float inputs, any of 8 bits for integers of these, 0 and 1
    for others (whole: only this number).

    Errors: CompileError for an input that memory does not hold.
    """
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for value in model.inputs:
        assert value.fixed is not None and value.dtype is not None
        ends = np.iinfo(value.dtype) if value.dtype in _BYTES else None
        try:
            if 8 * math.prod(value.fixed) > DDR_BYTES:  # random numbers have 64 bits
                raise MemoryError
            if value.is_float:
                found[value.name] = rng.standard_normal(value.fixed).astype(value.dtype)
            else:
                numbers = (
                    rng.integers(0, 2, value.fixed)
                    if ends is None
                    else rng.integers(ends.min, ends.max + 1, value.fixed)
                )
                found[value.name] = (numbers if whole is None else numbers * 0 + whole).astype(value.dtype)
        except MemoryError:
            raise CompileError(
                f"input {shown(value.name)} {list(value.fixed)} is too large to be tried with random numbers",
                hint="--no-check leaves the comparison out",
            ) from None
    return found


def reference(model: Path | Model, inputs: Mapping[str, Array], *, plain: bool = False) -> list[Array]:
    """What onnxruntime gives for these inputs, on one thread: for a file, or for a model as it was read.
    plain: as `run_model` means it.

    Errors: MissingError, CompileError.
    """
    try:
        if isinstance(model, Path):
            return run_model(model, inputs, plain=plain)
        names = [value.name for value in model.inputs]
        results = [value.name for value in model.outputs]
        proto = part_proto(model, with_steps_first(model).nodes, names, results)
        return run_model(serialized(proto, "the model"), inputs, plain=plain)
    except ModelError as error:
        raise CompileError(
            f"onnxruntime does not run the model: {error.message}",
            hint="--no-check leaves the comparison out",
        ) from None


def narrow_line(
    original: Path | Model, names: list[str], wide: list[Array], inputs: Mapping[str, Array], what: str
) -> str:
    """How far a model as onnxruntime computes it by itself is from what it gives in float32, written with
    products. what: what is its own."""
    try:
        found = compare(names, reference(original, inputs), wide)
    except CompileError:
        return "onnxruntime does not run the model " + what.replace("the model's", "its")
    apart = max(one.relative for one in found)
    return f"onnxruntime {what} is {apart:.1e} of an output's largest value off float32"


def compare(names: list[str], got: list[Any], want: list[Array]) -> list[Difference]:
    """The difference of each output. CompileError for one of another shape."""
    found = []
    for name, mine, theirs in zip(names, got, want, strict=True):
        if mine.shape != theirs.shape:
            raise CompileError(
                f"output {name!r} is {list(mine.shape)}, onnxruntime gives {list(theirs.shape)}"
            )
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        both = np.isnan(a) & np.isnan(b) | (a == b)
        with np.errstate(invalid="ignore"):
            apart = np.where(both, 0.0, np.abs(a - b))
        absolute = float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))
        finite = np.abs(b[np.isfinite(b)])
        found.append(Difference(name, absolute, absolute / (float(finite.max(initial=0.0)) or 1.0)))
    return found
