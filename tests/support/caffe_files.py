"""Nets of Caffe as texts and blobs: written, read, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import TpulayerError
from tests.support.caffe_nets import input_text, layer_text
from user_layers.caffe.read import read_caffe
from user_layers.caffe.spellings import CAFFE
from user_layers.caffe.weights import write_caffemodel
from user_layers.spelling.foreign import Array, ForeignModel, Operation
from user_layers.spelling.spell import spell

Blobs = Mapping[str, Sequence[Array]]
INPUT = input_text("data", (1, 3, 8, 8))


def numbers(*shape: int) -> Array:
    """Seeded numbers."""
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape).astype(np.float32)


def convolution(name: str, bottom: str, top: str, outputs: int = 4, more: str = "") -> str:
    """A layer with 3x3 windows."""
    return (
        f'layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{top}" {more}\n'
        f"  convolution_param {{ num_output: {outputs} kernel_size: 3 pad: 1 }} }}\n"
    )


def relu(name: str, bottom: str, top: str) -> str:
    """A layer of that type."""
    return layer_text("ReLU", name, [bottom], [top], {})


def read(text: str, blobs: Blobs | None = None, **options: Any) -> ForeignModel:
    """The net of a prototxt and of blobs, written into the current folder."""
    Path("net.prototxt").write_text(text)
    if blobs is not None:
        write_caffemodel(Path("net.caffemodel"), "net", [(name, "", blobs[name]) for name in blobs])
    return read_caffe("net.prototxt", **options)


def refused(text: str, blobs: Blobs | None = None, **options: Any) -> TpulayerError:
    """The error with which such a net is refused."""
    with pytest.raises(TpulayerError) as caught:
        read(text, blobs, **options)
    return caught.value


def operation(model: ForeignModel, name: str) -> Operation:
    """That of a name."""
    return next(op for op in model.operations if op.name == name)


def run(model: ForeignModel, *arrays: Array) -> list[Array]:
    """What onnxruntime makes of the net as it is spelled."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    session = onnxruntime.InferenceSession(spell(model, CAFFE).proto.SerializeToString())
    named = {value.name for value in session.get_inputs()}
    found: list[Array] = session.run(
        None, {name: a for name, a in zip(model.inputs, arrays, strict=True) if name in named}
    )
    return found


ONE = INPUT + convolution("conv", "data", "y")
GOOD = {"conv": [numbers(4, 3, 3, 3), numbers(4)]}
