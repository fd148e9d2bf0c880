"""What a compile did, node by node: as text, JSON and a picture of local memory over time."""

from user_layers.report.model import NetReport, StageReport

__all__ = ["NetReport", "StageReport"]
