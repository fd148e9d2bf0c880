"""Golden functions: called and judged, for tests of layers and for models with such layers in them."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from firmware_sim.errors import SourceError
from user_layers.params import ParamTypes
from user_layers.testing.cases import Array, Golden, Param
from user_layers.testing.collect import LayerTest, is_layer_test, load_test
from user_layers.testing.compare import difference

if TYPE_CHECKING:
    from user_layers.net.nodes import LayerNode
    from user_layers.workspace import Workspace


class GoldenError(Exception):
    """A golden function that fails, or returns something else than arrays; the text says which."""


def call_golden(golden: Golden, arrays: Sequence[Array], param: Param) -> list[Array]:
    """What golden says of these inputs, which it may change. Raises GoldenError."""
    try:
        found = golden([x.copy() for x in arrays], param)
    except Exception as e:
        frame = traceback.extract_tb(e.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        raise GoldenError(f"golden failed at {place}: {type(e).__name__}: {e}") from e
    if not isinstance(found, (list, tuple)) or not all(isinstance(y, np.ndarray) for y in found) or not found:
        given = "an array" if isinstance(found, np.ndarray) else type(found).__name__
        raise GoldenError(f"golden returned {given}; it returns a list with an array for each output: [y]")
    return list(found)


class WorkspaceGoldens:
    """The golden functions of a workspace's layers, from their tests."""

    def __init__(self, ws: Workspace) -> None:
        self._ws = ws
        self._types = ParamTypes.from_record(ws.layer_record)
        self._tests: dict[str, LayerTest | None] = {}

    def expected(self, layer: LayerNode, inputs: list[Array]) -> list[Array] | None:
        """What the layer's golden function makes of these inputs; None where it has no test.

        Errors: SourceError for a test that cannot be loaded, or whose golden function fails."""
        test = self._test(layer)
        if test is None:
            return None
        try:
            return call_golden(test.golden, inputs, self._types.param_values(layer.op.op, layer.param))
        except GoldenError as error:
            raise SourceError(
                f"{test.path}: {error}", hint="mend it, or leave the comparison out with --no-check"
            ) from None

    def difference(self, layer: LayerNode, got: Sequence[Array], want: Sequence[Array]) -> str:
        """How results differ from golden's, by the widest tolerance of the test's cases; "" where not."""
        test = self._test(layer)
        assert test is not None
        if len(got) != len(want):
            return f"the layer gives {len(got)} outputs, golden {len(want)}"
        atol, rtol = (_widest([getattr(case, name) for case in test.cases]) for name in ("atol", "rtol"))
        for mine, golden in zip(got, want, strict=True):
            if mine.shape != golden.shape or mine.dtype != golden.dtype:
                return (
                    f"the layer gives {list(mine.shape)} {mine.dtype}, golden {list(golden.shape)} "
                    f"{golden.dtype}"
                )
            if (unequal := difference(mine, golden, atol, rtol)) is not None:
                return str(unequal)
        return ""

    def _test(self, layer: LayerNode) -> LayerTest | None:
        name = layer.op.short.lower()
        if name not in self._tests:
            path = self._ws.tests_dir / f"test_{name}.py"
            self._tests[name] = load_test(path) if path.is_file() and is_layer_test(path) else None
        return self._tests[name]


def _widest(tolerances: Sequence[float | None]) -> float | None:
    return max((one for one in tolerances if one is not None), default=None)
