"""Builds the layers once, and runs the nets on one toolkit."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import TracebackType

import numpy as np

from firmware_sim.checks.finding import Finding
from firmware_sim.errors import TpulayerError
from firmware_sim.firmware.image import Kind
from tests.faults.net_case import FOLDER, Net
from tests.faults.verdict import Outcome
from tests.support.workspaces import make_workspace
from user_layers.toolchain.targets import build_layers
from user_layers.toolkit import Toolkit


class NetRunner:
    """A workspace with the layers of a folder, and a device; a context manager. place: an empty folder for
    the workspace. kind: of the firmware."""

    def __init__(self, place: Path, kind: Kind = "native") -> None:
        workspace = make_workspace(place, layers=())
        for path in FOLDER.iterdir():
            folder = (
                "device" if path.suffix == ".c" else "host" if path.name.startswith("bm_host") else "include"
            )
            shutil.copy(path, place / folder / path.name)
        build_layers(workspace)
        self._findings: list[Finding] = []
        self._toolkit = Toolkit(workspace, firmware=kind, on_findings=self._findings.extend)

    def __enter__(self) -> NetRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._toolkit.close()

    def run(self, case: Net) -> Outcome:
        """Compile and run it as the case says; an error of either ends it."""
        self._findings.clear()
        error, differs = "", ""
        try:
            graph = case.graph(self._toolkit)
            for _ in range(case.runs):
                found = graph.run(case.inputs)
                if case.expected is not None:
                    wanted = case.expected(*case.inputs.values())
                    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
                    for name, got, want in zip(graph.outputs, found, wanted, strict=True):
                        if not np.allclose(got, want, case.tolerance, case.tolerance):
                            differs = f"{name} differs by {np.abs(got - want).max()}"
        except TpulayerError as raised:
            error = raised.message
        return Outcome(tuple(self._findings), error, differs)
