"""Other ways from PyTorch to the BM1684: torch.compile, and .pt2 files for `tpulayer compile`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")

import tpulayer.torch  # noqa: E402, F401 (makes the backend known)
from firmware_sim.errors import CompileError, ModelError, UsageError  # noqa: E402
from tests.support.workspaces import outside_of_workspaces  # noqa: E402
from user_layers.cli.main import run  # noqa: E402
from user_layers.onnx.backend import prepare  # noqa: E402
from user_layers.torch import dynamo  # noqa: E402
from user_layers.torch.program import read_program, read_pt2  # noqa: E402

nn = torch.nn
Module: Any = nn.Module


class Net(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.linear = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = torch.atan(torch.relu(self.conv(x))).mean((2, 3))
        return torch.softmax(self.linear(x), -1), x.argmax(-1)


X = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path) -> Iterator[None]:
    with outside_of_workspaces(tmp_path):
        yield


def test_torch_compile_runs_a_module_as_a_net() -> None:
    net = Net().eval()
    compiled = torch.compile(net, backend="tpulayer", dynamic=False, fullgraph=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="tpulayer leaves")
        for x in (X, X * 2):
            for mine, theirs in zip(compiled(x), net(x), strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


class Block(Module):  # type: ignore[misc]
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("shift", torch.randn(3))

    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(x)) + self.shift


def test_each_module_of_a_class_has_its_own_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def kept(proto: Any) -> Any:
        made.append(prepare(proto))
        return made[-1]

    monkeypatch.setattr(dynamo, "prepare", kept)
    torch._dynamo.reset()
    x = torch.randn(2, 4)
    blocks = [Block(seed).eval() for seed in range(3)]
    compiled = [torch.compile(block, backend="tpulayer", dynamic=False) for block in blocks]

    def check() -> None:
        for block, net in zip(blocks, compiled, strict=True):
            torch.testing.assert_close(net(x), block(x), rtol=1e-4, atol=1e-5)

    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", message="tpulayer leaves")
        check()
        check()
        assert len(made) == 3, "compiled once for each"
        assert not made[0].built.on_cpu, "the buffers of its norm are constants"
        blocks[0].linear.weight.mul_(2)
        blocks[1].linear.weight.data.mul_(3)
        blocks[2].shift.mul_(2)
        check()
        for seed in range(dynamo._MOST_NETS + 1):
            blocks[0].load_state_dict(Block(seed + 10).state_dict())
            check()


def test_gradients_are_left_to_pytorch() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(Block(0).eval(), backend="tpulayer", dynamic=False)
    with pytest.warns(UserWarning, match=r"no gradients: call it under torch.no_grad\(\)"):
        compiled(torch.ones(2, 4)).sum().backward()
    assert compiled.linear.weight.grad is not None


def test_numbers_that_no_net_holds_are_left_to_pytorch() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + x, backend="tpulayer", dynamic=False)
    assert compiled(torch.tensor([3, 4])).tolist() == [6, 8]
    with pytest.warns(UserWarning, match="tpulayer leaves a graph to PyTorch: .* values beyond 32 bits"):
        assert compiled(torch.tensor([1 << 40, 4])).tolist() == [1 << 41, 8]


def test_what_cannot_be_exported_is_left_to_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise ValueError("no export today\nand more")

    monkeypatch.setattr(torch.export, "export", refuse)
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="to PyTorch: torch.export refuses it: no export today$"):
        assert torch.compile(torch.relu, backend="tpulayer", dynamic=False)(X).equal(torch.relu(X))


def test_what_cannot_be_compiled_runs_in_pytorch_with_a_warning() -> None:
    def determinant(x: Any) -> Any:
        return torch.linalg.det(x) + 1

    x = torch.randn(3, 3)
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="tpulayer leaves a graph to PyTorch"):
        got = torch.compile(determinant, backend="tpulayer", dynamic=False)(x)
    torch.testing.assert_close(got, determinant(x))


def test_free_extents_are_left_to_pytorch_with_a_warning() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.relu(x) * x.shape[0], backend="tpulayer", dynamic=True)
    with pytest.warns(UserWarning, match=r"extents that are free: torch.compile\(..., dynamic=False\)"):
        got = compiled(X)
    torch.testing.assert_close(got, torch.relu(X) * 2)


def test_a_pt2_file_becomes_a_net(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.export.save(torch.export.export(Net().eval(), (X,)), tmp_path / "net.pt2")
    assert run(["compile", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "net")]) == 0
    assert "equals onnxruntime's" in capsys.readouterr().out
    assert (tmp_path / "net" / "compilation.bmodel").exists()


def test_files_that_are_no_programs(tmp_path: Path) -> None:
    (tmp_path / "damaged.pt2").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(ModelError, match="is not an exported PyTorch program"):
        read_pt2(tmp_path / "damaged.pt2")
    with pytest.raises(UsageError, match="cannot be read"):
        read_pt2(tmp_path / "missing.pt2")


def test_programs_that_no_net_can_be() -> None:
    class Counting(Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count += 1
            return x * self.count

    with pytest.raises(CompileError, match="it changes count while it runs"):
        read_program(torch.export.export(Counting(), (X,)).run_decompositions())
    free = torch.export.export(nn.ReLU(), (X,), dynamic_shapes=({0: torch.export.Dim("n")},))
    with pytest.raises(CompileError, match="free without an upper bound"):
        read_program(free)
