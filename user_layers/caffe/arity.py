"""How many bottoms and tops the layers of each type have."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Count:
    """least, most: how many there may be; most is None where there is no end."""

    least: int
    most: int | None

    def fits(self, number: int) -> bool:
        """Whether a layer may have as many."""
        return self.least <= number and (self.most is None or number <= self.most)

    def __str__(self) -> str:
        if self.most is None:
            return f"{self.least} or more"
        return str(self.least) if self.least == self.most else f"{self.least} or {self.most}"


@dataclass(frozen=True)
class Arity:
    """bottoms, tops: how many; paired: a top for each bottom."""

    bottoms: Count
    tops: Count
    paired: bool = False

    def misfit(self, kind: str, bottoms: int, tops: int) -> str:
        """What is wrong with a layer that has as many; empty where nothing is."""
        for what, count, number in (("bottom", self.bottoms, bottoms), ("top", self.tops, tops)):
            if not count.fits(number):
                return f"has {_counted(number, what)}; {kind} has {count}"
        if self.paired and bottoms != tops:
            return f"has {_counted(bottoms, 'bottom')} and {_counted(tops, 'top')}; {kind} has a top for each"
        return ""


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


_NONE, _ONE, _TWO, _THREE = (Count(n, n) for n in range(4))
_ONE_OR_TWO, _MANY = Count(1, 2), Count(1, None)
_ALIKE: dict[tuple[Count, Count], str] = {
    (_NONE, _ONE): "Parameter",
    (_NONE, _MANY): "DummyData Input",
    (_ONE, _ONE): """
        AbsVal ArgMax BatchNorm BNLL Clip Dropout ELU Embed Exp Flatten InnerProduct Log LogSoftmax LRN Mish
        MVN Normalize Padding Permute Power PReLU Reduction ReLU ReLU6 Reorg Reshape ShuffleChannel Sigmoid
        Softmax SPP Swish TanH Threshold Tile
    """,
    (_ONE, _ONE_OR_TWO): "Pooling",
    (_ONE, _MANY): "Slice Split",
    (_ONE_OR_TWO, _ONE): "Bias Interp Scale Upsample",
    (_TWO, _ONE): "BatchReindex Crop PriorBox ROIPooling",
    (_THREE, _ONE): "Axpy DetectionOutput",
    (_MANY, _ONE): "Concat",
    (Count(2, None), _ONE): "Eltwise",
}
ARITIES: dict[str, Arity] = {
    **{kind: Arity(*counts) for counts, kinds in _ALIKE.items() for kind in kinds.split()},
    **dict.fromkeys(
        ("Convolution", "ConvolutionDepthwise", "Deconvolution", "DepthwiseConvolution"),
        Arity(_MANY, _MANY, paired=True),
    ),
}
"""Of every type that Caffe has and this reads."""
