"""Reading Caffe's nets: names of blobs, inputs and their shapes, phases, numbers of bottoms and tops."""

from __future__ import annotations

import numpy as np
import pytest

from firmware_sim.errors import UsageError
from tests.support.caffe_files import (
    GOOD,
    INPUT,
    ONE,
    convolution,
    numbers,
    read,
    refused,
    relu,
    run,
)
from tests.support.caffe_nets import input_text, layer_text
from user_layers.caffe.arity import ARITIES
from user_layers.caffe.read import read_caffe
from user_layers.caffe.spellings import CAFFE
from user_layers.caffe.summary import as_json, as_text

pytestmark = pytest.mark.usefixtures("own_folder")


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


def test_an_input_of_another_rank_is_told_where_a_layer_does_not_take_it() -> None:
    assert read(ONE, GOOD).inputs == ("data",)
    error = refused(ONE, GOOD, shapes=[(3, 8, 8)])
    assert "layer 'conv'" in error.message
    assert error.message.endswith("input 'data' is given the shape [3, 8, 8]; net.prototxt has [1, 3, 8, 8]")
    error = refused(ONE, GOOD, shapes=[(1, 4, 8, 8)])
    assert "is given" not in error.message


def test_more_elements_than_caffe_counts_are_refused() -> None:
    error = refused(input_text("data", (1, 3, 8_000_000_000)) + relu("r", "data", "y"))
    assert "input 'data' has 24000000000 elements" in error.message and "at most 2147483647" in error.message
    wide = ONE.replace("pad: 1", "pad: 40000")
    assert "layer 'conv' (Convolution) makes 'y', which has" in refused(wide, GOOD).message


def test_an_input_that_is_written_in_place_and_not_read_is_an_output_that_is_told() -> None:
    model = read(INPUT + relu("r", "data", "data"))
    assert model.outputs == ("data@r",)
    assert model.notes == ("the output 'data@r' is what 'data' is at the end: a layer writes to that input",)


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


def ruled(layer: str, rules: str) -> str:
    return layer.rstrip().removesuffix("}") + f" {rules} }}\n"


TRAIN = "include { phase: TRAIN }"
DATA = 'layer { name: "d" type: "Data" top: "data" top: "label" include { phase: TRAIN } }\n'


def test_what_only_training_makes_is_told_with_who_makes_it() -> None:
    error = refused(DATA + relu("r", "data", "y"))
    said = (
        "layer 'r' (ReLU) reads 'data', which layer 'd' (Data) makes in phase TRAIN alone (net.prototxt:1:1)"
    )
    assert said in error.message and 'type: "Input" top: "data"' in error.hint
    error = refused(
        INPUT + ruled(relu("c", "data", "c2"), TRAIN) + relu("r", "data", "c") + relu("s", "c2", "y")
    )
    assert "reads 'c2', which layer 'c' (ReLU) makes in phase TRAIN alone" in error.message
    assert "take the rules" in error.hint
    staged = ruled(relu("c", "data", "c2"), 'include { stage: "deploy" }') + relu("s", "c2", "y")
    error = refused(INPUT + staged)
    assert "makes only where its rules (include, exclude) have it" in error.message
    assert read('state { stage: "deploy" }' + INPUT + staged).outputs == ("y",)


def test_a_blob_of_both_phases_is_that_of_tests() -> None:
    both = ruled(relu("a", "data", "y"), TRAIN) + relu("b", "data", "y")
    assert read(INPUT + both).operations[0].name == "b"
    error = refused(
        INPUT + ruled(relu("a", "data", "y"), TRAIN) + relu("s", "y", "z") + relu("b", "data", "y")
    )
    assert "reads 'y', which a layer behind it makes" in error.message


def test_labels_of_training_are_not_missed_by_what_is_left_out() -> None:
    loss = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }\n'
    model = read(DATA + INPUT + relu("r", "data", "y") + loss)
    assert model.outputs == ("y",) and model.inputs == ("data",) and "left out" in model.notes[0]
    assert "reads 'label', which no layer makes" in refused(INPUT + relu("r", "data", "y") + loss).message


# ---- numbers of bottoms and tops ----


def test_of_every_type_it_is_known_how_many_bottoms_and_tops_it_has() -> None:
    assert set(ARITIES) == {*CAFFE, "Input"}


def place(text: str, name: str) -> str:
    """Where a layer stands that begins a line."""
    return f"net.prototxt:{text[: text.index(f'name: {chr(34)}{name}')].count(chr(10)) + 1}:1"


def joined(kind: str, bottoms: int, tops: int) -> str:
    ends = [f'bottom: "{name}"' for name in ("data", "more", "most", "rest")[:bottoms]]
    ends += [f'top: "t{i}"' for i in range(tops)]
    return f'layer {{ name: "l" type: "{kind}" {" ".join(ends)} }}\n'


def test_one_more_or_fewer_is_refused_of_every_type() -> None:
    for kind, arity in ARITIES.items():
        bottoms, tops = arity.bottoms.least, arity.tops.least
        assert not arity.misfit(kind, bottoms, tops)
        assert f"{kind} has {arity.tops}" in arity.misfit(kind, bottoms, tops - 1)
        if bottoms:
            assert f"{kind} has {arity.bottoms}" in arity.misfit(kind, bottoms - 1, tops)
        if arity.bottoms.most is not None:
            assert f"{kind} has {arity.bottoms}" in arity.misfit(kind, arity.bottoms.most + 1, tops)
        if arity.tops.most is not None:
            assert f"{kind} has {arity.tops}" in arity.misfit(kind, bottoms, arity.tops.most + 1)


@pytest.mark.parametrize(
    ("kind", "bottoms", "tops", "said"),
    [
        ("ReLU", 2, 1, "has 2 bottoms; ReLU has 1"),
        ("ReLU", 1, 0, "has 0 tops; ReLU has 1"),
        ("Pooling", 1, 3, "has 3 tops; Pooling has 1 or 2"),
        ("Crop", 3, 1, "has 3 bottoms; Crop has 2"),
        ("DetectionOutput", 2, 1, "has 2 bottoms; DetectionOutput has 3"),
        ("Input", 1, 1, "has 1 bottom; Input has 0"),
        ("Eltwise", 1, 1, "has 1 bottom; Eltwise has 2 or more"),
        ("Convolution", 2, 1, "has 2 bottoms and 1 top; Convolution has a top for each"),
    ],
)
def test_how_many_there_are_and_may_be_is_said(kind: str, bottoms: int, tops: int, said: str) -> None:
    text = INPUT + relu("r", "data", "more") + relu("s", "data", "most") + joined(kind, bottoms, tops)
    error = refused(text, {"l": [numbers(1)]}, own={})
    assert error.message == f"{place(text, 'l')}: layer 'l' ({kind}) {said}"


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
