"""The Chinese pages say what the English ones say, as far as a program can tell, typeset as Chinese."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.doc_pages import (
    TRANSLATIONS,
    Link,
    Section,
    anchors_of,
    chinese_of,
    english_of,
    links_of,
    sections_of,
)

GLOSSARY = ROOT / "docs" / "glossary.md"
_CODE = re.compile(r"`([^`]+)`")
_HAN = "[\u4e00-\u9fff]"
_WIDE = "[\u4e00-\u9fff\u3000-\u303f\uff00-\uffef\u201c\u201d]"
_BROKEN = re.compile(rf"(.*{_WIDE})\n(?![\n|#<]|- |\Z)")
_HALF_WIDTH = re.compile(rf"(?<={_HAN})[,;:?!()]|(?<={_HAN})\.(?!\w)|[,;:?!()](?={_HAN})")


# ---- what a pair must share ----


def _code(text: str) -> set[str]:
    return {" ".join(span.split()) for span in _CODE.findall(text)}


def _tables(prose: str) -> list[list[str]]:
    """The tables in order, each a list of rows with the head and the line below it."""
    found = re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE)
    return [table.splitlines() for table in found]


def _paragraphs(prose: str) -> int:
    return len([part for part in re.split(r"\n\s*\n", prose) if part.strip()])


def _items(prose: str) -> int:
    return len(re.findall(r"^ *(?:-|\d+\.) ", prose, re.MULTILINE))


def _places(page: Path, prose: str) -> Counter[tuple[bool, str, int | None]]:
    """Where the links lead: a heading counts by its number, since its name depends on the language. Links of
    an English page count as those to the translations, where there are any."""
    found: Counter[tuple[bool, str, int | None]] = Counter()
    for link in links_of(page, prose):
        found[link.image, _in_chinese(link), _heading(link)] += 1
    return found


def _in_chinese(link: Link) -> str:
    if link.image or not link.target.endswith(".md"):
        return link.target
    translated = chinese_of(Path(link.target))
    return str(translated) if translated.exists() else link.target


def _heading(link: Link) -> int | None:
    names = anchors_of(Path(link.target)) if link.anchor else []
    return names.index(link.anchor) if link.anchor in names else None


def _compare_tables(english: str, chinese: str) -> list[str]:
    theirs, ours = _tables(english), _tables(chinese)
    if [len(table) for table in theirs] != [len(table) for table in ours]:
        return [f"rows of tables: {[len(t) for t in theirs]} in English, {[len(t) for t in ours]} in Chinese"]
    found: list[str] = []
    for one, other in zip(chain(*theirs), chain(*ours), strict=True):
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in (one, other)]
        if cells[0] != cells[1]:
            found.append(f"cells of a row: {one!r} and {other!r}")
        if _code(one) != _code(other):
            odd = sorted(_code(one) ^ _code(other))
            found.append(f"code in a row: {odd} only in one of {one!r} and {other!r}")
    return found


def _compare_section(english: Path, theirs: Section, chinese: Path, ours: Section) -> list[str]:
    found = _compare_tables(theirs.prose, ours.prose)
    blocks = [[(b.language, b.text, b.excerpt) for b in section.blocks] for section in (theirs, ours)]
    if blocks[0] != blocks[1]:
        found.append("code blocks or their excerpt comments differ")
    if _code(theirs.prose) != _code(ours.prose):
        found.append(f"inline code only in one: {sorted(_code(theirs.prose) ^ _code(ours.prose))}")
    for what, count in (("paragraphs", _paragraphs), ("list items", _items)):
        if count(theirs.prose) != count(ours.prose):
            found.append(f"{what}: {count(theirs.prose)} in English, {count(ours.prose)} in Chinese")
    lead, should = _places(chinese, ours.prose), _places(english, theirs.prose)
    if lead != should:
        found.append(f"links: {[*(lead - should)]} instead of {[*(should - lead)]}")
    for link in links_of(chinese, ours.prose):
        if link.target != _in_chinese(link):
            found.append(f"a link to {Path(link.target).name}, which exists in Chinese")
    return [f"section {ours.title!r}: {one}" for one in found]


def differences(chinese: Path) -> list[str]:
    """What a Chinese page and its English one do not have in common, in words."""
    english = english_of(chinese)
    lines = {
        english: f"English | [简体中文]({chinese.name})",
        chinese: f"[English]({english.name}) | 简体中文",
    }
    found: list[str] = []
    sections: list[list[Section]] = []
    for page, line in lines.items():
        parts = sections_of(page)
        if len(parts) < 2 or not parts[1].prose.startswith(f"\n{line}\n\n"):
            found.append(f"{page.name}: no line {line!r} below the first heading")
        else:
            parts[1].prose = parts[1].prose.replace(line, "", 1)
        sections.append(parts)
    theirs, ours = sections
    if [s.level for s in theirs] != [s.level for s in ours]:
        titles = [[f"{'#' * s.level} {s.title}" for s in part if s.level] for part in sections]
        return [*found, f"headings: {titles[0]} in English, {titles[1]} in Chinese"]
    for one, other in zip(theirs, ours, strict=True):
        found += _compare_section(english, one, chinese, other)
    return found


def typography(page: Path) -> list[str]:
    """Half-width punctuation beside Chinese words, and lines that end within a Chinese paragraph (the break
    would show as a space)."""
    found: list[str] = []
    for section in sections_of(page):
        text = _CODE.sub("code", re.sub(r"\]\([^)]*\)", "]", section.prose))
        for line in text.splitlines():
            found += [f"half-width {m.group()!r} in {line!r}" for m in _HALF_WIDTH.finditer(line)]
        found += [f"a line break after {m.group(1)!r}" for m in _BROKEN.finditer(text)]
    return found


@pytest.mark.parametrize("page", TRANSLATIONS, ids=lambda p: p.name)
def test_pairs_are_in_step(page: Path) -> None:
    assert differences(page) == []


@pytest.mark.parametrize("page", [*TRANSLATIONS, GLOSSARY], ids=lambda p: p.name)
def test_typography(page: Path) -> None:
    assert typography(page) == []


def test_glossary_is_whole_in_both_languages() -> None:
    tables = _tables("\n".join(section.prose for section in sections_of(GLOSSARY)))
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for table in tables for row in table[2:]]
    assert len(rows) > 50
    for row in rows:
        assert len(row) == 4 and all(row), row
        assert not re.search(_HAN, row[0] + row[2]) and re.search(_HAN, row[3]), row
    terms = [term for row in rows for term in row[0].split(", ")]
    assert [term for term, times in Counter(terms).items() if times > 1] == []


# ---- the comparison finds what is only in one ----

ENGLISH = """# Title

