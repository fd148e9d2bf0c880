"""The tests of a workspace's layers: which files they are, and what is in them."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.errors import SourceError, TpulayerError, UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.files import run_python
from user_layers.testing.cases import Case, Golden
from user_layers.workspace import Workspace

Range = tuple[float, float] | list[Any]
RandomCase = Callable[[np.random.Generator], Case]


@dataclass(frozen=True)
class LayerTest:
    """tests/test_NAME.py: the layer's name and the file's parts `golden` and `CASES`; for `tpulayer verify`
    also `RANGES` and `random_case`, where it has them.

    ranges: of fields of the parameter struct what they may be, (least, most) or a list of values.
    random_case: makes one of the cases that the layer is for.
    """

    name: str
    path: Path
    golden: Golden
    cases: tuple[Case, ...]
    ranges: Mapping[str, Range] = field(default_factory=dict)
    random_case: RandomCase | None = None


def find_tests(ws: Workspace, names: Sequence[str]) -> list[Path]:
    """The files of the named layers' tests; without names all those of tests/test_*.py (`is_layer_test`).

    Errors: UsageError for a name without a test, and when there are none at all; SourceError for a file that
    is not Python.
    """
    found = {path.stem.removeprefix("test_"): path for path in sorted(ws.tests_dir.glob("test_*.py"))}
    if names:
        for name in names:
            if name not in found:
                raise _no_test(ws, name, [n for n, path in found.items() if is_layer_test(path)])
        return [found[name] for name in dict.fromkeys(names)]
    tests = [path for path in found.values() if is_layer_test(path)]
    if not tests:
        raise UsageError(
            f"{ws.tests_dir} holds no test of a layer",
            hint="add_layer writes tests/test_NAME.py for a new layer; docs/writing-layers.md shows one",
        )
    return tests


def load_test(path: Path) -> LayerTest:
    """Run the file and take its parts. SourceError when it fails or lacks one."""
    name = path.stem.removeprefix("test_")
    with _beside(path.parent):
        try:
            module = run_python(path, f"tpulayer_test_{name}")
        except TpulayerError as e:  # a Case that means nothing
            raise SourceError(f"{_place(path, e)}: {e.message}", hint=e.hint) from e
        except Exception as e:
            raise SourceError(f"{_place(path, e)}: {type(e).__name__}: {e}") from e
    golden, cases = getattr(module, "golden", None), getattr(module, "CASES", None)
    if not callable(golden):
        raise SourceError(f"{path}: there is no function golden(inputs, param)", hint=_ANATOMY)
    if not isinstance(cases, (list, tuple)) or not cases or not all(isinstance(c, Case) for c in cases):
        raise SourceError(f"{path}: CASES is not a list of Case(...)", hint=_ANATOMY)
    ranges, random_case = getattr(module, "RANGES", {}), getattr(module, "random_case", None)
    if not isinstance(ranges, dict) or not all(map(_is_range, ranges.values())):
        raise SourceError(f"{path}: RANGES is not a dict of (least, most) or lists of values", hint=_MORE)
    if random_case is not None and not callable(random_case):
        raise SourceError(f"{path}: random_case is not a function", hint=_MORE)
    return LayerTest(name, path, golden, tuple(cases), ranges, random_case)


def _is_range(value: object) -> bool:
    if isinstance(value, list):
        return bool(value)
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(x, (int, float)) for x in value)
        and value[0] <= value[1]
    )


_MORE = 'RANGES = {"factor": (0.1, 4.0), "axis": [0, 1]} and random_case(rng) -> Case, see docs/verify.md'
_ANATOMY = "a layer's test has golden(inputs, param) and CASES = [Case(...), ...], see docs/writing-layers.md"


def _no_test(ws: Workspace, name: str, known: Sequence[str]) -> UsageError:
    layers = sorted(path.stem.removeprefix("bm_device_") for path in ws.device_dir.glob("bm_device_*.c"))
    if name in layers:
        missing = ws.tests_dir / f"test_{name}.py"
        return UsageError(f"the layer {name} has no test: {missing} is missing", hint=_ANATOMY)
    return UsageError(
        f"there is no layer {name} and no test of it{did_you_mean(name, [*known, *layers])}",
        hint=f"the tests are {', '.join(known) or 'none'}",
    )


def is_layer_test(path: Path) -> bool:
    """Whether a file defines `golden` and speaks of check_layer: the folder may hold other tests, too.

    SourceError for one that does and is not Python.
    """
    text = path.read_text(encoding="utf-8")
    if "def golden(" not in text or "check_layer" not in text:
        return False
    try:
        body = ast.parse(text).body
    except SyntaxError as e:
        raise SourceError(f"{path}:{e.lineno}: SyntaxError: {e.msg}") from e
    return any(isinstance(node, ast.FunctionDef) and node.name == "golden" for node in body)


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """A file may import others beside it, as under pytest."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _place(path: Path, error: Exception) -> str:
    """file:line of the test's own code that failed."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)
