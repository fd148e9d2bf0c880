"""A model's file, verified: random inputs through onnxruntime and the net, compiled in every way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from firmware_sim.checks.finding import Finding
from firmware_sim.device.findings import together
from firmware_sim.errors import CompileError, MissingError, TpulayerError
from user_layers.compiler.pipeline import compile_graph
from user_layers.formats import in_onnx
from user_layers.graph import GraphBuilder
from user_layers.net.compiled import CompiledNet
from user_layers.net.nodes import called
from user_layers.onnx.build import build
from user_layers.onnx.check import compare, random_inputs, reference, tolerance
from user_layers.onnx.fold import random_nodes
from user_layers.onnx.load import Source, read_proto
from user_layers.onnx.model import Model
from user_layers.onnx.own import run_beside
from user_layers.onnx.precision import in_float32
from user_layers.onnx.trial import fed_wide
from user_layers.onnx.types import from_net, to_net
from user_layers.runtime.references import load_net, run_net
from user_layers.testing.cases import Array
from user_layers.testing.compare import Difference
from user_layers.testing.golden import WorkspaceGoldens
from user_layers.testing.nets import Wrong
from user_layers.toolkit import Toolkit
from user_layers.verify.explain import Traced, found_at
from user_layers.verify.sample import Sample
from user_layers.verify.shrink import Shows, Smallest
from user_layers.verify.verdict import Failure, Verdict, by_property

Shapes = Mapping[str, tuple[int, ...]]

WAYS = {"golden": (0, False), "local": (1, False), "chosen": (2, False), "dynamic": (2, True)}
"""How the net is compiled: what shows then, the optimisation, whether dynamically."""


@dataclass
class NetSubject:
    """A net. path: of the model's file; shapes: of inputs that it leaves open."""

    path: Path
    shapes: Shapes
    toolkit: Toolkit
    check: str
    stack: ExitStack

    def __post_init__(self) -> None:
        proto, source = in_onnx(self.path, shapes=self.shapes, toolkit=self.toolkit)
        source = source or Source.of(self.path)
        read = read_proto(proto)
        self._load: Callable[[Shapes], Model] = lambda given: source.load(read, {**self.shapes, **given})
        self.model: Model = self._load({})
        self._wide = in_float32(self.model)
        with called(source.short):
            self._built = build(self.model, source.name, toolkit=self.toolkit, integers=False)
        self.graph: GraphBuilder = self._built.graph
        self._smaller: dict[int, Model] = {}

    @cached_property
    def nets(self) -> dict[str, CompiledNet]:
        """Compiled in each way, once."""
        return {
            name: compile_graph(self.graph, dynamic=dynamic, opt=opt) for name, (opt, dynamic) in WAYS.items()
        }

    @cached_property
    def _loaded(self) -> dict[str, Callable[[dict[str, Array]], list[Array]]]:
        found: dict[str, Callable[[dict[str, Array]], list[Array]]] = {}
        for name, net in self.nets.items():
            runtime = self.stack.enter_context(load_net(net, self.toolkit))
            found[name] = lambda feeds, runtime=runtime, net=net: runtime.launch(net.name, feeds)  # type: ignore[misc]
        return found

    def drawn(self, seed: int, number: int, attempt: int, values: tuple[str, ...]) -> Sample:
        """The sample of this number."""
        rng = np.random.default_rng((seed, number, attempt))
        kind = str(rng.choice(list(values))) if values and number and rng.integers(3) == 0 else "drawn"
        shapes = tuple(tuple(value.fixed or ()) for value in self.model.inputs)
        return Sample(0, (seed, number), shapes, values=kind, salt=number)

    def text(self, sample: Sample) -> str:
        """What is tried, in words."""
        words = [f"{value.name} {list(value.fixed or ())}" for value in self.model.inputs]
        return f"{', '.join(words)}, values {sample.values}"

    def arrays(self, sample: Sample) -> dict[str, Array]:
        """The inputs by name."""
        seed = int(np.random.SeedSequence((*sample.drawn, sample.salt)).generate_state(1)[0])
        return {name: _held(sample.values, x) for name, x in random_inputs(self.model, seed).items()}

    def inputs(self, sample: Sample) -> list[Array]:
        """In the model's order."""
        return list(self.arrays(sample).values())

    def smallest(self, sample: Sample, failure: Failure, shows: Shows) -> Smallest:
        """The same with simpler inputs, where it shows with them."""
        best = Smallest(sample, failure, ended=True)
        for values in ("ones", "ramp", "zeros"):
            best.runs += 1
            found = shows(replace(sample, values=values))
            if found is not None:
                return Smallest(replace(sample, values=values), found, best.runs, ended=True)
        return best

    def verdict(self, sample: Sample, only: Failure | None = None) -> Verdict:
        """Run it in every way, or in the one that shows a failure."""
        verdict = Verdict()
        inputs = self.arrays(sample)
        try:
            if drawn := random_nodes(self.model):
                raise CompileError(f"{drawn[0].title} makes random numbers")
            want, different = self._wanted(inputs)
        except MissingError:
            raise
        except TpulayerError as error:
            verdict.refused = f"onnxruntime: {error.message}"
            return verdict
        if different and (only is None or only.during == "golden"):
            verdict.failures.append(Failure("golden", "golden", "differs", "; ".join(different)))
        for way in WAYS:
            if only is None or only.during == way:
                self._try(verdict, way, lambda way=way: self._run(way, inputs, want))  # type: ignore[misc]
        batch = self._batch(sample)
        if batch and (only is None or only.during == "dynamic"):
            few = {name: x[:batch] for name, x in inputs.items()}
            shapes = tuple(x.shape for x in few.values())

            def run() -> int:
                return self._run("dynamic", few, self._wanted_of(batch, few))

            self._try(verdict, "dynamic", run, shapes)
        return verdict

    def _wanted(self, inputs: Mapping[str, Array]) -> tuple[list[Array], list[str]]:
        """What onnxruntime gives, and how layers of the user's differ from their golden functions."""
        fed = fed_wide(self._wide, inputs)
        if not any(node.is_own for node in self._wide.nodes):
            return reference(self._wide, fed), []
        ws = self.toolkit.workspace
        goldens = None if ws is None else WorkspaceGoldens(ws)
        want, witness = run_beside(self._wide, self._built, fed, goldens)
        return want, list(witness.different)

    def _batch(self, sample: Sample) -> int:
        """A smaller batch for the dynamic net; 0 where it takes none."""
        batches = {shape[0] if shape else 1 for shape in sample.shapes}
        most = max(batches)
        own = any(node.is_own for node in self._wide.nodes)
        if len(batches) > 1 or most < 2 or own or not self.nets["dynamic"].stages[0].n_dynamic:
            return 0
        return int(np.random.default_rng((*sample.drawn, 1)).integers(1, most))

    def _wanted_of(self, batch: int, inputs: Mapping[str, Array]) -> list[Array]:
        if batch not in self._smaller:
            given = {value.name: (batch, *(value.fixed or ())[1:]) for value in self.model.inputs}
            self._smaller[batch] = in_float32(self._load(given))
        wide = self._smaller[batch]
        return reference(wide, fed_wide(wide, inputs))

    def _fed(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """As the net takes them."""
        values = (value for value in self.model.inputs if value.name in self.graph.inputs)
        return {value.name: to_net(inputs[value.name], value) for value in values}

    def _run(self, way: str, inputs: Mapping[str, Array], want: list[Array]) -> int:
        """How many elements of the outputs are near enough. Errors: Wrong where one is not."""
        got = self._loaded[way](self._fed(inputs))
        mine = [from_net(y, value) for y, value in zip(got, self._wide.outputs, strict=True)]
        return self._compare(mine, want)

    def explained(self, sample: Sample, failure: Failure) -> tuple[str, ...]:
        """Lines about the command to look at."""
        if failure.findings or failure.at is None:
            return found_at(failure)
        inputs = self.arrays(sample)
        if failure.shapes is not None:
            inputs = {
                name: x[: shape[0]] for (name, x), shape in zip(inputs.items(), failure.shapes, strict=True)
            }
        launch = Traced()
        found = None if failure.during == "golden" else self._first_wrong(failure.during, inputs)
        if found is None:
            launch(self.nets[failure.during], self.toolkit, self._fed(inputs))
            return launch.about(*failure.at)
        net, fed, at, node = found
        launch(net, self.toolkit, fed)
        return (f"the first layer that differs from itself in DDR: {node}", *launch.about(0, at))

    def _first_wrong(
        self, way: str, inputs: Mapping[str, Array]
    ) -> tuple[CompiledNet, dict[str, Array], tuple[int, ...], str] | None:
        """By bisection the first layer whose result is not what it is with opt 0, of the net that ends there:
        compiled, its inputs, the element, the layer. None where no such net shows it."""
        resolved = self.graph.resolve()
        fed = self._fed(inputs)
        opt, dynamic = WAYS[way]
        wrong: tuple[CompiledNet, dict[str, Array], tuple[int, ...], str] | None = None
        right, end = -1, len(self.graph.nodes)
        while end - right > 1:
            middle = (right + end) // 2
            node = self.graph.nodes[middle]
            part = self.graph.part(
                self.graph.name, self.graph.nodes[: middle + 1], node.outputs[:1], resolved
            )
            given = {name: fed[name] for name in part.inputs}
            nets = (compile_graph(part, opt=0), compile_graph(part, opt=opt, dynamic=dynamic))
            with together(check="off"):
                (want,), (got,) = (run_net(net, self.toolkit, given) for net in nets)
            if compare([node.outputs[0]], [got], [want])[0].relative > tolerance(want.dtype):
                end, wrong = middle, (nets[1], given, _worst(got, want).index, node.title)
            else:
                right = middle
        return wrong

    def _try(
        self,
        verdict: Verdict,
        way: str,
        run: Callable[[], int],
        shapes: tuple[tuple[int, ...], ...] | None = None,
    ) -> None:
        findings: list[Finding] = []
        property_ = "local" if way == "chosen" else way
        opt, dynamic = WAYS[way]
        where = "dynamic" if dynamic else f"opt {opt}"

        def failed(name: str, kind: str, problem: str, **more: Any) -> None:
            verdict.failures.append(Failure(name, way, kind, problem, where=where, shapes=shapes, **more))

        try:
            with together(check=self.check, on_findings=findings.extend):
                verdict.elements += run()
            verdict.held.append(property_)
        except Wrong as wrong:
            at = None if wrong.found is None else (wrong.output, wrong.found.index)
            failed(property_, "differs", wrong.problem, at=at)
        except MissingError:
            raise
        except TpulayerError as error:
            failed(property_, "failed", error.message)
        for name, finding in by_property(findings):
            failed(name, finding.rule, finding.what, findings=(finding,))

    def _compare(self, got: list[Array], want: list[Array]) -> int:
        names = [value.name for value in self._wide.outputs]
        for i, one in enumerate(compare(names, got, want)):
            most = tolerance(want[i].dtype)
            if one.relative > most:
                raise Wrong(
                    f"output {one.output!r} is {one.relative:.1e} of its largest value off onnxruntime's "
                    f"(at most {most:.0e})",
                    _worst(got[i], want[i]),
                    i,
                )
        return sum(y.size for y in want)


def _worst(got: Array, want: Array) -> Difference:
    """Where they are farthest apart."""
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(got.astype(np.float64) - want.astype(np.float64)), nan=np.inf)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(apart)), want.shape))
    return Difference(index, got[index], want[index], int(np.count_nonzero(apart)), want.size)


def _held(values: str, x: Array) -> Array:
    """An input with these values: every other one of them, or all ones, or 1 to 7."""
    flat = x.reshape(-1).copy()
    floats = x.dtype.kind == "f"
    if values == "ones":
        flat[:] = 1
    elif values == "ramp" and floats:
        flat[:] = np.arange(flat.size) % 7 + 1
    elif values == "zeros":
        flat[::2] = 0
    elif values == "large" and floats:
        flat[::2] *= 100
    elif values == "denormals" and floats:
        flat[::2] = 1e-40
    elif values == "nan" and floats:
        flat[::2] = np.nan
    shaped: Array = flat.reshape(x.shape)
    return shaped
