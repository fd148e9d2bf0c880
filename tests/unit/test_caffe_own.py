"""Own Caffe layers in Python: fields by name, the decorator, the files of a workspace."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from firmware_sim.errors import CompileError, SourceError, TpulayerError, UsageError
from tests.support.workspaces import make_workspace
from tpulayer.caffe import CaffeLayer, Message, caffe_layer
from user_layers.caffe import own
from user_layers.caffe.own import OwnLayer, own_layers
from user_layers.graph import GraphBuilder
from user_layers.toolkit import Toolkit

PARAM = {
    "top_k": 5,
    "ratio": 0.5,
    "on": True,
    "word": "MIN",
    "label": "a text",
    "size": (1, 2, 3),
    "one": 7,
    "rule": ({"x": 1}, {"x": 2}),
}


def layer(
    fields: Mapping[str, Any], weights: Any = (), bottoms: tuple[str, ...] = ("x",), tops: Any = ("y",)
) -> CaffeLayer:
    shapes = [(1, 3, 4, 5)] * len(bottoms)
    return CaffeLayer("Own", "mine", bottoms, tops, shapes, fields, weights, "net.prototxt:7")


def told(function: Callable[[], object], kind: type[TpulayerError] = CompileError) -> str:
    with pytest.raises(kind) as error:
        function()
    return str(error.value)


# ---- fields ----


def test_values_of_all_kinds() -> None:
    one = layer({"p": PARAM, "outer": "plain"})
    p = one.message("p")
    assert p.integer("top_k") == 5 and p.number("top_k") == 5.0 and p.number("ratio") == 0.5
    assert p.flag("on") is True and p.text("word") == "MIN" and p.text("label") == "a text"
    assert p.choice("word", ["MAX", "MIN"]) == 1 and p.choice("word", {"MIN": 10000}) == 10000
    assert p.choice("one", {"SEVEN": 7}) == 7  # a prototxt may have an enum's number
    assert p.integers("size") == (1, 2, 3) and p.numbers("one") == (7.0,) and p.texts("label") == ("a text",)
    assert p.integers("size", count=3) == p.integers("size", count=(1, 4)) == (1, 2, 3)
    assert [rule.integer("x") for rule in p.messages("rule", count=(1, 2))] == [1, 2]
    assert p.count("size") == 3 and p.count("none") == 0 and p.has("one") and not p.has("none")
    assert one.text("outer") == "plain"
    one.check_read("caffe/own.py:1")


def test_defaults_of_what_is_missing() -> None:
    p = layer({}).message("p")
    assert (p.integer("a", 3), p.number("b", 0.5), p.flag("c", False), p.text("d", "x")) == (
        3,
        0.5,
        False,
        "x",
    )
    assert p.choice("e", ["MAX", "MIN"], "MIN") == 1
    assert p.integers("f") == () and p.numbers("g", (1.0,), count=1) == (1.0,) and p.texts("h", count=0) == ()
    assert p.messages("i") == () and p.message("j").integer("k", 1) == 1
    layer({}).check_read("caffe/own.py:1")


@pytest.mark.parametrize(("value", "meant"), [(1, True), (0, False), ("t", True), ("False", False)])
def test_spellings_of_flags(value: Any, meant: bool) -> None:
    assert layer({"on": value}).flag("on") is meant


@pytest.mark.parametrize("value", ["inf", "-inf", float("inf")])
def test_numbers_without_end(value: Any) -> None:
    assert abs(layer({"x": value}).number("x")) == float("inf")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda p: p.integer("ratio"), "p.ratio is 0.5; expected a whole number"),
        (lambda p: p.integer("on"), "p.on is True; expected a whole number"),
        (lambda p: p.integer("label"), "p.label is 'a text'; expected a whole number"),
        (lambda p: p.integer("rule"), "p.rule is there 2 times; once is expected"),
        (lambda p: p.integer("topk"), "p.topk is missing; did you mean top_k?"),
        (lambda p: p.integer("top_k", least=6), "p.top_k is 5; expected at least 6"),
        (lambda p: p.integer("top_k", most=4), "p.top_k is 5; expected at most 4"),
        (lambda p: p.number("ratio", least=1, most=2), "p.ratio is 0.5; expected from 1 to 2"),
        (lambda p: p.number("on"), "p.on is True; expected a number"),
        (lambda p: p.number("label"), "p.label is 'a text'; expected a number"),
        (lambda p: p.flag("top_k"), "p.top_k is 5; expected true or false"),
        (lambda p: p.flag("label"), "p.label is 'a text'; expected true or false"),
        (lambda p: p.text("top_k"), "p.top_k is 5; expected a text"),
        (
            lambda p: p.choice("word", ["MAX", "MINI"]),
            "'MIN', which is none of MAX, MINI; did you mean MINI?",
        ),
        (lambda p: p.choice("on", ["MAX"]), "p.on is True, which is none of MAX"),
        (lambda p: p.choice("top_k", ["MAX"]), "p.top_k is 5, which is none of MAX"),
        (lambda p: p.integers("size", count=2), "p.size has 3 values; expected 2"),
        (lambda p: p.integers("size", count=(4, 5)), "p.size has 3 values; expected 4 to 5"),
        (lambda p: p.integers("size", least=2), "p.size is 1; expected at least 2"),
        (lambda p: p.integers("none", count=2), "p.none is missing"),
        (lambda p: p.texts("size"), "p.size is 1; expected a text"),
        (lambda p: p.message("top_k"), "p.top_k is 5; expected a message, { ... }"),
        (lambda p: p.message("rule"), "p.rule is there 2 times"),
        (lambda p: p.messages("rule")[1].integer("y"), "p.rule[1].y is missing"),
        (lambda p: p.messages("rule", count=1), "p.rule has 2 values; expected 1"),
        (
            lambda p: p.message("ruel").integer("x"),
            "p.ruel.x is missing: there is no p.ruel; did you mean rule?",
        ),
        (lambda p: p.integer("rule[0]"), "p.rule[0] is missing"),
        (lambda p: p.text("nan"), "p.nan is missing"),
    ],
)
def test_wrong_values(read: Callable[[Message], object], text: str) -> None:
    found = told(lambda: read(layer({"p": PARAM}).message("p")))
    assert found.startswith("net.prototxt:7: layer 'mine' (Own): ") and text in found


def test_what_is_not_a_number_is_in_no_range() -> None:
    assert "p is nan; expected at least 0" in told(lambda: layer({"p": "nan"}).number("p", least=0))


def test_fields_that_nobody_reads() -> None:
    one = layer({"p": {"num_clases": 80, "x": 1}, "rest": 1})
    p = one.message("p")
    p.integer("num_classes", 20)
    found = told(lambda: one.check_read("caffe/own.py:1"))
    assert "rest: caffe/own.py:1 does not read this field" in found and "it reads p" in found
    one.raw()
    found = told(lambda: one.check_read("caffe/own.py:1"))
    assert "p.num_clases, p.x: caffe/own.py:1 does not read these fields; did you mean num_classes?" in found
    assert "hint: it reads num_classes of p" in found
    assert p.raw() == {"num_clases": 80, "x": 1}
    one.check_read("caffe/own.py:1")


def test_a_message_asked_for_twice_knows_what_was_read() -> None:
    one = layer({"p": {"a": 1, "b": 2}})
    assert one.message("p").integer("a") == 1
    assert one.message("p").integer("b") == 2
    one.check_read("caffe/own.py:1")


def test_numbers_of_tensors() -> None:
    one = layer({}, [np.zeros(3, np.float32)], ("a", "b"))
    one.expect(bottoms=2, tops=(1, 3), weights=(0, 1))
    assert "it has 2 bottoms; expected 1" in told(lambda: one.expect(bottoms=1))
    assert "it has 1 top; expected 2 to 3" in told(lambda: one.expect(tops=(2, 3)))
    assert "it has 1 blob of weights; expected 0" in told(lambda: one.expect(weights=0))
    unread = layer({}, [np.zeros(3, np.float32)])
    assert "does not read its 1 blob of weights" in told(lambda: unread.check_read("f"))
    assert unread.weights[0].shape == (3,)
    unread.check_read("f")
    assert repr(one) == "<CaffeLayer 'mine' (Own): ['a', 'b'] -> ['y']>"


# ---- functions ----


class Made:
    """A graph that knows which tensors were made."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def has_tensor(self, name: str) -> bool:
        return name in self.names


