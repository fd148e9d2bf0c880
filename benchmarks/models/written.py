"""Small networks written from their public descriptions."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class UNet(nn.Module):
    """Four levels of two convolutions with normalisation, 16 to 128 channels."""

    def __init__(self) -> None:
        super().__init__()
        widths = (16, 32, 64, 128)
        self.down = nn.ModuleList(self._twice(a, b) for a, b in zip((3, *widths), widths, strict=False))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.up = nn.ModuleList(self._twice(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _twice(a: int, b: int) -> nn.Module:
        def one(i: int) -> list[nn.Module]:
            return [nn.Conv2d(i, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU()]

        return nn.Sequential(*one(a), *one(b))

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, level in enumerate(self.down):
            x = level(x if i == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](torch.cat([kept[i], self.widen[i](x)], 1))
        found: Tensor = self.last(x)
        return found


def _heads(x: Tensor, heads: int) -> Tensor:
    n, length, width = x.shape
    return x.reshape(n, length, heads, width // heads).transpose(1, 2)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of (n, heads, tokens, width)."""
    length, width = q.shape[-2:]
    mask = torch.full((length, length), -1e9).triu(1)
    found = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width) + mask, -1) @ v
    return found.transpose(1, 2).reshape(found.shape[0], length, -1)


class Gpt(nn.Module):
    """Four blocks with layer normalisation before attention and GELU, 256 wide, 4 heads."""

    width = 256

    def __init__(self) -> None:
        super().__init__()
        w = self.width
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(w),
                    "qkv": nn.Linear(w, 3 * w),
                    "out": nn.Linear(w, w),
                    "norm2": nn.LayerNorm(w),
                    "mlp": nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w)),
                }
            )
            for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            q, k, v = (_heads(part, 4) for part in block["qkv"](block["norm1"](x)).chunk(3, -1))
            x = x + block["out"](_attend(q, k, v))
            x = x + block["mlp"](block["norm2"](x))
        return x


class _RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Llama(nn.Module):
    """Two blocks with rotary positions, RMS normalisation and a SwiGLU layer, 256 wide, 4 heads."""

    width = 256

    def __init__(self) -> None:
        super().__init__()
        w, inner = self.width, 688

        def linear(a: int, b: int) -> nn.Linear:
            return nn.Linear(a, b, bias=False)

        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": _RmsNorm(w),
                    **{name: linear(w, w) for name in ("q", "k", "v", "out")},
                    "norm2": _RmsNorm(w),
                    "gate": linear(w, inner),
                    "up": linear(w, inner),
                    "down": linear(inner, w),
                }
            )
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        width = self.width // 4
        turns = torch.outer(
            torch.arange(x.shape[1]).float(), 10000 ** (-torch.arange(0, width, 2).float() / width)
        )
        cos, sin = (f(torch.cat([turns, turns], -1)) for f in (torch.cos, torch.sin))

        def rotated(t: Tensor) -> Tensor:
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat([-b, a], -1) * sin

        for block in self.blocks:
            y = block["norm1"](x)
            q, k, v = (_heads(block[name](y), 4) for name in "qkv")
            x = x + block["out"](_attend(rotated(q), rotated(k), v))
            y = block["norm2"](x)
            x = x + block["down"](F.silu(block["gate"](y)) * block["up"](y))
        return x


class _Language(nn.Module):
    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.embed, self.body, self.head = nn.Embedding(1000, width), body, nn.Linear(width, 1000)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.head(self.body(self.embed(tokens)))
        return found


def language(body: Gpt | Llama, tokens: int) -> tuple[nn.Module, Tensor]:
    """A body between embeddings and logits of 1000 words, with its input."""
    return _Language(body, body.width), torch.randint(0, 1000, (1, tokens))


