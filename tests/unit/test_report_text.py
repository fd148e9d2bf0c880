"""What reports are written with: names cut to a width, shapes and labels of pictures."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.support.report_sample import sample
from user_layers.report.document import report_json
from user_layers.report.model import NetReport, total
from user_layers.report.names import distinct, end_cut, middle_cut, start_cut
from user_layers.report.picture import report_picture
from user_layers.report.svg import Svg, letters
from user_layers.report.text import report_text
from user_layers.report.totals import by_name, by_operation
from user_layers.report.words import plain


def _parts(svg: Svg) -> list[ElementTree.Element]:
    """All that was drawn, behind the title, the pattern and the background."""
    return list(ElementTree.fromstring(svg.text("title")))[3:]


@pytest.mark.parametrize(
    ("name", "shown"), [("n" * 35, "n" * 35), ("n" * 36, "…" + "n" * 34), ("n12", "n12")]
)
def test_long_names_among_those_that_cost_most_are_cut(name: str, shown: str) -> None:
    (stage,) = sample()[0].stages
    (one,) = (node for node in stage.nodes if node.name == "scale")
    assert one.work is not None
    more = [replace(one, name=f"block.{i}.scale", operation="more") for i in range(3)]
    others = [replace(one, name=letter) for letter in "ab"]
    changed = replace(one, name=name, work=replace(one.work, bd_cycles=1e7))
    part = replace(stage.parts[0], nodes=(*stage.parts[0].nodes, changed, *more, *others))
    text = report_text([NetReport("net", (replace(stage, parts=(part, *stage.parts[1:])),))])
    head, names = text.split("What costs most, by names")[0], text.split("What costs most, by names")[1]
    assert names.splitlines()[1].startswith(f"{shown} ") and shown not in head.split("By operation")[0]
    assert [line.split()[:2] for line in names.splitlines() if line.startswith("block")] == [
        ["block.*.scale", "3"]
    ]
    assert [line.split()[:2] for line in head.splitlines() if line.startswith("more")] == [["more", "3"]]


@pytest.mark.parametrize(("name", "shown"), [("n" * 20, "n" * 20), ("n" * 21, "n" * 10 + "…" + "n" * 9)])
def test_long_names_of_rows_are_cut_in_the_middle(name: str, shown: str) -> None:
    (stage,) = sample()[0].stages
    last = stage.parts[3]
    part = replace(last, nodes=(replace(last.nodes[0], name=name),))
    text = report_text([NetReport("net", (replace(stage, parts=(*stage.parts[:3], part)),))])
    assert f"   6 {shown} CONST_BINARY " in text


def test_long_names_stay_different_where_they_can() -> None:
    names = [f"/model/encoder/layers.{i}/attn/{which}_proj/MatMul" for i in (0, 11) for which in ("q", "k")]
    assert list(distinct([*names, "short"], 20).values()) == [
        "…0…/q_proj/MatMul",
        "…0…/k_proj/MatMul",
        "…11…/q_proj/MatMul",
        "…11…/k_proj/MatMul",
        "short",
    ]
    layers = [f"/model/layer.{i}/conv/Conv" for i in range(60)]
    assert list(distinct(layers, 20).values()) == [f"…/layer.{i}/conv/Conv" for i in range(60)]
    for width in (7, 9, 20, 30):
        for cut in (start_cut, middle_cut, end_cut):
            shown = distinct([*names, *layers], width, cut)
            assert len(set(shown.values())) == len(shown) and max(map(len, shown.values())) <= width
    # What differs has no room, or nothing to be told from: cut as others are.
    same = ["n" * 35 + letter + "n" * 35 for letter in "ab"]
    assert set(distinct(same, 20).values()) == {"n" * 10 + "…" + "n" * 9}
    (stage,) = sample()[0].stages
    last = stage.parts[3]
    part = replace(
        last, nodes=tuple(replace(last.nodes[0], name=name) for name in layers), order=tuple(range(60))
    )
    changed = [NetReport("net", (replace(stage, parts=(*stage.parts[:3], part)),))]
    assert " …/layer.7/conv/Conv  CONST" in report_text(changed) and layers[7] in report_json(changed)


def test_labels_of_pictures_stay_different_too() -> None:
    svg = Svg(100, ("/model/layer.1/Conv", "/model/layer.2/Conv"))
    for name in ("/model/layer.1/Conv", "/model/layer.2/Conv", "/model/other"):
        svg.label(0, 0, 60, 20, name)
    assert [part.text for part in _parts(svg)] == ["….1/Conv", "….2/Conv", "/model/o…"]


def test_how_long_a_part_on_the_host_took() -> None:
    (stage,) = sample()[0].stages
    parts = [replace(part, host_s=0.0012346) if part.kind == "cpu" else part for part in stage.parts]
    nets = [NetReport("net", (replace(stage, parts=tuple(parts)),))]
    text = " ".join(report_text(nets).split())
    assert (
        "1 part on the host; onnxruntime took 1,235 us in its first run, on the machine that compiled" in text
    )
    assert "on the host with onnxruntime (1,235 us): TopK of" in text
    assert '"host_seconds": 0.0012346' in report_json(nets)
    assert "onnxruntime takes is known when the net runs" in " ".join(report_text(sample()).split())


def test_a_few_names_are_not_told_twice() -> None:
    (stage,) = sample()[0].stages
    (one,) = (node for node in stage.nodes if node.name == "scale")
    for names, told in (("a", False), ("ab", True)):  # beside the four of the sample
        nodes = (*stage.parts[0].nodes, *(replace(one, name=name) for name in names))
        parts = (replace(stage.parts[0], nodes=nodes), *stage.parts[1:])
        text = report_text([NetReport("net", (replace(stage, parts=parts),))])
        assert ("What costs most" in text) is told


def test_totals_are_those_of_all_layers() -> None:
    (stage,) = sample()[0].stages
    for found in (by_operation(stage), by_name(stage)):
        assert sum(one.work.bd_cycles for one in found) == total(stage.recorded).bd_cycles
        assert sum(one.layers for one in found) == sum(node.work is not None for node in stage.nodes)
        assert sum(one.macs for one in found) == stage.macs
        longest = [one.work.busier for one in found]
        assert longest == sorted(longest, reverse=True)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("no local function", "it has no version for local memory"),
        ("force_use_global_layer", "with these shapes and parameters it works on whole tensors only"),
        (
            "its shape function failed: layer TPU_CONV: shape function returned -1 (BM_LAYER_NOT_SUPPORTED)",
            "the layer TPU_CONV does not do these shapes, types or parameters",
        ),
        (
            "Relu: layer TPU_DOUBLE: shape function returned -2 (BM_LAYER_PARAM_INVALID)",
            "Relu: the layer TPU_DOUBLE does not take these inputs or parameters",
        ),
        ("faster alone, by modelled cycles", "faster alone, by modelled cycles"),
    ],
)
def test_reasons_are_said_plainly(reason: str, said: str) -> None:
    assert plain(reason) == said


def test_nothing_on_the_chip_is_said_so() -> None:
    (stage,) = sample()[0].stages
    host = replace(stage, parts=(stage.parts[1],), demands={})
    text = report_text([NetReport("net", (host,))])
    assert "nothing of this net runs on the TPU" in text and "firmware" not in text


def test_pictures_are_no_taller_than_their_limit() -> None:
    (stage,) = sample()[0].stages
    part = stage.parts[0]
    (group,) = part.groups
    many = tuple(replace(group, index=i) for i in range(100))
    single = replace(group, index=100, nodes=("conv1",))
    more = replace(part, groups=(*many, single), order=(*many, single))
    picture = report_picture([NetReport("net", (replace(stage, parts=(more, *stage.parts[1:])),))])
    root = ElementTree.fromstring(picture)
    assert float(root.get("height", "0")) < 16_000 + 600
    drawn = {e.text for e in root.iter() if e.text and e.text.startswith("group ") and " to " in e.text}
    assert 10 < len(drawn) < 100
    assert f"{101 - len(drawn)} more groups, " in picture and "group 100: " not in {
        e.text for e in root.iter()
    }
    places = {f"#{e.get('id')}" for e in root.iter() if e.get("id")}
    assert {e.get("href") for e in root.iter() if e.get("href")} <= places


def test_a_group_of_very_many_calls_has_its_share_of_rows() -> None:
    (stage,) = sample()[0].stages
    part = stage.parts[0]
    (group,) = part.groups
    bars = tuple(
        replace(bar, name=f"l{k}", start=bar.start + k, end=bar.end + k)
        for bar in group.bars
        for k in range(200)
        if bar.role is None
    )
    large = replace(group, nodes=tuple(f"l{k}" for k in range(200)), bars=bars)
    one = replace(stage, parts=(replace(part, groups=(large,), order=(large,)),))
    root = ElementTree.fromstring(report_picture([NetReport("net", (one,))]))
    assert 4_000 < float(root.get("height", "0")) < 16_000 + 600


def test_rectangles_without_height_are_not_drawn() -> None:
    svg = Svg(100)
    svg.rect(0, 0, 10, 0.0, "red")
    svg.rect(0, 0, 10, -1.0, "red")
    assert _parts(svg) == []
    svg.rect(0, 0, 0.0, 0.1, "red")  # one without width is a line
    (rect,) = _parts(svg)
    assert (rect.get("width"), rect.get("height")) == ("0.5", "0.1")


def test_labels_are_cut_to_their_room() -> None:
    for text in ("abcdefgh", "abcdefghi"):
        svg = Svg(100)
        width = 4 + 0.56 * 11 * 8.01
        assert letters(width) == 8
        assert svg.label(0, 0, width, 12, text)
        (label,) = _parts(svg)
        assert label.text == ("abcdefgh" if len(text) == 8 else "abcdefg…")
    assert not Svg(100).label(0, 0, 10, 10, "abcdefgh")