def run(function: Callable[[Any, CaffeLayer], None], one: CaffeLayer) -> None:
    code = function.__code__
    OwnLayer("Own", f"unit/test_caffe_own.py:{code.co_firstlineno}", function).add(
        cast(GraphBuilder, Made()), one
    )


def test_mistakes_of_functions() -> None:
    def nothing(graph: Any, one: CaffeLayer) -> None:
        pass

    def fails(graph: Any, one: CaffeLayer) -> None:
        one.raw()["key"]

    def leaves(graph: Any, one: CaffeLayer) -> None:
        sys.exit("had enough")

    def refuses(graph: Any, one: CaffeLayer) -> None:
        raise one.error("too large", "make it smaller")

    def asks(graph: Any, one: CaffeLayer) -> None:
        raise UsageError("model.py:3: no tensor is called 'z'", hint="name one")

    def makes(graph: Any, one: CaffeLayer) -> None:
        graph.names += one.tops

    found = told(lambda: run(nothing, layer({})))
    assert "did not make 'y' (top 0)" in found and "give layer.tops" in found
    line = fails.__code__.co_firstlineno + 1
    assert f"unit/test_caffe_own.py:{line}: KeyError: 'key'" in told(lambda: run(fails, layer({})))
    line = leaves.__code__.co_firstlineno + 1
    assert f"unit/test_caffe_own.py:{line}: SystemExit: had enough" in told(lambda: run(leaves, layer({})))
    assert told(lambda: run(refuses, layer({}))) == (
        "net.prototxt:7: layer 'mine' (Own): too large\n  hint: make it smaller"
    )
    assert told(lambda: run(asks, layer({}))) == (
        "net.prototxt:7: layer 'mine' (Own): model.py:3: no tensor is called 'z'\n  hint: name one"
    )
    assert "extra: unit/test_caffe_own.py:" in told(lambda: run(makes, layer({"extra": 1})))
    run(makes, layer({}))


