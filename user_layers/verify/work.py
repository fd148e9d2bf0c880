"""One process's part of the work: the firmwares opened once, sample after sample tried on them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from firmware_sim.device.time_limit import choose
from firmware_sim.errors import TpulayerError, UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.files import read_input
from user_layers.onnx.command import parse_shapes
from user_layers.testing.cases import Array
from user_layers.testing.collect import find_tests, load_test
from user_layers.testing.run import check_built, op_of, open_toolkits
from user_layers.toolkit import Toolkit
from user_layers.verify.draw import ATTEMPTS, drawn
from user_layers.verify.explain import explained
from user_layers.verify.nets import NetSubject
from user_layers.verify.sample import VALUES, Sample
from user_layers.verify.shrink import Shows, Smallest, smallest
from user_layers.verify.target import Target
from user_layers.verify.tried import Layer
from user_layers.verify.verdict import Failure, Verdict
from user_layers.workspace import Workspace, check_installed

_MODEL = "model"  # the folder of a net's file where it was unpacked


@dataclass(frozen=True)
class Job:
    """What is verified and how.

    root: of the built workspace, None without one; names: its layers. check, time_limit: as of a device;
    values: of VALUES, that inputs may have. targets: "module:function", which gives the targets, in place of
    the tests of a workspace. model: instead of layers the net in this file; shapes: of its inputs.
    """

    root: Path | None
    names: tuple[str, ...]
    seed: int = 0
    check: str = "memory,init,hazard,sync,schedule"
    values: tuple[str, ...] = ("zeros", "large", "denormals")
    time_limit: float | None = None
    targets: str = ""
    model: Path | None = None
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class Ticket:
    """What one worker does at once: try the sample of a number, or one again (sample); or find the smallest
    one that shows a failure."""

    layer: str
    number: int
    sample: Sample | None = None
    failure: Failure | None = None


@dataclass(frozen=True)
class Counterexample:
    """The smallest sample that shows a failure. case: in words; lines: which command made it; runs: samples
    tried for it; smallest: nothing simpler shows it; seconds: what that took; arrays: its inputs."""

    layer: str
    number: int
    sample: Sample
    case: str
    failure: Failure
    lines: tuple[str, ...]
    runs: int
    smallest: bool
    seconds: float
    arrays: tuple[Array, ...] = ()


@dataclass
class Outcome:
    """What came of a ticket. held, skipped: how often, by property (and why); refused: by whom and why."""

    layer: str
    number: int
    sample: Sample | None = None
    held: Counter[str] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failures: tuple[Failure, ...] = ()
    elements: int = 0
    seconds: float = 0.0
    found: Counterexample | None = None


class Subject(Protocol):
    """What is verified, as a worker sees it."""

    def drawn(self, seed: int, number: int, attempt: int, values: tuple[str, ...], /) -> Sample:
        """The sample of a number."""

    def verdict(self, sample: Sample, only: Failure | None = None) -> Verdict:
        """Try it; only: no more than shows whether this failure shows again."""

    def smallest(self, sample: Sample, failure: Failure, shows: Shows) -> Smallest:
        """The simplest sample that shows a failure."""

    def explained(self, sample: Sample, failure: Failure) -> tuple[str, ...]:
        """Lines about the command to look at."""

    def text(self, sample: Sample) -> str:
        """What is tried, in words."""

    def inputs(self, sample: Sample) -> Sequence[Array]:
        """Its inputs."""


class LayerSubject:
    """A layer."""

    def __init__(self, layer: Layer) -> None:
        self._layer, self.verdict, self.smallest = layer, layer.verdict, smallest

    def drawn(self, seed: int, number: int, attempt: int, values: tuple[str, ...]) -> Sample:
        """See Subject."""
        return drawn(self._layer.target, seed, number, attempt, values)

    def explained(self, sample: Sample, failure: Failure) -> tuple[str, ...]:
        """See Subject."""
        return explained(self._layer, sample, failure)

    def text(self, sample: Sample) -> str:
        """See Subject."""
        case = str(sample.case(self._layer.target))
        return case if sample.values == "drawn" else f"{case}, values {sample.values}"

    def inputs(self, sample: Sample) -> Sequence[Array]:
        """See Subject."""
        return sample.arrays(sample.case(self._layer.target))


class Worker:
    """All that a job verifies on this process's devices; a context manager."""

    def __init__(self, job: Job) -> None:
        self._job = job
        choose(job.time_limit)
        self._stack = ExitStack()
        try:
            self._subjects: dict[str, Subject] = dict(self._opened())
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _opened(self) -> Iterator[tuple[str, Subject]]:
        job = self._job
        if job.model is not None:
            toolkit = self._stack.enter_context(Toolkit(job.root))
            yield (
                job.names[0],
                NetSubject(job.model, dict(job.shapes), toolkit, job.check, self._stack),
            )
            return
        if job.targets:
            module, _, function = job.targets.partition(":")
            toolkit = self._stack.enter_context(Toolkit(job.root))
            for target in getattr(import_module(module), function)():
                if target.name in job.names:
                    op = toolkit.op(target.op, target.name)
                    yield target.name, LayerSubject(Layer(target, op, {"native": toolkit}, job.check))
            return
        assert job.root is not None
        ws = Workspace(job.root)
        toolkits = self._stack.enter_context(open_toolkits(ws))
        for path in find_tests(ws, job.names):
            target = Target.of(load_test(path))
            op = op_of(ws, toolkits["native"], target.name)
            yield target.name, LayerSubject(Layer(target, op, toolkits, job.check))

    def do(self, ticket: Ticket) -> Outcome:
        """What a ticket asks for."""
        begin = time.monotonic()
        subject = self._subjects[ticket.layer]
        outcome = Outcome(ticket.layer, ticket.number)
        if ticket.failure is not None and ticket.sample is not None:
            outcome.found = self._smallest(subject, ticket, ticket.sample, ticket.failure)
        elif ticket.sample is not None:
            outcome.sample = ticket.sample
            self._note(outcome, subject.verdict(ticket.sample))
        else:
            for attempt in range(ATTEMPTS):
                sample = subject.drawn(self._job.seed, ticket.number, attempt, self._job.values)
                verdict = subject.verdict(sample)
                self._note(outcome, verdict)
                if not verdict.refused:
                    outcome.sample = sample
                    break
        outcome.seconds = time.monotonic() - begin
        return outcome

    def _note(self, outcome: Outcome, verdict: Verdict) -> None:
        if verdict.refused:
            outcome.refused[verdict.refused] += 1
        outcome.held.update(verdict.held)
        outcome.skipped.update(verdict.skipped.items())
        outcome.failures = tuple(verdict.failures)
        outcome.elements += verdict.elements

    def _smallest(self, subject: Subject, ticket: Ticket, sample: Sample, failure: Failure) -> Counterexample:
        begin = time.monotonic()
        wanted = failure

        def shows(candidate: Sample) -> Failure | None:
            verdict = subject.verdict(candidate, only=wanted)
            return next((one for one in verdict.failures if wanted.same(one)), None)

        best = subject.smallest(sample, wanted, shows)
        first = next(iter(subject.verdict(best.sample).failures), wanted)
        if first.during == "golden" != wanted.during:  # the smallest one shows it without more ado
            wanted = first
            best = subject.smallest(best.sample, wanted, shows)
        try:
            lines = subject.explained(best.sample, best.failure)
        except TpulayerError as error:  # what fails while it is traced was told already
            lines = (f"the command is not known: {error.message}",)
        return Counterexample(
            ticket.layer,
            ticket.number,
            best.sample,
            subject.text(best.sample),
            best.failure,
            lines,
            best.runs + 1,
            best.ended,
            time.monotonic() - begin,
            tuple(subject.inputs(best.sample)),
        )


