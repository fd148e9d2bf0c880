"""Integer constant expressions: sizes of arrays and the numbers of enumerators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from user_layers.scan.chunks import ATTR
from user_layers.scan.cparse import TypeEnv
from user_layers.scan.ctype import CType, Enumeration, Scalar, size_of, size_on_controller, without_typedefs
from user_layers.scan.refusal import TypeProblem, refuse_keyword

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class Constants:
    """Evaluates expressions among the types of `env`. type_of(node, where) gives the type that a node of
    sizeof or of a cast names."""

    def __init__(self, env: TypeEnv, type_of: Callable[[Any, Any], CType]) -> None:
        self._env = env
        self._type_of = type_of

    def value(self, node: Any) -> int:
        """Value of an integer constant expression; TypeProblem when it is none."""
        return self._checked(node, {})

    def enumeration(self, node: Any) -> Enumeration:
        """The enum that a node defines, with the number of each enumerator; TypeProblem."""
        if getattr(node, "underlying_type", None) is not None:
            raise _odd_enum("an enum with a type of its own", node, node.name or "")
        return Enumeration(node.name or "", tuple(self._numbers(node.values).items()))

    def _numbers(self, node: Any) -> dict[str, int]:
        numbers: dict[str, int] = {}
        following = 0
        for e in node.enumerators:
            if e.name.startswith(ATTR):
                raise _odd_enum(f"an enum with __attribute__(({e.name[len(ATTR) :]}))", node, "")
            refuse_keyword("enumerator", e.name, e)
            number = following if e.value is None else self._checked(e.value, numbers)
            if not _INT_MIN <= number <= _INT_MAX:
                raise TypeProblem(
                    f"enumerator {e.name} = {number}, which is not an int",
                    "an enum of a parameter struct has 32 bits",
                    e,
                    e.name,
                )
            numbers[e.name] = number
            following = number + 1
        return numbers

    def _checked(self, node: Any, local: dict[str, int]) -> int:
        try:
            return self._value(node, local)
        except ZeroDivisionError:
            raise TypeProblem("a division by zero in a constant", "", node) from None

    def _value(self, node: Any, local: dict[str, int]) -> int:
        """local: the enumerators of an enum whose definition has not ended yet."""
        found: int | None = None
        if isinstance(node, c_ast.Constant) and node.type != "string":
            found = _literal(node)
        elif isinstance(node, c_ast.ID):
            found = self._enumerator(node.name, local)
        elif isinstance(node, c_ast.UnaryOp):
            found = self._sizeof(node) if node.op == "sizeof" else self._unary(node, local)
        elif isinstance(node, c_ast.BinaryOp):
            found = _binary(node.op, self._value(node.left, local), self._value(node.right, local))
        elif isinstance(node, c_ast.TernaryOp):
            found = self._value(node.iftrue if self._value(node.cond, local) else node.iffalse, local)
        elif isinstance(node, c_ast.Cast):
            found = self._cast(node, local)
        if found is not None:
            return found
        name = getattr(node, "name", "")
        name = name if isinstance(name, str) else ""
        raise TypeProblem(
            f"a size that is not a constant{f' ({name})' if name else ''}",
            "use a number, a macro or an enum constant; a const variable is not a constant in C",
            node,
            name,
        )

    def _enumerator(self, name: str, local: dict[str, int]) -> int | None:
        if name in local:
            return local[name]
        owner = self._env.constants.get(name)
        return None if owner is None else self._numbers(owner)[name]

    def _sizeof(self, node: Any) -> int | None:
        """Bytes of a type that has the same on host and controller."""
        if not isinstance(node.expr, c_ast.Typename):
            return None
        t = self._type_of(node.expr.type, node)
        return size_of(t) if size_of(t) == size_on_controller(t) else None

    def _unary(self, node: Any, local: dict[str, int]) -> int | None:
        if node.op not in ("+", "-", "~", "!"):
            return None
        v = self._value(node.expr, local)
        return {"+": v, "-": -v, "~": ~v, "!": int(not v)}[node.op]

    def _cast(self, node: Any, local: dict[str, int]) -> int:
        value = self._value(node.expr, local)
        t = self._type_of(node.to_type.type, node)
        bits = 8 * size_of(t)
        value &= (1 << bits) - 1
        number = without_typedefs(t)
        signed = not isinstance(number, Scalar) or number.signed
        return value - (1 << bits) if signed and value >> (bits - 1) else value


def _odd_enum(what: str, node: Any, name: str) -> TypeProblem:
    hint = "its size would differ from an ordinary enum's: use an integer of the wanted size"
    return TypeProblem(what, hint, node, name)


def _literal(node: Any) -> int:
    text = node.value
    if text.startswith("'"):
        body = text[1:-1].encode().decode("unicode_escape")
        return ord(body[0]) if body else 0
    digits = text.rstrip("uUlL")
    try:
        if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
            return int(digits, 8)
        return int(digits, 0)
    except ValueError:
        raise TypeProblem(f"{text}, which is not an integer constant", "use an integer", node) from None


def _binary(op: str, a: int, b: int) -> int:
    if op in ("/", "%"):
        q = abs(a) // abs(b)
        q = -q if (a < 0) != (b < 0) else q
        return q if op == "/" else a - q * b
    results = {
        "+": a + b,
        "-": a - b,
        "*": a * b,
        "<<": a << b if 0 <= b < 64 else 0,
        ">>": a >> b if 0 <= b < 64 else 0,
        "&": a & b,
        "|": a | b,
        "^": a ^ b,
        "<": a < b,
        ">": a > b,
        "<=": a <= b,
        ">=": a >= b,
        "==": a == b,
        "!=": a != b,
        "&&": bool(a and b),
        "||": bool(a or b),
    }
    return int(results[op])
