"""The onnx package's own backend tests on this compiler and, to compare with, on onnxruntime.

    python -m tests.onnx_backend [--family node] [--only TEXT] [--reasons] [--write]

For each family: how many tests pass with every layer on the TPU, how many with a part on the CPU, how many
without any layer because all is known when compiling, how many are refused because the device holds no value
of an input's or output's type, and how many fail. Comparison and tolerance are the onnx package's.
tests/onnx_backend_onnxruntime.txt lists the tests that onnxruntime itself fails, with its reasons; --write
writes it again. Exit code 1 when a test fails that onnxruntime passes, or when that list is out of date.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from firmware_sim.errors import TpulayerError
from tests.support.workspaces import builtin_toolkit
from user_layers.onnx import apart
from user_layers.onnx.backend import PreparedModel, prepare, unheld
from user_layers.runtime.onnx_session import first_line
from user_layers.toolkit import Toolkit

FAMILIES = ("node", "simple", "pytorch-converted", "pytorch-operator")
LIST = Path(__file__).parent / "onnx_backend_onnxruntime.txt"
OUTCOMES = ("TPU", "TPU and CPU", "CPU", "known", "refused", "failed")
NEWEST_IR = 13  # of onnxruntime 1.31.1; models of a newer one are given to it under this number


@dataclass(frozen=True)
class Case:
    """A test: a model, and pairs of inputs and wanted outputs."""

    family: str
    name: str
    model: Any
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    @property
    def float32(self) -> bool:
        """Whether it computes with float32: its inputs and outputs have it, and only device types beside."""
        infos = (*self.model.graph.input, *self.model.graph.output)
        kinds = {info.type.tensor_type.elem_type for info in infos if info.type.HasField("tensor_type")}
        return onnx.TensorProto.FLOAT in kinds and unheld(self.model) is None


@dataclass(frozen=True)
class Outcome:
    """kind: one of OUTCOMES. why: reasons for nodes on the CPU, a refusal or a failure."""

    kind: str
    why: tuple[str, ...] = ()


def cases(family: str) -> Iterator[Case]:
    """The tests of a family, in the onnx package's order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # making the node tests divides by zero
        tests = load_model_tests(kind=family)
    for test in tests:
        if test.model_dir is None:
            sets = [(list(given), list(wanted)) for given, wanted in test.data_sets]
            yield Case(family, test.name, test.model, sets, test.rtol, test.atol)
        else:
            model = onnx.load(str(Path(test.model_dir) / "model.onnx"))
            folders = sorted(Path(test.model_dir).glob("test_data_set*"))
            yield Case(family, test.name, model, [_stored(f, model) for f in folders], test.rtol, test.atol)


def _stored(folder: Path, model: Any) -> tuple[list[Any], list[Any]]:
    reader = Runner.__new__(Runner)  # its reading of files, without collecting all tests
    both: tuple[list[Any], list[Any]] = ([], [])
    for kind, infos, into in (
        ("input", model.graph.input, both[0]),
        ("output", model.graph.output, both[1]),
    ):
        for i in range(len(list(folder.glob(f"{kind}_*.pb")))):
            reader._load_proto(str(folder / f"{kind}_{i}.pb"), into, infos[i].type)
    return both


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _agree(case: Case, wanted: list[Any], got: Any) -> None:
    """Raises AssertionError as the onnx package's runner does."""
    Runner.assert_similar_outputs([_plain(v) for v in wanted], list(got), case.rtol, case.atol)


def attempt(case: Case, toolkit: Toolkit, **options: Any) -> Outcome:
    """One test on this compiler."""
    value = unheld(case.model)
    if value is not None:
        return Outcome("refused", (f"an input or output is {value.what}",))
    try:
        prepared: PreparedModel = prepare(case.model, toolkit=toolkit, **options)
        for given, wanted in case.sets:
            _agree(case, wanted, prepared.run([_plain(v) for v in given]))
    except TpulayerError as error:
        return Outcome("failed", (error.message,))
    except AssertionError as error:
        return Outcome("failed", (first_line(error),))
    built = prepared.built
    assert built is not None
    if built.on_cpu:
        tpu = any(node.cpu is None for node in built.graph.nodes)
        return Outcome("TPU and CPU" if tpu else "CPU", tuple(built.on_cpu))
    computed = any(not part.on_cpu and part.nodes for part in built.parts)
    return Outcome("TPU" if computed else "known")


