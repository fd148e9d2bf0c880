"""ExecuTorch's own tests of backends, with ours: python -m tests.executorch_suite operators|models [WORDS]

WORDS are pytest's. Prints how many tests there are of each result, what failed and why. Needs ExecuTorch with
what its tests use (pytest, pandas, torchao); `models` needs torchvision.
"""

from __future__ import annotations

import collections
import importlib.util
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


class _Results:
    """A plugin that keeps what the suite's runner says of each test."""

    def __init__(self) -> None:
        self.summaries: list[Any] = []

    def keep(self, run: Any) -> Any:
        def kept(*words: Any, **named: Any) -> Any:
            found = run(*words, **named)
            self.summaries.append(found)
            return found

        return kept

    def lines(self) -> list[str]:
        results = collections.Counter(summary.result.name for summary in self.summaries)
        whole = sum(
            1
            for summary in self.summaries
            if summary.result.name == "SUCCESS" and not sum((summary.undelegated_op_counts or {}).values())
        )
        lines = [f"{count} {name}" for name, count in sorted(results.items())]
        lines.append(f"{whole} of the successes entirely delegated")
        for summary in self.summaries:
            if summary.result.name not in ("SUCCESS", "SUCCESS_UNDELEGATED", "SKIPPED"):
                text = " ".join(str(summary.error).split())[:300]
                lines.append(f"{summary.name} {summary.params or ''}: {summary.result.name}: {text}")
        return lines


def _flow() -> Any:
    from executorch.backends.test.harness import Tester
    from executorch.backends.test.harness import stages as base
    from executorch.backends.test.harness.stages import StageType
    from executorch.backends.test.suite.flow import TestFlow
    from executorch.exir import EdgeCompileConfig

    from tpulayer.executorch import TpuLayerPartitioner, load_backend

    load_backend()

    class Lower(base.ToEdgeTransformAndLower):  # type: ignore[misc]
        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__(
                default_partitioner_cls=TpuLayerPartitioner,
                edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )

    def tester(module: Any, inputs: Any, **named: Any) -> Any:
        classes = Tester.default_stage_classes() | {StageType.TO_EDGE_TRANSFORM_AND_LOWER: Lower}
        return Tester(module=module, stage_classes=classes, example_inputs=inputs, **named)

    return TestFlow("tpulayer", backend="tpulayer", tester_factory=tester)


def main(words: list[str]) -> int:
    """Run one suite; 0 if nothing failed."""
    warnings.simplefilter("ignore")
    name = "torchvision._meta_registrations"  # of its compiled operators, which may not be there
    sys.modules.setdefault(name, ModuleType(name))
    from executorch.backends.test.suite import flow, runner

    ours, results = _flow(), _Results()
    flow.all_flows = lambda: {ours.name: ours}
    runner.run_test = results.keep(runner.run_test)
    found = importlib.util.find_spec("executorch.backends.test.suite")
    assert found is not None and found.origin is not None
    folder = Path(found.origin).parent / (words[0] if words else "operators")
    code = pytest.main(
        [
            "-q",
            "--tb=no",
            "-c",
            "/dev/null",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore",
            str(folder),
            *words[1:],
        ],
        plugins=[results],
    )
    print("\n".join(results.lines()))
    return int(code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
