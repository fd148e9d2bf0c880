"""Weights of a network of Caffe layers: plausible random ones, and the .caffemodel that holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from network import SLOPE, Layer
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from user_layers.caffe import weights

Blob = NDArray[np.float32]
Blobs = Mapping[str, Sequence[Blob]]
"""The blobs of each layer that has some, by its name, in Caffe's order; float16 is stored as such."""

# Logits of the heads: boxes, whether there is something, classes; their spread over cells, and their mean.
_SPREAD = {"place": 1.0, "size": 0.4, "something": 1.6, "class": 1.0}
_MEAN = {"place": 0.0, "size": 0.0, "something": -2.5, "class": -1.5}
_PICTURES, _SIZE = 3, 160  # what is shown to the network to know the statistics of its layers
_FACTOR = 999.98  # of the running averages that Caffe stores


def random_blobs(layers: Sequence[Layer], seed: int = 0) -> dict[str, list[Blob]]:
    """Random weights for a network that reacts to pictures.

    Small random pictures go through it, layer by layer: batch normalisations get the statistics that they
    then see, as learned ones have, and the heads such weights that a few cells see something.
    """
    rng = np.random.default_rng(seed)
    seen: dict[str, Blob] = {}
    blobs: dict[str, list[Blob]] = {}
    for layer in layers:
        sources = [seen[bottom] for bottom in layer.bottoms]
        made = blobs[layer.name] = _drawn(layer, sources, rng)
        seen[layer.tops[0]] = _run(layer, made, sources, rng)
    return {name: made for name, made in blobs.items() if made}


def caffemodel(layers: Sequence[Layer], blobs: Blobs, name: str = "yolov3") -> bytes:
    """The file with these blobs. Raises ValueError for a blob of another shape than its layer has."""
    for layer in layers:
        shapes = tuple(blob.shape for blob in blobs.get(layer.name, ()))
        if shapes != layer.weights:
            raise ValueError(f"layer {layer.name} has the blobs {layer.weights}, given are {shapes}")
    return weights.caffemodel(name, [(layer.name, layer.type, blobs.get(layer.name, ())) for layer in layers])


def _blob(values: Any) -> Blob:
    return np.asarray(values, np.float32)


def _drawn(layer: Layer, sources: Sequence[Blob], rng: np.random.Generator) -> list[Blob]:
    """A layer's blobs, for what it gets."""
    if layer.type == "Deconvolution":
        return [np.ones(layer.weights[0], np.float32)]
    if layer.type == "BatchNorm":
        axes = (0, 2, 3)
        variance = sources[0].var(axes)
        variance = 0.5 * variance + 0.5 * variance.mean()  # of few cells: none is 0
        return [_blob(sources[0].mean(axes) * _FACTOR), _blob(variance * _FACTOR), _blob([_FACTOR])]
    if layer.type == "Scale":
        gain, bias = layer.weights
        return [_blob(rng.uniform(0.8, 1.2, gain)), _blob(rng.uniform(-0.2, 0.2, bias))]
    if layer.type != "Convolution":
        return []
    weights = rng.standard_normal(layer.weights[0], np.float32)
    weights *= np.float32(weights[0].size ** -0.5)
    if len(layer.weights) == 1:
        return [weights]
    kinds = 3 * ["place", "place", "size", "size", "something", *["class"] * (len(weights) // 3 - 5)]
    logits = _convolved(sources[0], weights, 1, 0)
    gain = _blob([_SPREAD[kind] for kind in kinds]) / logits.std((0, 2, 3))
    bias = _blob([_MEAN[kind] for kind in kinds]) - gain * logits.mean((0, 2, 3))
    return [weights * gain[:, None, None, None], bias]


def _run(layer: Layer, blobs: Sequence[Blob], sources: Sequence[Blob], rng: np.random.Generator) -> Blob:
    """What a layer makes, in numpy."""
    each = [blob.reshape(-1, 1, 1) for blob in blobs]
    made: Any
    if layer.type == "Input":
        coarse = rng.uniform(0, 1, (_PICTURES, 3, _SIZE // 16, _SIZE // 16))
        made = np.kron(coarse, np.ones((16, 16))) + rng.uniform(-0.1, 0.1, (_PICTURES, 3, _SIZE, _SIZE))
        made[0] = rng.standard_normal(made[0].shape)  # as compiling takes for reference data
    elif layer.type == "Convolution":
        fields: Any = layer.fields["convolution_param"]
        made = _convolved(sources[0], blobs[0], fields["stride"], fields["pad"])
        made += each[1] if len(blobs) > 1 else 0
    elif layer.type == "BatchNorm":
        made = (sources[0] - each[0] / _FACTOR) / np.sqrt(each[1] / _FACTOR)
    elif layer.type == "Scale":
        made = sources[0] * each[0] + each[1]
    elif layer.type == "ReLU":
        made = np.where(sources[0] > 0, sources[0], SLOPE * sources[0])
    elif layer.type == "Eltwise":
        made = sources[0] + sources[1]
    elif layer.type == "Concat":
        made = np.concatenate(sources, 1)
    elif layer.type in ("Deconvolution", "Upsample"):
        made = sources[0].repeat(2, 2).repeat(2, 3)
    else:  # the detector, behind which nothing comes
        made = 0
    return _blob(made)


def _convolved(x: Blob, weights: Blob, stride: int, pad: int) -> Blob:
    kernel = weights.shape[-1]
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
    made: Blob = np.tensordot(windows, weights, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    return made
