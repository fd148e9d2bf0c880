"""Inputs for calibrating and evaluating, from files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim import npy
from firmware_sim.errors import MissingError, UsageError
from firmware_sim.shown import count as counted
from user_layers.quantize.pictures import Preprocess

Array = npt.NDArray[Any]
LABELS = "labels"
_ARRAYS = (".npz", ".npy")
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".pgm")
_WRITTEN = "numpy.savez writes such files"
_NUMBERS = "biuf"  # of numpy's kinds of data types, what a net's input can be made of


@dataclass(frozen=True)
class Batch:
    """What one run takes. inputs: by name, in the shapes of the net; labels: the class of each sample, where
    the data has them; count: samples that count, the rest only fills the batch."""

    inputs: Mapping[str, Array]
    labels: Array | None
    count: int


Shapes = Mapping[str, tuple[int, ...]]


def batches(path: Path, inputs: Shapes, how: Preprocess | None = None) -> Iterator[Batch]:
    """Runs for a net with these inputs out of a file or a folder. how: pictures become its input.

    FILE.npz: an array for each input by its name, any number of samples along the first axis, and perhaps
    `labels`; FILE.npy for nets with one input. A folder: such files, in the order of their names, or pictures
    (of a net with one input of 1 or 3 channels; without `how` resized to its height and width, 0 to 255).
    With `how` an array of uint8 holds pictures, [N, H, W, C] with channels in the order of its pixel_format;
    floats are what comes of them already. The last batch is filled up with its own samples.
    Errors: UsageError for what is not there, lacks an input, has other shapes or holds what single precision
    does not (NaN among it; infinities are for masks); MissingError for pictures without Pillow.
    """
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in (*_ARRAYS, *_PICTURES))
        if not files:
            raise UsageError(f"{path} has no .npz, .npy or pictures", hint="put the samples there")
        pictures = [p for p in files if p.suffix.lower() in _PICTURES]
        if pictures and len(pictures) < len(files):
            raise UsageError(f"{path} has arrays and pictures", hint="keep them in folders of their own")
        if pictures:
            yield from _of_pictures(pictures, inputs, how)
            return
        for file in files:
            yield from _of_arrays(file, inputs, how)
        return
    if path.suffix.lower() not in _ARRAYS:
        raise UsageError(f"{path} is neither a folder nor .npz or .npy", hint="see `--data` in docs/int8.md")
    yield from _of_arrays(path, inputs, how)


def samples_in(path: Path) -> int | None:
    """How many samples `batches` takes from there, by what headers say; None where they do not."""
    if path.is_dir():
        files = [p for p in path.iterdir() if p.suffix.lower() in (*_ARRAYS, *_PICTURES)]
        found = [1 if p.suffix.lower() in _PICTURES else samples_in(p) for p in files]
        known = [n for n in found if n is not None]
        return sum(known) if known and len(known) == len(found) else None
    try:
        with path.open("rb") as file:
            if path.suffix.lower() == ".npz":
                shapes = [header.shape for header in npy.Archive(file).headers.values()]
            else:
                shapes = [np.load(path, mmap_mode="r").shape]
    except (OSError, ValueError, EOFError):
        return None
    counts = {shape[0] for shape in shapes if shape}
    return int(counts.pop()) if len(counts) == 1 else None


def _of_arrays(path: Path, inputs: Shapes, how: Preprocess | None) -> Iterator[Batch]:
    arrays, labels = _arrays(path, inputs, how)
    samples = {len(array) for array in arrays.values()}
    if samples == {0}:
        raise UsageError(f"{path} has no samples", hint="the first axis of each array counts them")
    if len(samples) != 1:
        found = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise UsageError(
            f"{path}: the inputs have different numbers of samples: {found}", hint="give as many of each"
        )
    (total,) = samples
    if labels is not None and labels.shape[:1] != (total,):
        told = str(len(labels)) if labels.ndim else "one number instead of"
        raise UsageError(f"{path}: {told} labels for {counted(total, 'sample')}", hint="one for each")
    size = {shape[0] for shape in inputs.values()}
    if len(size) != 1:
        raise UsageError("the inputs of the net have different batches", hint="give one file for each run")
    (batch,) = size
    for first in range(0, total, batch):
        index = np.arange(first, min(first + batch, total))
        count = len(index)
        index = np.resize(index, batch)
        yield Batch(
            {name: _taken(array[index], inputs[name], how) for name, array in arrays.items()},
            None if labels is None else labels[index[:count]],
            count,
        )


def _taken(array: Array, shape: tuple[int, ...], how: Preprocess | None) -> Array:
    """What the net takes: of bytes, where it is known how, what comes of them as pictures."""
    return array if how is None or array.dtype != np.uint8 else how.input_of(list(array), shape)


def _read(path: Path, only: str | None) -> dict[str, Array]:
    """The arrays of a file by their names. only: the name of a single one. Errors: UsageError."""
    try:
        with path.open("rb") as file:  # numpy leaves open what it finds damaged
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.ndarray):
                return {name: loaded[name] for name in loaded.files}
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror or e}", hint=_WRITTEN) from e
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as e:
        told = "it holds objects" if "Object arrays" in str(e) else "it is damaged, or no file of numpy's"
        raise UsageError(f"cannot read {path}: {told}", hint=_WRITTEN) from e
    if only is None:
        raise UsageError(f"{path}: one array for several inputs", hint="write an .npz by their names")
    return {only: loaded}


def _arrays(path: Path, inputs: Shapes, how: Preprocess | None) -> tuple[dict[str, Array], Array | None]:
    """What each input is made of, and the labels."""
    found = _read(path, next(iter(inputs)) if len(inputs) == 1 else None)
    chosen = {}
    for name, shape in inputs.items():
        if name not in found:
            raise UsageError(
                f"{path} has no array {name!r}; it has {', '.join(found) or 'none'}",
                hint="one for each input of the net, by its name",
            )
        array = found[name]
        if how is not None and array.dtype == np.uint8:
            chosen[name] = _pictures(path, name, array, how)
            continue
        if how is not None and how.fuse:
            raise UsageError(
                f"{path}: {name!r} is {array.dtype}, and the net takes pictures in bytes",
                hint=f"uint8 [N, H, W, {how.channels}]: the net itself subtracts and multiplies",
            )
        if array.ndim == 0 or array.shape[1:] != shape[1:]:
            raise UsageError(
                f"{path}: {name!r} is {list(array.shape)}, and the net takes {list(shape)}",
                hint="the first axis counts samples; all others are the net's",
            )
        chosen[name] = _numbers(path, name, array)
    return chosen, None if LABELS in inputs else found.get(LABELS)


def _numbers(path: Path, name: str, array: Array) -> Array:
    """In single precision. Errors: UsageError for what is no number there, with the sample."""
    what = f"{path}: {name!r}"
    if array.dtype.kind not in _NUMBERS:
        raise UsageError(f"{what} is {array.dtype}, no numbers", hint="floats or integers")
    with np.errstate(over="ignore"):
        made = array.astype(np.float32, copy=False)
    if array.dtype.kind == "f":
        large = np.isinf(made) & np.isfinite(array)
        wrong = [("NaN", np.isnan(array)), ("what is too large for float32", large)]
    else:  # compared in double precision, so that those above 2^53 pass
        wrong = [("an integer that float32 does not have", made.astype(np.float64) != array)]
    for told, places in wrong:
        if places.any():
            sample = int(np.argmax(places.reshape(len(array), -1).any(1)))
            raise UsageError(f"{what} holds {told} in sample {sample}", hint="leave that sample out")
    return made


def _pictures(path: Path, name: str, array: Array, how: Preprocess) -> Array:
    """Bytes as pictures with channels last. Errors: UsageError for what are none."""
    if array.ndim == 4 and array.shape[3] == how.channels:
        return array
    if array.ndim == 4 and array.shape[1] == how.channels:
        return np.ascontiguousarray(array.transpose(0, 2, 3, 1))
    if array.ndim == 3 and how.channels == 1:
        return array[..., None]
    raise UsageError(
        f"{path}: {name!r} is uint8 {list(array.shape)}, no pictures of {how.channels} channels",
        hint=f"[N, H, W, {how.channels}] in the order of --pixel-format {how.pixel_format}",
    )


def _of_pictures(files: list[Path], inputs: Shapes, how: Preprocess | None) -> Iterator[Batch]:
    try:
        from PIL import Image
    except ImportError as e:
        raise MissingError(
            "pictures are read by Pillow, which is not installed", hint="pip install 'tpulayer[pictures]'"
        ) from e
    name, shape = next(iter(inputs.items()))
    if len(inputs) != 1 or len(shape) != 4 or (how is None and not {1, 3} & {shape[1], shape[3]}):
        raise UsageError(
            "pictures are for nets with one input of 3 or 1 channels, [N, C, H, W] or [N, H, W, C]",
            hint="write the inputs to an .npz",
        )
    how = how or Preprocess.plain(shape[1] if shape[1] in (1, 3) else shape[3])
    for first in range(0, len(files), shape[0]):
        chosen = files[first : first + shape[0]]
        made = []
        for file in chosen:
            try:
                with Image.open(file) as image:
                    pixels = np.asarray(image.convert("L" if how.channels == 1 else "RGB"))
            except OSError as e:
                raise UsageError(f"cannot read {file}: {e}", hint="leave it out") from e
            pixels = pixels.reshape(*pixels.shape[:2], how.channels)
            made.append(pixels[..., ::-1] if how.pixel_format == "bgr" else pixels)
        index = np.resize(np.arange(len(made)), shape[0])
        yield Batch({name: how.input_of(made, shape)[index]}, None, len(made))
