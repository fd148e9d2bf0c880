"""The schema of Caffe's files, and protobuf's text format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_sim.errors import ModelError
from tests.support.examples import examples
from user_layers.caffe import schema
from user_layers.caffe.prototxt import parameter_message, plain
from user_layers.caffe.schema import message
from user_layers.caffe.spellings import known_types
from user_layers.caffe.text import Block, TextFile

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
