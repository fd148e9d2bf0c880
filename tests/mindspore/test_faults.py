"""What goes wrong in programs with MindSpore Lite (tests/sources/mindspore_programs), and what they bear."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.mindspore.networks import write_network
from tests.paths import SOURCES
from tests.support.toy_framework import TOY, toy
from tests.support.workspaces import built_workspace
from user_layers.delegates.compile import compile_partition
from user_layers.delegates.program import pack
from user_layers.mindir.ms import read_ms
from user_layers.mindir.write import write_ms
from user_layers.mindspore.programs import Programs
from user_layers.mindspore.run import convert
from user_layers.spelling.foreign import ForeignModel, Operation, Tensor
from user_layers.toolkit import Toolkit

MODELS = SOURCES / "mindspore"
_F32 = np.dtype(np.float32)
_SECONDS = 600.0


class Sessions:
    """The program that does what it is told line by line."""

    def __init__(self, program: Path, programs: Programs, **environment: str) -> None:
        env = {**programs.environment(), **environment}
        self.process: Any = subprocess.Popen(
            [str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )

    def ask(self, line: object) -> str:
        """What it answers."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer: str = self.process.stdout.readline().rstrip("\n")
        assert answer, f"it ended with {self.process.poll()} at: {line}"
        return answer

    def do(self, *lines: str) -> list[str]:
        """All of it must be done; what the answers say behind `ok`."""
        found = []
        for line in lines:
            answer = self.ask(line)
            assert answer.startswith("ok"), f"{line}: {answer}"
            found.append(answer[3:])
        return found

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *error: object) -> None:
        with self.process:
            self.process.stdin.close()
            assert self.process.wait(_SECONDS) == 0 or error[0] is not None


