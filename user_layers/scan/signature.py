"""The three functions of a layer: what their signatures must be, and the check."""

from __future__ import annotations

from typing import Any

from pycparser import c_ast

from user_layers.scan.cparse import TypeEnv
from user_layers.scan.layout import canonical

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
