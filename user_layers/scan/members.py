"""Members of a struct or union: their types, and which of them parameters can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pycparser import c_ast

from user_layers.scan.chunks import ATTR, PACK
from user_layers.scan.ctype import (
    Array,
    CType,
    Record,
    Scalar,
    size_of,
    size_on_controller,
    spelled,
    without_typedefs,
)
from user_layers.scan.refusal import TypeProblem, refuse_keyword


def pack_of(node: Any) -> int:
    """The limit of the members' alignment; 0 for none. The smallest of `#pragma pack` and packed holds."""
    limits = (int(m.name[len(PACK) :]) for m in node.decls or () if _name(m).startswith(PACK))
    return min(limits, default=0)


def members_of(node: Any, type_of: Callable[[Any, Any], CType]) -> list[tuple[str, CType]]:
    """Name and type of each member of a complete struct or union, in order. type_of(node, where) gives a
    member's type. TypeProblem for the first that a parameter struct cannot have."""
    packed = pack_of(node) > 0
    found: list[tuple[str, CType]] = []
    for member in _declared(node):
        name = _name(member)
        _check_declarator(member, name)
        t = _type(member, name, type_of)
        untagged = _is_untagged(t)
        if not name and not untagged:
            continue  # `struct inner {...};` only declares
        if packed and untagged:
            raise TypeProblem(
                "a struct without a name inside a packed one",
                "define it before, with a typedef, and use that as the member's type",
                member,
                name,
            )
        _check_sizes(member, name, t)
        found.append((name, t))
    return found


def _declared(node: Any) -> Iterator[Any]:
    """The declarations among a struct's parts; not the sentinels, pragmas and static assertions."""
    for member in node.decls or ():
        name = _name(member)
        if name.startswith(ATTR):
            raise _odd_attribute(node, member, name[len(ATTR) :])
        if isinstance(member, c_ast.Decl) and not name.startswith(PACK):
            yield member


def _odd_attribute(node: Any, member: Any, what: str) -> TypeProblem:
    hint = "of the attributes that change a layout only packed on a whole struct is supported"
    of_member = what.removeprefix("member_")
    if of_member != what:
        return TypeProblem(f"a member with __attribute__(({of_member}))", hint, member)
    return TypeProblem(f"a struct with __attribute__(({what}))", hint, node, _name(node))


def _check_declarator(member: Any, name: str) -> None:
    if member.bitsize is not None:
        raise TypeProblem(
            f"bit-field {name or '(unnamed)'}",
            "the place of its bits is up to each compiler; use a whole integer and masks",
            member,
            name,
        )
    refuse_keyword("member", name, member)


def _type(member: Any, name: str, type_of: Callable[[Any, Any], CType]) -> CType:
    """The member's type; a problem that points at no word yet is told of the member."""
    try:
        return type_of(member.type, member)
    except TypeProblem as e:
        if e.name or not name:
            raise
        raise TypeProblem(f"member {name}: {e.message}", e.hint, member, name) from None


def _check_sizes(member: Any, name: str, t: CType) -> None:
    host, controller = size_of(t), size_on_controller(t)
    if host == controller:
        return
    text, number = spelled(t), without_typedefs(t)
    while isinstance(number, Array):
        number = without_typedefs(number.item)
    behind = f" ({number.base})" if isinstance(number, Scalar) and number.base != text else ""
    raise TypeProblem(
        f"member {name} of type {text}{behind}, which has {host} bytes on the host and {controller} on the "
        "controller",
        "use a type of one size: int, unsigned int, long long, int32_t, uint64_t, float, double",
        member,
        name,
    )


def _is_untagged(t: CType) -> bool:
    """Whether a member's type is a struct or union without any name, or an array of such."""
    while isinstance(t, Array):
        t = t.item
    return isinstance(t, Record) and not t.tag


def _name(node: Any) -> str:
    return getattr(node, "name", None) or ""
