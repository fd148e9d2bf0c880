"""A real Dask scheduler and workers of it, as processes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.paths import ROOT


class Cluster:
    """A scheduler without workers. folder: for their files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start(
            "scheduler",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--scheduler-file",
            str(self._file),
            "--no-dashboard",
        )
        for _ in range(600):
            if self._file.exists() and self._file.stat().st_size:
                break
            time.sleep(0.1)
        self.address: str = json.loads(self._file.read_text())["address"]

    def worker(self) -> subprocess.Popen[bytes]:
        """Start one: a process of its own, with nobody who starts it again."""
        words = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self._folder))
        return self._start("worker", self.address, *words)

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [str(Path(sys.executable).parent / "dask"), *words]
        log = (self._folder / f"dask{len(self.processes)}.txt").open("wb")
        with log:
            process = subprocess.Popen(command, env=environment, cwd=self._folder, stdout=log, stderr=log)
        self.processes.append(process)
        return process


@contextmanager
def cluster(folder: Path, workers: int = 3) -> Iterator[Cluster]:
    """With this many workers that start."""
    made = Cluster(folder)
    try:
        for _ in range(workers):
            made.worker()
        yield made
    finally:
        for process in reversed(made.processes):
            process.kill()
            process.wait()
