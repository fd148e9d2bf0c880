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
from user_layers.spelling.foreign import Operation
from user_layers.spelling.speller import Speller, Unspelled

__all__ = ["CAFFE", "REFUSED", "known_types"]

# Importing them fills the table.
MODULES = (spell_detection, spell_elementwise, spell_matrix, spell_movement, spell_window)

_OWN = "write it as a layer of your own"
REFUSED = {
    "BatchReduction": f"which scales it reduces depends on the net around it; {_OWN}",
    "Filter": "how many images it passes on is known only when the net runs",
    "Im2col": "windows as a matrix are no operation here; use Convolution",
    "LSTM": f"what it keeps from step to step is reset by its second bottom; {_OWN}",
    "LSTMUnit": f"it is a step of LSTM; {_OWN}",
    "Proposal": f"how many regions it finds is known only when the net runs; {_OWN}",
    "PSROIPooling": f"averages over regions are no operation here; {_OWN}",
    "Python": f"what it does stands in a file of Python that uses Caffe itself; {_OWN}",
    "RNN": f"what it keeps from step to step is reset by its second bottom; {_OWN}",
    "Recurrent": f"what it keeps from step to step is reset by its second bottom; {_OWN}",
}


@CAFFE.of(*REFUSED)
def _refused(to: Speller, op: Operation) -> None:
    raise Unspelled(REFUSED[op.kind])


def known_types() -> list[str]:
    """The types of layers that can be said, in order."""
    return sorted(CAFFE.keys() - REFUSED.keys(), key=str.lower)
