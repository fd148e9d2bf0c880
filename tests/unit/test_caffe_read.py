"""Reading Caffe's files: formats old and new, phases, names of blobs, weights, what is wrong with them."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import CompileError, ModelError, TpulayerError, UsageError
from tests.support.caffe_nets import input_text, layer_text
from tests.support.examples import examples
from user_layers.caffe import schema
from user_layers.caffe.own import OwnLayer
from user_layers.caffe.prototxt import parameter_message, plain, read_net
from user_layers.caffe.read import read_caffe
from user_layers.caffe.schema import message
from user_layers.caffe.spellings import CAFFE, known_types
from user_layers.caffe.summary import as_json, as_text
from user_layers.caffe.text import Block, TextFile
from user_layers.caffe.weights import read_caffemodel, write_caffemodel
from user_layers.spelling.foreign import Array, ForeignModel, Operation
from user_layers.spelling.spell import spell

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
Blobs = Mapping[str, Sequence[Array]]
INPUT = input_text("data", (1, 3, 8, 8))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def numbers(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape).astype(np.float32)


def convolution(name: str, bottom: str, top: str, outputs: int = 4, more: str = "") -> str:
    return (
        f'layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{top}" {more}\n'
        f"  convolution_param {{ num_output: {outputs} kernel_size: 3 pad: 1 }} }}\n"
    )


def relu(name: str, bottom: str, top: str) -> str:
    return layer_text("ReLU", name, [bottom], [top], {})


def read(text: str, blobs: Blobs | None = None, **options: Any) -> ForeignModel:
    Path("net.prototxt").write_text(text)
    if blobs is not None:
        write_caffemodel(Path("net.caffemodel"), "net", [(name, "", blobs[name]) for name in blobs])
    return read_caffe("net.prototxt", **options)


def refused(text: str, blobs: Blobs | None = None, **options: Any) -> TpulayerError:
    with pytest.raises(TpulayerError) as caught:
        read(text, blobs, **options)
    return caught.value


def operation(model: ForeignModel, name: str) -> Operation:
    return next(op for op in model.operations if op.name == name)


def run(model: ForeignModel, *arrays: Array) -> list[Array]:
    session = onnxruntime.InferenceSession(spell(model, CAFFE).proto.SerializeToString())
    named = {value.name for value in session.get_inputs()}
    found: list[Array] = session.run(
        None, {name: a for name, a in zip(model.inputs, arrays, strict=True) if name in named}
    )
    return found


# ---- the schema ----


def test_the_schema_has_all_that_the_file_says() -> None:
    text = schema.PROTO.read_text()
    names = [line.split()[1] for line in text.splitlines() if line.startswith("message ")]
    assert len(names) > 50
    fields = sum(len(message(name).DESCRIPTOR.fields) for name in names)
    said = [
        line
        for line in text.splitlines()
        if line.strip().split(" ")[0] in ("optional", "repeated", "required")
    ]
    assert fields == len(said)
    for name in names:
        assert f"message {name} {{" in text


def test_defaults_are_those_of_the_file() -> None:
    found = plain(message("LRNParameter")())
    assert found.pop("alpha") == 1.0 and found["norm_region"] == "ACROSS_CHANNELS"
    assert found["local_size"] == 5 and found["beta"] == 0.75 and found["k"] == 1.0
    assert plain(message("ConvolutionParameter")())["bias_term"] is True
    assert "kernel_size" not in plain(message("ConvolutionParameter")())


def test_another_caffe_pb2_in_the_process_is_not_disturbed() -> None:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto(name="caffe.proto", package="caffe", syntax="proto2")
    file.message_type.add(name="NetParameter").field.add(name="other", number=1, label=1, type=5)
    descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
    assert "layer" in message("NetParameter").DESCRIPTOR.fields_by_name


@pytest.mark.parametrize("kind", known_types())
def test_every_type_finds_its_parameters(kind: str) -> None:
    without = {"AbsVal", "Axpy", "BatchReindex", "BNLL", "Mish", "Split", "TanH", "Sigmoid"}
    name = parameter_message(kind)
    assert name in message("LayerParameter").DESCRIPTOR.fields_by_name or (not name and kind in without), name


# ---- protobuf's text format ----


def tree(text: str) -> Block:
    return TextFile("f", text).tree()


def test_a_tree_keeps_names_values_and_order() -> None:
    found = tree(
        "a: 1 b: -2.5e1 c: \"x\" 'y\\n' # comment\n"
        "d { e: true, e: false; } d < f: MAX > g: [1, 2] h: 0x10 i: 1.f"
    ).values()
    assert found == {
        "a": 1,
        "b": -25.0,
        "c": "xy\n",
        "d": ({"e": (True, False)}, {"f": "MAX"}),
        "g": (1, 2),
        "h": 16,
        "i": 1.0,
    }
    assert tree("a: inf b: -inf").values() == {"a": float("inf"), "b": float("-inf")}
    assert tree("a { } b [{ c: 1 }, { c: 2 }]").values() == {"a": {}, "b": ({"c": 1}, {"c": 2})}


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\n b 2", "f:2:4", "a colon"),
        ("a {\n  b: 1\n", "f:3:1", "the end of the file"),
        ('a: "x\n', "f:1:4", "closing quote"),
        ("a: 1 }", "f:1:6", "the name of a field"),
        ("a: $", "f:1:4", "'$'"),
        ("a: [1 2]", "f:1:7", "a comma"),
        ("a: }", "f:1:4", "a value"),
        ("a { " * 40, "f:1:133", "nested deeper"),
        ('a: "\\xff"', "f:1:4", "UTF-8"),
    ],
)
def test_what_is_not_in_the_format_is_named_with_its_place(text: str, place: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        tree(text)
    assert caught.value.message.startswith(f"{place}: ") and words in caught.value.message


_NAMES = st.sampled_from(["a", "b", "long_name", "C3"])
_SCALARS = st.one_of(
    st.integers(-(2**40), 2**40),
    st.booleans(),
    st.floats(allow_nan=False, width=32).map(float),
    st.text(st.characters(codec="utf-8"), max_size=6),
)
_TREES = st.recursive(_SCALARS, lambda inner: st.dictionaries(_NAMES, inner, max_size=3), max_leaves=8)


def _written(values: Mapping[str, Any]) -> str:
    from google.protobuf import text_encoding

    parts = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            parts.append(f"{name} {{\n{_written(value)} }}")
        elif isinstance(value, str):
            parts.append(f'{name}: "{text_encoding.CEscape(value, False)}"')
        else:
            parts.append(f"{name}: {str(value).lower()}")
    return "\n".join(parts)


@examples(150)
@given(st.dictionaries(_NAMES, _TREES, max_size=4))
def test_what_is_written_is_read(values: dict[str, Any]) -> None:
    assert tree(_written(values)).values() == values


@examples(200)
@given(st.text(st.sampled_from('ab:{}<>[],;"\\ \n#1.-x'), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        tree(text)
    except ModelError as error:
        assert error.message.startswith("f:")


# ---- blobs and their names ----


def test_layers_in_place_get_names_and_the_last_has_the_blobs() -> None:
    text = INPUT + convolution("conv", "data", "x") + relu("r1", "x", "x") + relu("r2", "x", "x")
    model = read(text + relu("side", "x", "y"), {"conv": [numbers(4, 3, 3, 3), numbers(4)]})
    assert [op.outputs for op in model.operations] == [("x@conv",), ("x@r1",), ("x",), ("y",)]
    assert [op.inputs[0] for op in model.operations] == ["data", "x@conv", "x@r1", "x"]
    assert model.inputs == ("data",) and model.outputs == ("y",)
    assert {t.shape for n, t in model.tensors.items() if n[0] in "xy"} == {(1, 4, 8, 8)}


def test_an_input_that_is_written_in_place_keeps_its_name() -> None:
    model = read(INPUT + relu("r", "data", "data") + relu("s", "data", "y"))
    assert model.operations[0].outputs == ("data@r",) and model.operations[1].inputs == ("data@r",)
    x = numbers(1, 3, 8, 8)
    assert np.array_equal(run(model, x)[0], np.maximum(x, 0))


def test_outputs_are_what_nothing_reads_in_order() -> None:
    text = INPUT + relu("b", "data", "b") + relu("a", "data", "a") + relu("c", "b", "c")
    assert read(text).outputs == ("a", "c")
    silence = 'layer { name: "s" type: "Silence" bottom: "a" }'
    model = read(text + silence)
    assert model.outputs == ("c",) and model.notes == ()


def test_results_that_are_constant_are_no_operations_but_outputs_are() -> None:
    told = {"shape": {"dim": 2}, "data_filler": {"value": 3}}
    dummy = layer_text("DummyData", "d", [], ["d"], told)
    model = read(INPUT + dummy + relu("r", "d", "e") + layer_text("Power", "p", ["data"], ["y"], {}))
    assert set(model.outputs) == {"e", "y"}
    assert np.array_equal(run(model, numbers(1, 3, 8, 8))[0], [3, 3])


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        (relu("r", "dta", "y"), "reads 'dta'; did you mean data?"),
        (relu("r", "y", "z") + relu("s", "data", "y"), "reads 'y', which a layer behind it makes"),
        (
            relu("r", "data", "y") + relu("s", "data", "y"),
            "layer 's' (ReLU) makes 'y', which layer 'r' (ReLU)",
        ),
        (relu("r", "data", "y") + input_text("data", (1, 2)), "two inputs 'data'"),
        ('layer { name: "s" type: "Slice" bottom: "data" top: "a" top: "a" }', "makes one blob twice"),
        ('layer { type: "Silence" bottom: "data" }', "has no output"),
    ],
)
def test_nets_that_do_not_fit_together_are_refused(layers: str, words: str) -> None:
    assert words in refused(INPUT + layers).message


def test_a_place_has_line_and_column() -> None:
    error = refused(INPUT + "\n  " + relu("r", "dta", "y"))
    assert error.message.startswith("net.prototxt:3:3: layer 'r' (ReLU) reads")


# ---- inputs and shapes ----


@pytest.mark.parametrize(
    "head",
    [
        'input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8',
        'input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }',
        'layer { name: "in" type: "Input" top: "data" input_param { shape { dim: [1, 3, 8, 8] } } }',
    ],
)
def test_inputs_are_told_in_three_ways(head: str) -> None:
    model = read(head + "\n" + relu("r", "data", "y"))
    assert model.inputs == ("data",) and model.tensors["y"].shape == (1, 3, 8, 8)


def test_shapes_of_inputs_may_be_others() -> None:
    two = INPUT + input_text("z", (1, 5)) + relu("r", "data", "y") + relu("q", "z", "w")
    model = read(two, shapes={"data": (4, 3, 2, 2)})
    assert model.tensors["y"].shape == (4, 3, 2, 2) and model.tensors["w"].shape == (1, 5)
    assert read_caffe("net.prototxt", shapes=[(2, 3, 8, 8), [7]]).tensors["w"].shape == (7,)
    for shapes, words in (
        ({"dat": (1, 2)}, "no input 'dat'; did you mean data?"),
        ([(1,)] * 3, "3 shapes are given"),
        ({"data": (1, 0)}, "extents of 1 and more"),
        ({"data": "ab"}, "whole numbers"),
    ):
        with pytest.raises(UsageError) as caught:
            read_caffe("net.prototxt", shapes=shapes)  # type: ignore[arg-type]
        assert words in caught.value.message


def test_an_input_without_a_shape_needs_one() -> None:
    text = 'layer { name: "in" type: "Input" top: "data" }\n' + relu("r", "data", "y")
    error = refused(text)
    assert "its input 'data' has no shape" in error.message and "--shapes" in error.hint
    assert read(text, shapes=[(2, 3)]).tensors["y"].shape == (2, 3)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ('input: "data" input_dim: 1 input_dim: 3', "2 input_dim; 1 inputs need four"),
        (
            'input: "a" input: "b" input: "data" input_shape { dim: 1 } input_shape { dim: 2 }',
            "3 inputs and 2",
        ),
        ('input: "data" input_dim: [1, 3, 8, 8] input_shape { dim: 1 }', "both input_dim and input_shape"),
        ("", "reads 'data', which no layer makes"),
    ],
)
def test_inputs_that_are_told_wrongly(head: str, words: str) -> None:
    assert words in refused(head + "\n" + relu("r", "data", "y")).message


# ---- phases, training, data ----


def test_rules_choose_the_layers_of_the_test_phase() -> None:
    def ruled(name: str, rules: str) -> str:
        return f'layer {{ name: "{name}" type: "ReLU" bottom: "data" top: "{name}" {rules} }}\n'

    text = INPUT + "".join(
        [
            ruled("a", "include { phase: TRAIN }"),
            ruled("b", "include { phase: TEST }"),
            ruled("c", "exclude { phase: TEST }"),
            ruled("d", 'include { phase: TRAIN } include { stage: "deploy" }'),
            ruled("e", 'exclude { not_stage: "deploy" }'),
            ruled("f", "include { min_level: 1 }"),
            ruled("g", "include { max_level: 0 }"),
            ruled("h", "exclude { phase: TRAIN }"),
        ]
    )
    assert read(text).outputs == ("b", "g", "h")
    assert read('state { stage: "deploy" level: 1 }\n' + text).outputs == ("b", "d", "e", "f", "h")
    assert "state has no field 'stag'; did you mean stage?" in refused('state { stag: "x" }' + text).message
    assert "to include and to exclude" in refused(INPUT + ruled("x", "include {} exclude {}")).message
    assert "whole numbers" in refused(INPUT + ruled("x", 'include { min_level: "a" }')).message
    assert "is TRAIN" in refused("state { phase: TRAIN }" + text).message


def test_layers_of_training_are_left_out_and_told() -> None:
    both = 'bottom: "y" bottom: "label"'
    loss = f'layer {{ name: "loss" type: "SoftmaxWithLoss" {both} top: "loss" loss_weight: 1 }}\n'
    accuracy = f'layer {{ name: "acc" type: "Accuracy" {both} top: "acc" accuracy_param {{ top_k: 5 }} }}\n'
    head = INPUT + input_text("label", (1,)) + relu("r", "data", "y")
    model = read(head + loss + accuracy)
    assert model.outputs == ("y",) and model.inputs == ("data", "label")
    assert [note.partition(",")[0] for note in model.notes] == [
        "left out: layer 'loss' (SoftmaxWithLoss)",
        "left out: layer 'acc' (Accuracy)",
    ]
    assert "without a Softmax" in model.notes[0]
    error = refused(head + loss + relu("s", "loss", "z"))
    assert "reads 'loss' of layer 'loss' (SoftmaxWithLoss), which is left out" in error.message


@pytest.mark.parametrize("kind", ["Data", "ImageData", "HDF5Data", "MemoryData"])
def test_layers_that_read_data_are_refused_unless_they_are_for_training(kind: str) -> None:
    layer = (
        f'layer {{ name: "d" type: "{kind}" top: "data" top: "label" what_param {{ source: "x" }} RULE }}\n'
    )
    error = refused(layer.replace("RULE", "") + relu("r", "data", "y"))
    assert f"layer 'd' ({kind})" in error.message and 'type: "Input" top: "data"' in error.hint
    assert read(
        layer.replace("RULE", "include { phase: TRAIN }") + INPUT + relu("r", "data", "y")
    ).outputs == ("y",)


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
        ('layer { type: "Pooling" pooling_param { pool: MEDIAN } }', "net.prototxt:2:47: Enum type"),
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


# ---- weights ----

ONE = INPUT + convolution("conv", "data", "y")
GOOD = {"conv": [numbers(4, 3, 3, 3), numbers(4)]}


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


# ---- the summary ----


def test_the_summary_counts_weights_and_multiplications() -> None:
    text = ONE + layer_text("InnerProduct", "fc", ["y"], ["z"], {"num_output": 5})
    model = read(text, {**GOOD, "fc": [numbers(5, 256), numbers(5)]})
    found = as_json(model)
    assert [(row["weights"], row["macs"]) for row in found["layers"]] == [(112, 4 * 64 * 27), (1285, 1280)]
    assert found["weights"] == 1397 and found["macs"] == 8192 and found["outputs"] == {"z": [1, 5]}
    lines = as_text(model).splitlines()
    assert lines[2].split() == ["0", "conv", "Convolution", "1x3x8x8", "1x4x8x8", "112", "6,912"]
    assert lines[-1] == "2 layers, 1,397 weights, 8,192 MACs"
