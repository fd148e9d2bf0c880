"""Running the nets of a bmodel for what checks find in them: no reference data, no comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firmware_sim.checks.finding import Finding
from firmware_sim.checks.merged import merged
from firmware_sim.checks.text import summary
from firmware_sim.device.api import Array
from firmware_sim.device.client import Device
from firmware_sim.device.findings import together
from firmware_sim.errors import UsageError
from firmware_sim.suggest import did_you_mean
from user_layers.bmrt.reference_data import load_npz, random_inputs
from user_layers.runtime.bmruntime import BModelRuntime
from user_layers.runtime.network import NetworkInfo, bind_inputs, choose_stage


@dataclass(frozen=True)
class CheckOptions:
    """model: a bmodel or the folder with one. net: a name or a number from 0, stage: a number from 0; None:
    all. inputs: .npz files, a run for each; without any random ones, of `seed`, for every stage. firmware:
    see `firmware_image`."""

    model: Path
    net: str | None = None
    stage: int | None = None
    inputs: tuple[Path, ...] = ()
    seed: int = 1684
    firmware: str | None = None


@dataclass(frozen=True)
class Looked:
    """One run. inputs: where they came from; commands: of both engines, executed; checks: what was looked
    for, as `--check` takes it; findings: each once."""

    net: str
    stage: int
    dynamic: bool
    inputs: str
    commands: int
    checks: str
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        """One line for people."""
        mode = "dynamic" if self.dynamic else "static"
        ran = f"{self.commands} command{'s' * (self.commands != 1)}"
        head = f"net {self.net!r} stage {self.stage}, {mode}, {self.inputs}: {ran}"
        if self.checks == "off":
            return f"{head}, nothing checked"
        return f"{head}, {self.checks}: {summary(self.findings) if self.findings else 'nothing found'}"

    def to_json(self) -> dict[str, Any]:
        """Without the findings, which several runs may have in common."""
        return {
            "net": self.net,
            "stage": self.stage,
            "dynamic": self.dynamic,
            "inputs": self.inputs,
            "commands": self.commands,
            "checks": self.checks,
            "rules": sorted({one.rule for one in self.findings}),
        }


def run(options: CheckOptions) -> Iterator[Looked]:
    """Run what was asked for, one after the other. UsageError for what the bmodel does not have, ModelError
    for what cannot be loaded, DeviceError for what does not run."""
    from user_layers.toolchain import firmware_image
    from user_layers.workspace import Workspace

    with (
        Device(firmware_image(Workspace.around(), options.firmware)) as device,
        BModelRuntime(device) as runtime,
    ):
        runtime.load(options.model)
        for info, stage, arrays, where in _runs(options, runtime.networks):
            found: list[Finding] = []
            before = device.commands
            with together(on_findings=found.extend):
                runtime.run(info.name, arrays, stage)
            ran = device.commands - before
            seen = tuple(merged(found))
            yield Looked(info.name, stage, info.is_dynamic, where, ran, device.check, seen)


def _runs(
    options: CheckOptions, nets: tuple[NetworkInfo, ...]
) -> Iterator[tuple[NetworkInfo, int, list[Array], str]]:
    """Net, stage, inputs and where they are from, of each run."""
    chosen = nets if options.net is None else (_net(options.net, nets),)
    if options.inputs and len(chosen) > 1:
        names = ", ".join(info.name for info in chosen)
        raise UsageError(f"--input is for one net, these are {len(chosen)}: {names}", hint="add --net")
    for info in chosen:
        if options.stage is not None and not 0 <= options.stage < len(info.stages):
            raise UsageError(
                f"--stage {options.stage}: net {info.name!r} has {len(info.stages)} stages, counted from 0"
            )
    if not options.inputs:
        for info in chosen:
            for stage in range(len(info.stages)) if options.stage is None else (options.stage,):
                arrays = random_inputs(info, info.stages[stage].input_shapes, options.seed)
                yield info, stage, arrays, f"random inputs of seed {options.seed}"
        return
    [info] = chosen
    for path in options.inputs:

        def fits(arrays: Mapping[str, Array]) -> None:
            choose_stage(info, [a.shape for a in bind_inputs(info, arrays)], options.stage)

        arrays = bind_inputs(info, load_npz(path, fits))
        yield info, choose_stage(info, [a.shape for a in arrays], options.stage), arrays, str(path)


def _net(word: str, nets: tuple[NetworkInfo, ...]) -> NetworkInfo:
    for info in nets:
        if info.name == word:
            return info
    if word.isdecimal() and int(word) < len(nets):
        return nets[int(word)]
    names = [info.name for info in nets]
    raise UsageError(
        f"--net {word}: no such net{did_you_mean(word, names)}",
        hint=f"the bmodel has {', '.join(f'{i}: {name}' for i, name in enumerate(names))}",
    )
