"""Seeded nets, quantised by PT2E with ExecuTorch's XNNPACKQuantizer."""

from __future__ import annotations

from typing import Any

import torch
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

Module: Any = nn.Module
SHAPE = (2, 3, 32, 32)


def _norm(channels: int) -> Any:
    """With statistics that are not those of a new one."""
    norm = nn.BatchNorm2d(channels)
    norm.running_mean.uniform_(-0.1, 0.1)
    norm.running_var.uniform_(0.3, 0.6)
    return norm


def _conv(before: int, behind: int, size: int, stride: int = 1, groups: int = 1) -> list[Any]:
    return [
        nn.Conv2d(before, behind, size, stride, size // 2, groups=groups, bias=False),
        _norm(behind),
    ]


class Residual(Module):  # type: ignore[misc]
    """Like ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.block = nn.Sequential(*_conv(16, 16, 3), nn.ReLU(), *_conv(16, 16, 3))
        self.down = nn.Sequential(*_conv(16, 32, 3, 2), nn.ReLU(), *_conv(32, 32, 3))
        self.short = nn.Sequential(*_conv(16, 32, 1, 2))
        self.linear = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        x = torch.relu(x + self.block(x))
        x = torch.relu(self.short(x) + self.down(x))
        return self.linear(x.mean((2, 3)))


class Inverted(Module):  # type: ignore[misc]
    """Like MobileNetV2."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv(3, 8, 3, 2), nn.ReLU6())
        self.block = nn.Sequential(
            *_conv(8, 32, 1), nn.ReLU6(), *_conv(32, 32, 3, groups=32), nn.ReLU6(), *_conv(32, 8, 1)
        )
        self.head = nn.Sequential(*_conv(8, 48, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.linear = nn.Linear(48, 10)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        return self.linear(self.head(x + self.block(x)))


class Branches(Module):  # type: ignore[misc]
    """Like Inception, with a way up as in U-Net."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_conv(3, 12, 3, 2), nn.ReLU())
        self.left = nn.Sequential(*_conv(12, 8, 1), nn.ReLU())
        self.right = nn.Sequential(*_conv(12, 8, 5), nn.ReLU())
        self.last = nn.Conv2d(19, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        y = self.stem(x)
        y = torch.cat([self.left(y), self.right(y)], 1)
        y = nn.functional.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.last(torch.cat([y, x], 1))


NETS: dict[str, Any] = {"residual": Residual, "inverted": Inverted, "branches": Branches}


def made(kind: str) -> Any:
    """The float net."""
    torch.manual_seed(0)
    return NETS[kind]().eval()


def inputs(count: int, seed: int) -> list[Any]:
    """Pictures between -1 and 1."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(SHAPE, generator=generator) * 2 - 1 for _ in range(count)]


def quantised(net: Any, *, dynamic: bool = False, channels: bool = True, folded: bool = True) -> Any:
    """The exported program. dynamic: with scales that it finds while it runs; channels: weights have a scale
    for each; folded: weights are integers, not floats that are quantised."""
    samples = inputs(8, 1)
    config = get_symmetric_quantization_config(is_per_channel=channels, is_dynamic=dynamic)
    prepared = prepare_pt2e(
        torch.export.export(net, (samples[0],)).module(), XNNPACKQuantizer().set_global(config)
    )
    for sample in samples:
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared, fold_quantize=folded), (samples[0],))
