"""Networks that nobody tuned the delegate to, through the wheel's own converter, in both formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.mindspore.networks import NETWORKS, write_network
from user_layers.mindir import read_model
from user_layers.mindspore.command import difference, random_array
from user_layers.mindspore.programs import Programs
from user_layers.mindspore.run import Job, Ran, convert, run_jobs
from user_layers.spelling.foreign import Array

_AIM = 1e-4
_TYPES = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
_STAYS: dict[str, list[str]] = {}  # what of a network does not run on the device


def _feeds(path: Path) -> dict[str, Array]:
    model, rng = read_model(path), np.random.default_rng(0)
    found = {}
    for name in model.inputs:
        tensor = model.tensors[name]
        assert tensor.dtype is not None
        found[name] = random_array(rng, tensor.shape, tensor.dtype)
    return found


def _last(array: Array, shape: Sequence[int]) -> Array:
    """An array of four axes as the other format has them, where its shape says so."""
    if array.shape == tuple(shape) or array.ndim != 4:
        return array
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2))


def _onnx(path: Path, feeds: dict[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(str(path))
    given = {i.name: _last(feeds[i.name], i.shape).astype(_TYPES[i.type]) for i in session.get_inputs()}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.parametrize("kind", ["ms", pytest.param("mindir", marks=pytest.mark.slow)])
def test_networks_run_on_the_device_and_give_what_the_frameworks_kernels_give(
    programs: Programs, tmp_path: Path, kind: str
) -> None:
    """Against onnxruntime too, which has no fast approximations of functions."""
    sources = [write_network(name, tmp_path) for name in NETWORKS]
    models = [path.with_suffix(f".{kind}") for path in sources]
    assert all(convert(programs, dict(zip(sources, models, strict=True))))
    feeds = [_feeds(path) for path in models]
    ours = run_jobs(
        programs, [Job(path, feed, delegate="") for path, feed in zip(models, feeds, strict=True)]
    )
    plain = run_jobs(programs, [Job(path, feed) for path, feed in zip(models, feeds, strict=True)])
    wrong = []
    for source, feed, one, other in zip(sources, feeds, ours, plain, strict=True):
        name = source.stem
        if not isinstance(one, Ran):
            wrong.append(f"{name}: {one}")
            continue
        want = _onnx(source, feed)
        got = {key: _last(one.outputs[key], array.shape) for key, array in want.items()}
        away = difference(want, got)
        if isinstance(other, Ran):
            away = max(away, difference(other.outputs, one.outputs))
        elif name != "group_norm":  # of three axes, which its kernel does not take
            wrong.append(f"{name}: the framework says {other}")
        stays = [kept for kept, _, _ in one.kept]
        if away > _AIM or stays != _STAYS.get(name, []):
            wrong.append(f"{name}: differs by {away:.1e}, stays: {one.kept}")
    assert not wrong, "\n".join(wrong)
