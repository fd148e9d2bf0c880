"""What is verified: a layer with what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from user_layers.testing.cases import Case, Golden
from user_layers.testing.collect import LayerTest, RandomCase, Range


@dataclass(frozen=True)
class Target:
    """A layer.

    name: as reports call it; op: as graphs do. cases: what random ones are made of. golden: what it computes,
    in numpy; without one the global function stands for it, and outputs says how many tensors it makes.
    ranges, random_case: see LayerTest. path: of the file that says all this.
    """

    name: str
    op: str
    cases: tuple[Case, ...]
    golden: Golden | None = None
    ranges: Mapping[str, Range] = field(default_factory=dict)
    random_case: RandomCase | None = None
    outputs: int = 1
    path: Path | None = None

    @staticmethod
    def of(test: LayerTest) -> Target:
        """A workspace's layer, by its test."""
        op = f"TPU_{test.name.upper()}"
        return Target(test.name, op, test.cases, test.golden, test.ranges, test.random_case, path=test.path)
