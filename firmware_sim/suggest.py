"""What a misspelled name was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that is most like `word`, first of all one that differs in case alone; "" when none is.
    cutoff: from 0 (anything) to 1 (the same)."""
    import difflib  # only for messages: starting is not to pay for it

    names = list(known)
    same = [name for name in names if name.casefold() == word.casefold()]
    close = difflib.get_close_matches(word, same or names, 1, 0 if same else cutoff)
    return close[0] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean NAME?`, to end a message with; "" when nothing is alike."""
    meant = closest(word, known)
    return f"; did you mean {meant}?" if meant else ""
