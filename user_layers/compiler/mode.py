"""What runs where: on recorded commands, interpreted by the firmware, or on the host."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from user_layers.compiler.attributes import DescribedNet

REASON = "compiled dynamically: "  # how each of a mode's reasons begins


class Kind(Enum):
    """How a node, and the subnet it is in, runs."""

    STATIC = "static"
    DYNAMIC = "dynamic"
    CPU = "cpu"


@dataclass(frozen=True)
class Mode:
    """kinds: of each node. dynamic: the net's inputs may be smaller than compiled; otherwise they have
    exactly their shapes. reasons: why nodes of a net that was to be static are dynamic, a sentence each.
    varying: the tensors whose shapes are known only when the net has run."""

    dynamic: bool
    kinds: tuple[Kind, ...]
    reasons: tuple[str, ...] = ()
    varying: frozenset[str] = frozenset()


def choose_mode(described: DescribedNet, wants_dynamic: bool) -> Mode:
    """DescribedNet -> Mode.

    A layer whose descriptor says must_dynamic_run or output_shape_is_dynamic cannot be recorded, nor can
    what follows a tensor whose shape varies; other layers of a static net stay static. A net in which no
    layer stays static is dynamic as a whole.
    """
    kinds: list[Kind] = []
    reasons: list[str] = []
    varying: dict[str, str] = {}  # tensor -> the node that makes its shape vary
    for attrs in described.attrs:
        node = attrs.node
        source = next((varying[name] for name in node.inputs if name in varying), None)
        if attrs.output_shape_is_dynamic:
            source = node.name
        if source is not None:
            varying.update(dict.fromkeys(node.outputs, source))
        if node.cpu is not None:
            kinds.append(Kind.CPU)
            continue
        why = ""
        for method, answer in (
            ("must_dynamic_run", attrs.must_dynamic_run),
            ("output_shape_is_dynamic", attrs.output_shape_is_dynamic),
        ):
            if answer:
                why = f"{method} of {attrs.label} ({node.name}) is true"
        if not why and source is not None:
            why = f"{attrs.label} ({node.name}) takes what {source} makes, whose shape varies"
        kinds.append(Kind.DYNAMIC if why or wants_dynamic else Kind.STATIC)
        if why and not wants_dynamic:
            reasons.append(f"{REASON}{why}")
    dynamic = wants_dynamic or (Kind.DYNAMIC in kinds and Kind.STATIC not in kinds)
    return Mode(dynamic, tuple(kinds), tuple(reasons), frozenset(varying))
