"""Where bmrt_test takes its inputs from, and what it compares the outputs with.

The reference files of a context directory hold raw little-endian arrays, one behind the other: for
each net, each stage, each input (input_ref_data.dat) or output (output_ref_data.dat). Outputs whose shapes
are known only when the net has run have there the shapes that output_ref_shapes.json says.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.device.api import Array
from firmware_sim.errors import ModelError, UsageError
from firmware_sim.npy import Archive
from firmware_sim.wire import DType
from user_layers.bmodel.directory import (
    BMODEL,
    INPUT_REFERENCE,
    OUTPUT_REFERENCE,
    OUTPUT_SHAPES,
    Shape,
    read_shapes,
)
from user_layers.files import read_input, write_atomic
from user_layers.runtime.network import NetworkInfo, TensorInfo

SEED = 1684


class References:
    """The reference data of a context directory.

    With `shapes`, the inputs' shapes of the only run, the files hold just that run's data.

    Without output_ref_shapes.json, which another program that makes references need not write, the outputs of
    the only stage, or of the only run, are taken to have the shapes that come out.
    """

    def __init__(self, folder: Path, nets: Sequence[NetworkInfo], shapes: Sequence[Shape] | None) -> None:
        self._nets = nets
        self._alone = shapes is not None
        self._input_path, self._output_path = folder / INPUT_REFERENCE, folder / OUTPUT_REFERENCE
        self._inputs, self._outputs = _bytes_of(self._input_path), _bytes_of(self._output_path)
        self._shapes: dict[tuple[int, int], tuple[Shape, ...]] | None = None
        if shapes is not None:
            return
        self._shapes = self._output_shapes(folder / OUTPUT_SHAPES)
        for path, data, sizes in (
            (self._input_path, self._inputs, self._sizes(True)),
            (self._output_path, self._outputs, self._sizes(False)),
        ):
            needed = sum(sizes.values())
            if len(data) != needed and (path == self._input_path or self._shapes is not None):
                raise ModelError(
                    f"{path} has {len(data)} bytes; the nets of {BMODEL} beside it need {needed}",
                    hint="compile again with reference data, or run with --compare 0",
                )

    def _output_shapes(self, path: Path) -> dict[tuple[int, int], tuple[Shape, ...]] | None:
        """Of each net and stage, the shapes of its outputs in the file; None where its only run must tell."""
        stages = {(n, k): stage for n, net in enumerate(self._nets) for k, stage in enumerate(net.stages)}
        compiled = {key: stage.output_shapes for key, stage in stages.items()}
        if not any(any(stage.varying) for stage in stages.values()):
            return compiled
        found = read_shapes(path, list(compiled.values()))
        if found is not None:
            return dict(zip(compiled, found, strict=True))
        if len(stages) > 1:
            raise ModelError(
                f"{path} is missing: the shapes of some outputs in {self._output_path.name} beside it are "
                "known only when their nets have run",
                hint="compile again with reference data, or run with --compare 0",
            )
        return None

    def _sizes(self, inputs: bool) -> dict[tuple[int, int], int]:
        """Bytes of each net and stage in the file."""
        shapes = {} if inputs or self._shapes is None else self._shapes
        return {
            (n, k): sum(
                nbytes(t, shape)
                for t, shape in zip(
                    net.inputs if inputs else net.outputs,
                    stage.input_shapes if inputs else shapes.get((n, k), stage.output_shapes),
                    strict=True,
                )
            )
            for n, net in enumerate(self._nets)
            for k, stage in enumerate(net.stages)
        }

    def _start(self, inputs: bool, net: int, stage: int) -> int:
        if self._alone:
            return 0
        return sum(size for key, size in self._sizes(inputs).items() if key < (net, stage))

    def inputs(self, net: int, stage: int, shapes: Sequence[Shape]) -> list[Array]:
        """The inputs of one run, in the net's order."""
        tensors = self._nets[net].inputs
        if self._alone:
            needed = sum(nbytes(t, s) for t, s in zip(tensors, shapes, strict=True))
            _exact(self._input_path, len(self._inputs), needed)
        at = self._start(True, net, stage)
        arrays = []
        for tensor, shape in zip(tensors, shapes, strict=True):
            arrays.append(_array(self._inputs, at, tensor, shape))
            at += nbytes(tensor, shape)
        return arrays

    def outputs(self, net: int, stage: int, got: Sequence[Array]) -> list[Array]:
        """What the outputs of one run should be. Those whose shapes the run alone tells have here the shapes
        of the file, which may be others; the rest have those they came out with.
        """
        info = self._nets[net]
        if self._alone:
            _exact(self._output_path, len(self._outputs), sum(a.nbytes for a in got))
        elif self._shapes is None:
            _exact(
                self._output_path, len(self._outputs), sum(a.nbytes for a in got), "that gives these outputs"
            )
        at = self._start(False, net, stage)
        arrays = []
        for i, (tensor, array) in enumerate(zip(info.outputs, got, strict=True)):
            place = array.shape if self._shapes is None else self._shapes[net, stage][i]
            varies = info.stages[stage].varying[i]
            arrays.append(_array(self._outputs, at, tensor, place if varies else array.shape))
            at += nbytes(tensor, place)  # a dynamic output may be smaller than its place in the file
        return arrays


