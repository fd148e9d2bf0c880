"""What may stand in a prototxt: older formats, what is wrong, fields of the user's own layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import TpulayerError
from tests.support.caffe_files import (
    INPUT,
    Blobs,
    convolution,
    numbers,
    read,
    refused,
    relu,
    run,
)
from tests.support.caffe_nets import layer_text
from tests.support.examples import examples
from user_layers.caffe.own import OwnLayer
from user_layers.caffe.prototxt import read_net
from user_layers.caffe.read import read_caffe
from user_layers.caffe.schema import message
from user_layers.caffe.spellings import CAFFE
from user_layers.caffe.text import TextFile

pytestmark = pytest.mark.usefixtures("own_folder")


# ---- older formats ----

V1 = """
name: "old"
input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer_type }
layers {
  name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2 weight_decay: 1
  convolution_param { num_output: 4 kernel_size: 3 group: 1 weight_filler { type: "gaussian" std: 0.01 } }
}
layers { name: "relu" type: RELU bottom: "conv" top: "conv" }
layers { name: "norm" type: LRN bottom: "conv" top: "norm" lrn_param { local_size: 3 alpha: 0.0001 } }
layers { name: "pool" type: POOLING bottom: "norm" top: "pool" pooling_param { kernel_size: 3 stride: 2 } }
layers { name: "fc" type: INNER_PRODUCT bottom: "pool" top: "fc" inner_product_param { num_output: 5 } }
layers { name: "drop" type: DROPOUT bottom: "fc" top: "fc" dropout_param { dropout_ratio: 0.5 } }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "fc" include { phase: TRAIN } }
layers { name: "prob" type: SOFTMAX bottom: "fc" top: "prob" }
""".replace("layers { layer_type }\n", "")
V1_BLOBS = {
    "conv": [numbers(4, 3, 3, 3), numbers(1, 1, 1, 4)],
    "fc": [numbers(1, 1, 5, 36), numbers(1, 1, 1, 5)],
}


def legacy(blobs: Blobs, **field: Any) -> bytes:
    """A caffemodel of V1: `layers`, four extents, numbers one by one."""
    net = message("NetParameter")()
    for name, arrays in blobs.items():
        layer = net.layers.add(name=name)
        for array in arrays:
            shape = (1,) * (4 - array.ndim) + array.shape
            blob = layer.blobs.add(**dict(zip(("num", "channels", "height", "width"), shape, strict=True)))
            blob.data.extend(array.ravel().tolist())
    data: bytes = net.SerializeToString()
    return data


def test_the_format_v1_is_upgraded() -> None:
    Path("net.caffemodel").write_bytes(legacy(V1_BLOBS))
    model = read(V1)
    assert [op.kind for op in model.operations] == (
        ["Convolution", "ReLU", "LRN", "Pooling", "InnerProduct", "Dropout", "Softmax"]
    )
    assert model.name == "old" and model.tensors["pool"].shape == (1, 4, 3, 3)
    assert model.tensors["fc/blob0"].shape == (5, 36) and model.tensors["fc/blob1"].shape == (5,)
    (prob,) = run(model, numbers(1, 3, 8, 8))
    assert prob.shape == (1, 5) and abs(float(prob.sum()) - 1) < 1e-5


def test_v1_and_its_successor_mean_the_same() -> None:
    import re

    words = {"CONVOLUTION": "Convolution", "RELU": "ReLU", "POOLING": "Pooling", "DROPOUT": "Dropout"}
    words |= {
        "INNER_PRODUCT": "InnerProduct",
        "SOFTMAX_LOSS": "SoftmaxWithLoss",
        "SOFTMAX": "Softmax",
        "LRN": "LRN",
    }
    new = re.sub(r"type: ([A-Z_]+)", lambda m: f'type: "{words[m[1]]}"', V1.replace("layers {", "layer {"))
    new = re.sub(r"blobs_lr: \d|weight_decay: \d", "", new)
    x = numbers(1, 3, 8, 8)
    assert np.array_equal(run(read(V1, V1_BLOBS), x)[0], run(read(new, V1_BLOBS), x)[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('layers { layer { name: "c" type: "conv" } bottom: "data" }', "first format (V0"),
        ("layers { type: CONVOLUTON }", "no type CONVOLUTON; did you mean CONVOLUTION?"),
        ('layers { type: "InnerProduct" }', "no type InnerProduct; did you mean INNER_PRODUCT?"),
        ('layers { type: RELU } layer { type: "ReLU" }', "both `layer` and `layers`"),
        ('layer { name: "x" }', "has 0 types"),
        ("layer { type: 3 }", "is a text in quotes"),
        ("layer: 3", "layer { ... } is wanted"),
        ("base_lr: 0.1", "no field 'base_lr'"),
        ("", "it has no layers"),
        ('layer { type: "Convoluton" name: "c" }', "'c' (Convoluton); did you mean Convolution?"),
        (
            relu("r", "data", "y").replace("}", "relu_param { negative_slop: 1 } }", 1),
            "did you mean negative_slope?",
        ),
        (
            'layer { type: "ReLU" relu_param { negative_slope: "a" } }',
            "net.prototxt:2:51: Couldn't parse float",
        ),
        ('layer { type: "Pooling" pooling_param { pool: MAXX } }', "pool cannot be MAXX; did you mean MAX?"),
        ('layer { type: "Clip" bottom: "data" top: "y" clip_param { min: 1 } }', "clip_param lacks max"),
    ],
)
def test_what_is_wrong_with_a_prototxt_is_named(text: str, words: str) -> None:
    head = 'input: "data" input_dim: [1, 3, 8, 8]\n' if text and "base_lr" not in text else ""
    error = refused(head + text)
    assert words in error.message, error.message
    assert error.message.startswith("net.prototxt")
    assert ("solver" in error.hint) == ("base_lr" in text)


def test_all_types_that_nobody_knows_are_named_at_once() -> None:
    error = refused(INPUT + 'layer { name: "a" type: "Fancy" top: "a" }\nlayer { name: "b" type: "Plain" }')
    assert "net.prototxt:2:1: layer 'a' (Fancy)" in error.message and "layer 'b' (Plain)" in error.message
    assert "add_layer NAME 1 --caffe Fancy" in error.hint


def test_a_word_that_an_enumeration_lacks_is_told_with_those_it_has() -> None:
    text = (
        INPUT + 'layer { name: "p" type: "Pooling" bottom: "data" top: "y" pooling_param { pool: MEDIAN } }'
    )
    error = refused(text)
    assert error.message == "net.prototxt:2:75: layer 'p' (Pooling): pooling_param: pool cannot be MEDIAN"
    assert error.hint == "it is one of MAX, AVE, STOCHASTIC"
    error = refused(INPUT + relu("r", "data", "y").rstrip().removesuffix("}") + "include { phase: Test } }")
    assert "phase cannot be Test; did you mean TEST?" in error.message


def test_a_mark_at_the_beginning_is_no_part_of_the_text() -> None:
    Path("net.prototxt").write_bytes(b"\xef\xbb\xbf" + (INPUT + relu("r", "data", "y")).encode())
    assert read_caffe("net.prototxt").outputs == ("y",)


def test_what_branches_call_bn_is_refused_with_what_says_it() -> None:
    error = refused(
        INPUT + 'layer { name: "b" type: "BN" bottom: "data" top: "y" bn_param { bn_mode: INFERENCE } }'
    )
    assert "layer 'b' (BN): branches of Caffe" in error.message and "BatchNorm and Scale" in error.message
    assert "did you mean" not in error.message


# ---- whatever stands in the files ----

GOOD_ALL = {"c": [numbers(4, 3, 3, 3), numbers(4)]}
ALL = (
    'name: "all" state { level: 0 stage: "x" } input: "data" input_dim: [1, 3, 8, 8]\n'
    + convolution(
        "c", "data", "c", more='param { name: "w" lr_mult: 1 } include { phase: TEST min_level: 0 }'
    )
    + layer_text("Pooling", "p", ["c"], ["p"], {"pool": "MAX", "kernel_size": 2, "stride": 2})
    + layer_text("Slice", "s", ["p"], ["a", "b"], {"axis": 1, "slice_point": 2})
    + layer_text("Concat", "t", ["a", "b"], ["d"], {"axis": 1})
    + layer_text("Reshape", "r", ["d"], ["e"], {"shape": {"dim": (0, -1, 2)}})
    + 'layer { name: "l" type: "SoftmaxWithLoss" bottom: "e" }'
)
_WORDS = [
    ":",
    "{",
    "}",
    '"',
    "1",
    "-1",
    "0",
    "1e40",
    "layer",
    "layers",
    "type",
    "TRAIN",
    '"c"',
    "dim: 9",
    "<",
    "[",
]
_WORDS += [
    "include: 3",
    "include { stage { } }",
    "state: 1",
    "99999999999999999999",
    "kernel_size: 0",
    "top: 1",
]


@examples(120)
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(["", *_WORDS])), min_size=1, max_size=3
    )
)
def test_whatever_stands_in_a_prototxt_is_read_or_refused(changes: list[tuple[float, int, str]]) -> None:
    text = ALL
    for where, length, word in changes:
        at = int(where * len(text))
        text = text[:at] + word + text[at + length :]
    try:
        read(text, GOOD_ALL)
    except TpulayerError as error:
        assert error.message.startswith(("net.", "1 ", "2 "))


# ---- own layers ----


def test_all_fields_of_an_own_layer_reach_its_function() -> None:
    def mine(graph: Any, layer: Any) -> None:
        raise AssertionError("nobody asks it here")

    text = (
        'layer { name: "m" type: "Mine" bottom: "data" top: "y" param { lr_mult: 1 } top_k: 3 name_of: "x"\n'
        "  mine_param { a: 1 a: 2 word: MAX inner { b: 0.5 } } permute_param { strange: true } }"
    )
    net = read_net(TextFile("f", INPUT + text), {*CAFFE, "Input"}, {"Mine": OwnLayer("Mine", "here", mine)})
    assert dict(net.layers[1].fields) == {
        "top_k": 3,
        "name_of": "x",
        "mine_param": {"a": (1, 2), "word": "MAX", "inner": {"b": 0.5}},
        "permute_param": {"strange": True},
    }
    assert net.layers[0].attributes == {"shape": ({"dim": (1, 3, 8, 8)},)}
