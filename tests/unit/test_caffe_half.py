"""Weights of Caffe's nets stored as float16, as NVIDIA's branch does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from user_layers.caffe.weights import read_caffemodel, write_caffemodel


def test_halves_beside_floats(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((3, 4, 1, 2)).astype(np.float32)
    half = values.astype(np.float16)
    path = tmp_path / "net.caffemodel"
    write_caffemodel(path, "net", [("a", "Convolution", [half, values[:, 0, 0, 0]])])
    (read, bias) = read_caffemodel(path)["a"]
    assert read.dtype == bias.dtype == np.float32
    assert np.array_equal(read, half.astype(np.float32)) and not np.array_equal(read, values)
    assert np.array_equal(bias, values[:, 0, 0, 0])
    whole = tmp_path / "whole.caffemodel"
    write_caffemodel(whole, "net", [("a", "Convolution", [values, values[:, 0, 0, 0]])])
    assert whole.stat().st_size - path.stat().st_size > 2 * values.size - 8
