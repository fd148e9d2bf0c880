"""Operators of PyTorch in ONNX's words: what onnxruntime gives is what torch gives, in both dialects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")

from firmware_sim.errors import CompileError  # noqa: E402
from user_layers.spelling.spell import spell  # noqa: E402
from user_layers.torch.program import decomposed, read_program  # noqa: E402
from user_layers.torch.spellings import TORCH  # noqa: E402

F = torch.nn.functional
nn = torch.nn
Module: Any = nn.Module


class _Of(Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        if isinstance(function, nn.Module):
            self.inner = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _random(*shape: int, seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X4 = (_random(2, 6, 8, 10),)
X3 = (_random(2, 6, 8),)
X2 = (_random(4, 6),)
PAIR = (_random(2, 3, 4), _random(3, 1, seed=1))
WHOLE = (torch.arange(12).reshape(3, 4) - 5,)
SIGNS = (_random(3, 4) > 0, _random(3, 4, seed=2) > 0)
POSITIVE = (_random(3, 5).abs() + 0.1,)

LARGE = (torch.tensor([33554431, -33554431, (1 << 40) + 1, 7, 0]),)
EXACT = (torch.tensor([1.0, -1.0, 0.3, 0.0, 7.7, -12345.678, 1e6]),)
QKV = (_random(1, 2, 5, 4), _random(1, 2, 7, 4), _random(1, 2, 7, 4, seed=3))
MASK = (torch.arange(35).reshape(5, 7) % 3 > 0) & (torch.arange(5) != 2)[:, None]  # one row has nothing

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        name: (getattr(torch, name), (_random(3, 5),))
        for name in [
            "abs",
            "neg",
            "ceil",
            "floor",
            "sign",
            "exp",
            "erf",
            "sigmoid",
            "tanh",
            "relu",
            "sin",
            "cos",
            "expm1",
            "square",
            "trunc",
        ]
    },
    **{
        name: (getattr(torch, name), POSITIVE)
        for name in ["sqrt", "rsqrt", "log", "log1p", "log2", "log10", "reciprocal"]
    },
    **{
        name: (getattr(F, name), X3)
        for name in [
            "relu6",
            "hardtanh",
            "hardswish",
            "hardsigmoid",
            "silu",
            "gelu",
            "elu",
            "celu",
            "selu",
            "leaky_relu",
            "softplus",
            "logsigmoid",
            "softsign",
            "mish",
        ]
    },
    "round": (torch.round, (_random(20) * 5,)),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), X3),
    "prelu": (nn.PReLU(6), X4),
    "threshold": (lambda x: F.threshold(x, 0.2, -1.0), X2),
    "glu": (lambda x: F.glu(x, 1), X3),
    "softplus_beta": (lambda x: F.softplus(x, beta=2.0), X2),
    "add": (lambda x, y: x + y, PAIR),
    "add_alpha": (lambda x, y: torch.add(x, y, alpha=2), PAIR),
    "sub_number": (lambda x: x - 2, X2),
    "rsub": (lambda x: 2 - x, X2),
    "mul_whole": (lambda x: x * 2.5, WHOLE),
    "div": (lambda x, y: x / y, PAIR),
    "div_whole": (lambda x: x / 2, WHOLE),
    "floor_divide": (lambda x: x // 0.3, X2),
    "floor_divide_whole": (lambda x: x // 3, WHOLE),
    "div_trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), PAIR),
    "remainder": (lambda x: x % 0.7, X2),
    "pow": (lambda x: x**2, X2),
    "pow_tensor": (lambda x: x**x, POSITIVE),
    "pow_of_number": (lambda x: 2**x, X2),
    "maximum": (torch.maximum, (X2[0], _random(6, seed=3))),
    "minimum": (torch.minimum, (X2[0], _random(6, seed=3))),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), X2),
    "clamp_min": (lambda x: x.clamp(min=0.1), X2),
    "clamp_max": (lambda x: x.clamp(max=0.1), X2),
    "addcmul": (lambda x: torch.addcmul(x, x, x, value=0.5), X2),
    "compare": (lambda x, y: (x < y, x >= y, x == y, x != y), PAIR),
    "compare_number": (lambda x: (x > 0, x <= 1.5, x == 2, x != 2), WHOLE),
    "logical": (lambda x, y: (x & y, x | y, x ^ y, ~x, torch.logical_and(x, y)), SIGNS),
    "where": (lambda x: torch.where(x > 0, x, torch.zeros_like(x)), X2),
    "where_number": (lambda x: torch.where(x > 0, x, 3.0), X2),
    "masked_fill": (lambda x: x.masked_fill(x > 0, -1.0), X2),
    "to": (lambda x: x.to(torch.int64), (_random(3) * 9,)),
    "conv2d": (nn.Conv2d(6, 4, 3, stride=2, padding=1), X4),
    "conv2d_grouped": (nn.Conv2d(6, 6, (3, 5), padding=(1, 2), groups=6, bias=False), X4),
    "conv2d_dilated": (nn.Conv2d(6, 4, 3, dilation=2), X4),
    "conv2d_same": (nn.Conv2d(6, 4, 3, padding="same"), X4),
    "conv2d_without_batch": (nn.Conv2d(6, 4, 3), (X4[0][0],)),
    "conv1d": (nn.Conv1d(6, 4, 3, padding=1), X3),
    "conv3d": (nn.Conv3d(2, 3, 2), (_random(1, 2, 4, 5, 6),)),
    "conv_transpose": (nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1), X4),
    "conv_transpose_grouped": (nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2), X4),
    "max_pool": (nn.MaxPool2d(3, 2, padding=1), X4),
    "max_pool_ceil": (nn.MaxPool2d(3, 2, ceil_mode=True), X4),
    "max_pool1d": (nn.MaxPool1d(2), X3),
    "avg_pool": (nn.AvgPool2d(3, 2, padding=1), X4),
    "avg_pool_without_padding": (nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), X4),
    "avg_pool_divisor": (nn.AvgPool2d(2, divisor_override=3), X4),
    "avg_pool1d": (nn.AvgPool1d(2), X3),
    "adaptive_avg_pool": (nn.AdaptiveAvgPool2d(1), X4),
    "adaptive_avg_pool_windows": (nn.AdaptiveAvgPool2d((4, 5)), X4),
    "adaptive_avg_pool_unequal": (nn.AdaptiveAvgPool2d((3, 7)), X4),
    "adaptive_max_pool": (nn.AdaptiveMaxPool2d((4, 2)), X4),
    "batch_norm": (nn.BatchNorm2d(6).eval(), X4),
    "batch_norm_1d": (nn.BatchNorm1d(6).eval(), X2),
    "layer_norm": (nn.LayerNorm(8), X3),
    "layer_norm_two": (nn.LayerNorm((6, 8), elementwise_affine=False), X3),
    "rms_norm": (nn.RMSNorm(8), X3),
    "group_norm": (nn.GroupNorm(3, 6), X4),
    "instance_norm": (nn.InstanceNorm2d(6, affine=True), X4),
    "nearest": (nn.Upsample(scale_factor=2), X4),
    "nearest_to": (nn.Upsample(size=(11, 15)), X4),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), X4),
    "bilinear_corners": (nn.Upsample(size=(5, 21), mode="bilinear", align_corners=True), X4),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), X4),
    "linear": (nn.Linear(6, 5), X2),
    "linear_3d": (nn.Linear(8, 5), X3),
    "linear_without_bias": (nn.Linear(8, 5, bias=False), X3),
    "matmul": (torch.matmul, (_random(2, 3, 4), _random(4, 5))),
    "mm": (torch.mm, (_random(3, 4), _random(4, 5))),
    "bmm": (torch.bmm, (_random(2, 3, 4), _random(2, 4, 5))),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, alpha=2), (_random(5), _random(3, 4), _random(4, 5))),
    "baddbmm": (torch.baddbmm, (_random(2, 3, 5), _random(2, 3, 4), _random(2, 4, 5))),
    "attention": (
        F.scaled_dot_product_attention,
        (_random(1, 2, 5, 4), _random(1, 2, 7, 4), _random(1, 2, 7, 4)),
    ),
    "attention_causal": (
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        (_random(1, 2, 5, 4),),
    ),
    "multihead": (lambda m: lambda x: m(x, x, x)[0], ()),
    "softmax": (lambda x: F.softmax(x, dim=1), X3),
    "log_softmax": (lambda x: F.log_softmax(x, dim=-1), X3),
    "mean": (lambda x: (x.mean(), x.mean(1), x.mean((1, 2), keepdim=True)), X3),
    "sum": (lambda x: (x.sum(), x.sum(-1)), X3),
    "amax": (lambda x: (x.amax(1), x.amin((0, 2)), x.max(), x.min()), X3),
    "max_dim": (lambda x: x.max(1), X3),
    "argmax": (lambda x: (x.argmax(1), x.argmin(-1, keepdim=True), x.argmax()), X3),
    "any": (lambda x: ((x > 1).any(1), (x > -1).all()), X3),
    "var": (lambda x: (x.var(1), x.std(2), x.var(1, correction=0)), X3),
    "norm": (lambda x: (x.norm(dim=1), torch.linalg.vector_norm(x, 1, dim=2)), X3),
    "topk": (lambda x: x.topk(3, dim=1), X3),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(-1)), X3),
    "view": (lambda x: x.view(2, -1), X3),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(-1), X3),
    "permute": (lambda x: x.permute(2, 0, 1), X3),
    "transpose": (lambda x: (x.transpose(1, 2), x[0].t()), X3),
    "expand": (lambda x: x.unsqueeze(1).expand(-1, 4, -1, -1), X3),
    "repeat": (lambda x: x.repeat(2, 1, 3, 1), X3),
    "cat": (lambda x: torch.cat([x, x * 2], 1), X3),
    "stack": (lambda x: torch.stack([x, x * 2], 1), X3),
    "split": (lambda x: x.split(4, 1), X3),
    "split_sizes": (lambda x: x.split([1, 2, 3], 1)[1:], X3),
    "chunk": (lambda x: x.chunk(3, 1), X3),
    "unbind": (lambda x: x.unbind(0), X3),
    "slice": (lambda x: (x[:, 1:5:2], x[..., -3:], x[:, :, :2]), X3),
    "select": (lambda x: (x[1], x[:, -1]), X3),
    "narrow": (lambda x: x.narrow(1, 2, 3), X3),
    "flip": (lambda x: x.flip(1, 2), X3),
    "roll": (lambda x: torch.roll(x, (1, -2), (1, 2)), X3),
    "index_select": (lambda x: x.index_select(1, torch.tensor([3, 0, 3])), X3),
    "index": (lambda x: x[:, [0, 2]], X3),
    "embedding": (nn.Embedding(10, 4), (torch.tensor([[1, 2], [9, 0]]),)),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1]])), X2[:1]),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=0.5), X3),
    "pad_reflect": (lambda x: F.pad(x, (1, 2), mode="reflect"), X3),
    "pad_replicate": (lambda x: F.pad(x, (1, 2), mode="replicate"), X3),
    "pixel_shuffle": (nn.PixelShuffle(2), (_random(2, 8, 3, 5),)),
    "pixel_unshuffle": (nn.PixelUnshuffle(2), (_random(2, 3, 4, 6),)),
    "channel_shuffle": (nn.ChannelShuffle(3), X4),
    "tril": (lambda x: (x.tril(), x.triu(1)), X2),
    "constants": (lambda x: x + torch.arange(6) + torch.ones(6) + torch.full((6,), 2.0), X2),
    "as_strided": (lambda x: x.as_strided((2, 6, 1, 1), (6, 1, 6, 6)), (_random(2, 6, 1, 1),)),
    "dropout": (nn.Dropout().eval(), X2),
    "lstm": (nn.LSTM(4, 3), (_random(3, 2, 4),)),
    "divided_large": (lambda x: (x // 2, x % 1000, torch.div(x, 7, rounding_mode="trunc")), LARGE),
    "divided_negative": (lambda x: (x // -3, x % -3, torch.fmod(x, -3)), WHOLE),
    "remainder_exact": (lambda x: (x % 0.1, x // 0.1, torch.fmod(x, 0.1)), EXACT),
    "remainder_negative": (lambda x: (x % -0.1, x // -0.1, torch.fmod(x, -0.1)), EXACT),
    "remainder_tensor": (
        lambda x, y: (x % y, torch.div(x, y, rounding_mode="floor"), torch.fmod(x, y)),
        (EXACT[0], torch.tensor([0.1, 0.2, -0.3, 0.0, -0.0, 0.7, 1e30])),
    ),
    "softplus_threshold": (lambda x: F.softplus(x, beta=2.0, threshold=1.0), X2),
    "linear_vector": (lambda x, w, b: F.linear(x, w, b), (X3[0], _random(8), _random(1)[0])),
    "attention_mask": (F.scaled_dot_product_attention, (*QKV, MASK)),
    "attention_scores_mask": (
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, torch.where(m, 0.0, -torch.inf)),
        (*QKV, MASK),
    ),
    "attention_known_mask": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, MASK),
        QKV,
    ),
    "safe_softmax": (
        lambda x, m: torch.ops.aten._safe_softmax(x.masked_fill(~m, -torch.inf), -1),
        (_random(5, 7), MASK),
    ),
    "twice": (lambda x: (x.exp(), x.sin(), x, x), X2),
    "twice_the_same": (lambda x: (lambda y: (y, y, x + 1, y))(x.exp()), X2),
    "cumsum_whole_as_fraction": (lambda x: x.cumsum(1, dtype=torch.float32), WHOLE),
    "cumsum_long": (lambda x: x.cumsum(0), (torch.ones(2049),)),
    "any_of_bytes": (lambda x: (x.any(1), x.all(1)), (torch.tensor([[0, 3], [2, 1]], dtype=torch.uint8),)),
}
CASES["multihead"] = (
    (lambda m: _Of(lambda x: m(x, x, x)[0]))(nn.MultiheadAttention(8, 2, batch_first=True).eval()),
    X3,
)


def _edge(program: Any) -> Any:
    exir = pytest.importorskip("executorch.exir", reason="needs executorch")
    config = exir.EdgeCompileConfig(_check_ir_validity=False)
    return exir.to_edge(program, compile_config=config).exported_program()


def _core(program: Any) -> Any:
    return decomposed(program, list(TORCH))


@pytest.mark.parametrize("dialect", [_core, _edge])
@pytest.mark.parametrize("name", CASES)
def test_onnxruntime_gives_what_torch_gives(name: str, dialect: Callable[[Any], Any]) -> None:
    import onnxruntime

    function, inputs = CASES[name]
    torch.manual_seed(0)
    module = function if isinstance(function, nn.Module) else _Of(function)
    for parameter in module.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    module.eval()
    with torch.no_grad():
        want = module(*inputs)
    want = want if isinstance(want, (tuple, list)) else [want]
    want = [t for w in want for t in (w if isinstance(w, tuple) else [w])]
    program = dialect(torch.export.export(module, inputs))
    spelled = spell(read_program(program), TORCH)
    session = onnxruntime.InferenceSession(spelled.proto.SerializeToString())
    got = session.run(None, {b.name: t.numpy() for b, t in zip(spelled.inputs, inputs, strict=True)})
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        assert mine.shape == tuple(theirs.shape) and mine.dtype == theirs.numpy().dtype
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


HALVES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "relu6": (F.relu6, X3),
    "var": (lambda x: (x.var(1), x.std(2)), X3),
    "softplus": (lambda x: F.softplus(x, beta=2.0, threshold=3.0), X3),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), X3),
    "attention_mask": (F.scaled_dot_product_attention, (*QKV, MASK)),
    "rms_norm": (nn.RMSNorm(8), X3),
    "baddbmm": (lambda x: torch.baddbmm(x[:, :, :6], x, x.mT, alpha=2, beta=0.5), X3),
    "cumsum": (lambda x: x.cumsum(1), X3),
    "batch_norm": (nn.BatchNorm2d(6, affine=False).eval(), X4),
    "group_norm": (nn.GroupNorm(3, 6), X4),
    "avg_pool_divisor": (nn.AvgPool2d(2, divisor_override=3), X4),
    "adaptive_avg_pool_unequal": (nn.AdaptiveAvgPool2d((3, 7)), X4),
    "bilinear": (nn.Upsample(scale_factor=2, mode="bilinear"), X4),
    "remainder": (lambda x: (x % 0.5, x // 0.5), X3),
}


@pytest.mark.parametrize("name", HALVES)
def test_modules_in_half_precision(name: str) -> None:
    import onnxruntime

    function, inputs = HALVES[name]
    module = (function if isinstance(function, nn.Module) else _Of(function)).half()
    inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
    with torch.no_grad():
        want = module(*inputs)
    spelled = spell(read_program(_core(torch.export.export(module, inputs))), TORCH)
    session = onnxruntime.InferenceSession(spelled.proto.SerializeToString())
    got = session.run(None, {b.name: t.numpy() for b, t in zip(spelled.inputs, inputs, strict=True)})
    for mine, theirs in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        assert mine.shape == tuple(theirs.shape) and mine.dtype == np.float16
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x // x, "others that are computed"),
        (lambda x: x % 0, "by 0 or -1"),
        (lambda x: x // -1, "by 0 or -1"),
    ],
)
def test_whole_numbers_are_divided_only_where_no_process_ends(
    function: Callable[..., Any], reason: str
) -> None:
    program = _core(torch.export.export(_Of(function), (torch.arange(1, 5),)))
    with pytest.raises(CompileError, match=reason):
        spell(read_program(program), TORCH)
