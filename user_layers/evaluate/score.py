"""Sums over samples from which measures are made; those of several processes add up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from user_layers.quantize.quality import Array

METRICS = ("sqnr", "cosine", "top1")


@dataclass
class Sums:
    """Of one tensor: squares of what was wanted, of what came, of the difference, and their product."""

    want: float = 0.0
    got: float = 0.0
    noise: float = 0.0
    product: float = 0.0

    def add(self, want: Array, got: Array) -> None:
        """The numbers of some samples."""
        a, b = want.astype(np.float64).ravel(), got.astype(np.float64).ravel()
        self.want += float(a @ a)
        self.got += float(b @ b)
        self.noise += float(np.square(a - b).sum())
        self.product += float(a @ b)

    def merge(self, other: Sums) -> None:
        """Those of other samples."""
        self.want += other.want
        self.got += other.got
        self.noise += other.noise
        self.product += other.product

    @property
    def sqnr(self) -> float:
        """Signal to quantisation noise in dB."""
        if self.noise == 0:
            return math.inf
        return 10 * math.log10(self.want / self.noise) if self.want else -math.inf

    @property
    def cosine(self) -> float:
        """Of the angle between wanted and made."""
        length = math.sqrt(self.want * self.got)
        return self.product / length if length else float(self.want == self.got)


@dataclass
class Score:
    """Of some samples. outputs, layers: sums by names; same: how often the greatest number of the first
    output is the float net's; float_right, int_right: how often it is the label, of `labelled` samples. own:
    results of a user's metric, one for each batch, with the samples that they stand for. inside: tensors of
    the float net that no tensor of the other one is: they lie inside of its layers, or are no floats."""

    samples: int = 0
    outputs: dict[str, Sums] = field(default_factory=dict)
    layers: dict[str, Sums] = field(default_factory=dict)
    same: int = 0
    labelled: int = 0
    float_right: int = 0
    int_right: int = 0
    own: list[tuple[float, int]] = field(default_factory=list)
    inside: dict[str, None] = field(default_factory=dict)

    def add(
        self, want: Mapping[str, Array], got: Mapping[str, Array], labels: npt.NDArray[np.generic] | None
    ) -> None:
        """The outputs of one batch; all their samples count."""
        first = next(iter(want))
        best = [np.argmax(one[first].reshape(len(one[first]), -1), 1) for one in (want, got)]
        self.samples += len(best[0])
        self.same += int((best[0] == best[1]).sum())
        if labels is not None:
            self.labelled += len(labels)
            self.float_right += int((best[0] == labels).sum())
            self.int_right += int((best[1] == labels).sum())
        for name in want:
            self.outputs.setdefault(name, Sums()).add(want[name], got[name])

    def merge(self, other: Score) -> None:
        """That of other samples."""
        self.samples += other.samples
        self.same += other.same
        self.labelled += other.labelled
        self.float_right += other.float_right
        self.int_right += other.int_right
        self.own += other.own
        self.inside |= other.inside
        for mine, theirs in ((self.outputs, other.outputs), (self.layers, other.layers)):
            for name, sums in theirs.items():
                mine.setdefault(name, Sums()).merge(sums)

    def worst(self, count: int) -> Sequence[tuple[str, Sums]]:
        """The layers with the most noise, in parts of their signal."""
        return sorted(self.layers.items(), key=lambda one: one[1].sqnr)[:count]

    def own_mean(self) -> float:
        """Of the user's metric over all samples."""
        return sum(value * count for value, count in self.own) / sum(count for _, count in self.own)
