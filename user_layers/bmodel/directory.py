"""The files of a compiled folder: the bmodel, data to check it with, and its report."""

from __future__ import annotations

from dataclasses import dataclass

from firmware_sim.shown import brief

BMODEL = "compilation.bmodel"
INPUT_REFERENCE = "input_ref_data.dat"
OUTPUT_REFERENCE = "output_ref_data.dat"
LAYERS = "layers"  # a folder like this one, with a net for each layer
LAYERS_OF = "bmodel.sha256"  # in it: which bmodel's layers they are
REPORT_TEXT = "report.txt"
REPORT_JSON = "report.json"
REPORT_PICTURE = "local_memory.svg"


@dataclass(frozen=True)
class References:
    """Raw arrays of one net, or of one stage of it, one after the other: stage by stage, tensor by tensor."""

    inputs: bytes
    outputs: bytes

    __repr__ = brief
