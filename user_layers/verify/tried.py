"""One sample, tried: every property of the layer on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firmware_sim.device.client import Device, FirmwareError
from firmware_sim.device.findings import together
from firmware_sim.errors import (
    CompileError,
    DeviceCrash,
    DeviceError,
    MissingError,
    TpulayerError,
    UsageError,
)
from firmware_sim.wire import Status
from user_layers.api import Graph
from user_layers.compiler.pipeline import compile_graph
from user_layers.compiler.tiling import Ends
from user_layers.net.compiled import CompiledNet, Stage
from user_layers.net.nodes import called
from user_layers.runtime.references import run_net
from user_layers.testing.cases import Array, Case, Const, Input, Shapes
from user_layers.testing.golden import GoldenError, call_golden
from user_layers.testing.nets import CaseNet, Wrong, has_denormals, where_of
from user_layers.verify.pieces import check_windows, ends_of
from user_layers.verify.sample import Sample
from user_layers.verify.streams import check_streams
from user_layers.verify.target import Target
from user_layers.verify.verdict import Failure, Verdict, by_property

if TYPE_CHECKING:
    from firmware_sim.checks.finding import Finding
    from user_layers.net.ops import OpInfo
    from user_layers.toolkit import Toolkit

Launch = Callable[[CompiledNet, "Toolkit", dict[str, Array]], list[Array]]

_REFUSALS = (Status.NOT_SUPPORTED, Status.PARAM_INVALID)
_TINY = float(np.finfo(np.float32).tiny)


class Refused(Exception):
    """The layer, or golden, is not for this; the text says who and why."""


class NotTried(Exception):
    """A property that this layer or this case does not have; the text says why."""


@dataclass(frozen=True)
class Layer:
    """What is verified, with what runs it. toolkits: by firmware, `native` first; check: as of a device."""

    target: Target
    op: OpInfo
    toolkits: dict[str, Toolkit]
    check: str

    def verdict(self, sample: Sample, only: Failure | None = None) -> Verdict:
        """Try a sample. only: no more than shows whether this one shows again. Errors: SourceError for a
        `random_case` that fails; MissingError."""
        verdict = Verdict()
        try:
            tried = Tried(self, sample)
            tried.accept()
        except Refused as refused:
            verdict.refused = str(refused)
            return verdict
        except DeviceError as error:  # a shape function that fails otherwise than by refusing
            verdict.failures.append(Failure("golden", "golden", "failed", error.message))
            return verdict
        for toolkit in self.toolkits.values():
            _forget(toolkit)
        for name, act, firmware in tried.acts():
            if only is not None and (name, firmware) != (only.during, only.firmware):
                continue
            if firmware == "arm" and any(one.during == name for one in verdict.failures):
                continue  # the native firmware has shown it
            tried.attempt(verdict, name, firmware, act)
            if verdict.refused or (name == "golden" and verdict.failures):
                break
            tried.failed = {one.during for one in verdict.failures}
        return verdict


class Tried:
    """A sample on the layer's firmwares. launch: runs a compiled net. failed: what has shown a failure."""

    def __init__(self, layer: Layer, sample: Sample, launch: Launch = run_net) -> None:
        self.layer, self.sample, self._launch = layer, sample, launch
        self._native = layer.toolkits["native"]
        target, op = layer.target, layer.op
        case = sample.case(target)
        if sample.values == "denormals":  # arithmetic of the chip makes zeros of them, copies keep them
            case = case.like([_shape(x) for x in case.inputs], case.param)
            case.atol = max(case.atol or 0.0, 2 * _TINY)
        self.case: Case = case
        try:
            data = self._native.layer_param(op, case.param, target.name)
            self.param = self._native.param_values(op, data)
        except UsageError as error:
            raise Refused(f"the parameter struct: {error.message}") from error
        self._compiled: dict[str, CompiledNet] = {}
        self._where = ""
        self._shapes: Shapes | None = None
        self.failed: set[str] = set()
        self.outputs = layer.target.outputs

    # ---- what it is tried with ----

    def net(self, firmware: str = "native") -> CaseNet:
        """The case as a net for this firmware."""
        return CaseNet(self.layer.toolkits[firmware], self.layer.op, self.case)

    def expected(self, arrays: list[Array]) -> list[Array]:
        """What golden says; without one, the global function by itself."""
        golden = self.layer.target.golden
        if golden is None:
            net = self.net()
            graph = net.graph(arrays, self.layer.target.outputs)
            made = run_net(compile_graph(graph, opt=0), self._native, net.feeds(graph, arrays))
            return net.results(graph, made)
        with np.errstate(all="ignore"):
            return call_golden(golden, arrays, self.param)

    def accept(self) -> None:
        """Refused where the layer's shape function or golden does not take the case."""
        arrays = self.sample.arrays(self.case)
        try:
            with self._called():
                outputs = self.layer.target.outputs
                if self.layer.target.golden is not None:
                    outputs = len(self.expected(arrays))
                self.outputs = outputs
                self.net().graph(arrays, outputs).resolve()
        except GoldenError as error:
            raise Refused(f"golden: {error}") from error
        except CompileError as error:
            if isinstance(error.__cause__, DeviceCrash):
                raise error.__cause__ from error
            raise Refused(f"the layer: {_reason(error)}") from error
        except UsageError as error:
            raise Refused(f"the graph: {error.message}") from error

    def _called(self) -> AbstractContextManager[None]:
        """In which messages call the place where layers are added by the case."""
        return called(f"{self.layer.target.name}, {self.case}")

    def acts(self) -> list[tuple[str, Callable[[], int], str]]:
        """What is done for each property, and on which firmware."""
        found: list[tuple[str, Callable[[], int], str]] = [
            ("golden", self.golden, "native"),
            ("local", self.local, "native"),
            ("window", self.window, "native"),
            ("dynamic", lambda: self.dynamic("native"), "native"),
        ]
        if "arm" in self.layer.toolkits:
            found += [
                ("arm", self.streams, "arm"),
                ("dynamic", lambda: self.dynamic("arm"), "arm"),
            ]
        return found

    def attempt(self, verdict: Verdict, name: str, firmware: str, act: Callable[[], int]) -> None:
        """Do it, and note what came of it."""
        findings: list[Finding] = []
        self._where, self._shapes = "", None

        def failed(name_: str, kind: str, problem: str, **more: object) -> None:
            property_ = "arm" if firmware == "arm" and name_ in ("dynamic", "arm") else name_
            verdict.failures.append(
                Failure(property_, name, kind, problem, firmware, self._where, shapes=self._shapes, **more)  # type: ignore[arg-type]
            )

        try:
            with self._called(), together(check=self.layer.check, on_findings=findings.extend):
                verdict.elements += act()
            verdict.held.append(name)
        except Wrong as wrong:
            at = None if wrong.found is None else (wrong.output, wrong.found.index)
            failed(name, "differs", wrong.problem, at=at)
        except NotTried as reason:
            verdict.skipped[name] = str(reason)
        except GoldenError as error:
            verdict.skipped[name] = str(error)
        except MissingError:
            raise
        except TpulayerError as error:
            why = f"{error.message} ({error.hint})" if error.hint else error.message
            if not _refuses(error):
                failed(name, "failed", why)
            elif name == "golden":
                verdict.refused = f"the layer: {_reason(error)}"
            else:
                verdict.skipped[name] = why
        for property_, finding in by_property(findings):
            failed(property_, finding.rule, finding.what, findings=(finding,))

    # ---- the properties ----

    def golden(self) -> int:
        """The global function beside golden."""
        arrays = self.sample.arrays(self.case)
        net = self.net()
        graph = net.graph(arrays, self.outputs)
        compiled = self._compile(graph, "global")
        if self.layer.target.golden is None:  # it is its own reference: what it does is checked
            return sum(y.size for y in self._run(net, graph, compiled, arrays))
        return net.compare(graph, self._run(net, graph, compiled, arrays), self.expected(arrays))

    def static(self, shapes: Shapes) -> list[Array]:
        """What the global function makes of other shapes."""
        net = self.net()
        arrays = self.sample.arrays(self.case, shapes)
        graph = net.graph(arrays, self.outputs)
        return self._run(net, graph, compile_graph(graph, opt=0), arrays)

    def local(self) -> int:
        """In local memory, cut as the sample says."""
        arrays = self.sample.arrays(self.case, more=1)
        net = self.net()
        graph, ends = self._cut(net, arrays)
        compiled = self._compile(graph, "local", ends)
        self._where = f"{where_of(compiled, 'tested')}{_places(ends)}"
        if not self._where.startswith("local"):
            raise NotTried(where_of(compiled, "tested"))
        got = self._run(net, graph, compiled, arrays)
        return net.compare(graph, got, self.expected(arrays))

    def window(self) -> int:
        """The shape function on pieces, no graph and no kernel around it."""
        arrays = self.sample.arrays(self.case)
        return check_windows(self.net().graph(arrays, self.outputs), self.sample, NotTried)

    def dynamic(self, firmware: str) -> int:
        """In a dynamic net, for these shapes and smaller ones."""
        net = self.net(firmware)
        arrays = self.sample.arrays(self.case, more=2)
        graph = net.graph(arrays, self.outputs)
        compiled = self._compile(graph, f"dynamic {firmware}", None, dynamic=True)
        stage = compiled.stages[0]
        self._where = where_of(compiled, "tested")
        elements = 0
        for k, shapes in enumerate([self.case.shapes, *self._smaller(stage)]):
            given = self.sample.arrays(self.case, shapes, more=2 + k)
            for x, one in enumerate(self.case.inputs):
                if isinstance(one, Const):
                    given[x] = arrays[x]  # it was compiled in
            if k:
                try:
                    want = self.expected(given)
                    self.net().graph(given, self.outputs).resolve()
                except (GoldenError, CompileError, UsageError):
                    continue  # it is not for these
            else:
                want = self.expected(given)
            self._shapes = shapes
            elements += net.compare(graph, self._run(net, graph, compiled, given), want)
        self._shapes = None
        return elements

    def streams(self) -> int:
        """The commands of both firmwares, by itself and cut."""
        arrays = self.sample.arrays(self.case)
        net = self.net("arm")
        graph = net.graph(arrays, self.outputs)
        native = self._compile(self.net().graph(arrays, self.outputs), "global")
        commands = check_streams(native, self._compile(graph, "global arm"))
        if "local" in self.failed:
            return commands
        arrays = self.sample.arrays(self.case, more=1)
        graph, ends = self._cut(net, arrays)
        native_graph, _ = self._cut(self.net(), arrays)
        native = self._compile(native_graph, "local", ends)
        self._where = f"{where_of(native, 'tested')}{_places(ends)}"
        return commands + check_streams(native, self._compile(graph, "local arm", ends))

    # ---- how ----

    def _cut(self, net: CaseNet, arrays: list[Array]) -> tuple[Graph, Ends]:
        """The net with what stands around the layer, and where it is cut."""
        exact = self.sample.around and has_denormals(arrays)
        graph = net.graph(arrays, self.outputs, around=self.sample.around, exact=exact)
        return graph, ends_of(graph, self.sample.cuts)

    def _compile(
        self, graph: Graph, key: str, ends: Ends | None = None, *, dynamic: bool = False
    ) -> CompiledNet:
        """Once for each key."""
        if key not in self._compiled:
            self._compiled[key] = compile_graph(
                graph, dynamic=dynamic, opt=0 if ends is None else 1, ends=ends
            )
        return self._compiled[key]

    def _run(self, net: CaseNet, graph: Graph, compiled: CompiledNet, arrays: Sequence[Array]) -> list[Array]:
        return self._launch(compiled, net.toolkit, net.feeds(graph, arrays))

    def _smaller(self, stage: Stage) -> list[Shapes]:
        """With which shapes a dynamic net runs too."""
        case = self.case
        if case.smaller is not None:
            return list(case.smaller)

        found = list(case.halved(stage.may_change))
        batches = {shape[0] for shape in case.shapes} - {1}
        if len(batches) == 1 and stage.n_dynamic:
            batch = batches.pop()
            found.append(tuple((batch - 1 if s[0] == batch else s[0], *s[1:]) for s in case.shapes))
        if stage.h_w_dynamic and any(isinstance(x, Input) for x in case.inputs):
            found.append(tuple((*s[:2], *((n + 1) // 2 for n in s[2:])) for s in case.shapes))
        return [shapes for k, shapes in enumerate(found) if shapes not in (case.shapes, *found[:k])]


def _forget(toolkit: Toolkit) -> None:
    """Fill local memory with NaN: what the sample before has left there neither helps nor harms this one."""
    if isinstance(toolkit.device, Device):
        toolkit.device.local_memory[:] = 0xFF


def _places(ends: Ends) -> str:
    """Where it is cut, in elements of the output."""
    words = [
        f"{axis} at {', '.join(map(str, getattr(ends, axis)[:-1]))}"
        for axis in "nhw"
        if len(getattr(ends, axis)) > 1
    ]
    return f", cut along {' and '.join(words)}" if words else ""


def _refuses(error: BaseException | None) -> bool:
    """Whether a layer's own function said that it does not do this."""
    while error is not None:
        if isinstance(error, FirmwareError):
            return error.status in _REFUSALS
        error = error.__cause__
    return False


def _reason(error: TpulayerError) -> str:
    """In the layer's own words where it has any, without the case."""
    cause = error.__cause__
    return cause.message if isinstance(cause, FirmwareError) else error.message


def _shape(x: object) -> tuple[int, ...]:
    value = x.value if isinstance(x, Const) else x
    shape: tuple[int, ...] = value.shape  # type: ignore[attr-defined]
    return shape
