"""Small SSD nets in Caffe's files: several feature maps, the first one normalized, with seeded weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.support.detection_reference import Array
from user_layers.caffe.weights import write_caffemodel


@dataclass
class SsdNet:
    """Layers as text and their weights, in order."""

    seed: int = 0
    text: list[str] = field(default_factory=list)
    blobs: list[tuple[str, str, Sequence[Array]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = np.random.default_rng(self.seed)

    def layer(
        self, kind: str, name: str, bottoms: Sequence[str], more: str = "", top: str | None = None
    ) -> str:
        """Add a layer; the name of its top."""
        made = top or name
        reads = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
        self.text.append(f'layer {{ name: "{name}" type: "{kind}" {reads} top: "{made}" {more} }}')
        return made

    def conv(
        self, name: str, bottom: str, channels: tuple[int, int], *, stride: int = 1, kernel: int = 3
    ) -> str:
        """A convolution that keeps the spread of what it reads. channels: read, made."""
        read, made = channels
        spread = (2 / (read * kernel * kernel)) ** 0.5
        weights = self.draw.normal(0, spread, (made, read, kernel, kernel)).astype(np.float32)
        bias = self.draw.normal(0, 0.1, made).astype(np.float32)
        self.blobs.append((name, "Convolution", [weights, bias]))
        pad = kernel // 2
        more = f"convolution_param {{ num_output: {made} kernel_size: {kernel} pad: {pad} stride: {stride} }}"
        return self.layer("Convolution", name, [bottom], more)

    def relu(self, name: str) -> str:
        return self.layer("ReLU", f"{name}_relu", [name], top=name)

    def head(self, source: str, channels: int, classes: int, boxes: int, prior: str) -> tuple[str, str, str]:
        """Locations, confidences and priors of one feature map."""
        made = []
        for what, outputs in (("loc", boxes * 4), ("conf", boxes * classes)):
            conv = self.conv(f"{source}_{what}", source, (channels, outputs))
            perm = self.layer(
                "Permute",
                f"{conv}_perm",
                [conv],
                "permute_param { order: 0 order: 2 order: 3 order: 1 }",
            )
            made.append(self.layer("Flatten", f"{conv}_flat", [perm], "flatten_param { axis: 1 }"))
        priors = self.layer(
            "PriorBox", f"{source}_priors", [source, "data"], f"prior_box_param {{ {prior} }}"
        )
        return made[0], made[1], priors


DETECTION = (
    "share_location: true background_label_id: 0 nms_param { nms_threshold: 0.45 top_k: 100 } "
    "code_type: CENTER_SIZE keep_top_k: 50 confidence_threshold: 0.2"
)


def small_ssd(
    folder: Path,
    *,
    batch: int = 1,
    size: int = 64,
    classes: int = 4,
    detection: str = DETECTION,
    last: bool = True,
    seed: int = 0,
) -> tuple[Path, Path]:
    """Writes ssd.prototxt and ssd.caffemodel. last: DetectionOutput; otherwise its bottoms are outputs."""
    net = SsdNet(seed)
    net.text.append(
        f'name: "small_ssd"\nlayer {{ name: "data" type: "Input" top: "data" '
        f"input_param {{ shape {{ dim: {batch} dim: 3 dim: {size} dim: {size} }} }} }}"
    )
    net.relu(net.conv("conv1", "data", (3, 16), stride=2))
    net.relu(net.conv("conv2", "conv1", (16, 24), stride=2))
    net.relu(net.conv("conv3", "conv2", (24, 32)))
    net.blobs.append(("conv3_norm", "Normalize", [net.draw.uniform(2, 4, 32).astype(np.float32)]))
    net.layer(
        "Normalize",
        "conv3_norm",
        ["conv3"],
        "norm_param { across_spatial: false channel_shared: false scale_filler { value: 20 } }",
    )
    net.layer("Pooling", "pool3", ["conv3"], "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")
    net.relu(net.conv("conv4", "pool3", (32, 48)))
    net.relu(net.conv("conv5", "conv4", (48, 32), stride=2))
    sides = "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 flip: true offset: 0.5"
    heads = [
        net.head(
            "conv3_norm",
            32,
            classes,
            4,
            f"min_size: 8 max_size: 15 aspect_ratio: 2 clip: false step: 4 {sides}",
        ),
        net.head(
            "conv4",
            48,
            classes,
            6,
            f"min_size: 15 max_size: 30 aspect_ratio: 2 aspect_ratio: 3 clip: false {sides}",
        ),
        net.head("conv5", 32, classes, 3, f"min_size: 30 aspect_ratio: 2 clip: true {sides}"),
    ]
    loc, conf, prior = (
        net.layer("Concat", name, [head[i] for head in heads], f"concat_param {{ axis: {axis} }}")
        for i, (name, axis) in enumerate([("mbox_loc", 1), ("mbox_conf", 1), ("mbox_priorbox", 2)])
    )
    net.layer(
        "Reshape", "conf_reshape", [conf], f"reshape_param {{ shape {{ dim: 0 dim: -1 dim: {classes} }} }}"
    )
    net.layer("Softmax", "conf_softmax", ["conf_reshape"], "softmax_param { axis: 2 }")
    net.layer("Flatten", "conf_flat", ["conf_softmax"], "flatten_param { axis: 1 }")
    if last:
        net.layer(
            "DetectionOutput",
            "detection_out",
            [loc, "conf_flat", prior],
            f"include {{ phase: TEST }} detection_output_param {{ num_classes: {classes} {detection} }}",
        )
    folder.mkdir(parents=True, exist_ok=True)
    prototxt, weights = folder / "ssd.prototxt", folder / "ssd.caffemodel"
    prototxt.write_text("\n".join(net.text) + "\n")
    write_caffemodel(weights, "small_ssd", net.blobs)
    return prototxt, weights
