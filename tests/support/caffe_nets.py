"""Nets of Caffe as files, written from layers of tests/support/caffe_cases.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.caffe_cases import Case
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


def write_case(case: Case, folder: Path, name: str = "net") -> Path:
    """A net of one layer, whose inputs are bottom0, bottom1, ... and whose outputs top0, ...; a layer without
    bottoms stands beside an input of its own. Returns the prototxt; the caffemodel is beside it."""
    bottoms = [f"bottom{i}" for i in range(len(case.bottoms))]
    text = f'name: "{name}"\n'
    text += "".join(input_text(b, a.shape) for b, a in zip(bottoms, case.bottoms, strict=True))
    if not bottoms:
        text += input_text("other", (1,))
    text += layer_text(case.kind, "layer", bottoms, [f"top{i}" for i in range(case.tops)], case.told)
    path = folder / f"{name}.prototxt"
    path.write_text(text)
    write_caffemodel(path.with_suffix(".caffemodel"), name, [("layer", case.kind, case.blobs)])
    return path
