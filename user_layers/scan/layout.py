"""Types of parameter structs: their layout on the controller and on the host, their C text.

The controller is a 32-bit ARM (ARM EABI), the host a 64-bit machine (LP64). A type may be used when
both lay it out alike, which excludes pointers, long, size_t, long double and bit-fields; 64-bit
integers and double are aligned to 8 on both.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from pycparser import c_ast

from user_layers.scan.chunks import ATTR, PACK, UNKNOWN
from user_layers.scan.cparse import UNPORTABLE, TypeEnv
from user_layers.scan.model import Declaration, Location, ParamField, ParamStruct
from user_layers.scan.names import keyword_of

Pair = tuple[int, int]  # (host, controller)

# Bytes, which are also the alignment, on host and controller.
_SCALARS: dict[str, Pair] = {
    "char": (1, 1),
    "signed char": (1, 1),
    "unsigned char": (1, 1),
    "_Bool": (1, 1),
    "short": (2, 2),
    "unsigned short": (2, 2),
    "int": (4, 4),
    "unsigned int": (4, 4),
    "long": (8, 4),
    "unsigned long": (8, 4),
    "long long": (8, 8),
    "unsigned long long": (8, 8),
    "float": (4, 4),
    "double": (8, 8),
    "long double": (16, 8),
}
_STANDARD = frozenset(f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64))
SDK_ENUMS = frozenset(["DATA_TYPE_T", "TENSOR_TYPE_T", "STORE_MODE_T"])
SDK_TYPES_KEY = "sdk types"  # stands for the enums that the layer headers define as well
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


class TypeProblem(Exception):
    """A type that a parameter struct cannot have: why, what to use instead, the node."""

    def __init__(self, message: str, hint: str, node: Any = None, name: str = "") -> None:
        super().__init__(message)
        self.message, self.hint, self.node, self.name = message, hint, node, name


@dataclass(frozen=True)
class CType:
    """A type with its layout. `text` is how bmtpu.h spells it before a declarator, `dims` follow
    the name; `canon` describes the layout for the hash."""

    text: str
    size: Pair
    align: Pair
    canon: str
    dims: tuple[int, ...] = ()
    what: str = ""  # for messages: the type behind a typedef


def scalar_name(names: list[str]) -> str:
    """Normal form of a builtin type: ["unsigned", "long", "long", "int"] -> "unsigned long long"."""
    words = list(names)
    unsigned = "unsigned" in words
    words = [w for w in words if w not in ("signed", "unsigned")]
    if "char" in words:
        return "unsigned char" if unsigned else ("signed char" if "signed" in names else "char")
    if "double" in words or "float" in words or "_Bool" in words or "void" in words:
        return " ".join(sorted(words, key=lambda w: w != "long"))
    base = "short" if "short" in words else " ".join(w for w in words if w == "long") or "int"
    if any(w not in ("short", "long", "int") for w in words):
        return " ".join(names)
    return f"unsigned {base}" if unsigned else base


def canonical(node: Any, env: TypeEnv, *, stop: frozenset[str] = frozenset()) -> str:
    """A type as text with typedefs followed (except those in `stop`), for comparing signatures:
    "const void *", "unsigned long long". Qualifiers of the value itself are left out."""
    text, quals = _canonical(node, env, stop, 0)
    del quals
    return text


def _canonical(node: Any, env: TypeEnv, stop: frozenset[str], depth: int) -> tuple[str, frozenset[str]]:
    if depth > 64:
        return "?", frozenset()
    if isinstance(node, (c_ast.Decl, c_ast.Typename, c_ast.Typedef)):
        return _canonical(node.type, env, stop, depth + 1)
    if isinstance(node, (c_ast.PtrDecl, c_ast.ArrayDecl)):
        inner, quals = _canonical(node.type, env, stop, depth + 1)
        words = " ".join([*sorted(quals), inner])
        own = frozenset(node.quals) if isinstance(node, c_ast.PtrDecl) else frozenset()
        return words + ("*" if words.endswith("*") else " *"), own
    if isinstance(node, c_ast.FuncDecl):
        return "function", frozenset()
    if isinstance(node, c_ast.TypeDecl):
        text, quals = _canonical(node.type, env, stop, depth + 1)
        return text, quals | frozenset(node.quals)
    if isinstance(node, c_ast.IdentifierType):
        name = " ".join(node.names)
        if name in env.typedefs and name not in stop:
            return _canonical(env.typedefs[name].type, env, stop, depth + 1)
        return scalar_name(node.names), frozenset()
    kind = type(node).__name__.lower()
    return f"{kind} {getattr(node, 'name', None) or '{...}'}", frozenset()


@dataclass
class Resolver:
    """Resolves the parameter structs of one file. `place(node, name)` gives a node's location."""

    env: TypeEnv
    place: Any
    needs: dict[str, Declaration] = field(default_factory=dict)
    _done: dict[str, CType] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _whole: Any = None  # the parameter struct itself: the only one that may be empty

    def param_struct(self, node: Any) -> ParamStruct:
        """The struct that a declaration behind __BM_PARAM__ defines or names; TypeProblem."""
        self.needs.clear()
        self._done.clear()
        self._open.clear()
        fields: list[ParamField] = []
        if isinstance(node, c_ast.Typedef):
            struct = self._whole = self._complete(self._struct_behind(node.type))
            name, given = node.name, self._typedef(node.name, node)
        elif isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.Struct) and node.type.name:
            struct, name = self._complete(node.type), node.type.name
            self._whole = struct
            given = self._aggregate(node.type)
        else:
            raise TypeProblem("", "")  # the caller reports what stands there
        self._members(struct, fields)
        place = self.place(node, name)
        digest = hashlib.blake2b(given.canon.encode(), digest_size=8).digest()
        return ParamStruct(
            c_type=given.text,
            size=given.size[0],
            align=given.align[0],
            hash=int.from_bytes(digest, "little"),
            fields=tuple(fields),
            needs=tuple(self.needs.values()),
            location=place,
        )

    def _struct_behind(self, node: Any) -> Any:
        """The struct node at the end of a typedef's type; TypeProblem with an empty message when
        it names no struct."""
        for _ in range(64):
            if isinstance(node, c_ast.TypeDecl):
                node = node.type
            elif isinstance(node, c_ast.Struct):
                return node
            elif isinstance(node, c_ast.IdentifierType) and " ".join(node.names) in self.env.typedefs:
                node = self.env.typedefs[" ".join(node.names)].type
            else:
                break
        raise TypeProblem("", "")

    def _complete(self, node: Any) -> Any:
        """The definition of a struct or union that may only be named here."""
        kind = type(node).__name__.lower()
        if node.decls is None:
            known = self.env.tags.get((kind, node.name))
            if known is None:
                raise TypeProblem(
                    f"{kind} {node.name} is declared but never defined",
                    f"define {kind} {node.name} in this file or in a header that it includes",
                    node,
                    node.name or "",
                )
            return known
        return node

    # --- types --------------------------------------------------------------------------------

    def _type(self, node: Any, where: Any) -> CType:
        if isinstance(node, c_ast.ArrayDecl):
            inner = self._type(node.type, where)
            if node.dim is None:
                raise TypeProblem(
                    "an array without a size cannot be part of a parameter struct",
                    "give the array a constant size, and a second member that counts what is used",
                    where,
                )
            count = self.evaluate(node.dim)
            if not 0 < count < 1 << 28:
                raise TypeProblem(
                    f"an array of {count} elements", "the size must be a positive constant", where
                )
            size = (inner.size[0] * count, inner.size[1] * count)
            return CType(
                inner.text, size, inner.align, f"[{count}]{inner.canon}", (count, *inner.dims), inner.what
            )
        if isinstance(node, c_ast.PtrDecl):
            target = "function" if isinstance(node.type, c_ast.FuncDecl) else "pointer"
            raise TypeProblem(
                f"a {target} pointer" if target == "function" else "a pointer",
                "it has 8 bytes on the host and 4 on the controller, where the host's addresses mean "
                "nothing; put the values themselves into the struct (an array of fixed size)",
                where,
            )
        if isinstance(node, c_ast.TypeDecl):
            return self._type(node.type, where)
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            return self._aggregate(node)
        if isinstance(node, c_ast.Enum):
            return self._enum(node)
        if isinstance(node, c_ast.IdentifierType):
            return self._named(node.names, where)
        raise TypeProblem(
            f"a member of kind {type(node).__name__}", "use numbers, arrays, enums and structs of them", where
        )

    def _named(self, names: list[str], where: Any) -> CType:
        name = " ".join(names)
        if name in UNPORTABLE:
            raise TypeProblem(
                f"type {name.replace(UNKNOWN, 'typeof(...)')}, which bmtpu.h cannot express for C and C++",
                "name a plain type: int, float, uint16_t for the bits of a half float, ...",
                where,
            )
        if name in self.env.typedefs:
            return self._typedef(name, where)
        scalar = scalar_name(names)
        if scalar not in _SCALARS:
            raise TypeProblem(
                f"type {name}, which is not known here",
                "include the header that defines it, or use a type of its own for the parameters",
                where,
            )
        size = _SCALARS[scalar]
        return CType("bool" if scalar == "_Bool" else scalar, size, size, scalar, what=scalar)

    def _typedef(self, name: str, where: Any) -> CType:
        key = f"typedef {name}"
        if key in self._done:
            return self._done[key]
        if name in self.env.odd:
            raise TypeProblem(
                f"type {name} with __attribute__(({', '.join(self.env.odd[name])}))",
                "of the attributes that change a layout only packed on a struct is supported",
                where,
            )
        node = self.env.typedefs[name]
        if name in self._open:
            raise TypeProblem(f"type {name} refers to itself", "", where)
        if keyword_of(name):
            raise self._keyword("type", name, node)
        self._open.append(name)
        inner_node = node.type
        while isinstance(inner_node, c_ast.TypeDecl):
            inner_node = inner_node.type
        if name in SDK_ENUMS and isinstance(inner_node, c_ast.Enum):
            self.needs.setdefault(SDK_TYPES_KEY, Declaration(SDK_TYPES_KEY, (), "", self.place(node, name)))
            result = CType(name, (4, 4), (4, 4), "enum", what="enum")
        elif isinstance(inner_node, (c_ast.Struct, c_ast.Union)):
            result = self._aggregate(inner_node, typedef=node)
        elif isinstance(inner_node, c_ast.Enum):
            result = self._enum(inner_node, typedef=node)
        else:
            inner = self._type(node.type, where)
            if name not in _STANDARD:
                text = f"typedef {declare(inner, name)};"
                self._need(key, (name,), text, node, name)
            result = CType(name, inner.size, inner.align, inner.canon, what=inner.what)
        self._open.pop()
        self._done[key] = result
        return result

    def _need(self, key: str, names: tuple[str, ...], text: str, node: Any, name: str) -> None:
        self.needs.setdefault(key, Declaration(key, names, text, self.place(node, name)))

    def _aggregate(self, node: Any, typedef: Any = None) -> CType:
        """A struct or union, defined here, by a typedef, or named by its tag."""
        kind = type(node).__name__.lower()
        name = typedef.name if typedef is not None else (f"{kind} {node.name}" if node.name else "")
        key = f"typedef {name}" if typedef is not None else name
        if key and key in self._done:
            return self._done[key]
        full = self._complete(node)
        if typedef is not None and node.name:
            inner = self._aggregate(node)
            self._need(key, (name,), f"typedef {inner.text} {name};", typedef, name)
            result = CType(name, inner.size, inner.align, inner.canon)
            self._done[key] = result
            return result
        if node.name and keyword_of(node.name):
            raise self._keyword(kind, node.name, node)
        if node.name and node.name in self._open:
            raise TypeProblem(f"{kind} {node.name} contains itself", "", node, node.name)
        self._open.append(node.name or name or "?")
        size, align, canon, text, pack = self._members(full, None)
        self._open.pop()
        if not name:
            body = f"{kind} {text}"
            if pack:
                raise TypeProblem(
                    f"a packed {kind} without a name inside another type",
                    "define it before, with a typedef, and use that as the member's type",
                    node,
                )
            return CType(body, size, align, canon)
        body = f"typedef {kind} {text} {name};" if typedef is not None else f"{name} {text};"
        if pack:
            body = f"#pragma pack(push, {pack})\n{body}\n#pragma pack(pop)"
        at = typedef if typedef is not None else full
        self._need(key, (name if typedef is not None else node.name,), body, at, (node.name or name))
        result = CType(name, size, align, canon)
        self._done[key] = result
        return result

    def _members(self, node: Any, listing: list[ParamField] | None) -> tuple[Pair, Pair, str, str, int]:
        """Lay out a struct's or union's members: size, alignment, canon, `{...}` text, pack."""
        union = isinstance(node, c_ast.Union)
        pack = 0
        size, align = [0, 0], [1, 1]
        canon: list[str] = []
        lines: list[str] = []
        for member in node.decls or ():
            name = getattr(member, "name", None) or ""
            if name.startswith(PACK):
                limit = int(name[len(PACK) :])
                pack = min(pack or limit, limit)
                continue
            if name.startswith(ATTR):
                what = name[len(ATTR) :]
                on = "a member" if what.startswith("member_") else "a struct"
                raise TypeProblem(
                    f"{on} with __attribute__(({what.removeprefix('member_')}))",
                    "of the attributes that change a layout only packed on a whole struct is supported",
                    member if on == "a member" else node,
                    "" if on == "a member" else (getattr(node, "name", "") or ""),
                )
            if not isinstance(member, c_ast.Decl):
                continue  # a pragma or a static assertion
            if member.bitsize is not None:
                raise TypeProblem(
                    f"bit-field {name or '(unnamed)'}",
                    "the place of its bits is up to each compiler; use a whole integer and masks",
                    member,
                    name,
                )
            if name and keyword_of(name):
                raise self._keyword("member", name, member)
            try:
                t = self._type(member.type, member)
            except TypeProblem as e:
                if e.name or not name:
                    raise
                raise TypeProblem(f"member {name}: {e.message}", e.hint, member, name) from None
            if not name and not t.text.startswith(("struct {", "union {")):
                continue  # `struct inner {...};` only declares
            if pack and t.text.startswith(("struct {", "union {")):
                raise TypeProblem(
                    "a struct without a name inside a packed one",
                    "define it before, with a typedef, and use that as the member's type",
                    member,
                    name,
                )
            if t.size[0] != t.size[1]:
                raise TypeProblem(
                    f"member {name} of type {t.text}"
                    + (f" ({t.what})" if t.what and t.what != t.text else "")
                    + f", which has {t.size[0]} bytes on the host and {t.size[1]} on the controller",
                    "use a type of one size: int, unsigned int, long long, int32_t, uint64_t, float, double",
                    member,
                    name,
                )
            at = [0, 0]
            for i in (0, 1):
                a = min(t.align[i], pack) if pack else t.align[i]
                at[i] = 0 if union else -(-size[i] // a) * a
                size[i] = max(size[i], at[i] + t.size[i])
                align[i] = max(align[i], a)
            if at[0] != at[1]:
                raise TypeProblem(
                    f"member {name} at byte {at[0]} on the host and {at[1]} on the controller",
                    "put members in an order with explicit padding",
                    member,
                    name,
                )
            canon.append(f"{name}@{at[0]}:{t.canon}")
            lines.append(f"{declare(t, name)};")
            if listing is not None:
                listing.append(ParamField(name, declare(t, ""), at[0], t.size[0]))
        kind = "union" if union else "struct"
        if not canon and node is not self._whole:  # an empty one there: a layer without parameters
            raise TypeProblem(
                f"an empty {kind}",
                "C++ gives an empty struct one byte and C none: add a member `int reserved;`",
                node,
                getattr(node, "name", "") or "",
            )
        total = (-(-size[0] // align[0]) * align[0], -(-size[1] // align[1]) * align[1])
        body = "".join("    " + line.replace("\n", "\n    ") + "\n" for line in lines)
        text = "{\n" + body + "}"
        return total, (align[0], align[1]), f"{kind}{{{';'.join(canon)}}}{total[0]}", text, pack

    def _keyword(self, what: str, name: str, node: Any) -> TypeProblem:
        return TypeProblem(
            f"{what} name {name} is a {keyword_of(name)} keyword",
            "bmtpu.h is included by C and C++ code: choose another name",
            node,
            name,
        )

    def _enum(self, node: Any, typedef: Any = None) -> CType:
        full = node if node.values is not None else self.env.tags.get(("enum", node.name))
        if full is None:
            raise TypeProblem(
                f"enum {node.name} is not defined", "define the enum before the struct", node, node.name or ""
            )
        if typedef is not None and node.name:
            inner = self._enum(node)
            self._need(
                f"typedef {typedef.name}",
                (typedef.name,),
                f"typedef {inner.text} {typedef.name};",
                typedef,
                typedef.name,
            )
            return CType(typedef.name, inner.size, inner.align, inner.canon, what="enum")
        if getattr(full, "underlying_type", None) is not None:
            raise TypeProblem(
                "an enum with a type of its own",
                "its size would differ from an ordinary enum's: use an integer of the wanted size",
                full,
                full.name or "",
            )
        values = self._enum_values(full.values)
        text = "{ " + ", ".join(f"{n} = {v}" for n, v in values.items()) + " }"
        canon = "enum"
        if typedef is not None:
            names = (typedef.name, *values)
            self._need(
                f"typedef {typedef.name}",
                names,
                f"typedef enum {text} {typedef.name};",
                typedef,
                typedef.name,
            )
            return CType(typedef.name, (4, 4), (4, 4), canon, what="enum")
        if node.name:
            if keyword_of(node.name):
                raise self._keyword("enum", node.name, node)
            self._need(
                f"enum {node.name}", (node.name, *values), f"enum {node.name} {text};", full, node.name
            )
            return CType(f"enum {node.name}", (4, 4), (4, 4), canon, what="enum")
        return CType(f"enum {text}", (4, 4), (4, 4), canon, what="enum")

    # --- constants ----------------------------------------------------------------------------

    def _enum_values(self, node: Any) -> dict[str, int]:
        values: dict[str, int] = {}
        following = 0
        for e in node.enumerators:
            if e.name.startswith(ATTR):
                raise TypeProblem(
                    f"an enum with __attribute__(({e.name[len(ATTR) :]}))",
                    "its size would differ from an ordinary enum's: use an integer of the wanted size",
                    node,
                )
            if keyword_of(e.name):
                raise self._keyword("enumerator", e.name, e)
            value = following if e.value is None else self.evaluate(e.value, values)
            if not _INT_MIN <= value <= _INT_MAX:
                raise TypeProblem(
                    f"enumerator {e.name} = {value}, which is no int",
                    "an enum of a parameter struct has 32 bits",
                    e,
                    e.name,
                )
            values[e.name] = value
            following = value + 1
        return values

    def evaluate(self, node: Any, local: dict[str, int] | None = None) -> int:
        """Value of an integer constant expression; TypeProblem when it is none."""
        try:
            return self._value(node, local or {})
        except ZeroDivisionError:
            raise TypeProblem("a division by zero in a constant", "", node) from None

    def _value(self, node: Any, local: dict[str, int]) -> int:
        if isinstance(node, c_ast.Constant) and node.type != "string":
            return _constant(node)
        if isinstance(node, c_ast.ID):
            if node.name in local:
                return local[node.name]
            if node.name in self.env.constants:
                owner = self.env.constants[node.name]
                return self._enum_values(owner)[node.name]
        elif isinstance(node, c_ast.UnaryOp):
            if node.op == "sizeof":
                target = node.expr.type if isinstance(node.expr, c_ast.Typename) else None
                if target is not None:
                    t = self._type(target, node)
                    if t.size[0] == t.size[1]:
                        return t.size[0]
            elif node.op in ("+", "-", "~", "!"):
                v = self._value(node.expr, local)
                return {"+": v, "-": -v, "~": ~v, "!": int(not v)}[node.op]
        elif isinstance(node, c_ast.BinaryOp):
            return _binary(node.op, self._value(node.left, local), self._value(node.right, local))
        elif isinstance(node, c_ast.TernaryOp):
            chosen = node.iftrue if self._value(node.cond, local) else node.iffalse
            return self._value(chosen, local)
        elif isinstance(node, c_ast.Cast):
            return self._cast(node, local)
        name = getattr(node, "name", "")
        raise TypeProblem(
            f"a size that is no constant{f' ({name})' if isinstance(name, str) and name else ''}",
            "use a number, a macro or an enum constant; a const variable is no constant in C",
            node,
            name if isinstance(name, str) else "",
        )

    def _cast(self, node: Any, local: dict[str, int]) -> int:
        value = self._value(node.expr, local)
        t = self._type(node.to_type.type, node)
        bits = 8 * t.size[0]
        value &= (1 << bits) - 1
        signed = not (t.what or t.text).startswith(("unsigned", "_Bool"))
        return value - (1 << bits) if signed and value >> (bits - 1) else value


def _constant(node: Any) -> int:
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
        raise TypeProblem(f"{text}, which is no integer constant", "use an integer", node) from None


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


def declare(t: CType, name: str) -> str:
    """ "float x[2][3]" from a type and a name."""
    dims = "".join(f"[{d}]" for d in t.dims)
    return f"{t.text} {name}{dims}".rstrip() if name else f"{t.text}{dims}"


def place_of(node: Any) -> tuple[str, int] | None:
    """(source, line) of a node, None when pycparser gave it no place."""
    coord = getattr(node, "coord", None)
    return (str(coord.file), int(coord.line)) if coord is not None else None


__all__ = [
    "SDK_TYPES_KEY",
    "CType",
    "Location",
    "Resolver",
    "TypeProblem",
    "canonical",
    "declare",
    "place_of",
    "scalar_name",
]
