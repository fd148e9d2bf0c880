"""The three functions of a layer: what their signatures must be, and the check."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from user_layers.scan.cparse import TypeEnv
from user_layers.scan.ctype import scalar_base

_HEAD = (
    ("const void *", "const void *param"),
    ("int", "const int param_size"),
    ("const tpu_tensor_t *", "const tpu_tensor_t *in_tensors"),
    ("int", "const int in_num"),
)
_TAIL = (("tpu_tensor_t *", "tpu_tensor_t *out_tensors"), ("int", "const int out_num"))
_U64 = "unsigned long long"

# Each parameter as (its type with typedefs followed, how the documentation writes it).
SIGNATURES: dict[str, tuple[tuple[str, str], ...]] = {
    "SHAPE": (*_HEAD, *_TAIL),
    "GLOBAL": (
        *_HEAD,
        (_U64, "const bm_addr_t buffer_addr"),
        (_U64, "const bm_size_t buffer_size"),
        *_TAIL,
    ),
    "LOCAL": (*_HEAD, (_U64, "u64 buffer_offset"), (_U64, "u64 buffer_size"), *_TAIL),
}
_STOP = frozenset(["tpu_tensor_t"])


def prototype(kind: str, name: str) -> str:
    """The expected prototype of a SHAPE, GLOBAL or LOCAL function."""
    return f"int {name}({', '.join(text for _, text in SIGNATURES[kind])})"


def check(kind: str, name: str, node: Any, env: TypeEnv) -> list[str]:
    """What is wrong with a function's declaration, one phrase per finding; [] when it fits."""
    found: list[str] = []
    function = node.type
    result = canonical(function.type, env, stop=_STOP)
    if result != "int":
        found.append(f"it returns {result}, expected int")
    given = list(function.args.params) if function.args else []
    if len(given) == 1 and not isinstance(given[0], c_ast.EllipsisParam):
        only = given[0]
        if getattr(only, "name", None) is None and canonical(only, env, stop=_STOP) == "void":
            given = []
    expected = SIGNATURES[kind]
    for i, (param, (want, text)) in enumerate(zip(given, expected, strict=False), 1):
        if isinstance(param, c_ast.EllipsisParam):
            found.append(f"parameter {i} is `...`, expected `{text}`")
            continue
        if isinstance(param, c_ast.ID):  # old style: a name without a type
            found.append(f"parameter {i} `{param.name}` has no type, expected `{text}`")
            continue
        have = canonical(param, env, stop=_STOP)
        if have != want:
            label = f" `{param.name}`" if getattr(param, "name", None) else ""
            found.append(f"parameter {i}{label} is `{have}`, expected `{text}`")
    if len(given) != len(expected):
        found.append(f"it has {len(given)} parameters, expected {len(expected)}")
    return found


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
        return scalar_base(node.names), frozenset()
    kind = type(node).__name__.lower()
    return f"{kind} {getattr(node, 'name', None) or '{...}'}", frozenset()
