"""What a parameter struct cannot have, as an error with its place and a way out."""

from __future__ import annotations

from typing import Any

from user_layers.scan.names import keyword_of


class TypeProblem(Exception):
    """A type that a parameter struct cannot have: why, what to use instead, the node and the word to show."""

    def __init__(self, message: str, hint: str, node: Any = None, name: str = "") -> None:
        super().__init__(message)
        self.message, self.hint, self.node, self.name = message, hint, node, name


def refuse_keyword(what: str, name: str, node: Any) -> None:
    """TypeProblem when `name` is a keyword of C or C++. what: "member", "type", ..."""
    language = keyword_of(name)
    if language:
        raise TypeProblem(
            f"{what} name {name} is a {language} keyword",
            "bmtpu.h is included by C and C++ code: choose another name",
            node,
            name,
        )
