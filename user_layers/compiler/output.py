"""The output directory of a compile: the bmodel, and data to check it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import UsageError
from user_layers.compiler.result import CompiledNet
from user_layers.files import write_atomic

BMODEL = "compilation.bmodel"
INPUT_REFERENCE = "input_ref_data.dat"
OUTPUT_REFERENCE = "output_ref_data.dat"


@dataclass(frozen=True)
class References:
    """Raw arrays of one net, one after the other: stage by stage, tensor by tensor."""

    inputs: bytes
    outputs: bytes


def write_directory(directory: Path, nets: Sequence[CompiledNet], references: Sequence[References]) -> None:
    """Write compilation.bmodel, input_ref_data.dat and output_ref_data.dat, replacing older ones.

    Other files stay; nothing is written before all of it is ready. Errors: UsageError when the folder cannot
    be written.
    """
    from user_layers.bmodel import write

    files = {
        INPUT_REFERENCE: b"".join(r.inputs for r in references),
        OUTPUT_REFERENCE: b"".join(r.outputs for r in references),
        BMODEL: write(nets),
    }
    try:
        for name, data in files.items():
            write_atomic(directory / name, data)
    except OSError as e:
        raise UsageError(
            f"cannot write {e.filename or directory}: {e.strerror}", hint="give another directory"
        ) from e
