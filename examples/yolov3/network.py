"""YOLOv3 as a list of Caffe layers, written from its published architecture.

Darknet-53 without its classifier, and three heads that see the picture in cells of 32, 16 and 8 pixels.
Layers are numbered as darknet numbers them, from 1 to 107: 75 convolutions, 23 shortcuts, 4 routes,
2 upsamplings and 3 detectors, which are one layer here. All of them but the heads may be narrower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

STRIDES = (32, 16, 8)  # pixels per cell, of the heads in their order
BOXES = 3  # anchors of each head
# Width and height of the boxes that cells start from, in pixels, and those of each head.
ANCHORS = (10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326)
MASK = (6, 7, 8, 3, 4, 5, 0, 1, 2)
SLOPE = 0.1  # of the rectifiers below zero
EPSILON = 1e-5  # of the batch normalisations
DETECT = "TPUYolov3DetectOut"

# Darknet's stages behind the first convolution: channels, and how many residual blocks follow.
_STAGES = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))


class Word(str):
    """A word of an enumeration, which the text format writes without quotes."""


Value = str | float | bool | Sequence["Value"] | Mapping[str, "Value"]


@dataclass(frozen=True)
class Layer:
    """A layer as a prototxt has it. fields: its parameters by message and field, repeated ones as tuples.

    weights: the shapes of its blobs, in Caffe's order.
    """

    name: str
    type: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    fields: Mapping[str, Value] = field(default_factory=dict)
    weights: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Settings:
    """What may differ from the published network.

    width: the part of its channels that every layer but the heads has. size: height and width of the picture,
    a multiple of 32. upsample: write layers of the type Upsample, which not every reader of Caffe's files
    knows, instead of Deconvolutions that do the same. detect: with the layer TPUYolov3DetectOut behind the
    heads. anchors: nine pairs, in pixels; the three smallest belong to the finest head.
    """

    width: Fraction = Fraction(1)
    size: int = 416
    classes: int = 80
    batch: int = 1
    anchors: tuple[float, ...] = ANCHORS
    upsample: bool = False
    detect: bool = True
    confidence_threshold: float = 0.5
    nms_threshold: float = 0.45
    keep_top_k: int = 200

    def __post_init__(self) -> None:
        """Raises ValueError for what is no network of this kind."""
        if self.size < 32 or self.size % 32:
            raise ValueError(f"size {self.size} is not a multiple of 32")
        if not 0 < self.width <= 4:
            raise ValueError(f"width {self.width} is not above 0 and at most 4")
        if self.classes < 1 or self.batch < 1:
            raise ValueError(f"{self.classes} classes, batch {self.batch}: both are at least 1")
        if len(self.anchors) != len(ANCHORS) or min(self.anchors) <= 0:
            raise ValueError(f"{len(self.anchors)} numbers in anchors; they are 9 widths and heights")

    @property
    def head_channels(self) -> int:
        """Channels of each head: per anchor a box, whether there is something in it, and the classes."""
        return BOXES * (5 + self.classes)


def yolov3(settings: Settings = Settings()) -> list[Layer]:
    """The layers in the order in which they run, the picture `data` first."""
    made = _Builder(settings)
    made.put("data", "Input", (), "data", {"input_param": {"shape": {"dim": made.picture}}})
    blob = made.convolution("data", 32, 3)
    kept: dict[int, str] = {}  # each stage's last blob, by its channels
    for channels, blocks in _STAGES:
        blob = made.convolution(blob, channels, 3, stride=2)
        for _ in range(blocks):
            inner = made.convolution(made.convolution(blob, channels // 2, 1), channels, 3)
            blob = made.shortcut(blob, inner)
        kept[channels] = blob
    heads = []
    for channels, lateral in ((512, 512), (256, 256), (128, 0)):
        for _ in range(2):
            blob = made.convolution(made.convolution(blob, channels, 1), 2 * channels, 3)
        branch = made.convolution(blob, channels, 1)
        heads.append(made.head(made.convolution(branch, 2 * channels, 3)))
        made.number += 1  # darknet's detector of this head
        if lateral:
            blob = made.convolution(made.route(branch), channels // 2, 1)
            blob = made.route(made.upsampling(blob), kept[lateral])
    if settings.detect:
        fields = {"yolov3_detect_out_param": detect_fields(settings)}
        made.put("detect_out", DETECT, tuple(heads), "detect_out", fields)
    return made.layers


def detect_fields(settings: Settings) -> dict[str, Value]:
    """The parameters of the detector, whose names are those of the published layers of this kind."""
    return {
        "num_classes": settings.classes,
        "num_boxes": BOXES,
        "confidence_threshold": settings.confidence_threshold,
        "nms_threshold": settings.nms_threshold,
        "biases": settings.anchors,
        "anchors_scale": STRIDES,
        "mask_group_size": BOXES,
        "mask": MASK,
        "keep_top_k": settings.keep_top_k,
    }


def heads(layers: Sequence[Layer]) -> tuple[str, str, str]:
    """The blobs that the heads make, the coarsest first."""
    coarse, middle, fine = (layer.tops[0] for layer in layers if layer.name.endswith("-head"))
    return coarse, middle, fine


def prototxt(layers: Sequence[Layer], name: str = "yolov3") -> str:
    """The network as a .prototxt."""
    lines = [f'name: "{name}"']
    for layer in layers:
        texts: dict[str, Value] = {"name": layer.name, "type": layer.type}
        lines += _message("layer", {**texts, "bottom": layer.bottoms, "top": layer.tops, **layer.fields}, "")
    return "\n".join(lines) + "\n"


def _message(name: str, fields: Mapping[str, Value], indent: str) -> Iterator[str]:
    yield f"{indent}{name} {{"
    inner = indent + "  "
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _message(key, value, inner)
        elif isinstance(value, str) or not isinstance(value, Sequence):
            yield f"{inner}{key}: {_scalar(value)}"
        else:
            yield from (f"{inner}{key}: {_scalar(one)}" for one in value)
    yield f"{indent}}}"


def _scalar(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and not isinstance(value, Word):
        return f'"{value}"'
    return str(value)


class _Builder:
    """The layers so far, and how many channels and rows each blob has."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.layers: list[Layer] = []
        self.number = 0
        self.picture = (settings.batch, 3, settings.size, settings.size)
        self.channels = {"data": 3}

    def put(
        self,
        name: str,
        type: str,
        bottoms: tuple[str, ...],
        top: str,
        fields: Mapping[str, Value] | None = None,
        weights: tuple[tuple[int, ...], ...] = (),
    ) -> str:
        self.layers.append(Layer(name, type, bottoms, (top,), fields or {}, weights))
        return top

    def convolution(self, bottom: str, channels: int, kernel: int, stride: int = 1) -> str:
        """A convolution, normalised and rectified in place."""
        stem = self._next()
        top = self._convolve(f"{stem}-conv", bottom, self._narrowed(channels), kernel, stride, bias=False)
        count = (self.channels[top],)
        self.put(
            f"{stem}-bn",
            "BatchNorm",
            (top,),
            top,
            {"batch_norm_param": {"use_global_stats": True, "eps": EPSILON}},
            (count, count, (1,)),
        )
        self.put(f"{stem}-scale", "Scale", (top,), top, {"scale_param": {"bias_term": True}}, (count, count))
        return self.put(f"{stem}-act", "ReLU", (top,), top, {"relu_param": {"negative_slope": SLOPE}})

    def head(self, bottom: str) -> str:
        return self._convolve(f"{self._next()}-head", bottom, self.settings.head_channels, 1, 1, bias=True)

    def shortcut(self, left: str, right: str) -> str:
        name = f"{self._next()}-shortcut"
        self.channels[name] = self.channels[left]
        return self.put(name, "Eltwise", (left, right), name, {"eltwise_param": {"operation": Word("SUM")}})

    def route(self, *bottoms: str) -> str:
        name = f"{self._next()}-route"
        self.channels[name] = sum(self.channels[b] for b in bottoms)
        return self.put(name, "Concat", bottoms, name, {"concat_param": {"axis": 1}})

    def upsampling(self, bottom: str) -> str:
        """Every pixel four times."""
        name = f"{self._next()}-upsample"
        channels = self.channels[name] = self.channels[bottom]
        if self.settings.upsample:
            return self.put(name, "Upsample", (bottom,), name, {"upsample_param": {"scale": 2}})
        fields: dict[str, Value] = {
            "num_output": channels,
            "bias_term": False,
            "kernel_size": 2,
            "stride": 2,
            "group": channels,
        }
        shape = (channels, 1, 2, 2)
        return self.put(name, "Deconvolution", (bottom,), name, {"convolution_param": fields}, (shape,))

    def _convolve(
        self, name: str, bottom: str, channels: int, kernel: int, stride: int, *, bias: bool
    ) -> str:
        fields: dict[str, Value] = {"num_output": channels, "bias_term": bias, "kernel_size": kernel}
        fields |= {"pad": kernel // 2, "stride": stride}
        shape = (channels, self.channels[bottom], kernel, kernel)
        weights = (shape, (channels,)) if bias else (shape,)
        self.channels[name] = channels
        return self.put(name, "Convolution", (bottom,), name, {"convolution_param": fields}, weights)

    def _narrowed(self, channels: int) -> int:
        return max(1, round(channels * self.settings.width))

    def _next(self) -> str:
        self.number += 1
        return f"layer{self.number}"
