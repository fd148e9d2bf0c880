"""Functions of one value that models write with several operations, each a layer of its own here.

A pattern is a function in a file of its own: it is asked at each node whether that is the end of what it
looks for, goes back from there by its Matcher, and says which operation computes the same from which value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from user_layers.onnx.model import DOMAIN, Model, Node
from user_layers.onnx.patterns.gelu import gelu
from user_layers.onnx.patterns.group_norm import group_norm
from user_layers.onnx.patterns.hard_swish import hard_swish
from user_layers.onnx.patterns.match import Found, Matcher
from user_layers.onnx.patterns.mish import mish
from user_layers.onnx.patterns.norm import norm
from user_layers.onnx.patterns.or_zero import or_zero
from user_layers.onnx.patterns.silu import silu
from user_layers.onnx.patterns.unit_rows import unit_rows

Pattern = Callable[[Matcher, Node], Found | None]
PATTERNS: tuple[Pattern, ...] = (norm, group_norm, silu, gelu, hard_swish, mish, unit_rows, or_zero)
OF_ROWS: tuple[Pattern, ...] = (norm, unit_rows)


def fuse_patterns(model: Model, patterns: tuple[Pattern, ...] = PATTERNS) -> Model:
    """Put one node in the place of those that patterns find, where all are float32 of one known shape."""
    makers = {node.outputs[0]: node for node in model.nodes if len(node.outputs) == 1}
    gone: set[str] = set()
    instead: dict[str, Node] = {}
    for node in reversed(model.nodes):  # the larger of two patterns that end in one another comes first
        if len(node.outputs) != 1 or node.outputs[0] in gone or node.mapped:
            continue
        for pattern in patterns:
            at = Matcher(model, makers, node)
            found = pattern(at, node)
            if found is None or not at.same_type(found.source) or at.absorbed & gone:
                continue
            gone |= at.absorbed
            instead[node.outputs[0]] = Node(
                found.op, DOMAIN, node.name, (found.source, *found.more), node.outputs, found.attributes
            )
            break
    nodes = (node for node in model.nodes if node.outputs[0] not in gone)
    return replace(model, nodes=tuple(instead.get(node.outputs[0], node) for node in nodes))
