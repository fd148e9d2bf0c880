"""The documentation's pages, their sections, and how pages link to one another.

A page NAME.zh-CN.md is the Chinese translation of NAME.md beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.paths import ROOT
from tests.support.doc_blocks import Block, blocks_of

CHINESE = ".zh-CN.md"
PAGES = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]
TRANSLATIONS = [page for page in PAGES if page.name.endswith(CHINESE)]
ORIGINALS = [page for page in PAGES if page not in TRANSLATIONS]

_HEADING = re.compile(r"^(#+) (.+)$")
_LINK = re.compile(r"(!?)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)#]*)#?([^)]*)\)")


@dataclass
class Section:
    """A heading with its level, and what is below it: the text, with an empty line for each code block and
    without excerpt comments, and the code blocks."""

    level: int
    title: str
    prose: str = ""
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True)
class Link:
    """A link or image: the file it leads to (or an address outside of the repository), and its anchor."""

    image: bool
    target: str
    anchor: str


def english_of(translation: Path) -> Path:
    """The page that a Chinese one translates."""
    return translation.with_name(translation.name.removesuffix(CHINESE) + ".md")


def chinese_of(page: Path) -> Path:
    """Where the Chinese translation of an English page is, or would be."""
    return page.with_name(page.name.removesuffix(".md") + CHINESE)


def sections_of(page: Path) -> list[Section]:
    """All sections of a page in order; what is above the first heading has level 0."""
    blocks = iter(blocks_of(page))
    found = [Section(0, "")]
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            if fenced:
                found[-1].blocks.append(next(blocks))
                found[-1].prose += "\n"
        elif fenced or line.startswith("<!-- excerpt: "):
            continue
        elif m := _HEADING.match(line):
            found.append(Section(len(m.group(1)), m.group(2)))
        else:
            found[-1].prose += line + "\n"
    return found


def anchors_of(page: Path) -> list[str]:
    """What GitHub calls a page's headings in addresses, one for each section of sections_of."""
    names: list[str] = []
    for section in sections_of(page):
        name = re.sub(r"[^\w\- ]", "", section.title.lower()).replace(" ", "-")
        earlier = sum(re.fullmatch(re.escape(name) + r"(-\d+)?", other) is not None for other in names)
        names.append(f"{name}-{earlier}" if earlier else name)
    return names


def links_of(page: Path, text: str) -> Iterator[Link]:
    """The links in a text of that page."""
    for image, path, anchor in _LINK.findall(text):
        target = path if "://" in path else str((page.parent / path).resolve() if path else page)
        yield Link(bool(image), target, anchor)
