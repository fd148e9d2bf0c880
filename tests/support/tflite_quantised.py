"""Float TFLite models quantized after training, as TensorFlow's converter does it: int8 with zero points,
weights with a scale for each channel, int32 biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.tflite_models import Net, to_bytes
from user_layers.spelling.foreign import Array, ForeignModel, Operation
from user_layers.spelling.spell import spell
from user_layers.tflite.read import read_tflite
from user_layers.tflite.spellings import TFLITE

_KEEPING = (
    *("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESHAPE", "SQUEEZE", "PAD", "TRANSPOSE", "SPLIT", "STRIDED_SLICE"),
    *(
        "RESIZE_BILINEAR",
        "RESIZE_NEAREST_NEIGHBOR",
        "CONCATENATION",
        "SPACE_TO_BATCH_ND",
        "BATCH_TO_SPACE_ND",
    ),
    *("EXPAND_DIMS", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "SLICE", "GATHER", "PACK", "UNPACK"),
)
"""Operations whose results have the scales of their inputs."""
_FIXED = {"SOFTMAX": (1 / 256, -128), "LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
_PRODUCTS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": None, "TRANSPOSE_CONV": 0}
"""Operations with weights, and the axis of their channels."""


def ranges(model: ForeignModel, samples: Sequence[Mapping[str, Array]]) -> dict[str, tuple[float, float]]:
    """The ends of what each float tensor holds, 0 among them."""
    import onnxruntime

    computed = dict.fromkeys([*model.inputs, *(n for op in model.operations for n in op.outputs)])
    names = [name for name in computed if model.tensors[name].dtype == np.float32]
    whole = replace(model, outputs=tuple(name for name in names if name not in model.inputs))
    session = onnxruntime.InferenceSession(spell(whole, TFLITE).proto.SerializeToString())
    ends = dict.fromkeys(names, (0.0, 0.0))
    for sample in samples:
        made = dict(zip(whole.outputs, session.run(None, dict(sample)), strict=True)) | dict(sample)
        for name, (low, high) in ends.items():
            ends[name] = min(low, float(made[name].min())), max(high, float(made[name].max()))
    return ends


def quantised(
    model: ForeignModel,
    samples: Sequence[Mapping[str, Array]],
    *,
    edges: bool = True,
    unsigned: bool = False,
) -> bytes:
    """The model in integers. edges: so are its inputs and outputs; unsigned: uint8 instead of int8."""
    dtype = np.dtype(np.uint8 if unsigned else np.int8)
    return _Quantiser(model, ranges(model, samples), edges, dtype).done()


def up_to_scores(data: bytes) -> ForeignModel:
    """A model without a SOFTMAX at its end, behind which small differences tell nothing."""
    model = read_tflite(data)
    last = model.operations[-1]
    if last.kind != "SOFTMAX" or last.inputs[0] is None:
        return model
    return replace(model, operations=model.operations[:-1], outputs=(last.inputs[0],))


def images(model: ForeignModel, count: int, seed: int = 0) -> list[dict[str, Array]]:
    """Random inputs between -1 and 1."""
    rng = np.random.default_rng(seed)
    return [
        {name: rng.uniform(-1, 1, model.tensors[name].shape).astype(np.float32) for name in model.inputs}
        for _ in range(count)
    ]


def in_integers(data: bytes, values: Mapping[str, Array]) -> dict[str, Array]:
    """Inputs as a quantized model takes them: its float ones stay."""
    made = {}
    for name, array in values.items():
        told = read_tflite(data).tensors[name].scaled
        if told is None:
            made[name] = array
            continue
        ends = np.iinfo(told.dtype)
        steps = np.rint(array / told.scales[0]) + told.zero_points[0]
        made[name] = np.clip(steps, ends.min, ends.max).astype(told.dtype)
    return made


def in_numbers(data: bytes, outputs: Sequence[Array]) -> list[Array]:
    """What outputs of a quantized model stand for."""
    model, found = read_tflite(data), []
    for name, array in zip(model.outputs, outputs, strict=True):
        told = model.tensors[name].scaled
        if told is not None:
            array = (array.astype(np.float32) - told.zero_points[0]) * told.scales[0]
        found.append(array)
    return found


def without_optimizer(proto: Any, inputs: Mapping[str, Array]) -> list[Array]:
    """What onnxruntime makes of a model as it stands; its optimizer rounds quantized ones otherwise."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    found: list[Array] = session.run(None, dict(inputs))
    return found