def test_what_functions_print_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def speaks(graph: Any, one: CaffeLayer) -> None:
        print("for", *one.tops)
        graph.names += one.tops

    run(speaks, layer({}))
    assert capsys.readouterr() == ("", "for y\n")


# ---- where they are found ----


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, OwnLayer]]:
    """What this program has registered, put back afterwards."""
    before = dict(own._registered)
    yield own._registered
    own._registered.clear()
    own._registered.update(before)


@pytest.fixture
def folder(tmp_path: Path, registered: object) -> Path:
    make_workspace(tmp_path, ())
    (tmp_path / "caffe").mkdir()
    return tmp_path


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / "caffe" / name
    path.write_text(f"from tpulayer.caffe import caffe_layer\n{textwrap.dedent(text)}")
    return path


def found_in(folder: Path) -> Mapping[str, OwnLayer]:
    with Toolkit(folder) as toolkit:
        return own_layers(toolkit)


def test_files_of_a_workspace(folder: Path) -> None:
    assert found_in(folder) == {}
    path = write(folder, "a.py", '@caffe_layer("A")\ndef a(graph, layer): pass\n')
    write(folder, "b.py", '@caffe_layer("B")\n@caffe_layer("C")\ndef b(graph, layer): pass\n')
    (folder / "caffe" / "notes.txt").write_text("not Python")
    first = found_in(folder)
    assert {kind: one.place for kind, one in first.items()} == {
        "A": "caffe/a.py:2",
        "B": "caffe/b.py:2",
        "C": "caffe/b.py:2",
    }
    assert found_in(folder)["A"].function is first["A"].function  # read once
    write(folder, "a.py", '\n@caffe_layer("AA")\ndef a(graph, layer): pass\n')
    os.utime(path, (1, 1))
    assert set(found_in(folder)) == {"AA", "B", "C"}
    path.unlink()
    assert set(found_in(folder)) == {"B", "C"}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x = 1\ny = unknown\n", "caffe/a.py:3: NameError: name 'unknown' is not defined"),
        ("def f(:\n", "caffe/a.py:2: "),
        ("import json\njson.loads('{')\n", "caffe/a.py:3: JSONDecodeError"),
        ("raise SystemExit(3)\n", "caffe/a.py:2: SystemExit: 3"),
    ],
)
def test_files_that_cannot_be_read(folder: Path, text: str, place: str) -> None:
    write(folder, "a.py", text)
    for _ in range(2):  # it is not taken for read
        assert told(lambda: found_in(folder), SourceError).startswith(place)


