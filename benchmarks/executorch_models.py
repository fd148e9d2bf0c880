"""Models through ExecuTorch with the BM1684 and with XNNPACK: how much is delegated, differences, times.

Needs ExecuTorch, torchvision for its models: python benchmarks/executorch_models.py [MODEL...]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

from firmware_sim.isa import timing
from user_layers.executorch.command import count_partitions
from user_layers.executorch.partitioner import TpuLayerPartitioner
from user_layers.executorch.runtime import counters, runtime

TIMES = 3  # runs of which the shortest counts


class Vit(torch.nn.Module):  # type: ignore[misc]
    """A small vision transformer: patches of 16, width 64, four layers of four heads."""

    def __init__(self, size: int = 96, width: int = 64, depth: int = 4) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, width, 16, 16)
        self.token = torch.nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = torch.nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
        layer = torch.nn.TransformerEncoderLayer(
            width, 4, width * 4, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = torch.nn.ModuleList([layer, *(_copy(layer) for _ in range(depth - 1))])
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def _copy(layer: Any) -> Any:
    import copy

    return copy.deepcopy(layer)


def _vision(name: str) -> Any:
    """A model of torchvision with random weights; its compiled operators do not load beside every torch."""
    name_of_rules = "torchvision._meta_registrations"  # of its compiled operators, which may not be there
    sys.modules.setdefault(name_of_rules, ModuleType(name_of_rules))
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mobilenet_v2": (lambda: _vision("mobilenet_v2"), (1, 3, 224, 224)),
    "resnet18": (lambda: _vision("resnet18"), (1, 3, 224, 224)),
    "vit": (Vit, (1, 3, 96, 96)),
}


def run(path: Path, x: Any, times: int) -> tuple[Any, float]:
    """The program's first output, and the shortest time of so many runs."""
    method: Any = runtime().load_program(path).load_method("forward")
    found, best = method.execute([x])[0], float("inf")
    for _ in range(times):
        begin = time.perf_counter()
        method.execute([x])
        best = min(best, time.perf_counter() - begin)
    return found, best


def measure(name: str, folder: Path) -> str:
    """One line about a model."""
    make, shape = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    x = torch.randn(shape)
    with torch.no_grad():
        want = module(x)
    program = torch.export.export(module, (x,))
    cpu = folder / f"{name}_cpu.pte"
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    cpu.write_bytes(bytes(lowered.to_executorch().buffer))
    partitioner = TpuLayerPartitioner(report=folder / f"{name}.txt")
    begin = time.perf_counter()
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    compiled = time.perf_counter() - begin
    path = folder / f"{name}.pte"
    path.write_bytes(bytes(edge.to_executorch().buffer))
    before = counters()
    got, mine = run(path, x, TIMES)
    after = counters()
    _, theirs = run(cpu, x, TIMES)
    off = float((got - want).abs().max() / want.abs().max())
    going, total = partitioner.counted
    return (
        f"{name}: {going} of {total} operations, {count_partitions(edge)}, compiled in {compiled:.1f} s, "
        f"differs by {off:.1e}; emulator {mine * 1e3:.0f} ms, XNNPACK {theirs * 1e3:.1f} ms; on the chip "
        f"{(after['ns'] - before['ns']) / (TIMES + 1) / 1e6:.3f} ms ({timing.modelled()})"
    )


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in names or list(MODELS):
            print(measure(name, Path(folder)), flush=True)
            print((Path(folder) / f"{name}.txt").read_text(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
