"""Names in little room: long ones are cut, and stay different from one another where that is possible."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

CUT = "…"
_TOKENS = re.compile(r"[^\W\d_]+|\d+|.", re.DOTALL)

Cut = Callable[[str, int], str]
"""(text, width) -> at most `width` characters of a text that is longer."""


def middle_cut(text: str, width: int) -> str:
    """At most `width` characters: the middle of a longer text is left out."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return text[: width - 1 - tail] + CUT + text[len(text) - tail :]


def start_cut(text: str, width: int) -> str:
    """The same without the start of a longer text."""
    return text if len(text) <= width else CUT + text[len(text) - width + 1 :]


def end_cut(text: str, width: int) -> str:
    """The same without the end of a longer text."""
    return text if len(text) <= width else text[: width - 1] + CUT


def distinct(names: Iterable[str], width: int, cut: Cut = middle_cut) -> Mapping[str, str]:
    """What of each name is shown, in at most `width` characters.

    Names that `cut` makes equal show what they differ in instead, `…layer.12/conv/Conv`: what they share is
    left out, from the start on. Only where not even that has room do names look the same.
    """
    shown = {name: cut(name, width) for name in names}
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for name, text in shown.items():
        alike[text].append(name)
    for same in alike.values():
        if len(same) > 1:
            told = _differing(same, width)
            if len(set(told.values())) > 1:
                shown |= {name: text for name, text in told.items() if text != CUT}
    return shown


@lru_cache(maxsize=1 << 14)
def _tokens(name: str) -> tuple[str, ...]:
    return tuple(_TOKENS.findall(name))


def _differing(names: Sequence[str], width: int) -> dict[str, str]:
    """Names by the tokens in which they differ, with as much around these as has room."""
    tokens = {name: _tokens(name) for name in names}
    kept: dict[str, list[int]] = {name: [] for name in names}
    # Where names that were equal up to a token go on with different ones, all keep what follows there.
    stretches = [list(names)]
    while stretches:
        group = stretches.pop()
        first, last = (pick(tokens[name] for name in group) for pick in (min, max))
        at = next(
            (i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
        )
        ways: defaultdict[str, list[str]] = defaultdict(list)
        for name in group:
            if at < len(tokens[name]):
                ways[tokens[name][at]].append(name)
                kept[name].append(at)
        stretches += [rest for rest in ways.values() if len(rest) > 1]
    return {name: _fitted(tokens[name], kept[name], width) for name in names}


def _fitted(tokens: Sequence[str], wanted: Sequence[int], width: int) -> str:
    """Of a name's tokens those that are wanted, then the others, from the end on, as long as there is room:
    families of names differ early, their members late."""
    kept: set[int] = set()
    length = len(CUT)
    for at in (*reversed(wanted), *reversed(range(len(tokens)))):
        if at in kept:
            continue
        # In the place of the gap that it lies in there are none, one or two.
        gaps = (at > 0 and at - 1 not in kept) + (at + 1 < len(tokens) and at + 1 not in kept)
        longer = length + len(tokens[at]) + (gaps - 1) * len(CUT)
        if longer > width:
            break
        kept.add(at)
        length = longer
    return _joined(tokens, kept)


def _joined(tokens: Sequence[str], kept: set[int]) -> str:
    parts: list[str] = []
    for at, token in enumerate(tokens):
        alone = len(token) == len(CUT) and {at - 1, at + 1} <= kept  # to leave it out would save nothing
        if at in kept or alone:
            parts.append(token)
        elif not parts or parts[-1] != CUT:
            parts.append(CUT)
    return "".join(parts)