class _Quantiser:
    def __init__(
        self, model: ForeignModel, ends: dict[str, tuple[float, float]], edges: bool, dtype: np.dtype[Any]
    ) -> None:
        self.model, self.edges, self.dtype = model, edges, dtype
        self.shift = 128 if dtype == np.uint8 else 0
        self.grids = {name: self._grid(*both) for name, both in ends.items()}
        for op in model.operations:
            if op.kind in _FIXED:
                scale, zero = _FIXED[op.kind]
                self.grids[op.outputs[0]] = scale, zero + self.shift
        self._tie()
        self.net = Net()
        self.index: dict[str, int] = {}

    def _grid(self, low: float, high: float) -> tuple[float, int]:
        scale = max(high - low, 1e-6) / 255
        return scale, int(np.clip(round(-128 - low / scale), -128, 127)) + self.shift

    def _tie(self) -> None:
        """One grid for what only moves: that of the widest."""
        for _ in self.model.operations:
            for op in self.model.operations:
                if op.kind in _KEEPING:
                    names = [n for n in (*op.inputs, *op.outputs) if n in self.grids]
                    widest = max((self.grids[n] for n in names), key=lambda one: one[0])
                    self.grids.update(dict.fromkeys(names, widest))

    def done(self) -> bytes:
        net = self.net
        for name in self.model.inputs:
            shape = self.model.tensors[name].shape
            if self.edges:
                self.index[name] = self._scaled(net.input(shape, self.dtype.name, name), name)
            else:
                given = net.input(shape, "float32", name)
                made = net.op("QUANTIZE", [given], shape, dtype=self.dtype.name)
                self.index[name] = self._scaled(made, name)
        for op in self.model.operations:
            self._operation(op)
        outputs = []
        for name in self.model.outputs:
            shape = self.model.tensors[name].shape
            made = self.index[name]
            stays = self.edges or name not in self.grids
            outputs.append(made if stays else net.op("DEQUANTIZE", [made], shape))
        net.outputs = outputs
        signature = dict(zip((*self.model.inputs, *self.model.outputs), (*net.inputs, *outputs), strict=True))
        return to_bytes(net, signature=signature)

    def _scaled(self, index: int, name: str) -> int:
        scale, zero = self.grids[name]
        self.net.tensors[index].scale, self.net.tensors[index].zeros = scale, (zero,)
        return index

    def _operation(self, op: Operation) -> None:
        inputs = []
        for position, name in enumerate(op.inputs):
            inputs.append(-1 if name is None else self._input(op, position, name))
        kinds = [self.model.tensors[n] for n in op.outputs]
        made = self.net.op(
            op.kind, inputs, *[kind.shape for kind in kinds], dtype=self.dtype.name, **op.attributes
        )
        for i, name in enumerate(op.outputs):
            self.index[name] = made + i
            if name in self.grids:
                self._scaled(made + i, name)

    def _input(self, op: Operation, position: int, name: str) -> int:
        if name in self.index:
            return self.index[name]
        data = self.model.tensors[name].data
        assert data is not None
        if data.dtype != np.float32:
            return self.net.const(data)
        at = {"TRANSPOSE_CONV": 2}.get(op.kind, 0)
        if op.kind in _PRODUCTS and position == 1:
            return self._weights(data, _PRODUCTS[op.kind])
        if op.kind in _PRODUCTS:  # a bias, in the product of the other scales
            weights = self.net.tensors[self._input(op, 1, op.inputs[1] or "")]
            scales = np.array(weights.scales) * self.grids[op.inputs[at] or ""][0]
            index = self.net.const(np.rint(data / scales).astype(np.int32))
            told = self.net.tensors[index]
            told.scales, told.zeros, told.axis = tuple(scales), (0,) * len(scales), 0
            return index
        scale, zero = self._grid(min(float(data.min()), 0.0), max(float(data.max()), 0.0))
        info = np.iinfo(self.dtype)
        index = self.net.const(np.clip(np.rint(data / scale) + zero, info.min, info.max).astype(self.dtype))
        self.net.tensors[index].scale, self.net.tensors[index].zeros = scale, (zero,)
        return index

    def _weights(self, data: Array, axis: int | None) -> int:
        """Symmetric, between -127 and 127; uint8 has one scale for all."""
        if self.dtype == np.uint8:
            axis = None
        rest = None if axis is None else tuple(a for a in range(data.ndim) if a != axis)
        largest = np.maximum(np.abs(data).max(axis=rest, keepdims=True), 1e-9)
        scales = largest / 127
        index = self.net.const((np.rint(data / scales) + self.shift).astype(self.dtype))
        told = self.net.tensors[index]
        told.scales = tuple(float(s) for s in scales.reshape(-1))
        told.zeros, told.axis = (self.shift,) * scales.size, axis or 0
        return index
