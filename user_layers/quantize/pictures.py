"""How pictures become the input of a net: resized, cut out, (x - mean) * scale for each channel.

The words and what they mean are those of the vendor's tools. Numbers are computed in single precision in
that order, so that the host, onnxruntime and the layer of the device give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import UsageError
from firmware_sim.suggest import did_you_mean

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
CHANNELS = {"rgb": 3, "bgr": 3, "gray": 1}
PACKED = {"rgb": "RGB_PACKED", "bgr": "BGR_PACKED", "gray": "GRAYSCALE"}
"""What a net takes with --fuse-preprocess where nothing else is asked for."""
FORMATS = ("RGB_PACKED", "RGB_PLANAR", "BGR_PACKED", "BGR_PLANAR", "GRAYSCALE")
LAYOUTS = ("nchw", "nhwc")
PAD_TYPES = ("center", "normal")
_UNIT = 11  # bits of a weight when resizing, as in OpenCV


@dataclass(frozen=True)
class Preprocess:
    """How pictures become an input.

    mean, scale: a number for each channel, in the order of pixel_format, which is what the model was trained
    with. resize_dims: height and width to which pictures are resized, at least the model's own, whose middle
    is taken; None: the model's. keep_aspect_ratio: a picture is not stretched, and pad_value fills what is
    left around it, or (pad_type normal) below and right of it. channel_format: where the model's input has
    its channels; "": where its shape says. fuse: the net itself does it, and takes uint8 pictures of
    resize_dims in this format; "": it takes what comes of them.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    pixel_format: str
    resize_dims: tuple[int, int] | None = None
    keep_aspect_ratio: bool = False
    pad_value: int = 0
    pad_type: str = "center"
    channel_format: str = ""
    fuse: str = ""

    @property
    def channels(self) -> int:
        """Of a picture."""
        return CHANNELS[self.pixel_format]

    @property
    def planar(self) -> bool:
        """Whether the net takes each channel by itself: [N, C, H, W] instead of [N, H, W, C]."""
        return bool(self.fuse) and not self.fuse.endswith("_PACKED")

    @property
    def backwards(self) -> bool:
        """Whether the net takes channels in the opposite order of the model's."""
        return self.channels == 3 and bool(self.fuse) and self.fuse[:3].lower() != self.pixel_format

    @staticmethod
    def plain(channels: int) -> Preprocess:
        """Numbers from 0 to 255 as they are."""
        return Preprocess((0.0,) * channels, (1.0,) * channels, "gray" if channels == 1 else "rgb")

    def layout(self, shape: Sequence[int], name: str = "the input") -> tuple[str, int, int]:
        """Where the model's input has its channels, and its height and width. Errors: UsageError for one that
        is no picture of this format, or larger than resize_dims."""
        fits = [
            layout
            for layout, axis in zip(LAYOUTS, (1, 3), strict=True)
            if len(shape) == 4 and shape[axis] == self.channels and self.channel_format in ("", layout)
        ]
        if not fits:
            asked = f" in {self.channel_format}" if self.channel_format else ""
            raise UsageError(
                f"{name} is {list(shape)}, no picture with {self.channels} channels{asked} "
                f"(--pixel-format {self.pixel_format})",
                hint="pictures are for nets with one input [N, C, H, W] or [N, H, W, C] of 3 or 1 channels",
            )
        rows, columns = (shape[2], shape[3]) if fits[0] == "nchw" else (shape[1], shape[2])
        return fits[0], rows, columns

    def size(self, rows: int, columns: int) -> tuple[int, int]:
        """To which pictures are resized for a model that takes so many rows and columns."""
        height, width = self.resize_dims or (0, 0)
        return max(height, rows), max(width, columns)

    def fused_shape(self, shape: Sequence[int], name: str = "the input") -> tuple[int, int, int, int]:
        """Of the uint8 input of a net for a model whose input has this shape. Errors: as of `layout`."""
        height, width = self.size(*self.layout(shape, name)[1:])
        if self.planar:
            return shape[0], self.channels, height, width
        return shape[0], height, width, self.channels

    def lines(self) -> list[str]:
        """For people: what is done."""
        numbers = (
            "" if self.is_plain else f", (x - {_shown(self.mean)}) * {_shown(self.scale)} for each channel"
        )
        size = "" if self.resize_dims is None else f", resized to {self.resize_dims[0]}x{self.resize_dims[1]}"
        kept = f", sides in proportion, {self.pad_value} around" if self.keep_aspect_ratio else ""
        where = f"; the net takes them as uint8 {self.fuse}" if self.fuse else ""
        return [f"pictures: {self.pixel_format}{size}{kept}{numbers}{where}"]

    @property
    def is_plain(self) -> bool:
        """Whether numbers stay what they are."""
        return not any(self.mean) and set(self.scale) == {1.0}

    def as_json(self) -> dict[str, Any]:
        """For tables and folders."""
        return asdict(self)

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> Preprocess:
        """What `as_json` gave. Raises ValueError, KeyError or TypeError for anything else."""
        resized = found["resize_dims"]
        made = Preprocess(
            tuple(map(float, found["mean"])),
            tuple(map(float, found["scale"])),
            str(found["pixel_format"]),
            None if resized is None else (int(resized[0]), int(resized[1])),
            bool(found["keep_aspect_ratio"]),
            int(found["pad_value"]),
            str(found["pad_type"]),
            str(found["channel_format"]),
            str(found["fuse"]),
        )
        try:
            return _checked(made)
        except UsageError as error:
            raise ValueError(error.message) from None

    # ---- on the host ----

    def input_of(self, pictures: Sequence[Bytes], shape: Sequence[int]) -> Array:
        """What a net takes for pictures [H, W, C] in this pixel_format. shape: of the net's input, of which
        the batch does not matter."""
        if self.fuse:
            size = (shape[2], shape[3]) if self.planar else (shape[1], shape[2])
            whole = np.stack([self.resized(one, size) for one in pictures])
            whole = whole[..., ::-1] if self.backwards else whole
            return np.ascontiguousarray(whole.transpose(0, 3, 1, 2) if self.planar else whole)
        layout, rows, columns = self.layout(shape)
        height, width = size = self.size(rows, columns)
        top, left = middle(height, rows), middle(width, columns)
        whole = np.stack([self.resized(one, size) for one in pictures])
        cut = whole[:, top : top + rows, left : left + columns].astype(np.float32)
        made = (cut - np.array(self.mean, np.float32)) * np.array(self.scale, np.float32)
        return np.ascontiguousarray(made.transpose(0, 3, 1, 2) if layout == "nchw" else made)

    def resized(self, picture: Bytes, size: tuple[int, int]) -> Bytes:
        """A picture [H, W, C] in another size, stretched or with bars."""
        if not self.keep_aspect_ratio:
            return stretched(picture, size)
        ratio = min(size[0] / picture.shape[0], size[1] / picture.shape[1])
        rows, columns = (max(int(extent * ratio), 1) for extent in picture.shape[:2])
        made = np.full((*size, picture.shape[2]), self.pad_value, np.uint8)
        centred = self.pad_type == "center"
        top, left = ((size[0] - rows) // 2, (size[1] - columns) // 2) if centred else (0, 0)
        made[top : top + rows, left : left + columns] = stretched(picture, (rows, columns))
        return made


def middle(extent: int, wanted: int) -> int:
    """Where the middle part of an extent begins, as the vendor's tools cut it out."""
    return extent // 2 - wanted // 2


def stretched(picture: Bytes, size: tuple[int, int]) -> Bytes:
    """A picture [H, W, C] in another size: between the four nearest pixels, as OpenCV does it for bytes."""
    if picture.shape[:2] == size:
        return picture
    (up, down, *rows), (left, right, *columns) = (
        _taps(before, after) for before, after in zip(picture.shape, size, strict=False)
    )
    wide = picture.astype(np.int64)
    first, second = (part[None, :, None] for part in columns)
    lines = wide[:, left] * first + wide[:, right] * second
    upper, lower = (part[:, None, None] for part in rows)
    parts = (lines[up] >> 4) * upper >> 16, (lines[down] >> 4) * lower >> 16
    found: Bytes = np.clip((parts[0] + parts[1] + 2) >> 2, 0, 255).astype(np.uint8)
    return found


def _taps(before: int, after: int) -> tuple[Array, Array, Array, Array]:
    """For each new place the two old ones beside it, and their weights."""
    at = (np.arange(after) + 0.5) * (before / after) - 0.5
    low = np.floor(at).astype(np.int64)
    part = np.where((low < 0) | (low >= before - 1), 0.0, at - low)
    low = np.clip(low, 0, before - 1)
    weight = np.rint(part * (1 << _UNIT)).astype(np.int64)
    return low, np.minimum(low + 1, before - 1), (1 << _UNIT) - weight, weight


# ---- by the words of commands ----


@dataclass(frozen=True)
class Words:
    """The options of commands as they were given; None and False for what was not."""

    mean: str | None = None
    scale: str | None = None
    pixel_format: str | None = None
    resize_dims: str | None = None
    keep_aspect_ratio: bool = False
    pad_value: int | None = None
    pad_type: str | None = None
    channel_format: str | None = None

    def told(self, known: Preprocess | None = None, place: str = "") -> Preprocess | None:
        """What they say, with what a table or a folder (place) knows; None where nothing is said. Errors:
        UsageError for numbers and words that do not fit, and for what contradicts the place."""
        given = self._given()
        if known is not None:
            before = known.as_json()
            for name, value in given.items():
                if before[name] != value:
                    raise UsageError(
                        f"{_option(name)} {_shown(value)} contradicts {place}, which was made "
                        f"with {_shown(before[name])}",
                        hint="leave it out, or calibrate again with it",
                    )
            return known
        if not given:
            return None
        if "pixel_format" not in given:
            raise UsageError(
                f"{_option(next(iter(given)))} without --pixel-format",
                hint="rgb or bgr, as the model was trained (the vendor's tools take bgr), or gray",
            )
        count = CHANNELS[given["pixel_format"]]
        return _checked(Preprocess(**{"mean": (0.0,) * count, "scale": (1.0,) * count, **given}))

    def _given(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in ("mean", "scale"):
            if (text := getattr(self, name)) is not None:
                found[name] = tuple(_numbers(name, text, float))
        if self.resize_dims is not None:
            sizes = _numbers("resize_dims", self.resize_dims, int)
            if len(sizes) != 2 or min(sizes) < 1:
                raise UsageError(
                    f"--resize-dims {self.resize_dims}: expected H,W", hint="--resize-dims 256,256"
                )
            found["resize_dims"] = (sizes[0], sizes[1])
        for name, words in (
            ("pixel_format", tuple(CHANNELS)), ("pad_type", PAD_TYPES), ("channel_format", LAYOUTS),
        ):  # fmt: skip
            if (word := getattr(self, name)) is not None:
                found[name] = _word(name, word, words)
        if self.pad_value is not None:
            found["pad_value"] = self.pad_value
        if self.keep_aspect_ratio:
            found["keep_aspect_ratio"] = True
        return found


def fused(known: Preprocess | None, customization: str | None) -> Preprocess:
    """The same done by the net, which takes pictures in a format, by default the model's own with channels
    last. Errors: UsageError for a format that does not fit."""
    if known is None:
        raise UsageError(
            "--fuse-preprocess without what is to be fused",
            hint="give --pixel-format, --mean and --scale, or a table of `calibrate` that has them",
        )
    if customization is None:
        return replace(known, fuse=PACKED[known.pixel_format])
    return _checked(replace(known, fuse=_word("customization_format", customization.upper(), FORMATS)))


def _checked(one: Preprocess) -> Preprocess:
    """UsageError for what does not fit together."""
    if one.pixel_format not in CHANNELS:
        raise UsageError(f"the pixel format {one.pixel_format!r} is none of {', '.join(CHANNELS)}")
    for name in ("mean", "scale"):
        values = getattr(one, name)
        if len(values) != one.channels:
            found = f"{_option(name)} {_shown(values)} has {len(values)} values"
            raise UsageError(
                f"{found}, --pixel-format {one.pixel_format} has {one.channels} channels",
                hint="one for each channel, with commas between",
            )
        if not all(map(math.isfinite, values)):
            raise UsageError(f"{_option(name)} {_shown(values)}: not a finite number")
    if 0.0 in one.scale:
        raise UsageError(f"--scale {_shown(one.scale)}: 0 leaves nothing of a channel")
    if not 0 <= one.pad_value <= 255:
        raise UsageError(f"--pad-value {one.pad_value}: a pixel is from 0 to 255")
    if one.fuse and (one.fuse == "GRAYSCALE") != (one.pixel_format == "gray"):
        raise UsageError(
            f"--customization-format {one.fuse} is not for --pixel-format {one.pixel_format}",
            hint="GRAYSCALE goes with gray, the others with rgb and bgr",
        )
    return one


def _numbers(name: str, text: str, kind: type) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{_option(name)} {text}: expected numbers with commas between", hint=f"{_option(name)} 1,2,3"
        ) from None


def _word(name: str, word: str, known: Sequence[str]) -> str:
    if word not in known:
        raise UsageError(
            f"{_option(name)} {word}{did_you_mean(word, known)}", hint=f"it is one of {', '.join(known)}"
        )
    return word


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _shown(value: Any) -> str:
    return ",".join(f"{one:g}" for one in value) if isinstance(value, tuple) else str(value) or "none"
