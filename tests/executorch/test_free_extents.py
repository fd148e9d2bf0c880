"""Programs with free extents: what is spelled holds for every extent, and what could not is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")

from firmware_sim.errors import CompileError  # noqa: E402
from tests.executorch.test_torch_operators import _Of, _random  # noqa: E402
from user_layers.spelling.spell import spell  # noqa: E402
from user_layers.torch.program import decomposed, read_program  # noqa: E402
from user_layers.torch.spellings import TORCH  # noqa: E402

F = torch.nn.functional
nn = torch.nn
BOUND = 8


def _spelled(function: Callable[..., Any], x: Any, axes: tuple[int, ...]) -> Any:
    """The ONNX model of a function whose argument has these axes free."""
    dims = {axis: torch.export.Dim(f"n{axis}", min=4, max=BOUND) for axis in axes}
    program = torch.export.export(_Of(function), (x,), dynamic_shapes=((dims,),))
    return spell(read_program(decomposed(program, list(TORCH))), TORCH).proto


def _run(proto: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """What onnxruntime makes of it where these axes of the input have other extents."""
    import onnxruntime

    for axis in axes:
        proto.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return session.run(None, {proto.graph.input[0].name: x.numpy()})[0]


GOOD: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "mean": (lambda x: x.mean((2, 3)), (0, 2, 3)),
    "var of others": (lambda x: x.var(1), (0, 2, 3)),
    "flatten": (lambda x: x.flatten(1), (0,)),
    "reshape of two": (lambda x: x.reshape(x.shape[0], 2, 2, x.shape[2], 8), (0, 2)),
    "one more axis": (lambda x: x[:, None].expand(-1, 3, -1, -1, -1), (0, 2)),
    "axes of one element": (lambda x: x[:, None].unsqueeze(-2).squeeze(1).squeeze(), (0, 2)),
    "repeat": (lambda x: x.repeat(2, 1, 1, 1, 3), (0, 2)),
    "select from the end": (lambda x: x[:, :, -1], (2,)),
    "select before the end": (lambda x: x[:, :, -2], (2,)),
    "whole slice": (lambda x: x[:, :, : x.shape[2]], (2,)),
    "group norm": (lambda x: F.group_norm(x, 2), (0, 2)),
    "group norm of wider": (lambda x: F.group_norm(x, 2), (3,)),
    "instance norm": (F.instance_norm, (0, 2, 3)),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 2), (0, 3)),
    "pixel unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (0,)),
    "resize": (lambda x: F.interpolate(x, (5, 11)), (0,)),
    "bilinear": (lambda x: F.interpolate(x, (5, 11), mode="bilinear"), (0,)),
    "upsample": (lambda x: F.interpolate(x, scale_factor=2), (0, 2, 3)),
    "whole pool": (lambda x: F.adaptive_avg_pool2d(x, 1), (0, 2, 3)),
    "pool": (lambda x: F.adaptive_avg_pool2d(x, 2), (0,)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (0, 2)),
}
BAD: dict[str, tuple[Callable[..., Any], int]] = {
    "quotient": (lambda x: x.sum(0) / x.shape[0], 0),
    "factor": (lambda x: x * x.shape[0], 0),
    "comparison": (lambda x: x < x.shape[0], 0),
    "var": (lambda x: x.var(2), 2),
    "windows": (lambda x: F.adaptive_avg_pool2d(x, (2, 2)), 2),
    "max windows": (lambda x: F.adaptive_max_pool2d(x, (2, 2)), 2),
    "clamp": (lambda x: x.clamp(max=x.shape[0]), 0),
    "full": (lambda x: torch.full((x.shape[0], 1, 1, 1), 2.0) + x, 0),
    "arange": (lambda x: x + torch.arange(x.shape[3]), 3),
    "slice": (lambda x: x[:, :, : x.shape[2] - 1], 2),
    "slice of another": (lambda x: x[:, :, :, : x.shape[0] // 2], 0),
    "roll": (lambda x: x.roll(1, 2), 2),
    "causal": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), 2),
    "triangle": (torch.tril, 2),
    "resize": (lambda x: F.interpolate(x, (5, 11)), 2),
}


@pytest.mark.parametrize("name", GOOD)
def test_every_extent_gives_what_torch_gives(name: str) -> None:
    function, axes = GOOD[name]
    proto = _spelled(function, _random(BOUND, 4, BOUND, BOUND), axes)
    for count in (BOUND, 6, 4):
        x = _random(*(count if axis in axes else n for axis, n in enumerate((BOUND, 4, BOUND, BOUND))))
        want = function(x).numpy()
        got = _run(proto, x, axes)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BAD)
def test_the_number_of_a_free_extent_is_refused(name: str) -> None:
    function, axis = BAD[name]
    with pytest.raises(CompileError, match="extent that is free"):
        _spelled(function, _random(BOUND, 4, BOUND, BOUND), (axis,))