def onnxruntime_fails(case: Case) -> str:
    """Why onnxruntime fails a test; "" where it passes."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, NEWEST_IR)
    try:
        constants = {tensor.name for tensor in model.graph.initializer}
        names = [value.name for value in model.graph.input if value.name not in constants]
        data = model.SerializeToString()
        for given, wanted in case.sets:
            feeds = dict(zip(names, map(_plain, given), strict=False))
            _agree(case, wanted, apart.run_model(data, feeds))
    except (TpulayerError, AssertionError, TypeError) as error:
        return first_line(error)[:90]
    return ""


def known_failures() -> dict[str, str]:
    """The list: "family/name" of what onnxruntime fails, and why."""
    lines = [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]
    return {name: why for name, _, why in (line.partition("\t") for line in lines)}


def _write(failures: dict[str, str]) -> None:
    import onnxruntime

    head = f"# Tests of onnx {onnx.__version__} that onnxruntime {onnxruntime.__version__} itself fails.\n"
    LIST.write_text(head + "".join(f"{name}\t{why}\n" for name, why in failures.items()))


def _short(why: str) -> str:
    """A reason without the names of nodes and values: "Pad: its input '' is computed"."""
    title, _, text = why.partition(": ")
    plain = re.sub("'[^']*'", "''", text)
    return f"{title.split()[0]}: {plain}"[:100]


def _table(counts: dict[str, collections.Counter[str]]) -> str:
    columns = (*OUTCOMES[:-1], "failed", "failed, as onnxruntime")
    rows = [["family", *columns, "all"]]
    for family, found in counts.items():
        rows.append([family, *(str(found[c]) for c in columns), str(sum(found.values()))])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(text.rjust(w) for text, w in zip(row, widths, strict=True)) for row in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", action="append", choices=FAMILIES)
    parser.add_argument("--only", default="", help="tests whose name holds this text")
    parser.add_argument("--reasons", action="store_true", help="why float32 tests have nodes on the CPU")
    parser.add_argument("--write", action="store_true", help="write the list of onnxruntime's failures")
    parser.add_argument("--names", choices=OUTCOMES, help="list the tests with this outcome")
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--opt", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    counts: dict[str, collections.Counter[str]] = {}
    reasons: collections.Counter[str] = collections.Counter()
    failures: dict[str, str] = {}
    bad = []
    with builtin_toolkit() as toolkit:
        for family in given.family or FAMILIES:
            found = counts.setdefault(family, collections.Counter())
            floats = counts.setdefault(f"{family}, float32", collections.Counter())
            for case in cases(family):
                if given.only not in case.name:
                    continue
                outcome = attempt(case, toolkit, dynamic=given.dynamic, opt=given.opt)
                theirs = onnxruntime_fails(case)
                kind = outcome.kind
                if theirs:
                    failures[f"{family}/{case.name}"] = theirs
                    kind = "failed, as onnxruntime" if kind == "failed" else kind
                elif kind == "failed":
                    bad.append(f"{family}/{case.name}: {outcome.why[0]}")
                found[kind] += 1
                if case.float32:
                    floats[kind] += 1
                    reasons.update({_short(why) for why in outcome.why if kind != "failed"})
                if given.names == outcome.kind:
                    print(f"{family}/{case.name}: {'; '.join(outcome.why)[:300]}")
    print(_table(counts))
    print(f"{time.perf_counter() - start:.0f} s")
    if given.reasons:
        print("\n".join(f"{count:5}  {reason}" for reason, count in reasons.most_common(200)))
    print("\n".join(f"FAILED {line}" for line in bad) or "none fails that onnxruntime passes")
    if given.only or given.family:
        return int(bool(bad))
    if given.write:
        _write(failures)
    stale = set(failures) ^ set(known_failures())
    if stale:
        print(f"{LIST.name} is out of date: {', '.join(sorted(stale))}")
    return int(bool(bad or stale))


if __name__ == "__main__":
    sys.exit(main())
