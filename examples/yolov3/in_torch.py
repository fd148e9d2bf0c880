"""The list of Caffe layers as a network of PyTorch, to be trained; what was trained as Caffe's blobs.

Only the layers that `network.py` writes are known. The detector is not learned, so the network ends with its
inputs: the heads, the coarsest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from network import DETECT, Layer, heads
from numpy.typing import NDArray
from torch import Tensor, nn


class Network(nn.Module):
    """Pictures [n, 3, size, size] into the heads [n, channels, cells, cells], as the list says."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        """Starting weights come from torch's generator."""
        super().__init__()
        self.list = list(layers)
        self.heads = heads(self.list)
        self.parts = nn.ModuleDict()
        # A layer Scale is the affine half of the normalisation before it, whose parameters it stores.
        self.scaled: dict[str, str] = {}
        for layer in self.list:
            match layer.type:
                case "Convolution":
                    self.parts[layer.name] = _convolution(layer)
                case "BatchNorm":
                    eps = _number(layer, "batch_norm_param", "eps")
                    self.parts[layer.name] = nn.BatchNorm2d(layer.weights[0][0], eps=eps)
                    self.scaled[layer.tops[0]] = layer.name
                case "ReLU":
                    slope = _number(layer, "relu_param", "negative_slope")
                    self.parts[layer.name] = nn.LeakyReLU(slope)
                case "Scale" | "Eltwise" | "Concat" | "Deconvolution" | "Upsample" | "Input":
                    pass
                case _ if layer.type != DETECT:
                    raise ValueError(f"{layer.name}: no layer of type {layer.type} in torch here")

    def forward(self, picture: Tensor) -> list[Tensor]:
        blobs = {"data": picture}
        for layer in self.list:
            bottoms = [blobs[name] for name in layer.bottoms]
            match layer.type:
                case "Convolution" | "BatchNorm" | "ReLU":
                    blobs[layer.tops[0]] = self.parts[layer.name](bottoms[0])
                case "Eltwise":
                    blobs[layer.tops[0]] = bottoms[0] + bottoms[1]
                case "Concat":
                    blobs[layer.tops[0]] = torch.cat(bottoms, 1)
                case "Deconvolution" | "Upsample":  # every pixel four times, which is not learned
                    blobs[layer.tops[0]] = nn.functional.interpolate(bottoms[0], scale_factor=2)
        return [blobs[name] for name in self.heads]

    def blobs(self, dtype: type[np.floating[Any]] = np.float32) -> dict[str, list[NDArray[Any]]]:
        """Each layer's weights as a .caffemodel has them, by the layers' names."""
        return {
            layer.name: [tensor.detach().numpy().astype(dtype) for tensor in self._tensors_of(layer)]
            for layer in self.list
            if layer.weights
        }

    def load(self, blobs: Mapping[str, Sequence[NDArray[Any]]]) -> None:
        """Take the weights that `blobs` gave. Raises ValueError for those of another network."""
        for layer in self.list:
            shapes = tuple(array.shape for array in blobs.get(layer.name, ()))
            if shapes != layer.weights:
                raise ValueError(f"{layer.name} has the blobs {layer.weights}, given are {shapes}")
            for tensor, array in zip(self._tensors_of(layer), blobs.get(layer.name, ()), strict=True):
                tensor.data.copy_(torch.from_numpy(np.array(array, np.float32)))

    def _tensors_of(self, layer: Layer) -> list[Tensor]:
        match layer.type:
            case _ if not layer.weights:
                tensors = []
            case "BatchNorm":  # the third divides the other two
                part = self.parts[layer.name]
                tensors = [part.running_mean, part.running_var, torch.ones(1)]
            case "Scale":
                part = self.parts[self.scaled[layer.tops[0]]]
                tensors = [part.weight, part.bias]
            case "Deconvolution":
                tensors = [torch.ones(layer.weights[0])]
            case _:
                part = self.parts[layer.name]
                tensors = [part.weight] if part.bias is None else [part.weight, part.bias]
        return tensors


def _convolution(layer: Layer) -> nn.Conv2d:
    count, channels, kernel, _ = layer.weights[0]
    stride, pad, bias = (int(_number(layer, "convolution_param", f)) for f in ("stride", "pad", "bias_term"))
    return nn.Conv2d(channels, count, kernel, stride, pad, bias=bool(bias))


def _number(layer: Layer, message: str, field: str) -> float:
    """A field of the layer's parameters."""
    fields = layer.fields[message]
    value = fields[field] if isinstance(fields, Mapping) else None
    if not isinstance(value, int | float):
        raise ValueError(f"{layer.name}: {message}.{field} is {value!r}, not a number")
    return value
