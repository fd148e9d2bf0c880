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
from firmware_sim.errors import MissingError, TpulayerError
from user_layers.compiler.pipeline import compile_graph
from user_layers.formats import in_onnx
from user_layers.graph import GraphBuilder
from user_layers.net.compiled import CompiledNet
from user_layers.onnx.build import build
from user_layers.onnx.check import compare, random_inputs, reference, tolerance
from user_layers.onnx.load import Source, read_proto
from user_layers.onnx.model import Model
from user_layers.runtime.references import load_net
from user_layers.testing.cases import Array
from user_layers.testing.compare import Difference
from user_layers.testing.nets import Wrong
from user_layers.toolkit import Toolkit
from user_layers.verify.explain import Traced, found_at
from user_layers.verify.sample import Sample
from user_layers.verify.shrink import Shows, Smallest
from user_layers.verify.verdict import Failure, Verdict, by_property

WAYS = {"golden": (0, False), "local": (1, False), "chosen": (2, False), "dynamic": (2, True)}
"""How the net is compiled: what shows then, the optimisation, whether dynamically."""


@dataclass
class NetSubject:
    """A net. path: of the model's file; shapes: of inputs that it leaves open."""

    path: Path
    shapes: Mapping[str, tuple[int, ...]]
    toolkit: Toolkit
    check: str
    stack: ExitStack

    def __post_init__(self) -> None:
        proto, source = in_onnx(self.path, shapes=self.shapes, toolkit=self.toolkit)
        source = source or Source.of(self.path)
        self.model: Model = source.load(read_proto(proto), dict(self.shapes))
        self.graph: GraphBuilder = build(self.model, source.name, toolkit=self.toolkit, integers=False).graph

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
            want = reference(self.model, inputs)
        except MissingError:
            raise
        except TpulayerError as error:
            verdict.refused = f"onnxruntime: {error.message}"
            return verdict
        for way in WAYS:
            if only is None or only.during == way:
                self._try(verdict, way, inputs, want)
        return verdict

    def explained(self, sample: Sample, failure: Failure) -> tuple[str, ...]:
        """Lines about the command to look at."""
        if failure.findings or failure.at is None:
            return found_at(failure)
        launch = Traced()
        launch(self.nets[failure.during], self.toolkit, self.arrays(sample))
        return launch.about(*failure.at)

    def _try(self, verdict: Verdict, way: str, inputs: dict[str, Array], want: list[Array]) -> None:
        findings: list[Finding] = []
        property_ = "local" if way == "chosen" else way
        opt, dynamic = WAYS[way]
        where = "dynamic" if dynamic else f"opt {opt}"

        def failed(name: str, kind: str, problem: str, **more: Any) -> None:
            verdict.failures.append(Failure(name, way, kind, problem, where=where, **more))

        try:
            with together(check=self.check, on_findings=findings.extend):
                got = self._loaded[way](inputs)
            verdict.elements += self._compare(got, want)
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
        names = list(self.graph.outputs)
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