def test_one_type_has_one_function(folder: Path, registered: dict[str, OwnLayer]) -> None:
    write(folder, "a.py", '@caffe_layer("A")\ndef a(graph, layer): pass\n')
    write(folder, "b.py", '@caffe_layer("A")\ndef a(graph, layer): pass\n')
    found = told(lambda: found_in(folder), UsageError)
    assert "type 'A' are registered twice: caffe/a.py:2 and caffe/b.py:2" in found
    (folder / "caffe" / "b.py").unlink()

    @caffe_layer("A")
    def mine(graph: Any, one: CaffeLayer) -> None: ...

    assert "caffe/a.py:2 and unit/test_caffe_own.py:" in told(lambda: found_in(folder), UsageError)
    (folder / "caffe" / "a.py").unlink()
    assert found_in(folder)["A"].function is mine


def test_a_program_may_define_its_function_again(registered: dict[str, OwnLayer]) -> None:
    def define() -> Callable[[Any, CaffeLayer], None]:
        @caffe_layer("Again")
        def function(graph: Any, one: CaffeLayer) -> None: ...

        return function

    define()
    again = define()
    assert registered["Again"].function is again

    with pytest.raises(UsageError, match="registered twice"):

        @caffe_layer("Again")
        def other(graph: Any, one: CaffeLayer) -> None: ...


@pytest.mark.parametrize("kind", ["Convolution", "Input", "DetectionOutput"])
def test_a_type_of_caffes_is_refused(folder: Path, kind: str) -> None:
    write(folder, "a.py", f'@caffe_layer("{kind}")\ndef a(graph, layer): pass\n')
    found = told(lambda: found_in(folder), UsageError)
    assert f"caffe/a.py:2: Caffe itself has layers of type '{kind}'" in found and f"TPU{kind}" in found


def test_a_type_that_nobody_can_say_may_be_ones_own(folder: Path) -> None:
    write(folder, "a.py", '@caffe_layer("PSROIPooling")\ndef a(graph, layer): pass\n')
    assert set(found_in(folder)) == {"PSROIPooling"}


@pytest.mark.parametrize("kind", ["", 5, None])
def test_types_are_texts(kind: Any) -> None:
    assert "expected a type" in told(lambda: caffe_layer(kind), UsageError)


def test_the_decorator_without_a_type() -> None:
    def function(graph: Any, one: CaffeLayer) -> None: ...

    assert '@caffe_layer("TPUCrop")' in told(lambda: caffe_layer(cast(Any, function)), UsageError)
