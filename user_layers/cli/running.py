"""Commands that run nets on the emulated device, or look into bmodels."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firmware_sim.checks.export import as_json
from firmware_sim.errors import ModelError
from user_layers.cli.checking import checking
from user_layers.cli.options import (
    Check,
    CheckLimit,
    Gdb,
    GdbCommand,
    GdbPort,
    Sarif,
    SaveRepro,
    Schedule,
    TimeLimit,
    Warnings,
    for_devices,
    in_gdb,
)

if TYPE_CHECKING:
    from user_layers.repro import Content

_Firmware = Annotated[
    str | None,
    typer.Option("--firmware", help="native, arm, or the path of a firmware; see docs/firmware.md."),
]

KernelArg = Annotated[
    list[str] | None, typer.Option("--arg", help="MEMBER=NUMBER of the argument struct; lists: N=1,2,3.")
]
KernelIn = Annotated[
    list[str] | None, typer.Option("--in", help="MEMBER=FILE.npy: an array for the kernel to read.")
]
KernelOut = Annotated[
    list[str] | None,
    typer.Option("--out", help="MEMBER=4x8:float32[:FILE.npy]: an array that the kernel writes."),
]
KernelStruct = Annotated[str | None, typer.Option("--struct", help="The argument struct's name.")]
KernelInclude = Annotated[list[Path] | None, typer.Option("--include", help="Folder with headers.")]
NetSeed = Annotated[int, typer.Option("--seed", min=0, help="Of random inputs.")]


def test_tpu_layer(
    mode: Annotated[int, typer.Argument(min=0, max=1, help="0: static, 1: dynamic, with several shapes.")],
    firmware: _Firmware = None,
    time_limit: TimeLimit = None,
    check: Check = None,
    schedule: Schedule = False,
    check_limit: CheckLimit = None,
    sarif: Sarif = None,
    gdb: Gdb = False,
    gdb_command: GdbCommand = None,
    gdb_port: GdbPort = None,
) -> int:
    """Compile crop -> expand_dims -> const_binary -> double, run it, and compare with numpy bit for bit.

    Writes the net and its reference data to tpulayer_static or tpulayer_dynamic in the current folder.
    """
    from user_layers.demo import DEMO_LAYERS, check_demo_layers, run
    from user_layers.workspace import Workspace

    for_devices(time_limit, None, check, check_limit, schedule)
    ws = Workspace.find()
    debugger = in_gdb(gdb, gdb_command, gdb_port)
    if debugger is None:
        with checking(sarif) as found:
            good = run(ws, mode, typer.echo, firmware)
        return found.code(0 if good else 1)
    from user_layers.testing.run import check_built
    from user_layers.toolchain import firmware_image
    from user_layers.toolchain.debug import debug_workspace, layer_functions

    check_demo_layers(ws)
    check_built(ws)
    image = firmware_image(ws, firmware)
    with debugger(image.kind, layer_functions(ws, DEMO_LAYERS)), checking(sarif) as found:
        path = debug_workspace(ws) if image.path == ws.firmware else image.path
        good = run(ws, mode, typer.echo, str(path))
    return found.code(0 if good else 1)


def bmrt_test(
    context_dir: Annotated[
        Path | None, typer.Option("--context_dir", help="Folder made by compiling; compares its outputs.")
    ] = None,
    bmodel: Annotated[
        Path | None, typer.Option("--bmodel", help="A bmodel file; random inputs, nothing to compare with.")
    ] = None,
    devid: Annotated[int, typer.Option("--devid", help="Number of the emulated device.")] = 0,
    compare: Annotated[
        int | None, typer.Option("--compare", min=0, max=1, help="0: random inputs, no comparison.")
    ] = None,
    accuracy_f: Annotated[float, typer.Option("--accuracy_f", help="Tolerance for floats.")] = 0.01,
    accuracy_i: Annotated[int, typer.Option("--accuracy_i", help="Tolerance for integers.")] = 0,
    loopnum: Annotated[int, typer.Option("--loopnum", help="Runs of everything.")] = 1,
    calculate_times: Annotated[int, typer.Option("--calculate_times", help="Launches per run.")] = 1,
    thread_num: Annotated[int, typer.Option("--thread_num", help="Threads that launch.")] = 1,
    net_idx: Annotated[int | None, typer.Option("--net_idx", help="Only this net, from 0.")] = None,
    stage_idx: Annotated[int | None, typer.Option("--stage_idx", help="Only this stage, from 0.")] = None,
    shapes: Annotated[str, typer.Option("--shapes", help='Input shapes: "[1,3,9],[4]".')] = "",
    output_shapes: Annotated[str, typer.Option("--output_shapes", help="Expected output shapes.")] = "",
    subnet_time: Annotated[
        bool, typer.Option("--subnet_time", help="Print the time of each subnet.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Refused: there are no counters.")] = False,
    debug_output: Annotated[
        bool, typer.Option("--debug_output", help="Write outputs and references as text.")
    ] = False,
    test_case: Annotated[str, typer.Option("--test_case", help="Which interface is tested.")] = "",
    input: Annotated[Path | None, typer.Option("--input", help="Inputs by name, an .npz file.")] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write outputs to an .npz file.")] = None,
    firmware: _Firmware = None,
    warnings: Warnings = None,
    time_limit: TimeLimit = None,
    check: Check = None,
    schedule: Schedule = False,
    check_limit: CheckLimit = None,
    sarif: Sarif = None,
) -> int:
    """Run a bmodel on the emulated device, compare with its reference data, and time it."""
    from user_layers.bmrt.bmrt_test import BmrtTestOptions, run

    for_devices(time_limit, warnings, check, check_limit, schedule)
    options = BmrtTestOptions(
        context_dir=context_dir,
        bmodel=bmodel,
        devid=devid,
        compare=None if compare is None else bool(compare),
        accuracy_f=accuracy_f,
        accuracy_i=accuracy_i,
        loopnum=loopnum,
        calculate_times=calculate_times,
        thread_num=thread_num,
        net_idx=net_idx,
        stage_idx=stage_idx,
        shapes=shapes,
        output_shapes=output_shapes,
        subnet_time=subnet_time,
        profile=profile,
        debug_output=debug_output,
        test_case=test_case,
        input=input,
        output=output,
        firmware=firmware,
    )
    with checking(sarif) as found:
        code = run(options, say=typer.echo)
    return found.code(code)


def check(
    model: Annotated[Path, typer.Argument(help="A bmodel, or the folder that a compile wrote.")],
    net: Annotated[str | None, typer.Option("--net", help="Only this net: its name or number.")] = None,
    stage: Annotated[int | None, typer.Option("--stage", help="Only this stage, from 0.")] = None,
    input: Annotated[
        list[Path] | None,
        typer.Option("--input", help="Inputs by name, an .npz file; several: a run for each."),
    ] = None,
    seed: NetSeed = 1684,
    firmware: _Firmware = None,
    time_limit: TimeLimit = None,
    check: Check = None,
    schedule: Schedule = False,
    check_limit: CheckLimit = None,
    sarif: Sarif = None,
    save_repro: SaveRepro = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Run the nets of a bmodel, whoever compiled it, and say what checks find; exit code 5 when they do.

    Inputs are random where none are given. Outputs are not compared; see bmrt_test.
    """
    from json import dumps

    from user_layers.bmrt.check_model import CheckOptions, Looked, run
    from user_layers.cli.keeping import input_name, keeping, model_files, options, report_of

    for_devices(time_limit, None, check, check_limit, schedule)
    asked = CheckOptions(model, net, stage, tuple(input or ()), seed, firmware)

    inputs = input or []
    own = Path(firmware) if firmware is not None and Path(firmware).exists() else None

    def words() -> list[object]:
        given = [input_name(number, path) for number, path in enumerate(inputs)]
        told = options(net=net, stage=stage, seed=seed, input=given)
        told += options(firmware=firmware if own is None else f"firmware/{own.name}")
        checks = options(check=check, schedule=schedule, time_limit=time_limit)
        return ["check", f"model/{model.resolve().name}", *told, *checks]

    name = f"check-{model.resolve().stem}"
    with keeping(save_repro, name, words, lambda: model_files(model, inputs, own)) as ended:
        looked: list[Looked] = []
        with checking(sarif) as found:
            for one in run(asked):
                looked.append(one)
                found.take(one.findings)
                typer.echo(str(one), err=json)
        ended.code, ended.what = found.code(), report_of(found.findings)
    if json:
        answer = {
            "command": "check",
            "model": str(model),
            "ok": ended.code == 0,
            "runs": [one.to_json() for one in looked],
            "findings": as_json(found.findings),
        }
        typer.echo(dumps(answer, indent=2))
    return ended.code


