"""The command that says where the time goes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from user_layers.cli.models import Custom, Shapes, Weight
from user_layers.cli.options import TimeLimit, Warnings, for_devices
from user_layers.cli.running import (
    KernelArg,
    KernelIn,
    KernelInclude,
    KernelOut,
    KernelStruct,
    NetSeed,
)

if TYPE_CHECKING:
    from user_layers.profile.model import Profile


def profile(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="A bmodel, a folder that a compile wrote, or a model's file; behind -- another command "
            "with its words, or a Python file.",
            show_default=False,
            metavar="MODEL|COMMAND...",
        ),
    ] = None,
    net: Annotated[
        str | None, typer.Option("--net", help="Of a bmodel only this net: name or number.")
    ] = None,
    stage: Annotated[int | None, typer.Option("--stage", help="Only this stage, from 0.")] = None,
    input: Annotated[
        list[Path] | None,
        typer.Option("--input", help="Inputs by name, an .npz file; several: a run for each."),
    ] = None,
    seed: NetSeed = 1684,
    weight: Weight = None,
    shapes: Shapes = None,
    opt: Annotated[
        int, typer.Option("--opt", min=0, max=2, help="Of a model's file, as compile takes it.")
    ] = 2,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="The same.")] = False,
    custom: Custom = None,
    kernel: Annotated[
        list[Path] | None, typer.Option("--kernel", help="C file of a kernel; may be given several times.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The kernel's function.")] = None,
    arg: KernelArg = None,
    given: KernelIn = None,
    wanted: KernelOut = None,
    struct: KernelStruct = None,
    include: KernelInclude = None,
    test: Annotated[
        list[str] | None, typer.Option("--test", help="A layer of the workspace: the cases of its test.")
    ] = None,
    firmware: Annotated[
        str | None, typer.Option("--firmware", help="native, arm, or the path of one.")
    ] = None,
    diff: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--diff", metavar="BEFORE AFTER", help="Compare two saved profiles, files of --json."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Rows of each table.")] = 15,
    annotate: Annotated[
        bool, typer.Option("--annotate/--no-annotate", help="Also show lines of source with their shares.")
    ] = True,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write one HTML file.")
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option("--perfetto", metavar="FILE", help="Also write a trace for ui.perfetto.dev."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object, which --diff reads.")] = False,
    commands: Annotated[bool, typer.Option("--commands", help="With --json: also every command.")] = False,
    time_limit: TimeLimit = None,
    warnings: Warnings = None,
) -> int:
    """Say where the modelled time goes: by source line, function, layer, operation and instruction, with what
    the engines waited for.

    Of a kernel (--kernel, --name and the words of run_kernel), of the nets of a bmodel or a compiled folder,
    of a model's file, which is compiled first, of layers' tests (--test), or of what another command runs.
    Without checks, but in other commands, whose exit code is that of this one.
    """
    from firmware_sim.errors import UsageError
    from user_layers.commands import find

    other = words or []
    is_another = bool(other) and (other[0].endswith(".py") or find(other[0]) is not None)
    model = Path(other[0]) if len(other) == 1 and not is_another else None
    asked = [bool(other), bool(kernel), bool(test), diff is not None]
    if sum(asked) != 1 or (other and model is None and not is_another):
        raise UsageError(
            "only one thing at a time" if sum(asked) > 1 or other else "what is to be profiled?",
            hint="a bmodel, a model's file, --kernel FILE --name NAME, --test LAYER, --diff BEFORE AFTER, "
            "or -- and another command",
        )
    net_file = model is not None and (model.is_dir() or model.suffix == ".bmodel")
    _refuse_others(
        {
            "a kernel": (
                bool(kernel),
                {
                    "--name": name,
                    "--arg": arg,
                    "--in": given,
                    "--out": wanted,
                    "--struct": struct,
                    "--include": include,
                },
            ),
            "a net": (model is not None, {"--net": net, "--stage": stage, "--input": input}),
            "a model's file": (
                model is not None and not net_file,
                {"--weight": weight, "--shapes": shapes, "--dynamic": dynamic, "--map": custom},
            ),
        }
    )
    if commands and not json:
        raise UsageError("--commands without --json", hint="the text shows those that take longest: --top N")
    if diff is not None:
        _diff(diff, top, json=json)
        return 0
    if perfetto is not None:
        from user_layers.profile.perfetto import classes

        classes()  # that it is missing is better known before a long run
    for_devices(time_limit, warnings, "off")
    code = 0
    from user_layers.cli.progress import Progress
    from user_layers.profile import run

    with Progress() as progress:
        if kernel:
            if name is None:
                raise UsageError("--kernel without --name", hint="--name is the kernel's function")
            members = arg or [], given or [], wanted or []
            found = run.kernel(run.KernelWords(kernel, name, *members, struct, include or [], firmware))
        elif is_another:
            from contextlib import redirect_stdout

            from user_layers.cli.another import run_another

            with redirect_stdout(sys.stderr), run.profiled(" ".join(other)) as made:
                code = run_another(other, "profile")
            found = made.profile
        elif test:
            unequal: list[str] = []
            found = run.tests(test, firmware, progress.step, unequal.append)
            for line in unequal:
                typer.echo(line, err=True)
            code = 1 if unequal else 0
        else:
            assert model is not None
            from user_layers.bmrt.check_model import CheckOptions

            options = CheckOptions(model, net, stage, tuple(input or ()), seed, firmware)
            if net_file:
                progress.step(f"running {model}")
                found = run.bmodel(options)
            else:
                more = weight, shapes or (), opt, dynamic, custom or ()
                found = run.model(run.ModelWords(model, *more), options, progress.step)
        progress.done()
    if not found.requests and not is_another:
        raise UsageError("nothing ran on a device", hint="`tpulayer explain MODEL` says what runs where")
    _write(found, html, perfetto)
    if json:
        from user_layers.profile.document import profile_json

        typer.echo(profile_json(found, commands=commands), nl=False)
    else:
        from user_layers.profile.text import profile_text

        typer.echo(profile_text(found, top, annotate=annotate), nl=False)
    return code


def _refuse_others(options: Mapping[str, tuple[bool, Mapping[str, object]]]) -> None:
    """UsageError for an option of something else than what is profiled. options: by what they are for,
    whether that is profiled, and the options' values."""
    from firmware_sim.errors import UsageError

    for what, (profiled, values) in options.items():
        for option, value in values.items():
            if not profiled and value is not None and value is not False:
                raise UsageError(
                    f"{option} is for {what}, which is not what is profiled", hint="leave it out"
                )


def _write(found: Profile, html: Path | None, perfetto: Path | None) -> None:
    """The files. UsageError where one cannot be written."""
    from firmware_sim.errors import UsageError
    from user_layers.files import write_atomic
    from user_layers.profile.page import profile_page
    from user_layers.profile.perfetto import profile_trace

    for option, path, make in (("--html", html, profile_page), ("--perfetto", perfetto, profile_trace)):
        if path is None:
            continue
        try:
            write_atomic(path, make(found))
        except OSError as error:
            raise UsageError(f"{option} {path} cannot be written: {error.strerror or error}") from None


def _diff(paths: tuple[Path, Path], top: int, *, json: bool) -> None:
    from user_layers.profile.diff import compare, diff_json, diff_text, read_saved

    found = compare(*map(read_saved, paths))
    typer.echo(diff_json(found) if json else diff_text(found, top), nl=False)
