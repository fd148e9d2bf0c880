"""A compiled net on random inputs, and beside onnxruntime."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from firmware_sim.errors import CompileError, DeviceError, UsageError
from user_layers.graph import GraphBuilder
from user_layers.net.compiled import CompiledNet
from user_layers.onnx.build import Built, mark_mapped
from user_layers.onnx.check import compare, narrow_line, random_inputs, reference, tolerance
from user_layers.onnx.fitting import OTHER_SHAPES
from user_layers.onnx.fold import fold_constants, random_nodes
from user_layers.onnx.model import Array, Model
from user_layers.onnx.own import Goldens, run_beside
from user_layers.onnx.precision import in_float32
from user_layers.onnx.spectra import has_spectra, write_spectra
from user_layers.onnx.types import from_net, to_net
from user_layers.onnx.unrounded import unquantised
from user_layers.quantize import quality
from user_layers.quantize.report import Quantised
from user_layers.quantize.table import Range
from user_layers.runtime import Ran
from user_layers.runtime.references import timed_run


def run_random(
    model: Model, built: Built, net: CompiledNet, done: Quantised[GraphBuilder] | None = None
) -> tuple[dict[str, Array], dict[str, Array], Ran]:
    """Random inputs of the model, the same as the net takes them, and the run with these. Where the model
    fails with the whole numbers (it divides by them, or they are indices), others are tried. done: the net in
    integers, whose inputs are random in the ranges that it was made for."""
    refused: DeviceError | None = None
    for whole in (None, 1, 0):
        inputs = random_inputs(model, whole=whole)
        if done is not None:
            inputs = {name: _in_range(values, done.table.ranges.get(name)) for name, values in inputs.items()}
        fed = {v.name: to_net(inputs[v.name], v) for v in model.inputs if v.name in built.graph.inputs}
        if done is not None:
            fed = done.fed(fed)
        try:
            return inputs, fed, timed_run(net, built.graph.toolkit, fed)
        except DeviceError as error:
            refused = refused or error
            if all(value.is_float for value in model.inputs):
                break
    assert refused is not None
    if model.given and not any(node.is_own for node in built.model.nodes):
        _check_runs(model, inputs)
    raise refused


def _in_range(values: Array, known: Range | None) -> Array:
    """Normal numbers with the mean and the deviation that were seen, and none beyond the ends. Where only the
    ends are known, three deviations reach them: stretched further, a net would be cut that is good."""
    if known is None or values.dtype.kind != "f":
        return values
    middle, deviation = (known.low + known.high) / 2, (known.high - known.low) / 6
    if known.mean and math.isfinite(known.power):
        middle = sum(known.mean) / len(known.mean)
        deviation = math.sqrt(max(known.power - middle**2, 0.0))
    return np.clip(values * deviation + middle, known.low, known.high).astype(values.dtype)


def _check_runs(model: Model, inputs: Mapping[str, Array]) -> None:
    """Whether onnxruntime runs the model with the shapes given. UsageError where it does not."""
    wide = in_float32(model)
    try:
        reference(wide, fed_wide(wide, inputs), plain=True)  # whose nodes are those of the file
    except CompileError as error:
        raise UsageError(
            f"the model does not run with the shapes given: {error.message}", hint=OTHER_SHAPES
        ) from None


def compared(
    model: Model,
    built: Built,
    custom: Collection[str],
    original: Path | Model,
    inputs: Mapping[str, Array],
    got: Sequence[Array],
    goldens: Goldens | None,
    varying: Collection[str],
    done: Quantised[GraphBuilder] | None = None,
) -> tuple[list[str], list[str]]:
    """A line about each output, and those of them that tell of a difference from onnxruntime. custom: nodes
    that became layers of the user's; original: what onnxruntime runs, the model where its inputs have other
    shapes than the file says, which onnxruntime would refuse; goldens: of the user's layers; varying: outputs
    whose shapes a run decides: behind layers of the user's the last bit of a number may decide it too; done:
    the net in integers, of which is told how far it is away."""
    if drawn := random_nodes(model):
        training = " (exported for training?)" if any(node.is_a("Dropout") for node in drawn) else ""
        return [f"not compared: {drawn[0].title} makes random numbers{training}"], []
    wide = mark_mapped(model, dict.fromkeys(custom))
    if done is None or built.narrow:  # of integers the file's own rounding is the measure
        wide = in_float32(unquantised(wide)[0])
    names = [value.name for value in wide.outputs]
    told: list[str] = []
    different: list[str] = []
    own = any(node.is_own for node in wide.nodes)
    if own:
        want, witness = run_beside(wide, built, fed_wide(wide, inputs), goldens)
        told, different = witness.lines, list(witness.different)
    elif built.narrow or has_spectra(wide):
        # Its own transforms of some lengths are off by more than a net may be.
        told_of = "in the model's own types" if built.narrow else "with its own transforms"
        wide = write_spectra(fold_constants(wide)) if has_spectra(wide) else wide
        want = reference(wide, fed_wide(wide, inputs))
        told = [narrow_line(original, names, want, inputs, told_of)]
    else:
        # Its optimizer computes some products with constants of DequantizeLinear in 8 bits.
        integers = any(node.op == "DequantizeLinear" for node in model.nodes)
        want = reference(original, inputs, plain=done is not None or integers)
    if done is not None:
        got = done.given(got)
    mine = [from_net(array, value) for array, value in zip(got, wide.outputs, strict=True)]
    lines = []
    outputs = list(wide.outputs)
    for i in reversed(range(len(outputs))):
        if own and names[i] in varying and mine[i].shape != want[i].shape:
            shapes = f"{list(mine[i].shape)}, behind onnxruntime's numbers {list(want[i].shape)}"
            lines.append(f"{names[i]} is not compared: it came out as {shapes}")
            del names[i], mine[i], want[i], outputs[i]
    if done is not None:
        zeros = [_zero_point(wide, name) for name in names]
        both = zip(names, zeros, want, mine, strict=True)
        sums = {name: quality.compared(*(one - zero for one in two)) for name, zero, *two in both}
        lines = [quality.line(name, one, nothing=done.nothing) for name, one in sums.items()]
        return lines + told + quality.useless(sums), different
    for found, value, wanted in zip(compare(names, mine, want), outputs, want, strict=True):
        wrong = found.relative > tolerance(value.dtype)
        verdict = "DIFFERS from" if wrong else "equals"
        lines.append(
            f"{found.output} {verdict} onnxruntime's within {found.relative:.1e} of its largest value"
            + ("" if wrong else _says_little(wanted))
        )
        different += lines[-1:] if wrong else []
    return lines + told, different


def _says_little(wanted: Array) -> str:
    """That all numbers of an output are the same: a net may then be equal by chance. Denormals are 0 on the
    chip, and so far below any tolerance that they are 0 here too."""
    if wanted.dtype.kind == "f":
        wanted = np.where(np.abs(wanted) < np.finfo(np.float32).tiny, wanted.dtype.type(0), wanted)
    if (
        wanted.dtype.kind != "f"
        or wanted.size < 2
        or not np.array_equal(wanted, np.full_like(wanted, wanted.flat[0]), equal_nan=True)
    ):
        return ""
    return f"; this says little: each of its values is {wanted.flat[0]:g} for these random inputs"


def _zero_point(model: Model, name: str) -> Array:
    """What integers of an output count from, so that it is no part of their size; 0 for all else."""
    maker = model.makers.get(name)
    while maker is not None and maker.op in ("Transpose", "Reshape", "Identity"):
        maker = model.makers.get(maker.inputs[0])
    zero = None
    if maker is not None and maker.op == "QuantizeLinear" and len(maker.inputs) > 2:
        zero = model.constants.get(maker.inputs[2])
    return np.float64(0) if zero is None or zero.size != 1 else zero.astype(np.float64).reshape(())


def fed_wide(wide: Model, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Inputs of a model in the types that they have where it is computed in float32."""
    return {v.name: inputs[v.name].astype(v.dtype) for v in wide.inputs if v.dtype is not None}
