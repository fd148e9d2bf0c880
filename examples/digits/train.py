"""Train a small convolutional network on scikit-learn's digits, and write what the other commands need.

    python train.py [FOLDER]

digits.onnx: the network, in float; calibration.npz: 200 of the digits that it was trained on; test.npz: 540
that it was not, with their labels. Needs numpy, scikit-learn and onnx (not tpulayer); takes under a minute.
The digits are those of UCI's Optical Recognition of Handwritten Digits: 1797 pictures of 8 by 8 pixels.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

Array = NDArray[np.float32]
Parameters = dict[str, Array]

TRAINED = 1257  # the first ones, as scikit-learn has them; the last 540 are for the test
CALIBRATED = 200
SLOPE = 0.125  # of the leaky Relu below 0: a power of two, so that it is a shift of integers
BATCH = 20  # of the compiled net
EPOCHS = 60


def windows(x: Array) -> Array:
    """The 3 by 3 window around every pixel: [n, c, h, w] -> [n, h, w, c * 9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.ascontiguousarray(seen.transpose(0, 2, 3, 1, 4, 5)).reshape(*seen.shape[:1], *x.shape[2:], -1)


def convolve(x: Array, w: Array, b: Array) -> tuple[Array, Array]:
    """The result, and the windows, which the way back needs."""
    seen = windows(x)
    return (seen @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2), seen


def convolve_back(dy: Array, w: Array, seen: Array) -> tuple[Array, Array, Array]:
    """Gradients of the input, the weights and the biases."""
    rows = dy.transpose(0, 2, 3, 1).reshape(-1, len(w))
    dw = (rows.T @ seen.reshape(len(rows), -1)).reshape(w.shape)
    turned = np.ascontiguousarray(w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))
    return convolve(dy, turned, np.zeros(len(turned), np.float32))[0], dw, rows.sum(0)


def begin(rng: np.random.Generator) -> Parameters:
    """Weights by He, biases of 0."""
    shapes = {"1": (8, 1, 3, 3), "2": (16, 8, 3, 3), "3": (16, 16, 3, 3), "4": (10, 256)}
    made: Parameters = {}
    for name, shape in shapes.items():
        deviation = np.sqrt(2 / np.prod(shape[1:]))
        made[f"w{name}"] = (rng.standard_normal(shape) * deviation).astype(np.float32)
        made[f"b{name}"] = np.zeros(shape[0], np.float32)
    return made


def gradients(p: Parameters, x: Array, labels: NDArray[np.int64]) -> Parameters:
    """Of the mean cross entropy, by going through the network and back."""
    a1, seen1 = convolve(x, p["w1"], p["b1"])
    r1 = np.maximum(a1, 0)
    a2, seen2 = convolve(r1, p["w2"], p["b2"])
    r2 = np.where(a2 > 0, a2, SLOPE * a2).astype(np.float32)
    n, c, h, w = r2.shape
    cells = r2.reshape(n, c, h // 2, 2, w // 2, 2)
    m2 = cells.max((3, 5))
    a3, seen3 = convolve(m2, p["w3"], p["b3"])
    r3 = np.maximum(a3, 0)
    flat = r3.reshape(n, -1)
    scores = flat @ p["w4"].T + p["b4"]
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)

    d: Parameters = {}
    ds = chances.copy()
    ds[np.arange(n), labels] -= 1
    ds /= n
    d["w4"], d["b4"] = ds.T @ flat, ds.sum(0)
    da3 = (ds @ p["w4"]).reshape(r3.shape) * (a3 > 0)
    dm2, d["w3"], d["b3"] = convolve_back(da3, p["w3"], seen3)
    largest = m2[:, :, :, None, :, None]
    dr2 = ((cells == largest) * dm2[:, :, :, None, :, None]).reshape(r2.shape)
    da2 = (dr2 * np.where(a2 > 0, 1, SLOPE)).astype(np.float32)
    dr1, d["w2"], d["b2"] = convolve_back(da2, p["w2"], seen2)
    _, d["w1"], d["b1"] = convolve_back(dr1 * (a1 > 0), p["w1"], seen1)
    return d


def moved(x: Array, rng: np.random.Generator) -> Array:
    """Each picture up to a pixel aside."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    places = rng.integers(0, 3, (len(x), 2))
    return np.stack([one[:, i : i + 8, j : j + 8] for one, (i, j) in zip(padded, places, strict=True)])


def train(x: Array, labels: NDArray[np.int64]) -> Parameters:
    """By Adam, with a rate that falls to 0."""
    rng = np.random.default_rng(0)
    p = begin(rng)
    first = {name: np.zeros_like(v) for name, v in p.items()}
    second = {name: np.zeros_like(v) for name, v in p.items()}
    steps = EPOCHS * (len(x) // 32)
    step = 0
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - 31, 32):
            chosen = order[start : start + 32]
            step += 1
            for name, g in gradients(p, moved(x[chosen], rng), labels[chosen]).items():
                first[name] += 0.1 * (g - first[name])
                second[name] += 0.001 * (g * g - second[name])
                mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                rate = 0.003 * (1 - step / steps)
                p[name] = (p[name] - rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
    return p


def network(p: Parameters) -> onnx.ModelProto:
    """The same network in ONNX's words."""
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a1"], name="conv1", pads=[1] * 4),
        helper.make_node("Relu", ["a1"], ["r1"], name="relu1"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["a2"], name="conv2", pads=[1] * 4),
        helper.make_node("LeakyRelu", ["a2"], ["r2"], name="leaky2", alpha=SLOPE),
        helper.make_node("MaxPool", ["r2"], ["m2"], name="pool2", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m2", "w3", "b3"], ["a3"], name="conv3", pads=[1] * 4),
        helper.make_node("Relu", ["a3"], ["r3"], name="relu3"),
        helper.make_node("Flatten", ["r3"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "w4", "b4"], ["digit"], name="scores", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, 1, 8, 8])
    y = helper.make_tensor_value_info("digit", TensorProto.FLOAT, [BATCH, 10])
    weights = [numpy_helper.from_array(value, name) for name, value in p.items()]
    graph = helper.make_graph(nodes, "digits", [x], [y], weights)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def main(folder: Path) -> None:
    digits = load_digits()
    x = (digits.images[:, None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(network(train(x[:TRAINED], labels[:TRAINED])), folder / "digits.onnx")
    np.savez_compressed(folder / "calibration.npz", x=x[:CALIBRATED])
    np.savez_compressed(folder / "test.npz", x=x[TRAINED:], labels=labels[TRAINED:])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "trained"))
