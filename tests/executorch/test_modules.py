"""Modules as people write them, from PyTorch to a program's outputs: entirely on the device, and the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")
pytest.importorskip("executorch", reason="needs executorch: pip install executorch==1.5.1")

from executorch.exir import to_edge_transform_and_lower  # noqa: E402

from tests.support.workspaces import outside_of_workspaces  # noqa: E402
from tpulayer.executorch import TpuLayerPartitioner, counters, runtime  # noqa: E402

F = torch.nn.functional
nn = torch.nn
Module: Any = nn.Module


def _random(*shape: int) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def _block(inputs: int, outputs: int) -> Any:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep, self.up = _block(3, 8), _block(8, 16), nn.ConvTranspose2d(16, 8, 2, 2)
        self.joined, self.last = _block(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        x = self.down(x)
        y = self.up(self.deep(F.max_pool2d(x, 2)))
        return self.last(self.joined(torch.cat([y, x], 1))).sigmoid()


class Decoder(Module):  # type: ignore[misc]
    """A layer of a decoder: RMS norm, rotary embedding, a causal mask, a gated product."""

    def __init__(self, width: int = 32, heads: int = 4, length: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.scale = nn.Parameter(torch.ones(width))
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.wide = nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False)
        self.narrow = nn.Linear(64, width, bias=False)
        angles = torch.outer(torch.arange(length).float(), 1e4 ** (-torch.arange(0, 8, 2) / 8))
        self.register_buffer("cos", torch.cat([angles, angles], -1).cos())
        self.register_buffer("sin", torch.cat([angles, angles], -1).sin())

    def norm(self, x: Any) -> Any:
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    def turned(self, x: Any) -> Any:
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat([-second, first], -1) * self.sin

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, 2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm(x)
        return x + self.narrow(F.silu(self.gate(y)) * self.wide(y))


class Diffusion(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(4, 16), nn.GroupNorm(8, 32)
        self.conv, self.also = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.time, self.short, self.qkv = nn.Linear(8, 64), nn.Conv2d(16, 32, 1), nn.Conv1d(32, 96, 1)

    def forward(self, x: Any, time: Any) -> Any:
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, 1)
        y = self.second(self.conv(F.silu(self.first(x)))) * (1 + scale) + shift
        y = self.short(x) + self.also(F.silu(y))
        q, k, v = self.qkv(y.flatten(2)).chunk(3, 1)
        weights = torch.softmax(torch.einsum("bct,bcs->bts", q * 32**-0.5, k), -1)
        y = y + torch.einsum("bts,bcs->bct", weights, v).reshape(y.shape)
        return F.interpolate(y, scale_factor=2.0, mode="nearest")


class SuperResolution(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.slope = nn.Conv2d(3, 16, 5, padding=2), nn.PReLU(16)
        self.second = nn.Conv2d(16, 27, 3, padding=1, padding_mode="reflect")
        self.shuffle = nn.PixelShuffle(3)

    def forward(self, x: Any) -> Any:
        wide = F.interpolate(x, scale_factor=3, mode="bicubic", align_corners=False)
        return torch.clamp(self.shuffle(self.second(self.slope(self.first(x)))) + wide, 0, 1)


class Windows(Module):  # type: ignore[misc]
    """Attention in windows that are shifted, and patches merged."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.merge = nn.Linear(4, 12), nn.Linear(16, 8, bias=False)
        self.bias, self.norm = nn.Parameter(torch.randn(1, 16, 16) * 0.1), nn.LayerNorm(16)

    def forward(self, x: Any) -> Any:
        x = torch.roll(x.permute(0, 2, 3, 1), (-2, -2), (1, 2))
        b, h, w, c = x.shape
        z = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(z).chunk(3, -1)
        z = torch.softmax(q @ k.mT * 0.5 + self.bias, -1) @ v
        z = z.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        z = torch.roll(z, (2, 2), (1, 2))
        z = torch.cat([z[:, 0::2, 0::2], z[:, 1::2, 0::2], z[:, 0::2, 1::2], z[:, 1::2, 1::2]], -1)
        return self.merge(self.norm(z))


class MaskedEncoder(Module):  # type: ignore[misc]
    """A mask of truth values over a transformer's layer, a mean over what it leaves, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.sort, self.place = nn.Linear(16, 3), nn.Linear(16, 4)

    def forward(self, x: Any, mask: Any) -> Any:
        y = self.layer(x, src_key_padding_mask=~mask)
        weight = mask.unsqueeze(-1).float()
        y = (y * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return self.sort(y).argmax(-1), self.place(y).tanh(), F.normalize(y, dim=-1)


class Audio(Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.wave = nn.Sequential(nn.Conv1d(1, 16, 80, 4), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4))
        self.causal, self.gates = nn.Conv1d(16, 16, 3, dilation=2), nn.Conv1d(16, 32, 1)

    def forward(self, x: Any) -> Any:
        tanh, gate = self.gates(self.causal(F.pad(self.wave(x), (4, 0)))).chunk(2, 1)
        x = torch.tanh(tanh) * torch.sigmoid(gate)
        return F.adaptive_avg_pool1d(x, 1).squeeze(-1), x.cumsum(-1), x.std(-1)


class Blind(Module):  # type: ignore[misc]
    """Attention of which some rows see nothing, by both kinds of masks."""

    def forward(self, x: Any, mask: Any) -> Any:
        scores = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
        attend = F.scaled_dot_product_attention
        return attend(x, x, x, mask), attend(x, x, x, scores)


CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "unet": (UNet, (_random(1, 3, 16, 16),)),
    "decoder": (Decoder, (_random(1, 12, 32),)),
    "diffusion": (Diffusion, (_random(1, 16, 8, 8), _random(1, 8))),
    "super_resolution": (SuperResolution, (_random(1, 3, 8, 8),)),
    "windows": (Windows, (_random(1, 4, 8, 8),)),
    "masked_encoder": (MaskedEncoder, (_random(2, 6, 16), torch.arange(12).reshape(2, 6) < 10)),
    "blind": (Blind, (_random(1, 2, 6, 4), torch.ones(6, 6).tril(-1) > 0)),
    "audio": (Audio, (_random(1, 1, 400),)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_module_runs_entirely_on_the_device(name: str, tmp_path: Path) -> None:
    make, inputs = CASES[name]
    torch.manual_seed(1)
    module = make().eval()
    with torch.no_grad():
        want = module(*inputs)
    partitioner = TpuLayerPartitioner()
    with outside_of_workspaces(tmp_path):
        program = torch.export.export(module, inputs)
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
        path = tmp_path / "net.pte"
        path.write_bytes(bytes(edge.to_executorch().buffer))
        before = counters()["runs"]
        method: Any = runtime().load_program(path).load_method("forward")
        got = method.execute(list(inputs))
    assert partitioner.counted[0] == partitioner.counted[1], partitioner.report()
    assert counters()["runs"] == before + 1
    for mine, theirs in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        assert (mine - theirs).abs().max() <= 1e-4 * theirs.abs().max()
