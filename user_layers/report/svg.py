"""Writing SVG from top to bottom: shapes, and texts that go where they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from xml.sax.saxutils import escape, quoteattr

from user_layers.report.names import distinct, end_cut

LETTER = 0.56  # average width of a letter, for a size of 1
_LEAST_LETTERS = 3  # a label of fewer is not a label
# Those of the common systems by name: not every program that draws knows what sans-serif is.
_FONTS = "Helvetica, Arial, Liberation Sans, DejaVu Sans, Noto Sans, sans-serif"


class Svg:
    """A drawing of a given width that grows downwards; y of everything counts from where `down` got to.
    names: labels that stay different from one another where they are shortened, if that is possible."""

    def __init__(self, width: int, names: Iterable[str] = ()) -> None:
        self._width = width
        self._names = tuple(dict.fromkeys(names))
        self._short: dict[int, Mapping[str, str]] = {}  # by letters that have room
        self._y = 0.0
        self._parts: list[str] = []

    def down(self, pixels: float) -> None:
        """Go down: y of what follows counts from there."""
        self._y += pixels

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, about: str = "", line: str = ""
    ) -> None:
        """about: what a browser shows when one points at it."""
        if height <= 0:
            return
        stroke = f' stroke="{line}" stroke-width="0.6"' if line else ""
        size = f'width="{_n(max(width, 0.5))}" height="{_n(height)}"'
        start = f'<rect x="{_n(x)}" y="{_n(self._y + y)}" {size} fill="{fill}"{stroke}'
        self._parts.append(f"{start}><title>{escape(about)}</title></rect>" if about else f"{start}/>")

    def line(self, x1: float, y1: float, x2: float, y2: float, color: str, *, dashed: bool = False) -> None:
        """A line of one pixel, from (x1, y1) to (x2, y2) in pixels."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        ends = f'x1="{_n(x1)}" y1="{_n(self._y + y1)}" x2="{_n(x2)}" y2="{_n(self._y + y2)}"'
        self._parts.append(f'<line {ends} stroke="{color}"{dash}/>')

    def area(self, points: Sequence[tuple[float, float]], fill: str) -> None:
        """A closed shape through points (x, y) in pixels."""
        path = "L".join(f"{_n(x)} {_n(self._y + y)}" for x, y in points)
        self._parts.append(f'<path d="M{path}Z" fill="{fill}"/>')

    def write(
        self, x: float, y: float, text: str, *, size: int = 11, anchor: str = "", bold: bool = False
    ) -> None:
        """anchor: "middle" or "end" where x is not the text's start."""
        more = (f' text-anchor="{anchor}"' if anchor else "") + (' font-weight="bold"' if bold else "")
        more += f' font-size="{size}"' if size != 11 else ""
        self._parts.append(f'<text x="{_n(x)}" y="{_n(self._y + y)}"{more}>{escape(text)}</text>')

    def label(
        self, x: float, y: float, width: float, height: float, text: str, *, second: str = "", size: int = 11
    ) -> bool:
        """A text in the middle of a rectangle, lying or standing, shortened to fit; False when not even its
        beginning fits. second: a line below, where there is room."""
        middle_x, middle_y = x + width / 2, y + height / 2 + size * 0.35
        lying, standing = letters(width, size), letters(height, size)
        if (
            height >= size + 1
            and lying >= min(_LEAST_LETTERS, len(text))
            and (lying >= len(text) or width >= height)
        ):
            if second and height >= 2 * size + 4 and lying >= len(second):
                self.write(
                    middle_x, middle_y - size * 0.6, self._shortened(text, lying), size=size, anchor="middle"
                )
                self.write(middle_x, middle_y + size * 0.6, second, size=size - 1, anchor="middle")
            else:
                self.write(middle_x, middle_y, self._shortened(text, lying), size=size, anchor="middle")
            return True
        if width >= size + 1 and standing >= min(_LEAST_LETTERS, len(text)):
            at_x, at_y = middle_x + size * 0.35, y + height / 2
            turn = f'transform="translate({_n(at_x)} {_n(self._y + at_y)}) rotate(-90)"'
            more = f' font-size="{size}"' if size != 11 else ""
            self._parts.append(
                f'<text {turn} text-anchor="middle"{more}>{escape(self._shortened(text, standing))}</text>'
            )
            return True
        return False

    def _shortened(self, text: str, letters: int) -> str:
        if letters not in self._short:
            self._short[letters] = distinct(self._names, letters, end_cut)
        return self._short[letters].get(text) or end_cut(text, letters)

    def anchor(self, name: str) -> None:
        """A place that links lead to."""
        place = f'x="0" y="{_n(self._y)}" width="1" height="1"'
        self._parts.append(f'<rect id={quoteattr(name)} {place} fill="none"/>')

    @contextmanager
    def link(self, target: str) -> Iterator[None]:
        """What is drawn inside leads to "#name" when one clicks at it."""
        if target:
            self._parts.append(f"<a href={quoteattr(target)}>")
        yield
        if target:
            self._parts.append("</a>")

    def text(self, title: str) -> str:
        """The whole file."""
        height = _n(self._y + 20)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self._width} {height}" '
            f'width="{self._width}" height="{height}" font-family="{_FONTS}" '
            f'font-size="11" fill="#222222">'
        )
        pattern = (
            '<defs><pattern id="unknown" width="8" height="8" patternUnits="userSpaceOnUse">'
            '<path d="M0 8L8 0" stroke="#bbbbbb"/></pattern></defs>'
        )
        background = f'<rect width="{self._width}" height="{height}" fill="#ffffff"/>'
        return "\n".join(
            [head, f"<title>{escape(title)}</title>", pattern, background, *self._parts, "</svg>", ""]
        )


def letters(room: float, size: int = 11) -> int:
    """How many letters have room."""
    return int((room - 4) / (LETTER * size))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
