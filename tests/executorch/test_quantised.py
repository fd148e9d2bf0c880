"""Programs that PT2E quantised, beside ExecuTorch's own kernels and in .pt2 files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
pytest.importorskip("executorch", reason="needs executorch: pip install executorch==1.5.1")

import executorch.kernels.quantized  # noqa: E402, F401 (what stays has kernels then)
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # noqa: E402
from executorch.exir import to_edge_transform_and_lower  # noqa: E402

from tests.executorch.quantised_nets import NETS, inputs, made, quantised  # noqa: E402
from tests.support.workspaces import outside_of_workspaces  # noqa: E402
from tpulayer.executorch import TpuLayerPartitioner, counters, runtime  # noqa: E402
from user_layers.cli.main import run  # noqa: E402
from user_layers.delegates import compile as partitions  # noqa: E402
from user_layers.executorch.command import count_partitions  # noqa: E402
from user_layers.quantize.quality import compared  # noqa: E402
from user_layers.spelling.foreign import Array  # noqa: E402

PICTURES = inputs(4, 9)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path) -> Iterator[None]:
    with outside_of_workspaces(tmp_path):
        yield


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Of the MACs of each partition that is compiled, those in 8 bits."""
    found: list[float] = []
    build = partitions.build_partition

    def kept(*args: Any, **kwargs: Any) -> Any:
        one = build(*args, **kwargs)
        found.append(0.0 if one.built.quantised is None else one.built.quantised.share)
        return one

    monkeypatch.setattr(partitions, "build_partition", kept)
    return found


def lowered(program: Any, path: Path, *partitioners: Any) -> int:
    """Write the .pte file; how many partitions are ours."""
    edge = to_edge_transform_and_lower(program, partitioner=[*partitioners])
    path.write_bytes(edge.to_executorch().buffer)
    return int(count_partitions(edge).split()[0])


def executed(path: Path) -> Array:
    """What the program makes of the pictures, in ExecuTorch's runtime."""
    method = runtime().load_program(path).load_method("forward")
    return np.stack([method.execute([x])[0].numpy() for x in PICTURES])


def of(module: Any) -> Array:
    return np.stack([module(x).detach().numpy() for x in PICTURES])


@pytest.mark.parametrize("kind", NETS)
def test_a_partition_in_8_bits(kind: str, tmp_path: Path, shares: list[float]) -> None:
    """The whole program is one partition, and loses about as much as in ExecuTorch's own kernels."""
    net = made(kind)
    program = quantised(net)
    partitioner = TpuLayerPartitioner()
    assert lowered(program, tmp_path / "tpu.pte", partitioner) == 1
    assert partitioner.counted[0] == partitioner.counted[1] > 30
    assert shares[-1] == 1
    lowered(program, tmp_path / "cpu.pte", XnnpackPartitioner())
    before = counters()["runs"]
    mine = executed(tmp_path / "tpu.pte")
    assert counters()["runs"] - before == len(PICTURES)
    theirs, want = executed(tmp_path / "cpu.pte"), of(net)
    assert compared(theirs, mine).sqnr > 30 and compared(want, mine).sqnr > compared(want, theirs).sqnr - 4


@pytest.mark.parametrize("kind", NETS)
def test_a_pt2_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.export.save(quantised(made(kind)), tmp_path / "net.pt2")
    assert run(["compile", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "net")]) == 0
    said = capsys.readouterr().out
    assert "quantized model: " in said and "100.0% of the MACs" in said and "on the CPU" not in said


@pytest.mark.parametrize("how", [{"channels": False}, {"folded": False}])
def test_other_weights(how: dict[str, bool], tmp_path: Path, shares: list[float]) -> None:
    """With one scale for all channels, and as floats that the program quantises."""
    program = quantised(made("residual"), **how)
    assert lowered(program, tmp_path / "tpu.pte", TpuLayerPartitioner()) == 1
    assert shares[-1] == 1
    assert compared(of(program.module()), executed(tmp_path / "tpu.pte")).sqnr > 30


def test_integers_between_partitions_and_the_cpu(tmp_path: Path) -> None:
    """Where only some operations go, what crosses is what the program says, integers too."""
    program = quantised(made("residual"))
    names = [f"{way}_per_{what}" for way in ("quantize", "dequantize") for what in ("tensor", "channel")]
    for number, some in enumerate((["convolution", *names], ["convolution", "relu", "max_pool2d"], names)):
        partitioner = TpuLayerPartitioner(operators=some)
        path = tmp_path / f"{number}.pte"
        lowered(program, path, partitioner)
        going, total = partitioner.counted
        assert 0 < going < total
        assert compared(of(program.module()), executed(path)).sqnr > 30


def test_scales_found_at_run_time_stay_in_executorch(tmp_path: Path) -> None:
    """Dynamic quantisation: what finds scales and uses them stays, the float rest goes."""
    program = quantised(made("residual"), dynamic=True)
    partitioner = TpuLayerPartitioner()
    assert lowered(program, tmp_path / "tpu.pte", partitioner) > 0
    assert "choose_qparams.tensor: there is no such operation here" in partitioner.report()
    assert "its scale is computed, not a constant" in partitioner.report()
    assert compared(of(program.module()), executed(tmp_path / "tpu.pte")).sqnr > 40


def test_scales_found_at_run_time_in_a_pt2_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.export.save(quantised(made("residual"), dynamic=True), tmp_path / "net.pt2")
    assert run(["compile", str(tmp_path / "net.pt2"), "-o", str(tmp_path / "net")]) == 0
    said = capsys.readouterr().out
    assert "by scales found while it runs is computed in float" in said and "8 bits:" not in said
