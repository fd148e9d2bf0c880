"""Sums over samples from which measures are made; those of several processes add up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from firmware_sim.errors import UsageError
from user_layers.quantize.quality import Array, Sums

METRICS = ("sqnr", "cosine", "top1")


def no_classes(labels: npt.NDArray[np.generic], classes: int) -> str:
    """What keeps labels from being one of so many classes for each sample, or nothing."""
    if labels.ndim != 1 or labels.dtype.kind not in "iuf":
        return f"{labels.dtype} {list(labels.shape)}"
    numbers = labels.astype(np.float64)
    wrong = numbers[(numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= classes)]
    return f"{wrong[0]:g}, and the net's first output has {classes} numbers" if wrong.size else ""


@dataclass
class Score:
    """Of some samples. outputs, layers: sums by names; same: how often the greatest number of the first
    output is the float net's; float_right, int_right: how often it is the label, of `labelled` samples. own:
    results of a user's metric, one for each batch, with the samples that they stand for. confused: how often
    a place of the greatest number in float was another one in integers. inside: tensors of
    the float net that no tensor of the other one is: they lie inside of its layers, or are no floats."""

    samples: int = 0
    outputs: dict[str, Sums] = field(default_factory=dict)
    layers: dict[str, Sums] = field(default_factory=dict)
    same: int = 0
    labelled: int = 0
    float_right: int = 0
    int_right: int = 0
    own: list[tuple[float, int]] = field(default_factory=list)
    confused: Counter[tuple[int, int]] = field(default_factory=Counter)
    inside: dict[str, None] = field(default_factory=dict)

    def add(
        self, want: Mapping[str, Array], got: Mapping[str, Array], labels: npt.NDArray[np.generic] | None
    ) -> None:
        """The outputs of one batch; all their samples count. labels: classes. Errors: UsageError
        for others."""
        first = next(iter(want))
        flat = [one[first].reshape(len(one[first]), -1) for one in (want, got)]
        best = [np.argmax(one, 1) for one in flat]
        if labels is not None and (wrong := no_classes(labels, flat[0].shape[1])):
            raise UsageError(
                f"the labels are no classes: {wrong}",
                hint="a whole number for each sample; others are for a metric of your own, FILE.py:FUNCTION",
            )
        self.samples += len(best[0])
        self.same += int((best[0] == best[1]).sum())
        self.confused.update((int(a), int(b)) for a, b in zip(*best, strict=True) if a != b)
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
        self.confused += other.confused
        self.inside |= other.inside
        for mine, theirs in ((self.outputs, other.outputs), (self.layers, other.layers)):
            for name, sums in theirs.items():
                mine.setdefault(name, Sums()).merge(sums)

    def worst(self, count: int) -> Sequence[tuple[str, Sums]]:
        """The layers with the most noise, in parts of their signal."""

        def rank(named: tuple[str, Sums]) -> float:
            return -math.inf if named[1].empty else named[1].sqnr

        return sorted(self.layers.items(), key=rank)[:count]

    def own_mean(self) -> float:
        """Of the user's metric over all samples."""
        return sum(value * count for value, count in self.own) / sum(count for _, count in self.own)
