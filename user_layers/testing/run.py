"""Running a layer's cases: by itself in DDR, between other layers in local memory, dynamically; on each
firmware."""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from firmware_sim.checks.merged import merged
from firmware_sim.checks.rules import limit
from firmware_sim.checks.text import report, summary
from firmware_sim.device.findings import together
from firmware_sim.errors import MissingError, TpulayerError, UsageError
from firmware_sim.firmware.image import TCM_NAME, Kind
from firmware_sim.suggest import did_you_mean
from user_layers.net.nodes import CALLER
from user_layers.testing.cases import Array, Case, Const, Golden, Param, Shapes
from user_layers.testing.compare import Difference, difference
from user_layers.testing.golden import GoldenError, call_golden
from user_layers.workspace import WORKSPACE_VARIABLE, Workspace, check_installed

if TYPE_CHECKING:
    from firmware_sim.checks.finding import Finding
    from user_layers.api import Graph
    from user_layers.net.compiled import CompiledNet
    from user_layers.net.ops import OpInfo
    from user_layers.toolkit import Toolkit


_CHANGES: dict[str, Callable[[Array], Array]] = {"-": operator.neg, "~": operator.invert}
"""What is done to the numbers of inputs and outputs whose names begin so."""


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


class _Wrong(Exception):
    """A result that is not golden's."""

    def __init__(self, problem: str, found: Difference | None = None) -> None:
        super().__init__(problem)
        self.problem, self.found = problem, found


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

    op = _op_of(ws, next(iter(toolkits.values())), name)
    types = ParamTypes.from_record(ws.layer_record)
    for case in cases:
        for kind, toolkit in toolkits.items():
            for mode in case.modes:
                one = _One(toolkit, op, golden, case)
                problem, found = "", None
                findings: list[Finding] = []
                place = CALLER.set(f"test_{name}.py, {case}")  # not where this runs from
                try:
                    one.param = types.param_values(op.op, types.param_bytes(op.op, case.param))
                    with together(on_findings=findings.extend):
                        if mode == "dynamic":
                            one.dynamic()
                        else:
                            one.static(int(mode[-1]))
                except _Wrong as e:
                    problem, found = e.problem, e.found
                except MissingError:
                    raise
                except TpulayerError as e:
                    problem = f"{e.message} ({e.hint})" if e.hint else e.message
                finally:
                    CALLER.reset(place)
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


