"""What goes wrong in a program with partitions on the BM1684 is told, and what comes after it works."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
pytest.importorskip("executorch", reason="needs executorch: pip install executorch==1.5.1")

from executorch.devtools import Inspector  # noqa: E402
from executorch.exir import to_edge_transform_and_lower  # noqa: E402
from executorch.extension.pybindings.portable_lib import (  # noqa: E402
    _load_for_executorch_from_buffer,
)

from firmware_sim.errors import CompileError, MissingError  # noqa: E402
from tests.support.workspaces import built_workspace  # noqa: E402
from tpulayer.executorch import TpuLayerPartitioner, counters, runtime  # noqa: E402
from user_layers.delegates import program  # noqa: E402
from user_layers.executorch import backend  # noqa: E402
from user_layers.executorch import runtime as finding  # noqa: E402

nn = torch.nn
Module: Any = nn.Module
X = torch.randn(2, 3, 9, 11, generator=torch.Generator().manual_seed(0))
INTERNAL, INVALID_ARGUMENT, INCOMPATIBLE = "0x1$", "0x12$", "0x:30$"  # ExecuTorch's errors, in its messages
CRASHING = 5  # the device with the layer that crashes


@pytest.fixture(scope="module", autouse=True)
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The workspace with the layer that crashes."""
    root = built_workspace(tmp_path_factory, folder="delegate_layers").root
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TPULAYER_WORKSPACE", str(root))
        yield root


def _edge(module: Any, inputs: Any, partitioner: Any = None, **given: Any) -> Any:
    exported = torch.export.export(module.eval(), inputs, dynamic_shapes=given.pop("shapes", None))
    return to_edge_transform_and_lower(exported, partitioner=[partitioner or TpuLayerPartitioner()], **given)


def _file(edge: Any, folder: Path, name: str = "net.pte") -> Path:
    path = folder / name
    path.write_bytes(bytes(edge.to_executorch().buffer))
    return path


def _method(path: Path) -> Any:
    return runtime().load_program(path).load_method("forward")


class Net(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: Any) -> Any:
        return torch.atan(torch.relu(self.conv(x))).mean((2, 3))


@torch.library.custom_op(  # type: ignore[untyped-decorator]
    "tpulayer::bomb", mutates_args=(), schema="(Tensor x, int at) -> Tensor"
)
def bomb(x: Any, at: int) -> Any:
    raise NotImplementedError("only the device has it")


bomb.register_fake(lambda x, at: torch.empty_like(x))


class Bomb(Module):  # type: ignore[misc]
    """2 * relu(x) + 1, with a kernel that crashes where the batch is 3."""

    def forward(self, x: Any) -> Any:
        y = torch.relu(x)
        y = bomb(y, 3)
        return y + 1


