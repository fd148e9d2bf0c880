"""Running models in LiteRT with and without the TPU, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from user_layers.delegates.counters import Counters
from user_layers.delegates.litert import LiteRtModel, counters
from user_layers.spelling.foreign import Array


def run(path: Path, inputs: dict[str, Array], *, tpu: bool = True) -> tuple[dict[str, Array], Counters]:
    """The outputs, and what the device did for them."""
    before = counters()
    with LiteRtModel(path, tpu=tpu) as model:
        made = model.run(inputs)
    return made, since(before)


def since(before: Counters) -> Counters:
    """What the device has done after `before` was read."""
    after = counters()
    for name, *_ in Counters._fields_:
        setattr(after, name, getattr(after, name) - getattr(before, name))
    return after


def image(size: tuple[int, ...]) -> dict[str, Array]:
    """Random values of an input called `image`."""
    return {"image": np.random.default_rng(1).uniform(-1, 1, size).astype(np.float32)}


def random_inputs(model: LiteRtModel, below: int = 20) -> dict[str, Array]:
    """Random values of all inputs; whole numbers are 0 to below - 1."""
    rng = np.random.default_rng(0)
    return {
        name: rng.uniform(-1, 1, shape).astype(dtype)
        if dtype.kind == "f"
        else rng.integers(0, below, shape).astype(dtype)
        for name, (shape, dtype) in model.inputs.items()
    }


def assert_close(got: dict[str, Array], want: dict[str, Array]) -> None:
    """Outputs that differ by 1e-4 of their largest value at most; whole numbers do not differ."""
    assert got.keys() == want.keys()
    for name, array in want.items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(
                got[name], array, rtol=0, atol=1e-4 * max(np.abs(array).max(), 1e-6), err_msg=name
            )
        else:
            np.testing.assert_array_equal(got[name], array, err_msg=name)