def _op_of(ws: Workspace, toolkit: Toolkit, name: str) -> OpInfo:
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
        self.toolkit, self.op, self.golden, self.case = toolkit, op, golden, case
        self.param: Param = {}
        self.where = ""
        self.elements = 0

    def static(self, opt: int) -> None:
        """opt 1 and 2: other layers stand around it, so that it runs in local memory where it can (1), or
        where that is faster (2)."""
        arrays = self.case.arrays(salt=1 + opt)
        want = self._expected(arrays)
        graph = self._graph(arrays, len(want), around=opt > 0, exact=_has_denormals([*arrays, *want]))
        self.where = _where(graph.compile(opt=opt), "tested")
        self._compare(graph, arrays, want)

    def dynamic(self) -> None:
        """Compiled dynamically; run with the shapes compiled for, and with smaller ones."""
        case = self.case
        arrays = case.arrays()
        want = self._expected(arrays)
        graph = self._graph(arrays, len(want))
        stage = graph.compile(dynamic=True).stages[0]
        self.where = f"compiled for {_listed(case.shapes) or 'these shapes'}"
        self._compare(graph, arrays, want)

        def may_change(axis: int) -> bool:
            return stage.n_dynamic if axis == 0 else axis == 1 or stage.h_w_dynamic

        smaller = case.halved(may_change) if case.smaller is None else case.smaller
        for shapes in smaller:
            text = _listed(shapes)
            try:
                arrays = case.arrays(shapes)
                self._compare(graph, arrays, self._expected(arrays))
            except _Wrong as e:
                raise _Wrong(f"with {text}: {e.problem}", e.found) from e
            except TpulayerError as e:
                hint = "Case(..., smaller=[...]) says which shapes to try, smaller=[] none"
                raise _Wrong(f"with {text}: {e.message} ({hint})") from e
        if smaller:
            self.where += f", also with {' and '.join(map(_listed, smaller))}"

    def _expected(self, arrays: list[Array]) -> list[Array]:
        """What golden says, checked."""
        try:
            return call_golden(self.golden, arrays, self.param)
        except GoldenError as e:
            raise _Wrong(str(e)) from e

    def _graph(
        self, arrays: list[Array], outputs: int, *, around: bool = False, exact: bool = False
    ) -> Graph:
        """x0, x1, ... through the layer into y0, y1, ...

        around: each also through a built-in layer, fp32 (unless exact) through one that changes the sign,
        quantised bytes through one that inverts their bits: otherwise a buffer that the layer does not write
        could hold the right numbers all the same. Inputs and outputs whose sign is changed have names that
        begin with a minus, those whose bits are inverted with a tilde.
        """
        import numpy as np

        from firmware_sim.wire import DType
        from user_layers.api import Graph
        from user_layers.graph import BINARY_MUL

        graph = Graph(name="test", toolkit=self.toolkit)

        def through(name: str, out: str, dtype: str, scale: float | None) -> None:
            change = {name[0], out[0]}
            if "-" in change:
                graph.add_const_binary_layer(name, -1.0, out, BINARY_MUL)
            elif "~" in change:
                inverted = np.arange(256, dtype=np.uint8)[::-1]
                table = graph.add_const(f"{out}:inverted", inverted.copy().view(dtype))
                values = {"dtype": int(DType.from_numpy(dtype)), "scale": scale}
                graph.add_tpu_layer("TPU_LOOKUP", [name, table], values, [out])
            else:
                graph.add_tpu_layer("TPU_PAD", [name], None, [out])

        names = [f"x{i}" for i in range(len(arrays))]
        for name, x, array, scale in zip(names, self.case.inputs, arrays, self.case.scales, strict=True):
            if isinstance(x, Const):
                graph.add_const(name, array)
            elif around:
                dtype = array.dtype.name
                outer = _outer(name, dtype, exact, scale)
                through(graph.add_input(outer, array.shape, dtype, scale=scale), name, dtype, scale)
            else:
                graph.add_input(name, array.shape, array.dtype, scale=scale)
        made = [f"y{i}" for i in range(outputs)]
        graph.add_tpu_layer(self.op.op, names, self.case.param, made, name="tested")
        if around or self.case.out_scale is not None:
            tensors = graph.resolve().tensors
            for i, y in enumerate(made):
                dtype, scale = tensors[y].dtype.numpy_name, tensors[y].scale or None
                self._check_scale(y, scale)
                if around:
                    made[i] = _outer(y, dtype, exact, scale)
                    through(y, made[i], dtype, scale)
        for y in made:
            graph.add_output(y)
        return graph

    def _check_scale(self, name: str, made: float | None) -> None:
        wanted = self.case.out_scale
        if wanted is not None and (made is None or not math.isclose(made, wanted, rel_tol=1e-6)):
            given = "no scale" if made is None else f"the scale {made:g}"
            raise _Wrong(f"the layer gives {name} {given}, the case has out_scale={wanted:g}")

    def _compare(self, graph: Graph, arrays: list[Array], want: list[Array]) -> None:
        """Run, and count what is equal."""

        def changed(name: str, x: Array) -> Array:
            change = _CHANGES.get(name[0])
            return x if change is None else change(x)

        given = {name: changed(name, arrays[int(name.strip("-~+x"))]) for name in graph.inputs}
        found = [changed(name, y) for name, y in zip(graph.outputs, graph.run(given), strict=True)]
        for i, (got, expected) in enumerate(zip(found, want, strict=True)):
            what = f"output {i}: " if len(want) > 1 else ""
            if got.shape != expected.shape or got.dtype != expected.dtype:
                raise _Wrong(
                    f"{what}the layer gives {list(got.shape)} {got.dtype}, golden {list(expected.shape)} "
                    f"{expected.dtype}"
                )
            unequal = difference(got, expected, self.case.atol, self.case.rtol)
            if unequal is not None:
                raise _Wrong(f"{what}{unequal}", unequal)
            self.elements += expected.size


def _outer(name: str, dtype: str, exact: bool, scale: float | None) -> str:
    """The name of a tensor on the other side of the layer that stands before or behind it."""
    if dtype == "float32":
        return f"{'+' if exact else '-'}{name}"
    return f"{'~' if scale is not None and dtype in ('int8', 'uint8') else '+'}{name}"


def _has_denormals(arrays: list[Array]) -> bool:
    """Arithmetic of the chip makes zeros of them."""
    import numpy as np

    return any(
        bool(np.any((x != 0) & (np.abs(x) < np.finfo(np.float32).tiny)))
        for x in arrays
        if x.dtype == np.float32
    )


def _where(net: CompiledNet, node: str) -> str:
    """What the compile log says of a node, but for the bytes."""
    line = next(line for line in net.log if f" {node}: " in line and "; " in line)
    text = line.split("; ", 1)[1].removeprefix("static, ")
    return re.sub(r", \d+ bytes of local memory.*", "", text)


def _listed(shapes: Shapes) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