def test_a_kernel_that_crashes_is_an_error_of_that_call(
    workspace: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    partitioner = TpuLayerPartitioner(device=CRASHING, workspace=workspace)
    shapes = ({0: torch.export.Dim("batch", max=4)},)
    edge = _edge(Bomb(), (torch.randn(4, 8),), partitioner, shapes=shapes, generate_etrecord=True)
    made = edge.to_executorch()
    (tmp_path / "net.pte").write_bytes(bytes(made.buffer))
    made.get_etrecord().save(str(tmp_path / "record"))
    loaded = runtime().load_program(tmp_path / "net.pte", enable_etdump=True, debug_buffer_size=1 << 20)
    method: Any = loaded.load_method("forward")
    x = torch.randn(4, 8)
    torch.testing.assert_close(method.execute([x])[0], 2 * torch.relu(x) + 1)
    capfd.readouterr()
    with pytest.raises(RuntimeError, match=INTERNAL):
        method.execute([x[:3]])
    log = capfd.readouterr().err
    assert "(TPU_BOMB), global function crashed: SIGSEGV" in log and "hint: the kernel's C code" in log
    torch.testing.assert_close(method.execute([x])[0], 2 * torch.relu(x) + 1)
    # The layer that failed, its reason, operator and line:
    loaded.write_etdump_result_to_file(str(tmp_path / "dump"), str(tmp_path / "buffer"))
    inspector = Inspector(etdump_path=str(tmp_path / "dump"), etrecord=str(tmp_path / "record"))
    events = [event for block in inspector.event_blocks for event in block.events]
    (failed,) = [event for event in events if event.is_delegated_op and any(event.delegate_debug_metadatas)]
    assert failed.op_types == ["tpulayer.bomb.default"]
    assert b"crashed: SIGSEGV" in failed.delegate_debug_metadatas[0]
    assert all("y = bomb(y, 3)" in trace for trace in failed.stack_traces.values())


def test_a_kernel_that_crashes_while_it_is_compiled_is_told_with_its_line(workspace: Path) -> None:
    with pytest.raises(CompileError, match=r"(?s)bomb.*crashed: SIGSEGV.*test_faults.py.*y = bomb\(y, 3\)"):
        _edge(Bomb(), (torch.randn(3, 8),), TpuLayerPartitioner(workspace=workspace))


@pytest.mark.parametrize("kept", [0, 4, 40, 0.5, -1])
def test_partitions_that_are_cut_off(kept: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(partitions: Any) -> bytes:
        data = whole(partitions)
        return data[: int(kept * len(data)) if 0 < kept < 1 else int(kept)]

    whole = program.pack
    monkeypatch.setattr(backend, "pack", cut)
    with pytest.raises(RuntimeError, match=INCOMPATIBLE):
        _method(_file(_edge(nn.ReLU(), (X,)), tmp_path))
    monkeypatch.undo()
    path = _file(_edge(nn.ReLU(), (X,)), tmp_path)
    assert torch.equal(_method(path).execute([X])[0], torch.relu(X))


def test_damaged_partitions_and_what_a_net_does_not_take(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    net = Net().eval()
    good = _file(_edge(net, (X,)), tmp_path)
    data = good.read_bytes()
    place = data.index(b"TPLDPRG") + 100
    bad = tmp_path / "bad.pte"
    bad.write_bytes(data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :])
    with pytest.raises(RuntimeError, match=INCOMPATIBLE):
        _method(bad)
    method = _method(good)
    for wrong in (torch.randn(2, 3, 9, 12), torch.randn(2, 3, 99), X.double(), X[:1]):
        with pytest.raises(RuntimeError):
            method.execute([wrong])
    with pytest.raises(RuntimeError):
        method.execute([])
    torch.testing.assert_close(method.execute([X])[0], net(X), rtol=1e-4, atol=1e-5)


def test_versions_that_do_not_fit_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"executorch": "1.5.1", "torch": "2.13.0+cpu"}

    def version(name: str) -> str:
        if name not in have:
            raise PackageNotFoundError(name)
        return have[name]

    monkeypatch.setattr(finding, "version", version)
    assert finding.wheel()[1] == "1.5.1"
    have["torch"] = "2.12.1"
    with pytest.raises(
        MissingError, match=r"torch 2.12.1 is installed; executorch 1.5.1 was built with torch 2"
    ):
        finding.wheel()
    del have["torch"]
    with pytest.raises(MissingError, match="no torch is installed"):
        finding.wheel()
    have["executorch"] = "1.4.0"
    with pytest.raises(MissingError, match=r"executorch 1.4.0 is installed; the backend is for 1.5.x"):
        finding.wheel()
    del have["executorch"]
    with pytest.raises(MissingError, match="executorch is not installed"):
        finding.wheel()


def test_two_runtimes_and_several_threads_in_one_process(tmp_path: Path) -> None:
    import tpulayer.torch

    assert tpulayer.torch.__all__ == ["tpulayer"]
    # Nothing of it stays: ExecuTorch's own kernels share a pool of threads, which is for one caller.
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()).eval()
    path = _file(_edge(net, (X,)), tmp_path)
    data = path.read_bytes()  # which is not copied
    other = _load_for_executorch_from_buffer(data)  # ExecuTorch's older interface
    compiled = torch.compile(net, backend="tpulayer", dynamic=False)
    with torch.no_grad():
        want, also = net(X), compiled(X)
    torch.testing.assert_close(also, want, rtol=1e-4, atol=1e-5)

    def run(number: int) -> Any:
        method = _method(path)
        return [method.execute([X * number])[0].clone() for _ in range(5)]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(run, range(1, 9)))
    for number, outputs in enumerate(found, 1):
        for output in outputs:
            torch.testing.assert_close(output, net(X * number).detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(other.forward([X])[0], want, rtol=1e-4, atol=1e-5)


def test_a_thousand_programs_leave_nothing_behind(tmp_path: Path) -> None:
    path = _file(_edge(nn.ReLU(), (X,)), tmp_path)

    def cycle(times: int) -> tuple[int, int]:
        """Resident pages and open files after so many programs."""
        for _ in range(times):
            method = _method(path)
            method.execute([X])
            del method
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))

    memory, files = cycle(100)
    before = counters()["runs"]
    after, files_after = cycle(1000)
    assert counters()["runs"] - before == 1000
    print(f"1,000 programs: {(after - memory) / 1e6:+.1f} MB, {files_after - files:+d} files")
    assert after - memory < 8_000_000 and files_after <= files
