"""A report for notebooks: the text, and the picture in a frame of fixed height."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from user_layers.report.model import NetReport, StageReport
from user_layers.report.picture import report_picture
from user_layers.report.text import report_text

_HEIGHT = 480  # pixels of each
_LARGEST = 1 << 20  # letters of a picture that a notebook is to carry


def report_html(name: str, stages: Sequence[StageReport]) -> str:
    """HTML that stands by itself; a picture of over a million letters is left out, with a line about it."""
    nets = [NetReport(name, tuple(stages))]
    picture = report_picture(nets)
    if len(picture) <= _LARGEST:
        # In a frame, since the names that its links lead to are those of every other report.
        style = f"width: 100%; height: {_HEIGHT}px; border: 0"
        shown = f'<iframe title="Local memory over time" style="{style}" srcdoc="{escape(picture)}"></iframe>'
    else:
        shown = (
            "<p>The picture is too large for a notebook; compile(directory=..., report=True) writes it.</p>"
        )
    style = f"max-height: {_HEIGHT}px; overflow: auto"
    return f'<pre style="{style}">{escape(report_text(nets))}</pre>\n{shown}\n'