def nbytes(tensor: TensorInfo, shape: Shape) -> int:
    """Bytes of an input or output in the reference files, for the shape of one run."""
    return tensor.dtype.itemsize * math.prod(shape)


def _bytes_of(path: Path) -> bytes:
    try:
        return read_input(path)
    except OSError as error:
        raise ModelError(
            f"cannot read {path}: {error.strerror or error}",
            hint="compile with reference data, or run with --compare 0",
        ) from error


def _exact(path: Path, size: int, needed: int, run: str = "with the shapes of --shapes") -> None:
    if size != needed:
        raise ModelError(
            f"{path} has {size} bytes; a run {run} needs {needed}",
            hint="give reference data for these shapes, or run with --compare 0",
        )


def _array(data: bytes, at: int, tensor: TensorInfo, shape: Shape) -> Array:
    kind = np.dtype(tensor.dtype.numpy_name).newbyteorder("<")
    array = np.frombuffer(data, kind, math.prod(shape), at).reshape(shape)
    return array.astype(tensor.dtype.numpy_name)


def random_inputs(net: NetworkInfo, shapes: Sequence[Shape], seed: int = SEED) -> list[Array]:
    """The same every time: floating point from -1 to 1, integers over their whole range."""
    rng = np.random.default_rng(seed)
    return [_random(rng, t.dtype, s) for t, s in zip(net.inputs, shapes, strict=True)]


def _random(rng: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    if dtype in (DType.FP32, DType.FP16):
        return rng.uniform(-1, 1, shape).astype(dtype.numpy_name)
    limits = np.iinfo(dtype.numpy_name)
    return rng.integers(limits.min, limits.max, shape, dtype.numpy_name, endpoint=True)


def parse_shapes(text: str, option: str) -> tuple[Shape, ...]:
    """ "[1,3,224,224],[1,10]" -> shapes. UsageError for anything else."""
    one = r"\[\s*\d{1,9}(?:\s*,\s*\d{1,9})*\s*\]"
    if re.fullmatch(rf"\s*{one}(?:\s*,?\s*{one})*\s*", text) is None:
        raise UsageError(
            f"{option} {text!r} is not a list of shapes", hint=f'write {option} "[1,3,224,224],[1,10]"'
        )
    shapes = tuple(tuple(map(int, part.split(","))) for part in re.findall(r"\[([^]]*)\]", text))
    for shape in shapes:
        if len(shape) > MAX_SHAPE_DIMS or 0 in shape:
            raise UsageError(
                f"{option}: {list(shape)} is not a shape: 1 to {MAX_SHAPE_DIMS} sizes of at least 1"
            )
    return shapes


def load_npz(path: Path, check: Callable[[Mapping[str, Array]], object]) -> dict[str, Array]:
    """The arrays of an .npz file by name.

    check: is given arrays of the same names, shapes and types that take no memory, and refuses by an error of
    its own what is then not unpacked. Errors: UsageError for what is no such file.
    """
    try:
        with open(path, "rb") as file:
            archive = Archive(file)
            check({name: header.stand_in() for name, header in archive.headers.items()})
            return {name: archive.read(name) for name in archive.headers}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path} is not a .npz file with an array per input: {error}") from error


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write an .npz in one step. Any tensor name will do, unlike with numpy.savez."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
    write_atomic(path, buffer.getvalue())