def tpu_model(
    more: Annotated[
        list[str] | None, typer.Argument(help="What follows the first file.", show_default=False)
    ] = None,
    info: Annotated[Path | None, typer.Option("--info", help="FILE: show what is in it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="With --info: print one JSON object.")] = False,
    print_: Annotated[Path | None, typer.Option("--print", help="FILE: show every field, as JSON.")] = None,
    weight: Annotated[
        Path | None, typer.Option("--weight", help="FILE: show where the constants of the layers lie.")
    ] = None,
    extract: Annotated[
        Path | None,
        typer.Option("--extract", help="FILE: write each stage of each net into a file; -o FOLDER."),
    ] = None,
    combine: Annotated[
        Path | None, typer.Option("--combine", help="FILE1 FILE2 ... -o NEW: put their nets into one file.")
    ] = None,
    combine_dir: Annotated[
        Path | None,
        typer.Option("--combine_dir", help="DIR1 DIR2 ... -o NEW: the same with their reference data."),
    ] = None,
    dump: Annotated[
        Path | None, typer.Option("--dump", help="FILE START SIZE NEW: write bytes of its binary part.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", help="The file or folder to make.")] = None,
) -> None:
    """Show what is in bmodels, take them apart, put them together."""
    from user_layers.bmodel.tool import TpuModelOptions, run

    options = TpuModelOptions(
        more=tuple(more or ()),
        info=info,
        json=json,
        print=print_,
        weight=weight,
        extract=extract,
        combine=combine,
        combine_dir=combine_dir,
        dump=dump,
        output=output,
    )
    typer.echo(run(options))
    if combine is not None or combine_dir is not None:
        _say_what_does_not_run(output)


def run_kernel(
    kernel: Annotated[list[Path], typer.Option("--kernel", help="C file; may be given several times.")],
    name: Annotated[str, typer.Option("--name", help="The kernel's function.")],
    arg: KernelArg = None,
    given: KernelIn = None,
    wanted: KernelOut = None,
    struct: KernelStruct = None,
    include: KernelInclude = None,
    firmware: Annotated[str, typer.Option("--firmware", help="native or arm.")] = "native",
    sanitize: Annotated[bool, typer.Option("--sanitize", help="Check the kernel's C while it runs.")] = False,
    time_limit: TimeLimit = None,
    warnings: Warnings = None,
    check: Check = None,
    schedule: Schedule = False,
    check_limit: CheckLimit = None,
    sarif: Sarif = None,
    save_repro: SaveRepro = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    gdb: Gdb = False,
    gdb_command: GdbCommand = None,
    gdb_port: GdbPort = None,
) -> int:
    """Build a free kernel from a C file and run it on the emulated device with numpy arrays."""
    from firmware_sim.firmware.image import kind_named
    from user_layers.cli.keeping import arrays_of, keeping, options, report_of, sources_of
    from user_layers.files import read_input
    from user_layers.kernels.words import run

    for_devices(time_limit, warnings, check, check_limit, schedule)
    words = (arg or [], given or [], wanted or [])
    include = include or []
    start = in_gdb(gdb, gdb_command, gdb_port)

    def again() -> list[object]:
        sources = sources_of(kernel, include, "kernel")
        inputs = [f"{member}=data/{member}.npy" for member, _ in arrays_of(words[1])]
        made = [":".join(text.split(":")[:2]) for text in words[2]]
        told = options(kernel=sources.kernels, name=name, arg=words[0], in_=inputs, out=made, struct=struct)
        told += options(include=sources.folders, sanitize=sanitize, firmware=firmware)
        checks = options(check=check, schedule=schedule, warnings=warnings, time_limit=time_limit)
        return ["run_kernel", *told, *checks]

    data: dict[str, Content] = {}
    for member, path in arrays_of(words[1]) if save_repro is not None else ():
        with suppress(OSError):  # the run says it
            data[f"data/{member}.npy"] = read_input(path)  # now: an --out may be the same file

    def files() -> dict[str, Content]:
        return {**sources_of(kernel, include, "kernel").files, **data}

    with keeping(save_repro, name, again, files) as ended:
        debugger = nullcontext() if start is None else start(kind_named(firmware, "--firmware"), [name])
        with debugger, checking(sarif) as found:
            text = run(
                kernel,
                name,
                *words,
                struct,
                include,
                as_json=json,
                kind=firmware,
                sanitize=sanitize,
                debug=start is not None,
                on_findings=found.take,
            )
            typer.echo(text)
        ended.code, ended.what = found.code(), report_of(found.findings)
    return ended.code


def load_firmware(
    tcm: Annotated[Path | None, typer.Argument(help="firmware_tcm.bin", show_default=False)] = None,
    ddr: Annotated[Path | None, typer.Argument(help="firmware_ddr.bin", show_default=False)] = None,
    dev_id: Annotated[int, typer.Argument(help="Number of the emulated device.")] = 0,
    forget: Annotated[
        int | None, typer.Option("--forget", help="Remove the record of this device instead.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Load two firmware images into a device, say what is in them, and keep them for later processes."""
    from firmware_sim.errors import UsageError
    from user_layers.bmrt import load_firmware as work

    if forget is not None:
        if tcm is not None:
            raise UsageError("--forget and images together", hint="load_firmware --forget DEV_ID")
        typer.echo(work.forget(forget))
        return
    if tcm is None or ddr is None:
        raise UsageError(
            "both images are needed", hint="load_firmware firmware_tcm.bin firmware_ddr.bin [DEV_ID]"
        )
    typer.echo(work.run(tcm, ddr, dev_id, as_json=json))


def _say_what_does_not_run(made: Path | None) -> None:
    """Nets that a file may hold and that the runtime here refuses: better said now than at their loading."""
    from user_layers.bmodel.directory import BMODEL
    from user_layers.bmodel.read import read
    from user_layers.runtime.runnable import check_runnable

    assert made is not None  # run() refuses to combine into nothing
    for net in read(made / BMODEL if made.is_dir() else made).nets:
        try:
            check_runnable(net)
        except ModelError as error:
            typer.echo(f"note: does not run here: {error}", err=True)