@contextmanager
def worker(job: Job) -> Iterator[Callable[[Ticket], Outcome]]:
    """What tries samples, for a process on this machine."""
    with Worker(job) as made:
        yield made.do


def model_files(model: Path) -> list[Path]:
    """A model's file and those of its name beside it, where weights may be."""
    return sorted({model, *(path for path in model.parent.glob(f"{model.stem}.*") if path.is_file())})


@dataclass(frozen=True)
class Packed:
    """A job with what was built, and the tests: for a machine that has neither."""

    job: Job
    files: Mapping[str, bytes]

    @staticmethod
    def of(job: Job) -> Packed:
        """Read the files. Errors: MissingError for a workspace that is not built."""
        files: dict[str, bytes] = {}
        if job.root is not None and not job.targets:
            ws = Workspace.find(job.root)
            check_installed(ws.firmware)
            wanted = [ws.local_plugin, ws.bmtpu_header, ws.layer_record, *ws.config_files]
            wanted += [p for p in ws.firmware.parent.iterdir() if p.is_file() and p.suffix != ".a"]
            wanted += sorted(ws.tests_dir.glob("*.py"))
            files = {str(path.relative_to(ws.root)): path.read_bytes() for path in wanted}
        if job.model is not None:
            files |= {f"{_MODEL}/{path.name}": read_input(path) for path in model_files(job.model)}
        return Packed(job, files)

    def __repr__(self) -> str:
        return f"<Packed {', '.join(self.job.names)}: {sum(map(len, self.files.values()))} bytes>"


