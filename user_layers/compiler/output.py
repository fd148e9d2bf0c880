"""The output directory of a compile: the bmodel, data to check it with, and its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import UsageError
from firmware_sim.shown import brief
from user_layers.compiler.report import NetReport
from user_layers.compiler.result import CompiledNet
from user_layers.files import write_together

BMODEL = "compilation.bmodel"
INPUT_REFERENCE = "input_ref_data.dat"
OUTPUT_REFERENCE = "output_ref_data.dat"
REPORT_TEXT = "report.txt"
REPORT_JSON = "report.json"
REPORT_PICTURE = "local_memory.svg"


@dataclass(frozen=True)
class References:
    """Raw arrays of one net, or of one stage of it, one after the other: stage by stage, tensor by tensor."""

    inputs: bytes
    outputs: bytes

    __repr__ = brief


def write_directory(directory: Path, nets: Sequence[CompiledNet], references: Sequence[References]) -> None:
    """Write compilation.bmodel, input_ref_data.dat and output_ref_data.dat, replacing older ones.

    Of nets that were compiled with a report also report.txt, report.json and local_memory.svg; otherwise an
    older report is removed. Other files stay; nothing is replaced before all of it is written. Errors:
    UsageError when the folder cannot be written.
    """
    from user_layers.bmodel import write

    files: dict[str, bytes | str] = {
        INPUT_REFERENCE: b"".join(r.inputs for r in references),
        OUTPUT_REFERENCE: b"".join(r.outputs for r in references),
        BMODEL: write(nets),
    }
    reports = [NetReport(net.name, net.report) for net in nets if net.report]
    if reports:
        files |= report_files(reports)
    stale = [] if reports else [REPORT_TEXT, REPORT_JSON, REPORT_PICTURE]
    try:
        write_together(directory, files, stale)
    except OSError as e:
        raise UsageError(
            f"cannot write {e.filename or directory}: {e.strerror}", hint="give another directory"
        ) from e


def report_files(nets: Sequence[NetReport]) -> dict[str, bytes | str]:
    """The three files of a report by their names."""
    from user_layers.compiler.report.document import report_json
    from user_layers.compiler.report.picture import report_picture
    from user_layers.compiler.report.text import report_text

    return {
        REPORT_TEXT: report_text(nets),
        REPORT_JSON: report_json(nets),
        REPORT_PICTURE: report_picture(nets),
    }
