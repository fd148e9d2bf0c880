"""What reports are written with: names cut to a width, shapes and labels of pictures."""

from __future__ import annotations

from copy import deepcopy
from xml.etree import ElementTree

import pytest

from tests.support.report_sample import sample
from user_layers.report.svg import Svg, letters
from user_layers.report.text import report_text


def _parts(svg: Svg) -> list[ElementTree.Element]:
    """All that was drawn, behind the title, the pattern and the background."""
    return list(ElementTree.fromstring(svg.text("title")))[3:]


@pytest.mark.parametrize(("name", "shown"), [("n" * 30, "n" * 30), ("n" * 31, "n" * 15 + "…" + "n" * 14)])
def test_long_names_among_the_longest_are_cut(name: str, shown: str) -> None:
    reports = deepcopy(sample())
    nodes = [node for part in reports[0].stages[0].parts for node in part.nodes if node.work is not None]
    object.__setattr__(nodes[-1], "name", name)
    lines = [line for line in report_text(reports).split("\n") if "longest" in line]
    assert any(f" {shown} " in line for line in lines)


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
