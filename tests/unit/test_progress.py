"""The line about a step that takes long."""

from __future__ import annotations

import io
import os
import pty
import threading
from pathlib import Path

import onnx
import pytest
from onnx import helper

from tests.support.onnx_models import make_model
from user_layers.cli.progress import Progress
from user_layers.onnx.command import CompileOptions, run
from user_layers.toolkit import Toolkit

FOREVER_S = 3600.0


class _Stream(io.StringIO):
    """Tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


def test_a_step_that_lasts_is_named_once() -> None:
    stream = _Stream()
    with Progress(stream, patience_s=0.01) as progress:
        for text in ("reading", "compiling"):
            stream.written.clear()
            progress.step(text)
            assert stream.written.wait(60)
    assert stream.getvalue() == "reading\ncompiling\n"


def test_what_is_quick_is_not_told() -> None:
    stream = _Stream()
    with Progress(stream, patience_s=FOREVER_S) as progress:
        for number in range(100):
            progress.step(f"step {number}")
    assert stream.getvalue() == ""


def test_an_error_ends_it() -> None:
    stream = _Stream()
    with pytest.raises(KeyError), Progress(stream, patience_s=FOREVER_S):
        raise KeyError
    assert all(thread.name != "progress" for thread in threading.enumerate())


def test_a_terminal_is_left_clean() -> None:
    """The line is overwritten while seconds pass, and goes at the end."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        with Progress(terminal, patience_s=0.01) as progress:
            progress.step("compiling")
            seen = b""
            while seen.count(b"compiling (") < 2:
                seen += os.read(ours, 4096)
            progress.done()
            while not seen.endswith(b"\r\x1b[K"):
                seen += os.read(ours, 4096)
            print("result", file=terminal, flush=True)
        assert os.read(ours, 4096) == b"result\r\n"
    os.close(ours)


def test_the_steps_of_a_compile(tmp_path: Path, toolkit: Toolkit) -> None:
    onnx.save(make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"]), tmp_path / "m.onnx")
    steps: list[str] = []
    options = CompileOptions(tmp_path / "m.onnx", tmp_path / "net", stages=["x=4x3"])
    assert run(options, lambda _: None, toolkit, steps.append)
    stage = ["looking for layers", "compiling", "running on the emulator", "comparing with onnxruntime"]
    assert steps == ["reading m.onnx", *(f"{text}, stage {i}" for i in (0, 1) for text in stage)]
