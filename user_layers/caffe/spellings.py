"""All layers of Caffe that ONNX can say, and why others cannot be said."""

from __future__ import annotations

from user_layers.caffe import (
    spell_detection,
    spell_elementwise,
    spell_matrix,
    spell_movement,
    spell_window,
)
from user_layers.caffe.words import CAFFE

__all__ = ["CAFFE", "REFUSED", "known_types"]

# Importing them fills the table.
MODULES = (spell_detection, spell_elementwise, spell_matrix, spell_movement, spell_window)

_STEPS = "what it keeps from step to step is reset by its second bottom, which no operation here does"
_LATER = "is known only when the net runs"
REFUSED = {
    "BN": "branches of Caffe mean different things by it; BatchNorm and Scale say it, and Scale alone with "
    "bias_term: true where it has two blobs (bn_mode: INFERENCE)",
    "BatchReduction": "which scales it reduces depends on the net around it",
    "Filter": f"how many images it passes on {_LATER}",
    "Im2col": "windows as a matrix are no operation here; Convolution has them inside",
    "LSTM": _STEPS,
    "LSTMUnit": _STEPS,
    "Proposal": f"how many regions it finds {_LATER}",
    "PSROIPooling": "averages over regions are no operation here",
    "Python": "what it does stands in a file of Python that uses Caffe itself",
    "RNN": _STEPS,
    "Recurrent": _STEPS,
}
"""Types that Caffe or a well-known branch of it has, and why they cannot be said."""


def known_types() -> list[str]:
    """The types of layers that can be said, in order."""
    return sorted(CAFFE, key=str.lower)