English | [简体中文](page.zh-CN.md)

Run `make` first, see [the end](#last-words) and [other](other.md).

<!-- excerpt: too slow -->
```bash
# not a heading
make
```

- `one`
- two

| a | b |
|---|---|
| `x` | 1 |
| `y` | 2 |

## Last words

![picture](picture.png)
"""
TRANSLATED = """# 标题

[English](page.md) | 简体中文

先运行 `make`，见[结尾](#结语)和[另一页](other.zh-CN.md)。

<!-- excerpt: too slow -->
```bash
# not a heading
make
```

- `one`
- 二

| 甲 | 乙 |
|---|---|
| `x` | 1 |
| `y` | 2 |

## 结语

![图](picture.png)
"""


@pytest.fixture
def pair(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a pair of pages beside one that exists in both languages; gives the Chinese page."""

    def write(english: str, chinese: str) -> Path:
        for name, text in (("page", english), ("other", "# Other\n")):
            (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
        for name, text in (("page", chinese), ("other", "# 其他\n")):
            (tmp_path / f"{name}.zh-CN.md").write_text(text, encoding="utf-8")
        return tmp_path / "page.zh-CN.md"

    return write


def test_a_pair_in_step(pair: Callable[[str, str], Path]) -> None:
    page = pair(ENGLISH, TRANSLATED)
    assert differences(page) == typography(page) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## 结语", "## 多余\n\n## 结语", "headings: "),
        ("## 结语", "### 结语", "headings: "),
        ("- `one`", "```text\nmore\n```\n\n- `one`", "code blocks"),
        ("make\n```", "make all\n```", "code blocks"),
        ("# not a heading", "# 不是标题", "code blocks"),
        ("<!-- excerpt: too slow -->\n", "", "code blocks"),
        ("excerpt: too slow", "excerpt: 太慢", "code blocks"),
        ("| `y` | 2 |", "| `y` | 2 |\n| `z` | 3 |", "rows of tables: [4] in English, [5] in Chinese"),
        ("| `x` | 1 |\n", "", "rows of tables: [4] in English, [3] in Chinese"),
        ("| `x` | 1 |", "| `x` |", "cells of a row"),
        ("| `x` | 1 |\n| `y` | 2 |", "| `y` | 1 |\n| `x` | 2 |", "code in a row: ['x', 'y']"),
        ("`make`", "`make all`", "inline code only in one: ['make', 'make all']"),
        ("`make`", "它", "inline code only in one: ['make']"),
        ("- 二", "- 二\n- 三", "list items: 2 in English, 3 in Chinese"),
        ("- `one`", "多出的一段。\n\n- `one`", "paragraphs: "),
        ("picture.png", "picture.zh.png", "links: "),
        ("other.zh-CN.md", "other.md", "a link to other.md, which exists in Chinese"),
        ("#结语", "#标题", "links: "),
        ("[English](page.md) | 简体中文\n\n", "", "page.zh-CN.md: no line '[English](page.md) | 简体中文'"),
    ],
)
def test_differences_are_found(pair: Callable[[str, str], Path], old: str, new: str, said: str) -> None:
    assert TRANSLATED.count(old) == 1
    found = differences(pair(ENGLISH, TRANSLATED.replace(old, new)))
    assert [one for one in found if said in one], found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("## Last words", "## More\n\n## Last words", "headings: "),
        ("make\n```", "make\n```\n\n```text\nmade\n```", "code blocks"),
        ("| `y` | 2 |", "| `y` | 2 |\n| `z` | 3 |", "rows of tables: [5] in English, [4] in Chinese"),
        ("English | [简体中文](page.zh-CN.md)\n\n", "", "page.md: no line"),
    ],
)
def test_what_only_english_has_is_found(
    pair: Callable[[str, str], Path], old: str, new: str, said: str
) -> None:
    assert ENGLISH.count(old) == 1
    found = differences(pair(ENGLISH.replace(old, new), TRANSLATED))
    assert [one for one in found if said in one], found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("先构建,再运行。", "half-width ','"),
        ("构建(很快)。", "half-width '('"),
        ("构建完成.", "half-width '.'"),
        ("注意:先构建。", "half-width ':'"),
        ("先构建，\n再运行。", "a line break after '先构建，'"),
    ],
)
def test_typography_is_checked(tmp_path: Path, text: str, said: str) -> None:
    page = tmp_path / "page.zh-CN.md"
    page.write_text(f"# 标题\n\n{text}\n", encoding="utf-8")
    found = typography(page)
    assert found and found[0].startswith(said), found
