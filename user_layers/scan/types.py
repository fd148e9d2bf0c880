"""Parameter structs of one file: from the parser's nodes to the model, and what bmtpu.h must define for them.

A type may be used when host and controller lay it out alike, which excludes pointers, long, size_t,
long double and bit-fields; 64-bit integers and double are aligned to 8 on both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from user_layers.scan.chunks import UNKNOWN
from user_layers.scan.constants import Constants
from user_layers.scan.cparse import UNPORTABLE, TypeEnv
from user_layers.scan.ctype import (
    Array,
    CType,
    Enumeration,
    Record,
    Scalar,
    Typedef,
    define,
    define_typedef,
    lay_out,
    scalar,
    scalar_base,
)
from user_layers.scan.members import members_of, pack_of
from user_layers.scan.model import SDK_TYPES_KEY, Declaration, Location, ParamStruct
from user_layers.scan.refusal import TypeProblem, refuse_keyword

_STANDARD = frozenset(f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64))
_SDK_ENUMS = frozenset(["DATA_TYPE_T", "TENSOR_TYPE_T", "STORE_MODE_T"])
_MAX_ITEMS = 1 << 28
_MAX_TYPEDEFS = 64  # in a row; C itself forbids a ring


class Resolver:
    """Resolves the parameter structs of one file. place(node, name) gives a node's location."""

    def __init__(self, env: TypeEnv, place: Callable[[Any, str], Location]) -> None:
        self._env = env
        self._place = place
        self._constants = Constants(env, self._type)
        self._needs: dict[str, Declaration] = {}
        self._done: dict[str, CType] = {}
        self._open: list[str] = []
        self._whole: Any = None  # the parameter struct itself: the only one that may be empty

    def param_struct(self, node: Any) -> ParamStruct | None:
        """The struct that a declaration behind __BM_PARAM__ defines or names; None when that is not a struct.
        TypeProblem for one that cannot hold parameters."""
        self._needs, self._done, self._open = {}, {}, []
        struct = self._struct_behind(node)
        if struct is None:
            return None
        self._whole = self._complete(struct)
        given = self._typedef(node.name, node) if isinstance(node, c_ast.Typedef) else self._tagged(struct)
        place = self._place(node, node.name or struct.name)
        return ParamStruct(given, tuple(self._needs.values()), place)

    def _struct_behind(self, node: Any) -> Any:
        """The struct at the end of a typedef, or the tagged one that a declaration is; None for others."""
        if isinstance(node, c_ast.Decl):
            return node.type if isinstance(node.type, c_ast.Struct) and node.type.name else None
        if not isinstance(node, c_ast.Typedef):
            return None
        inner = node.type
        for _ in range(_MAX_TYPEDEFS):
            if isinstance(inner, c_ast.Struct):
                return inner
            if isinstance(inner, c_ast.TypeDecl):
                inner = inner.type
            elif isinstance(inner, c_ast.IdentifierType) and " ".join(inner.names) in self._env.typedefs:
                inner = self._env.typedefs[" ".join(inner.names)].type
            else:
                return None
        return None

    def _complete(self, node: Any) -> Any:
        """The definition of a struct or union that may only be named here."""
        if node.decls is not None:
            return node
        kind = _kind(node)
        known = self._env.tags.get((kind, node.name))
        if known is None:
            raise TypeProblem(
                f"{kind} {node.name} is declared but never defined",
                f"define {kind} {node.name} in this file or in a header that it includes",
                node,
                node.name or "",
            )
        return known

    def _need(self, key: str, names: tuple[str, ...], text: str, node: Any, name: str) -> None:
        self._needs.setdefault(key, Declaration(key, names, text, self._place(node, name)))

    def _type(self, node: Any, where: Any) -> CType:
        """The type of a declarator, or of what stands before one. where: the node to show for problems."""
        if isinstance(node, c_ast.TypeDecl):
            return self._type(node.type, where)
        if isinstance(node, c_ast.IdentifierType):
            return self._named(node.names, where)
        if isinstance(node, c_ast.ArrayDecl):
            return self._array(node, where)
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            return self._tagged(node) if node.name else self._untagged(node)
        if isinstance(node, c_ast.Enum):
            return self._enum(node)
        if isinstance(node, c_ast.PtrDecl):
            raise TypeProblem(
                "a function pointer" if isinstance(node.type, c_ast.FuncDecl) else "a pointer",
                "it has 8 bytes on the host and 4 on the controller, where the host's addresses mean "
                "nothing; put the values themselves into the struct (an array of fixed size)",
                where,
            )
        raise TypeProblem(
            f"a member of kind {type(node).__name__}", "use numbers, arrays, enums and structs of them", where
        )

    def _array(self, node: Any, where: Any) -> Array:
        item = self._type(node.type, where)
        if node.dim is None:
            raise TypeProblem(
                "an array without a size cannot be part of a parameter struct",
                "give the array a constant size, and a second member that counts what is used",
                where,
            )
        count = self._constants.value(node.dim)
        if not 0 < count < _MAX_ITEMS:
            raise TypeProblem(f"an array of {count} elements", "the size must be a positive constant", where)
        return Array(count, item)

    def _named(self, names: list[str], where: Any) -> CType:
        name = " ".join(names)
        if name in UNPORTABLE:
            raise TypeProblem(
                f"type {name.replace(UNKNOWN, 'typeof(...)')}, which bmtpu.h cannot express for C and C++",
                "name a plain type: int, float, uint16_t for the bits of a half float, ...",
                where,
            )
        if name in self._env.typedefs:
            return self._typedef(name, where)
        found = scalar(scalar_base(names))
        if found is None:
            raise TypeProblem(
                f"type {name}, which is not known here",
                "include the header that defines it, or use a type of its own for the parameters",
                where,
            )
        return found

    # --- what has a name, and a definition in bmtpu.h -----------------------------------------

    def _typedef(self, name: str, where: Any) -> CType:
        key = f"typedef {name}"
        if key in self._done:
            return self._done[key]
        if name in self._env.odd:
            raise TypeProblem(
                f"type {name} with __attribute__(({', '.join(self._env.odd[name])}))",
                "of the attributes that change a layout only packed on a struct is supported",
                where,
            )
        if key in self._open:
            raise TypeProblem(f"type {name} refers to itself", "", where)
        node = self._env.typedefs[name]
        refuse_keyword("type", name, node)
        self._open.append(key)
        result = self._done[key] = self._aliased(name, node, where)
        self._open.pop()
        return result

    def _aliased(self, name: str, node: Any, where: Any) -> CType:
        inner = node.type
        while isinstance(inner, c_ast.TypeDecl):
            inner = inner.type
        if name in _SDK_ENUMS and isinstance(inner, c_ast.Enum):
            self._need(SDK_TYPES_KEY, (), "", node, name)
            return Typedef(name, Enumeration("", self._constants.enumeration(self._defined(inner)).values))
        if isinstance(inner, (c_ast.Struct, c_ast.Union)) and not inner.name:
            of: CType = self._record(inner)
        else:
            of = self._type(node.type, where)
        if name in _STANDARD:
            return Scalar(of.base, name) if isinstance(of, Scalar) else of
        result = Typedef(name, of)
        self._need(f"typedef {name}", _claimed(result), define_typedef(result), node, name)
        return result

    def _tagged(self, node: Any) -> CType:
        """A struct or union that is defined or named by its tag."""
        key = f"{_kind(node)} {node.name}"
        if key in self._done:
            return self._done[key]
        full = self._complete(node)
        refuse_keyword(_kind(node), node.name, node)
        if key in self._open:
            raise TypeProblem(f"{key} contains itself", "", node, node.name)
        self._open.append(key)
        result = self._done[key] = self._record(full)
        self._open.pop()
        self._need(key, (node.name,), define(result), full, node.name)
        return result

    def _untagged(self, node: Any) -> CType:
        """A struct or union without any name, in the place of a type."""
        result = self._record(node)
        if result.pack:
            raise TypeProblem(
                f"a packed {result.kind} without a name inside another type",
                "define it before, with a typedef, and use that as the member's type",
                node,
            )
        return result

    def _record(self, node: Any) -> Record:
        full = self._complete(node)
        members = members_of(full, self._type)
        if not members and full is not self._whole:  # an empty one there: a layer without parameters
            raise TypeProblem(
                f"an empty {_kind(full)}",
                "C++ gives an empty struct one byte and C none: add a member `int reserved;`",
                full,
                full.name or "",
            )
        return lay_out(_kind(full), full.name or "", members, pack_of(full))

    def _enum(self, node: Any) -> Enumeration:
        full = self._defined(node)
        result = self._constants.enumeration(full)
        if node.name:
            refuse_keyword("enum", node.name, node)
            names = (node.name, *(name for name, _ in result.values))
            self._need(f"enum {node.name}", names, define(result), full, node.name)
        return result

    def _defined(self, node: Any) -> Any:
        """The definition of an enum that may only be named here."""
        full = node if node.values is not None else self._env.tags.get(("enum", node.name))
        if full is None:
            raise TypeProblem(
                f"enum {node.name} is not defined", "define the enum before the struct", node, node.name or ""
            )
        return full


def _kind(node: Any) -> str:
    return "union" if isinstance(node, c_ast.Union) else "struct"


def _claimed(t: Typedef) -> tuple[str, ...]:
    """The names at file scope that a typedef takes: its own, unless it is the tag's too, and enumerators."""
    of = t.type
    if isinstance(of, Enumeration) and not of.tag:
        return (t.name, *(name for name, _ in of.values))
    return () if isinstance(of, (Record, Enumeration)) and of.tag == t.name else (t.name,)