@pytest.fixture(scope="module")
def program(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `tpulayer mindspore setup` says."""
    made = tmp_path_factory.mktemp("program") / "sessions"
    source = SOURCES / "mindspore_programs" / "sessions.cc"
    words = [*programs.command(str(source), str(made)), "-Wall", "-Wextra", "-Werror", "-pthread"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
def sessions(program: Path, programs: Programs) -> Iterator[Sessions]:
    with Sessions(program, programs) as made:
        yield made


def _same(sessions: Sessions, one: str, two: str) -> None:
    assert float(sessions.do(f"compare {one} {two}")[0]) < 1e-4


def _bomb(folder: Path, at: int, shape: tuple[int, ...] = (4, 8)) -> Path:
    model = ForeignModel(
        "MindSpore",
        "bomb",
        {name: Tensor(shape, _F32) for name in "xay"},
        ("x",),
        ("y",),
        (
            Operation("Custom", "bomb", ("x",), ("a",), {"type": "TPU_BOMB", "at": at}),
            Operation("Activation", "relu", ("a",), ("y",), {"activation_type": 1}),
        ),
    )
    path = folder / f"bomb_{at}.ms"
    path.write_bytes(write_ms(model))
    return path


def test_a_kernel_that_crashes_is_an_error_of_that_call_and_the_next_works(
    program: Path, programs: Programs, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Kernels of the user's run on the device with every call of a dynamic net."""
    ws = built_workspace(tmp_path_factory, ("double",), "delegate_layers")
    with Sessions(program, programs, TPULAYER_WORKSPACE=str(ws.root)) as sessions:
        config = f"dynamic=1,workspace={ws.root}"
        sessions.do("layer TPU_BOMB", f"build late {_bomb(tmp_path, -40)} ms {config}", "predict late 1")
        answers = [sessions.ask("predict late 1") for _ in range(60)]
        bad = [answer for answer in answers if not answer.startswith("ok")]
        assert len(bad) == 1, bad
        assert bad[0].startswith("error not run: tpulayer_0") and "crash" in bad[0] and "bomb" in bad[0], bad
        first = max(2 * -1.0, 0.0)  # of the input's first element, which is -1
        assert float(sessions.do("first late")[0]) == first
        # Another model on the same device, and one whose new shape is what its kernel does not bear.
        sessions.do(f"build odd {_bomb(tmp_path, 3)} ms {config}", "predict odd 1")
        said = sessions.ask("resize odd 3x8")
        assert said.startswith("error not resized: ") and "crash" in said, said
        sessions.do("resize odd 2x8", "predict odd 2", "predict late 2")
        # A net of stored commands runs its kernels when it is compiled: then there is no model.
        said = sessions.ask(f"build never {_bomb(tmp_path, 4)} ms workspace={ws.root}")
        assert said.startswith("error not built: ") and "crash" in said, said
        sessions.do("predict late 1")


def test_damaged_models_are_errors_and_nothing_ends(sessions: Sessions, tmp_path: Path) -> None:
    """The framework itself checks only parts of a file: what it takes, the delegate must bear."""
    data = (MODELS / "cnn.ms").read_bytes()
    for name, text in (("short", data[:900]), ("empty", b""), ("other", b"no model at all" * 9)):
        (tmp_path / f"{name}.ms").write_bytes(text)
        assert sessions.ask(f"build {name} {tmp_path / name}.ms ms device=0").startswith("error not built")
    model = read_ms(data)
    (conv,) = [op for op in model.operations if op.kind == "Conv2DFusion"][:1]
    odd = replace(conv, attributes={**conv.attributes, "group": 7})
    operations = tuple(odd if op is conv else op for op in model.operations)
    (tmp_path / "odd.ms").write_bytes(write_ms(replace(model, operations=operations)))
    assert sessions.ask(f"build odd {tmp_path / 'odd.ms'} ms device=0").startswith("error not built")
    sessions.do(f"build good {MODELS / 'cnn.ms'} ms device=0", "predict good 1")


def test_wrong_shapes_are_errors_and_the_model_goes_on(sessions: Sessions) -> None:
    sessions.do(f"build a {MODELS / 'cnn.ms'} ms device=0", "predict a 1")
    for shape in ("1x8x8x5", "8x8x3", "0x8x8x3"):
        assert sessions.ask(f"resize a {shape}").startswith("error not resized"), shape
    sessions.do("resize a 2x8x8x3", "predict a 1")


def test_models_and_frameworks_share_a_process(sessions: Sessions, toolkit: Toolkit, tmp_path: Path) -> None:
    """Two models with the delegate, the framework's kernels beside, and a partition of another framework."""
    model = toy({"x": (4, 6), "y": (4, 6)}, [("RELU", ["x"], "y")], ["x"], ["y"], "other")
    (tmp_path / "program").write_bytes(pack([compile_partition(model, TOY, name="other", toolkit=toolkit)]))
    cnn, attention = MODELS / "cnn.ms", MODELS / "attention.mindir"
    sessions.do(f"core {tmp_path / 'program'}")
    sessions.do(f"build cnn {cnn} ms device=0", f"build att {attention} mindir device=0,opt=1")
    plain = (f"build c {cnn} ms -", f"build a {attention} mindir -")
    assert sessions.do(*plain) == ["0", "0"]
    sessions.do("predict c 1", "predict a 1")
    for _ in range(3):
        sessions.do("predict cnn 1", f"core {tmp_path / 'program'}", "predict att 2")
        _same(sessions, "c", "cnn")
        _same(sessions, "a", "att")
    sessions.do("destroy cnn", "predict att 1", f"build cnn {cnn} ms device=0", "predict cnn 1")
    _same(sessions, "c", "cnn")


def test_threads_run_models_at_once(sessions: Sessions) -> None:
    cnn, attention = MODELS / "cnn.ms", MODELS / "attention.ms"
    names = [f"{kind}{i}" for i in range(3) for kind in ("c", "a")]
    for name in names:
        path = cnn if name[0] == "c" else attention
        sessions.do(f"build {name} {path} ms {'-' if name[1] == '0' else 'device=0'}")
    sessions.do(f"together 25 {' '.join(names)}")
    for name in names:
        _same(sessions, f"{name[0]}0", name)
    sessions.do(f"cycles 3 2 {cnn} ms device=0")


def test_a_call_takes_little_more_than_bmrt_does(sessions: Sessions) -> None:
    """The least of many: other processes run too. Copies of inputs and outputs count as well."""
    sessions.do(f"build a {MODELS / 'attention.ms'} ms device=0", "predict a 5")
    least, _ = (int(word) for word in sessions.do("overhead a 200")[0].split())
    assert least < 200_000, f"{least} ns"


@pytest.mark.parametrize(("config", "times"), [("dynamic=1", 6), ("device=0", 1)])
def test_shapes_go_up_and_down_many_times(
    sessions: Sessions, programs: Programs, config: str, times: int, tmp_path: Path
) -> None:
    """A dynamic net takes what is smaller than the model; all else is compiled anew."""
    source = write_network("any_size", tmp_path)
    path = source.with_suffix(".ms")
    assert convert(programs, {source: path}) == [True]
    sessions.do(f"build plain {path} ms -", f"build ours {path} ms {config}")
    for shape in ("2x16x16x3", "2x9x16x3", "1x16x12x3", "2x24x20x3", "3x6x8x3") * times:
        sessions.do(f"resize plain {shape}", f"resize ours {shape}", "predict plain 1", "predict ours 1")
        _same(sessions, "plain", "ours")


@pytest.mark.parametrize("times", [12, pytest.param(1000, marks=pytest.mark.slow)])
def test_models_come_and_go_without_a_leak(sessions: Sessions, times: int) -> None:
    path = MODELS / "attention.ms"
    sessions.do(f"cycles 1 6 {path} ms device=0")
    before = [int(word) for word in sessions.do("usage")[0].split()]
    sessions.do(f"cycles 1 {times} {path} ms device=0")
    after = [int(word) for word in sessions.do("usage")[0].split()]
    assert after[1] == before[1]
    assert after[0] - before[0] < 1024 + times, "memory grows"  # KB
