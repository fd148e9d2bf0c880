"""Running a layer's cases: by itself in DDR, between other layers in local memory, dynamically; on each
firmware."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.checks.merged import merged
from firmware_sim.checks.rules import limit
from firmware_sim.checks.text import report, summary
from firmware_sim.device.current_trace import telling
from firmware_sim.device.findings import together
from firmware_sim.errors import MissingError, TpulayerError, UsageError
from firmware_sim.firmware.image import TCM_NAME, Kind
from firmware_sim.suggest import did_you_mean
from user_layers.net.nodes import called
from user_layers.testing.cases import Array, Case, Golden, Param, Shapes
from user_layers.testing.compare import Difference
from user_layers.testing.golden import GoldenError, call_golden
from user_layers.testing.nets import CaseNet, Wrong, has_denormals, where_of
from user_layers.workspace import WORKSPACE_VARIABLE, Workspace, check_installed

if TYPE_CHECKING:
    from firmware_sim.checks.finding import Finding
    from user_layers.api import Graph
    from user_layers.net.ops import OpInfo
    from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Result:
    """What came of one case in one mode on one firmware.

    ok: everything equal; elements: how many were compared; where: what the compiler did with the layer;
    problem: why it is not ok, and the difference when it is one. findings: of the checks; ok only where none
    is more than advice.
    """

    case: str
    mode: str
    firmware: str
    ok: bool
    elements: int = 0
    where: str = ""
    problem: str = ""
    difference: Difference | None = None
    findings: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        """One line for people."""
        head = f"{self.case}: {self.mode}, {self.firmware}: "
        if self.ok:
            return f"{head}{self.elements} elements equal ({self.where})"
        where = f" ({self.where})" if self.where else ""
        if not self.problem:
            return f"{head}{self.elements} elements equal, but {summary(self.findings)}{where}"
        return f"{head}{'' if self.difference is not None else 'FAILED: '}{self.problem}{where}"


def check_built(ws: Workspace) -> None:
    """Refuse a workspace that is not built, or whose layers have changed since. MissingError."""
    from firmware_sim.firmware.sanitized import sanitized
    from user_layers.toolchain import manifest
    from user_layers.toolchain.targets import manifest_path

    for path in (ws.firmware, ws.local_plugin, ws.layer_record):
        check_installed(path)
    state = manifest_path(ws, sanitized(ws.firmware) is not None)
    if manifest.is_building(state):
        raise MissingError(
            f"the last build of {ws.root} did not come to its end, so what would be tested is an older one",
            hint="run `build_layers`, and mend what it names",
        )
    changed = manifest.changed_files(state)
    folders = [
        ws.device_dir,
        ws.host_dir,
        ws.include_dir,
        *([ws.bmkernel] if ws.bmkernel is not None else []),
    ]
    for path in sorted(changed):
        if path.suffix and any(folder in path.parents for folder in folders):
            raise MissingError(
                f"{path} has changed since the last build, so what would be tested is the old one",
                hint="run `build_layers`",
            )


def built_firmware(ws: Workspace, only: Kind | None = None) -> dict[str, Path]:
    """What the workspace's own build holds, by firmware: `native`, and `arm` where its images are installed.
    only: one of them, MissingError when it is not there.

    What BMRUNTIME_FIRMWARE_PATH, BMCOMPILER_PLUGIN_PATH or a recorded pair say does not matter here.
    """
    images: dict[str, Path] = {"native": ws.firmware, "arm": ws.firmware.with_name(TCM_NAME)}
    if only is not None:
        check_installed(images[only])
        return {only: images[only]}
    return {kind: path for kind, path in images.items() if kind == "native" or path.is_file()}


@contextmanager
def open_toolkits(ws: Workspace, images: Mapping[str, Path] | None = None) -> Iterator[dict[str, Toolkit]]:
    """Toolkits with these firmwares, by default those of `built_firmware`."""
    from user_layers.plugin import PluginHost
    from user_layers.toolchain import builtin_artifacts
    from user_layers.toolkit import Toolkit

    images = built_firmware(ws) if images is None else images
    with ExitStack() as stack:
        plugins = [builtin_artifacts().plugin, ws.local_plugin]
        yield {
            kind: stack.enter_context(Toolkit(ws, firmware=str(path), plugins=PluginHost(plugins)))
            for kind, path in images.items()
        }


def run_cases(
    ws: Workspace, toolkits: dict[str, Toolkit], name: str, golden: Golden, cases: Sequence[Case]
) -> Iterator[Result]:
    """The results of a layer's cases, one after the other. name: the layer's, as add_layer took it.

    Errors: UsageError when there is no such layer; MissingError when the build does not hold it. What a case
    finds is not an error.
    """
    from user_layers.params import ParamTypes

    op = op_of(ws, next(iter(toolkits.values())), name)
    types = ParamTypes.from_record(ws.layer_record)
    for case in cases:
        for kind, toolkit in toolkits.items():
            for mode in case.modes:
                one = _One(toolkit, op, golden, case)
                problem, found = "", None
                findings: list[Finding] = []
                place = called(f"test_{name}.py, {case}")  # not where this runs from
                with telling(label=f"{name} {case}: {mode}, {kind}") as verdict, place:
                    try:
                        one.param = types.param_values(op.op, types.param_bytes(op.op, case.param))
                        with together(on_findings=findings.extend):
                            if mode == "dynamic":
                                one.dynamic()
                            else:
                                one.static(int(mode[-1]))
                    except Wrong as e:
                        problem, found = e.problem, e.found
                    except MissingError:
                        raise
                    except TpulayerError as e:
                        problem = f"{e.message} ({e.hint})" if e.hint else e.message
                    verdict.problem = problem
                wrong = tuple(merged(findings))
                good = not problem and all(finding.about.advice for finding in wrong)
                yield Result(str(case), mode, kind, good, one.elements, one.where, problem, found, wrong)


def check_layer(name: str, golden: Golden, cases: Sequence[Case]) -> None:
    """Run a layer's cases in the built workspace that holds the file of `golden` (or that TPULAYER_WORKSPACE
    names); for tests. AssertionError with a line for every case that is not equal; MissingError when the
    workspace is not built."""
    __tracebackhide__ = True
    named = os.environ.get(WORKSPACE_VARIABLE)
    ws = Workspace.find() if named else Workspace.find(Path(golden.__code__.co_filename).parent)
    check_built(ws)
    with open_toolkits(ws) as toolkits:
        results = list(run_cases(ws, toolkits, name, golden, cases))
    wrong = [str(result) for result in results if not result.ok]
    if seen := merged(finding for result in results if not result.ok for finding in result.findings):
        wrong += ["", report(seen, limit(None))]
    if wrong or not results:
        bad = sum(not result.ok for result in results)
        raise AssertionError("\n".join([f"{name}: {bad} of {len(results)} are not equal", *wrong]))


def op_of(ws: Workspace, toolkit: Toolkit, name: str) -> OpInfo:
    """A layer of the workspace by its short name. Errors: as of `run_cases`."""
    for info in toolkit.ops.values():
        if info.short.lower() == name and not info.is_builtin:
            return info
    if (ws.device_dir / f"bm_device_{name}.c").is_file():
        raise MissingError(f"{ws.root} was built without the layer {name}", hint="run `build_layers`")
    known = [info.short.lower() for info in toolkit.ops.values() if not info.is_builtin]
    raise UsageError(
        f"{ws.root} has no layer {name}{did_you_mean(name, known)}",
        hint=f"a test is named after its layer; there are {', '.join(known) or 'none'}",
    )


class _One:
    """A case on one firmware."""

    def __init__(self, toolkit: Toolkit, op: OpInfo, golden: Golden, case: Case) -> None:
        self.golden, self.case = golden, case
        self.net = CaseNet(toolkit, op, case)
        self.param: Param = {}
        self.where = ""
        self.elements = 0

    def static(self, opt: int) -> None:
        """opt 1 and 2: other layers stand around it, so that it runs in local memory where it can (1), or
        where that is faster (2)."""
        arrays = self.case.arrays(salt=1 + opt)
        want = self._expected(arrays)
        graph = self.net.graph(arrays, len(want), around=opt > 0, exact=has_denormals([*arrays, *want]))
        self.where = where_of(graph.compile(opt=opt), "tested")
        self._compare(graph, arrays, want)

    def dynamic(self) -> None:
        """Compiled dynamically; run with the shapes compiled for, and with smaller ones."""
        case = self.case
        arrays = case.arrays()
        want = self._expected(arrays)
        graph = self.net.graph(arrays, len(want))
        stage = graph.compile(dynamic=True).stages[0]
        self.where = f"compiled for {_listed(case.shapes) or 'these shapes'}"
        self._compare(graph, arrays, want)

        smaller = case.halved(stage.may_change) if case.smaller is None else case.smaller
        for shapes in smaller:
            text = _listed(shapes)
            try:
                arrays = case.arrays(shapes)
                self._compare(graph, arrays, self._expected(arrays))
            except Wrong as e:
                raise Wrong(f"with {text}: {e.problem}", e.found) from e
            except TpulayerError as e:
                hint = "Case(..., smaller=[...]) says which shapes to try, smaller=[] none"
                raise Wrong(f"with {text}: {e.message} ({hint})") from e
        if smaller:
            self.where += f", also with {' and '.join(map(_listed, smaller))}"

    def _compare(self, graph: Graph, arrays: list[Array], want: list[Array]) -> None:
        """Run, and count what is equal."""
        expected = dict(zip(graph.outputs, self.net.results(graph, want), strict=True))
        with telling(expected=expected):
            made = graph.run(self.net.feeds(graph, arrays))
        self.elements += self.net.compare(graph, made, want)

    def _expected(self, arrays: list[Array]) -> list[Array]:
        """What golden says, checked."""
        try:
            return call_golden(self.golden, arrays, self.param)
        except GoldenError as e:
            raise Wrong(str(e)) from e


def _listed(shapes: Shapes) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
