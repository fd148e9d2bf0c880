"""Running something for its profile: a kernel, the nets of a bmodel, a model, the tests of layers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from firmware_sim.device.trace import traced
from firmware_sim.errors import UsageError
from user_layers.bmrt.check_model import CheckOptions
from user_layers.profile.model import Profile
from user_layers.profile.trace import profile_of

Step = Callable[[str], None]
"""Gets a text when each step begins."""


class Run:
    """What `profiled` gives; `profile` is there when its block has ended."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """UsageError before the end of the block."""
        if self._profile is None:
            raise UsageError("a profile is complete when its `with profiled()` block has ended")
        return self._profile

    @profile.setter
    def profile(self, made: Profile) -> None:
        self._profile = made


@contextmanager
def profiled(what: str = "") -> Iterator[Run]:
    """Everything that the devices of this process execute in the block, as a profile.

    what: names it, by default its first launch. Errors: UsageError inside another such block.
    """
    run = Run(what)
    with traced() as trace:
        yield run
    run.profile = profile_of(trace.requests, what)


@dataclass(frozen=True)
class KernelWords:
    """A kernel in the words of `tpulayer run_kernel`."""

    sources: Sequence[Path]
    name: str
    args: Sequence[str] = ()
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    struct: str | None = None
    includes: Sequence[Path] = ()
    firmware: str | None = None


def kernel(words: KernelWords) -> Profile:
    """Of one launch. Errors: those of run_kernel."""
    from user_layers.kernels.words import run

    with profiled(f"kernel {words.name}") as found:
        run(
            words.sources,
            words.name,
            words.args,
            words.inputs,
            words.outputs,
            words.struct,
            words.includes,
            as_json=False,
            kind=words.firmware,
            on_findings=lambda _: None,
        )
    return found.profile


def bmodel(options: CheckOptions, name: str = "") -> Profile:
    """Of one run of each net and stage, as `tpulayer check` runs them. name: what to call it. Errors: those
    of check_model.run."""
    from user_layers.bmrt.check_model import run

    with profiled(name or str(options.model)) as found:
        for _ in run(options):
            pass
    return found.profile


@dataclass(frozen=True)
class ModelWords:
    """A model in the words of `tpulayer compile`."""

    path: Path
    weight: Path | None = None
    shapes: Sequence[str] = ()
    opt: int = 2
    dynamic: bool = False
    custom: Sequence[str] = ()


def model(words: ModelWords, options: CheckOptions, step: Step) -> Profile:
    """Compiled into a temporary folder and run once. options: of the run; their model does not count."""
    from user_layers.formats import in_onnx
    from user_layers.onnx.command import CompileOptions, parse_shapes, run

    shapes = parse_shapes(words.shapes)
    proto, source = in_onnx(words.path, weight=words.weight, shapes=shapes)
    with tempfile.TemporaryDirectory(prefix="tpulayer-profile-") as folder:
        run(
            CompileOptions(
                words.path,
                Path(folder),
                words.dynamic,
                tuple(words.shapes),
                words.opt,
                tuple(words.custom),
                check=False,
                proto=proto if source is not None else None,
                source=source,
            ),
            lambda _: None,
            step=step,
        )
        step(f"running {words.path.name}")
        return bmodel(replace(options, model=Path(folder)), str(words.path))


def tests(names: Sequence[str], firmware: str | None, step: Step, wrong: Step) -> Profile:
    """Of the cases of layers' tests, in all their modes. wrong: gets a line for each case that is not equal.
    firmware: native, the usual one, or arm. Errors: those of `tpulayer test`; UsageError for a firmware that
    is not built."""
    from user_layers.testing.collect import find_tests, load_test
    from user_layers.testing.run import check_built, open_toolkits, run_cases
    from user_layers.workspace import Workspace

    ws = Workspace.find()
    paths = find_tests(ws, names)
    check_built(ws)
    kind = firmware or "native"
    with open_toolkits(ws) as toolkits, traced() as trace:
        if kind not in toolkits:
            raise UsageError(f"--firmware {kind}: layers are tested on {' and '.join(toolkits)}")
        named = 0
        for path in paths:
            test = load_test(path)
            step(f"{test.name}: {len(test.cases)} cases")
            for result in run_cases(ws, {kind: toolkits[kind]}, test.name, test.golden, test.cases):
                if result.problem:
                    wrong(f"{test.name} {result}")
                what = f"{test.name} {result.case}: {result.mode}"
                trace.requests[named:] = [replace(one, what=what) for one in trace.requests[named:]]
                named = len(trace.requests)
    layers = ", ".join(path.stem.removeprefix("test_") for path in paths)
    return profile_of(trace.requests, f"the tests of {layers}")
