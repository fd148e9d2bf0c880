"""What a net's time goes into: sums over layers of one operation, and over layers of like names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from user_layers.report.model import NodeReport, StageReport, Work, parts, total
from user_layers.report.roofline import roofline
from user_layers.report.words import pattern


@dataclass(frozen=True)
class Total:
    """Layers together. work: their cycles and bytes summed up; macs, roofline (cycles): what the net needs of
    them, with the bytes of the net's own inputs, outputs and constants."""

    name: str
    layers: int
    work: Work
    macs: int
    roofline: float

    @property
    def efficiency(self) -> float | None:
        """The roofline in parts of the time of the busier engine."""
        return parts(self.roofline, self.work.busier)


def by_operation(stage: StageReport) -> list[Total]:
    """For each operation that issues commands; first what keeps an engine busy longest."""
    return [_total(name, nodes, stage) for name, nodes in _members(stage, lambda node: node.operation)]


def by_name(stage: StageReport) -> list[Total]:
    """The same for layers whose names differ only in numbers; where there is one, with its whole name."""
    return [
        _total(nodes[0].name if len(nodes) == 1 else name, nodes, stage)
        for name, nodes in _members(stage, lambda node: pattern(node.name))
    ]


def _members(stage: StageReport, key: Callable[[NodeReport], str]) -> list[tuple[str, list[NodeReport]]]:
    found: dict[str, list[NodeReport]] = {}
    for node in (node for part in stage.parts if part.work is not None for node in part.nodes):
        if node.work is not None and node.work.bd_commands + node.work.gdma_commands:
            found.setdefault(key(node), []).append(node)
    return sorted(found.items(), key=lambda item: (-_work(item[1]).busier, item[0]))


def _total(name: str, nodes: list[NodeReport], stage: StageReport) -> Total:
    needs = [stage.demands[node.name] for node in nodes if node.name in stage.demands]
    return Total(name, len(nodes), _work(nodes), sum(need.macs for need in needs), roofline(needs))


def _work(nodes: list[NodeReport]) -> Work:
    return total(node.work for node in nodes if node.work is not None)
