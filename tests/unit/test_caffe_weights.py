"""Weights of Caffe's layers: stored in several ways, shared, missing, of other shapes."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError, ModelError
from tests.support.caffe_files import (
    GOOD,
    INPUT,
    ONE,
    Blobs,
    convolution,
    numbers,
    operation,
    read,
    refused,
)
from tests.support.caffe_nets import layer_text
from tests.support.examples import examples
from user_layers.caffe.read import read_caffe
from user_layers.caffe.schema import message
from user_layers.caffe.weights import read_caffemodel
from user_layers.spelling.foreign import Array

pytestmark = pytest.mark.usefixtures("own_folder")


# ---- weights ----


def test_weights_are_found_beside_or_where_they_are_named() -> None:
    model = read(ONE, GOOD)
    assert np.array_equal(np.asarray(model.tensors["conv/blob0"].data), GOOD["conv"][0])
    Path("net.caffemodel").rename("w.bin")
    assert "no file with weights is given" in refused(ONE).message
    assert read(ONE, weight="w.bin").operations == model.operations
    assert "cannot be read" in refused(ONE, weight="there.is.none").message


@pytest.mark.parametrize(
    ("blobs", "words"),
    [
        ({"conv": [numbers(4, 3, 3, 3)]}, "has 1 blobs in net.caffemodel; 2 ([4, 3, 3, 3], [4]) are wanted"),
        ({"conv": [numbers(4, 3, 3, 3), numbers(4), numbers(1)]}, "has 3 blobs"),
        ({"conv": [numbers(4, 3, 5, 5), numbers(4)]}, "blob 0 in net.caffemodel has the shape [4, 3, 5, 5]"),
        ({"conv": [numbers(3, 4, 3, 3), numbers(4)]}, "[4, 3, 3, 3] is wanted"),
        ({"conv": [numbers(4, 3, 3, 3), numbers(5)]}, "blob 1"),
        ({"other": [numbers(1)]}, "of another net: none of its layers ('other', ...)"),
    ],
)
def test_weights_of_another_layer_are_refused(blobs: Blobs, words: str) -> None:
    assert words in refused(ONE, blobs).message


def test_a_layer_that_the_file_lacks_is_named_with_what_it_was_meant_to_be() -> None:
    two = ONE + convolution("conv2", "y", "z")
    error = refused(two, {**GOOD, "conv_2": [numbers(4, 4, 3, 3), numbers(4)]})
    assert "has no weights for 'conv2'; did you mean conv_2?" in error.message


def test_layers_may_share_weights_by_name() -> None:
    share = 'param { name: "w" } param { name: "b" }'
    text = INPUT + convolution("a", "data", "y", 3, share) + convolution("b", "y", "z", 3, share)
    model = read(text, {"a": [numbers(3, 3, 3, 3), numbers(3)]})
    assert np.array_equal(
        np.asarray(model.tensors["b/blob0"].data), np.asarray(model.tensors["a/blob0"].data)
    )


def stored(array: Array, kind: str) -> bytes:
    """A caffemodel whose blob is stored as `kind` says."""
    net = message("NetParameter")()
    blob = net.layer.add(name="conv").blobs.add()
    blob.shape.dim.extend(array.shape)
    if kind == "double":
        blob.double_data.extend(array.ravel().tolist())
    elif kind == "half":
        blob.raw_data_type, blob.raw_data = 2, array.astype("<f2").tobytes()
    else:
        blob.data.extend(array.ravel().tolist())
    bias = net.layer[0].blobs.add()
    bias.data.extend([0.0] * 4)
    bias.shape.dim.append(4)
    data: bytes = net.SerializeToString()
    return data


@pytest.mark.parametrize("kind", ["single", "double", "half"])
def test_weights_are_stored_in_several_widths(kind: str) -> None:
    array = (np.arange(108).reshape(4, 3, 3, 3) / 8 - 4).astype(np.float32)
    Path("net.caffemodel").write_bytes(stored(array, kind))
    (weight, bias) = read_caffemodel(Path("net.caffemodel"))["conv"]
    assert weight.dtype == np.float32 and np.array_equal(weight, array) and bias.shape == (4,)


def test_numbers_that_are_stored_one_by_one_are_read() -> None:
    """What protobuf called unpacked: a tag before each number."""
    blob = b"\x08\x01\x10\x01\x18\x01\x20\x02" + b"".join(b"\x2d" + struct.pack("<f", x) for x in (1.5, -2.0))
    layer = b"\x22\x01c" + b"\x32" + bytes([len(blob)]) + blob
    Path("m").write_bytes(b"\x12" + bytes([len(layer)]) + layer)
    (found,) = read_caffemodel(Path("m"))["c"]
    assert found.shape == (1, 1, 1, 2) and found.ravel().tolist() == [1.5, -2.0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (stored(numbers(4, 3, 3, 3), "single")[:-40], "is not a .caffemodel, or it is not whole"),
        (b"", "it has no layers"),
        (b"layer { }", "is not a .caffemodel"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "HDF5"),
        (b"\x12\x04\x0a\x02\x0a\x00", "first format (V0)"),
        (b"\xa2\x06\x0d\x0a\x01c\x3a\x08\x3a\x02\x08\x03\x2a\x02ab", "2 bytes"),
        (b"\xa2\x06\x0f\x0a\x01c\x3a\x0a\x3a\x02\x08\x03\x2a\x04abcd", "shape [3], but 1 numbers"),
    ],
)
def test_damaged_weights_are_refused(data: bytes, words: str) -> None:
    Path("net.caffemodel").write_bytes(data)
    error = refused(ONE)
    assert words in error.message and "net.caffemodel" in error.message


@examples(60)
@given(st.integers(0, 400), st.integers(0, 255))
def test_any_damage_is_an_error_or_another_number(at: int, byte: int) -> None:
    data = bytearray(stored(numbers(4, 3, 3, 3), "single"))
    data[at % len(data)] = byte
    Path("damaged").write_bytes(data)
    try:
        found = read_caffemodel(Path("damaged"))
    except ModelError as error:
        assert "damaged" in error.message
    else:
        assert all(blob.dtype == np.float32 for blobs in found.values() for blob in blobs)


def test_weights_that_end_early_are_not_called_text(tmp_path: Path) -> None:
    path = tmp_path / "net.caffemodel"
    for data in (b"", b"\n\x01xB\x12\n\x01c"):
        path.write_bytes(data)
        with pytest.raises(ModelError, match=r"is not a \.caffemodel") as caught:
            read_caffemodel(path)
        assert "text" not in caught.value.hint


def test_the_wrong_way_round_is_said() -> None:
    read(ONE, GOOD)
    with pytest.raises(ModelError, match="is not text"):
        read_caffe("net.caffemodel")
    with pytest.raises(ModelError) as caught:
        read_caffe("net.prototxt", "net.prototxt")
    assert "it is text" in caught.value.hint


# ---- blobs of each type that has some ----


@pytest.mark.parametrize(
    ("layer", "shapes"),
    [
        ('type: "InnerProduct" inner_product_param { num_output: 5 }', [(5, 192), (5,)]),
        (
            'type: "InnerProduct" inner_product_param { num_output: 5 transpose: true bias_term: false }',
            [(192, 5)],
        ),
        ('type: "InnerProduct" inner_product_param { num_output: 5 axis: -1 }', [(5, 8), (5,)]),
        (
            'type: "Convolution" convolution_param { num_output: 6 kernel_h: 1 kernel_w: 3 group: 3 }',
            [(6, 1, 1, 3), (6,)],
        ),
        (
            'type: "Deconvolution" convolution_param { num_output: 6 kernel_size: 2 group: 3 }',
            [(3, 2, 2, 2), (6,)],
        ),
        (
            'type: "DepthwiseConvolution" convolution_param { num_output: 3 kernel_size: 3 }',
            [(3, 1, 3, 3), (3,)],
        ),
        ('type: "BatchNorm"', [(3,), (3,), (1,)]),
        ('type: "Scale"', [(3,)]),
        ('type: "Scale" scale_param { bias_term: true axis: 2 num_axes: -1 }', [(8, 8), (8, 8)]),
        ('type: "Bias" bias_param { num_axes: 2 }', [(3, 8)]),
        ('type: "PReLU"', [(3,)]),
        ('type: "PReLU" prelu_param { channel_shared: true }', [(1,)]),
    ],
)
def test_blobs_of_every_type(layer: str, shapes: list[tuple[int, ...]]) -> None:
    text = INPUT + f'layer {{ name: "l" bottom: "data" top: "y" {layer} }}'
    model = read(text, {"l": [np.abs(numbers(*shape)) for shape in shapes]})
    op = operation(model, "l")
    assert op.attributes["blobs"] == len(shapes)
    assert [model.tensors[str(name)].shape for name in op.inputs[1:]] == shapes
    assert "are wanted" in refused(text, {"l": [np.ones(n, np.float32) for n in (2, 3, 5, 7)]}).message


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ('type: "Convolution" convolution_param { num_output: 4 }', "it has no kernel_size"),
        (
            'type: "Convolution" convolution_param { num_output: 4 kernel_size: 1 group: 2 }',
            "group 2 does not divide",
        ),
        ('type: "Convolution" convolution_param { num_output: 0 kernel_size: 1 }', "does not divide"),
        ('type: "InnerProduct" inner_product_param { num_output: 5 axis: 4 }', "no axis 4"),
    ],
)
def test_parameters_that_do_not_fit_are_told(layer: str, words: str) -> None:
    error = refused(INPUT + f'layer {{ name: "l" bottom: "data" top: "y" {layer} }}', {"l": [numbers(1)]})
    assert words in error.message and error.message.startswith("net.prototxt:2:1: layer 'l'")


def test_what_a_layer_cannot_be_is_told_with_its_place() -> None:
    error = refused(INPUT + layer_text("Reshape", "l", ["data"], ["y"], {"shape": {"dim": (7, -1)}}))
    assert isinstance(error, CompileError | ModelError)
    assert error.message.startswith("net.prototxt:2:1: layer 'l' (Reshape): "), error.message
