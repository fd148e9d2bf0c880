"""Inputs for calibrating and evaluating, from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import MissingError, UsageError
from user_layers.graph import GraphBuilder

Array = npt.NDArray[Any]
LABELS = "labels"
_ARRAYS = (".npz", ".npy")
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


@dataclass(frozen=True)
class Batch:
    """What one run takes. inputs: by name, in the shapes of the net; labels: the class of each sample, where
    the data has them; count: samples that count, the rest only fills the batch."""

    inputs: Mapping[str, Array]
    labels: Array | None
    count: int


def batches(path: Path, graph: GraphBuilder) -> Iterator[Batch]:
    """Runs for a graph out of a file or a folder.

    FILE.npz: an array for each input by its name, any number of samples along the first axis, and perhaps
    `labels`; FILE.npy for nets with one input. A folder: such files, in the order of their names, or pictures
    (of a net with one input of 1 or 3 channels: resized to its height and width, 0 to 255). The last batch is
    filled up with its own samples.
    Errors: UsageError for what is not there, lacks an input or has other shapes; MissingError for pictures
    without Pillow.
    """
    inputs = {name: graph.tensors[name].shape for name in graph.inputs}
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in (*_ARRAYS, *_PICTURES))
        if not files:
            raise UsageError(f"{path} has no .npz, .npy or pictures", hint="put the samples there")
        pictures = [p for p in files if p.suffix.lower() in _PICTURES]
        if pictures and len(pictures) < len(files):
            raise UsageError(f"{path} has arrays and pictures", hint="keep them in folders of their own")
        if pictures:
            yield from _of_pictures(pictures, inputs)
            return
        for file in files:
            yield from _of_arrays(file, inputs)
        return
    if path.suffix.lower() not in _ARRAYS:
        raise UsageError(f"{path} is neither a folder nor .npz or .npy", hint="see `--data` in docs/int8.md")
    yield from _of_arrays(path, inputs)


def _of_arrays(path: Path, inputs: Mapping[str, tuple[int, ...]]) -> Iterator[Batch]:
    arrays = _arrays(path, inputs)
    labels = arrays.pop(LABELS, None)
    samples = {len(array) for array in arrays.values()}
    if len(samples) != 1 or 0 in samples:
        found = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise UsageError(
            f"{path}: the inputs have different numbers of samples: {found}", hint="give as many of each"
        )
    (total,) = samples
    if labels is not None and len(labels) != total:
        raise UsageError(f"{path}: {len(labels)} labels for {total} samples", hint="one for each")
    size = {shape[0] for shape in inputs.values()}
    if len(size) != 1:
        raise UsageError("the inputs of the net have different batches", hint="give one file for each run")
    (batch,) = size
    for first in range(0, total, batch):
        index = np.arange(first, min(first + batch, total))
        count = len(index)
        index = np.resize(index, batch)
        yield Batch(
            {name: array[index] for name, array in arrays.items()},
            None if labels is None else labels[index[:count]],
            count,
        )


def _arrays(path: Path, inputs: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if len(inputs) != 1:
                raise UsageError(
                    f"{path}: one array for {len(inputs)} inputs", hint="write an .npz by their names"
                )
            found = {next(iter(inputs)): loaded}
        else:
            found = {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError) as e:
        raise UsageError(f"cannot read {path}: {e}", hint="numpy.savez writes such files") from e
    chosen = {}
    for name, shape in inputs.items():
        if name not in found:
            raise UsageError(
                f"{path} has no array {name!r}; it has {', '.join(found) or 'none'}",
                hint="one for each input of the net, by its name",
            )
        array = found[name]
        if array.shape[1:] != shape[1:] and array.ndim:
            raise UsageError(
                f"{path}: {name!r} is {list(array.shape)}, and the net takes {list(shape)}",
                hint="the first axis counts samples; all others are the net's",
            )
        chosen[name] = array.astype(np.float32, copy=False)
    if LABELS in found:
        chosen[LABELS] = found[LABELS]
    return chosen


def _of_pictures(files: list[Path], inputs: Mapping[str, tuple[int, ...]]) -> Iterator[Batch]:
    try:
        from PIL import Image
    except ImportError as e:
        raise MissingError(
            "pictures are read by Pillow, which is not installed", hint="pip install pillow"
        ) from e
    name, shape = next(iter(inputs.items()))
    if len(inputs) != 1 or len(shape) != 4 or shape[1] not in (1, 3):
        raise UsageError(
            "pictures are for nets with one input [N, 1 or 3, H, W]", hint="write the inputs to an .npz"
        )
    batch, channels, rows, columns = shape
    for first in range(0, len(files), batch):
        chosen = files[first : first + batch]
        made = []
        for file in chosen:
            try:
                with Image.open(file) as image:
                    small = image.convert("L" if channels == 1 else "RGB").resize((columns, rows))
            except OSError as e:
                raise UsageError(f"cannot read {file}: {e}", hint="leave it out") from e
            made.append(np.asarray(small, np.float32).reshape(rows, columns, channels).transpose(2, 0, 1))
        index = np.resize(np.arange(len(made)), batch)
        yield Batch({name: np.stack(made)[index]}, None, len(made))
