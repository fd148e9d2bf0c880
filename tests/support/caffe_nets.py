"""Nets of Caffe as files, written from layers of tests/support/caffe_cases.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.caffe_cases import Array, Case
from user_layers.caffe.prototxt import parameter_message
from user_layers.caffe.weights import write_caffemodel

# Fields whose values are words of an enumeration, which have no quotes.
_WORDS = {"pool", "round_mode", "norm_region", "operation", "pad_method"}


def input_text(name: str, shape: Sequence[int]) -> str:
    """A layer that is an input of the net."""
    dims = " ".join(f"dim: {n}" for n in shape)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'


def layer_text(
    kind: str, name: str, bottoms: Sequence[str], tops: Sequence[str], told: Mapping[str, Any]
) -> str:
    """A layer of a prototxt. told: the fields of its parameters."""
    lines = [f'name: "{name}"', f'type: "{kind}"']
    lines += [f'bottom: "{bottom}"' for bottom in bottoms] + [f'top: "{top}"' for top in tops]
    if told:
        lines.append(f"{parameter_message(kind)} {{ {fields_text(told)} }}")
    return "layer {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def fields_text(told: Mapping[str, Any]) -> str:
    """Fields of a message: tuples are repeated fields, mappings messages."""
    found = []
    for name, values in told.items():
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, Mapping):
                found.append(f"{name} {{ {fields_text(value)} }}")
            elif isinstance(value, bool):
                found.append(f"{name}: {str(value).lower()}")
            elif isinstance(value, str) and name not in _WORDS:
                found.append(f'{name}: "{value}"')
            else:
                found.append(f"{name}: {value}")
    return " ".join(found)


def write_case(case: Case, folder: Path) -> Path:
    """A net of one layer, with inputs bottom0, bottom1, ... and outputs top0, ...; see `write_cases`."""
    return write_cases({"": case}, folder)


def write_cases(cases: Mapping[str, Case], folder: Path) -> Path:
    """A net of layers beside each other, with the files net.prototxt, which is returned, and net.caffemodel.

    The inputs are called as in `bottoms`, the outputs NAMEtop0, NAMEtop1, ... with the name in `cases`.
    """
    text = 'name: "net"\n'
    for name, case in cases.items():
        given = bottoms({name: case})
        text += "".join(input_text(bottom, array.shape) for bottom, array in given.items())
        used = list(given) if case.bottoms else []
        # The layer is called as its first top, as OpenCV calls what a layer makes.
        text += layer_text(
            case.kind, f"{name}top0", used, [f"{name}top{i}" for i in range(case.tops)], case.told
        )
    path = folder / "net.prototxt"
    path.write_text(text)
    weights = [(f"{name}top0", case.kind, case.blobs) for name, case in cases.items()]
    write_caffemodel(path.with_suffix(".caffemodel"), "net", weights)
    return path


def bottoms(cases: Mapping[str, Case]) -> dict[str, Array]:
    """The inputs of such a net: NAMEbottom0, ...; beside a layer without bottoms there is one NAMEother."""
    found: dict[str, Array] = {}
    for name, case in cases.items():
        found |= {f"{name}bottom{i}": array for i, array in enumerate(case.bottoms)}
        if not case.bottoms:
            found[f"{name}other"] = np.ones(1, np.float32)
    return found