@contextmanager
def worker_anywhere(packed: Packed) -> Iterator[Callable[[Ticket], Outcome]]:
    """The same on a machine that has none of the files."""
    with TemporaryDirectory(prefix="tpulayer-verify-") as place:
        for name, content in packed.files.items():
            path = Path(place) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        job = packed.job
        if job.root is not None:
            job = replace(job, root=Path(place))
        if job.model is not None:
            job = replace(job, model=Path(place) / _MODEL / job.model.name)
        with Worker(job) as made:
            yield made.do


def parsed_values(words: str) -> tuple[str, ...]:
    """What `--values` says. Errors: UsageError for a word that is none."""
    found = tuple(word for word in words.split(",") if word not in ("", "none"))
    for word in found:
        if word not in VALUES:
            raise UsageError(
                f"--values: {word!r}{did_you_mean(word, VALUES)}", hint=f"{', '.join(VALUES[1:])}, or none"
            )
    return found


def sample_ticket(job: Job, path: Path) -> Ticket:
    """To try one sample from a file. Errors: UsageError."""
    if len(job.names) != 1:
        raise UsageError("--case with several layers", hint="name the one that it is of")
    try:
        sample = Sample.from_json(read_input(path).decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"--case {path} cannot be read: {error}") from error
    return Ticket(job.names[0], sample.salt, sample)


def job_of(wanted: Job, names: Sequence[str], shapes: Sequence[str]) -> Job:
    """What the command's words name: layers of the workspace around the current folder, or a model's file.

    Errors: UsageError; MissingError for a workspace that is not built.
    """
    files = [name for name in names if Path(name).suffix]
    if files and len(names) > 1:
        raise UsageError(f"{files[0]} beside others", hint="a model's file is verified by itself")
    if files:
        path = Path(files[0])
        if not path.is_file():
            raise UsageError(f"{path} is not there")
        ws = Workspace.around()
        root = ws.root if ws is not None and ws.firmware.is_file() else None
        given = tuple(parse_shapes(shapes).items())
        return replace(wanted, root=root, names=(path.name,), model=path.resolve(), shapes=given)
    if shapes:
        raise UsageError("--shapes without a model's file", hint="shapes of layers are drawn")
    ws = Workspace.find()
    found = tuple(path.stem.removeprefix("test_") for path in find_tests(ws, names))
    check_built(ws)
    return replace(wanted, root=ws.root, names=found)