class WaveNet(nn.Module):
    """Two stacks of eight gated convolutions with dilations of 1 to 128, 32 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 32, 1)
        self.steps = [2**i for _ in range(2) for i in range(8)]
        self.gates = nn.ModuleList(nn.Conv1d(32, 64, 2, dilation=d) for d in self.steps)
        self.more = nn.ModuleList(nn.Conv1d(32, 64, 1) for _ in self.steps)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(32, 32, 1), nn.ReLU(), nn.Conv1d(32, 64, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        total: Tensor | float = 0.0
        for step, gate, more in zip(self.steps, self.gates, self.more, strict=True):
            a, b = gate(F.pad(x, (step, 0))).chunk(2, 1)
            added, skipped = more(torch.tanh(a) * torch.sigmoid(b)).chunk(2, 1)
            x, total = x + added, total + skipped
        found: Tensor = self.last(total)
        return found


class Tcn(nn.Module):
    """Six residual blocks of causal convolutions, 64 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(32, 64, 1)
        self.steps = [2**i for i in range(6)]
        self.convs = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(64, 64, 3, dilation=d) for _ in range(2)) for d in self.steps
        )
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for step, pair in zip(self.steps, self.convs, strict=True):
            y = x
            for conv in pair:
                y = torch.relu(conv(F.pad(y, (2 * step, 0))))
            x = torch.relu(x + y)
        found: Tensor = self.last(x[:, :, -1])
        return found


class Lstm(nn.Module):
    """Two recurrent layers of 128 and a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.last = nn.LSTM(64, 128, 2, batch_first=True), nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.body(x)[0])
        return found


class Crnn(nn.Module):
    """Convolutions over a line of text, then an LSTM in both directions over its columns."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        pools = {64: (2, 2), 128: (2, 2), 256: (2, 1), 512: (2, 1)}
        before = 1
        for width, pool in pools.items():
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.MaxPool2d(pool, pool)]
            before = width
        self.body = nn.Sequential(*layers)
        self.turns, self.last = nn.LSTM(1024, 256, bidirectional=True), nn.Linear(512, 37)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x).flatten(1, 2).permute(2, 0, 1)
        found: Tensor = self.last(self.turns(x)[0])
        return found


class Fsrcnn(nn.Module):
    """Super-resolution by 2 with a transposed convolution of 9 x 9 at the end."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56)]
        layers += [nn.Conv2d(56, 12, 1), nn.PReLU(12)]
        for _ in range(4):
            layers += [nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12)]
        layers += [nn.Conv2d(12, 56, 1), nn.PReLU(56)]
        layers += [nn.ConvTranspose2d(56, 1, 9, 2, padding=4, output_padding=1)]
        self.body = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found


class Espcn(nn.Module):
    """Super-resolution by 3 that moves channels to pixels at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv2d(3, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh()),
            *(nn.Conv2d(32, 27, 3, padding=1), nn.PixelShuffle(3)),
        )

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found


class DcGan(nn.Module):
    """A picture of 64 x 64 from 100 numbers, by transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        widths = (100, 512, 256, 128, 64)
        layers: list[nn.Module] = []
        for i, (a, b) in enumerate(pairwise(widths)):
            conv = nn.ConvTranspose2d(a, b, 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False)
            layers += [conv, nn.BatchNorm2d(b), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found


class VNet(nn.Module):
    """Three levels of convolutions over volumes, 8 to 32 channels."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (
            nn.Conv3d(a, b, 3, padding=1) for a, b in ((1, 8), (16, 16), (32, 32))
        )
        self.down1, self.down2 = nn.Conv3d(8, 16, 2, 2), nn.Conv3d(16, 32, 2, 2)
        self.up2, self.up1 = nn.ConvTranspose3d(32, 16, 2, 2), nn.ConvTranspose3d(16, 8, 2, 2)
        self.last = nn.Conv3d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(self.first(x))
        b = torch.relu(self.second(torch.relu(self.down1(a))))
        c = torch.relu(self.third(torch.relu(self.down2(b))))
        b = torch.relu(self.up2(c)) + b
        found: Tensor = self.last(torch.cat([torch.relu(self.up1(b)), a], 1))
        return found


class PointNet(nn.Module):
    """The same layers for each of 1024 points, then the largest of all."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for a, b in ((3, 64), (64, 128), (128, 1024)):
            layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.last = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 40))

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.last(self.body(x).amax(-1))
        return found


class Autoencoder(nn.Module):
    """Six linear layers from 784 to 32 numbers and back."""

    def __init__(self) -> None:
        super().__init__()
        widths = (784, 512, 128, 32, 128, 512, 784)
        layers: list[nn.Module] = []
        for a, b in pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1], nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.body(x)
        return found
