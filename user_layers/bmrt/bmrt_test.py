"""bmrt_test: runs the nets of a bmodel, compares their outputs with references, and times them.

Options and output lines follow the vendor's tool. The times are the host's clock: "npu" is the time spent in
requests that the device executes, "cpu" the rest of the launch, with subnets on the host; with an emulated
device both say how long the emulation took, not how long the chip would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firmware_sim.chip import CLOCK_HZ
from firmware_sim.device.api import Array, DeviceApi
from firmware_sim.errors import UsageError
from firmware_sim.isa import timing
from user_layers.bmodel.directory import BMODEL, Shape
from user_layers.bmrt.reference_data import (
    References,
    load_npz,
    parse_shapes,
    random_inputs,
    save_npz,
)
from user_layers.files import read_input, write_atomic
from user_layers.runtime.bmruntime import BModelRuntime
from user_layers.runtime.compare import differences, report
from user_layers.runtime.loaded import Ran
from user_layers.runtime.network import NetworkInfo, bind_inputs, choose_stage

SHOWN = 16
TEST_CASES = ("bmrt_load_context", "bmrt_load_bmodel_data", "bmrt_launch_data", "bmrt_multi_thread")
FOREIGN_TEST_CASES = (
    "bmrt_simple_api",
    "bmrt_get_bmodel_api",
    "bmrt_get_bmodel_api_c",
    "bmcpp_load_bmodel",
    "bmcpp_load_bmodel_data",
    "bmcpp_reshape",
    "bmcpp_multi_thread",
    "bmtap2_register_bmodel",
    "bmtap2_register_data",
    "bmtap2_multi_thread",
    "bmtap2cpp_load_bmodel",
    "bmtap2cpp_multi_thread",
    "bmmc_multi_mession",
)


@dataclass(frozen=True)
class BmrtTestOptions:
    """The options of the command.

    context_dir: folder with compilation.bmodel, input_ref_data.dat and output_ref_data.dat; compares.
    bmodel: a file instead; random inputs, nothing to compare with.
    devid: number of the emulated device; each number is a chip of its own.
    compare: False runs a context_dir on random inputs without comparing; None is True for context_dir.
    accuracy_f, accuracy_i: see compare.py.
    loopnum: how often everything is run. calculate_times: launches per run, which must all give the
    same bits. thread_num: threads that launch at the same time (the device serves one after the other).
    net_idx, stage_idx: run only this net or stage, counted from 0.
    shapes: input shapes "[1,3,9],[4]" of the one net to run: a smaller size of a dynamic net, or the
    stage to choose. output_shapes: the shapes that its outputs must then have.
    subnet_time: print the time of each subnet. debug_output: write outputs and references as text into
    the current folder, one value per line. profile: refused, the emulator has no profile counters.
    test_case: one of TEST_CASES: load the bmodel by name or from memory, launch with inputs by order,
    or from several threads. The vendor's other cases test C and C++ interfaces and are refused.
    input: .npz with an array per input name, instead of references or random data. output: .npz to
    write the outputs to.
    """

    context_dir: Path | None = None
    bmodel: Path | None = None
    devid: int = 0
    compare: bool | None = None
    accuracy_f: float = 0.01
    accuracy_i: int = 0
    loopnum: int = 1
    calculate_times: int = 1
    thread_num: int = 1
    net_idx: int | None = None
    stage_idx: int | None = None
    shapes: str = ""
    output_shapes: str = ""
    subnet_time: bool = False
    profile: bool = False
    debug_output: bool = False
    test_case: str = ""
    input: Path | None = None
    output: Path | None = None
    firmware: str | None = None


OpenDevice = Callable[[int, str | None], AbstractContextManager[DeviceApi]]


def open_device(devid: int, firmware: str | None = None) -> AbstractContextManager[DeviceApi]:
    """The emulator with the firmware that is asked for; see `firmware_image`."""
    from firmware_sim.device.client import Device
    from user_layers.toolchain import firmware_image
    from user_layers.workspace import Workspace

    return Device(firmware_image(Workspace.around(), firmware, devid), dev_id=devid)


def run(
    options: BmrtTestOptions, *, device: OpenDevice = open_device, say: Callable[[str], None] = print
) -> int:
    """Run the test. Returns 0, or 1 when an output differs; errors are raised as TpulayerError."""
    _check(options)
    folder = options.context_dir
    path = options.bmodel if folder is None else folder / BMODEL
    assert path is not None  # _check
    compare = folder is not None and options.input is None and options.compare is not False
    with device(options.devid, options.firmware) as chip, BModelRuntime(chip) as runtime:
        if options.test_case == "bmrt_load_bmodel_data":
            runtime.load(_read(path))
        else:
            runtime.load(path)
        return _Test(options, runtime, chip, folder if compare else None, say).run()


def _check(options: BmrtTestOptions) -> None:
    if (options.context_dir is None) == (options.bmodel is None):
        raise UsageError("give one of --context_dir and --bmodel")
    if options.bmodel is not None and options.bmodel.is_dir():
        raise UsageError(
            f"--bmodel {options.bmodel} is a folder; it takes a bmodel file",
            hint=f"--context_dir {options.bmodel} runs the bmodel in a folder and compares it with its "
            "reference data",
        )
    if options.context_dir is not None and options.context_dir.is_file():
        raise UsageError(
            f"--context_dir {options.context_dir} is a file; it takes the folder that a compile wrote",
            hint=f"--bmodel {options.context_dir} runs a bmodel file",
        )
    for name in ("loopnum", "calculate_times", "thread_num"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} {getattr(options, name)}: at least 1")
    for name in ("devid", "net_idx", "stage_idx", "accuracy_f", "accuracy_i"):
        value = getattr(options, name)
        if value is not None and not value >= 0:
            raise UsageError(f"--{name} {value}: at least 0")
    if options.profile:
        raise UsageError(
            "--profile: the emulated device has no profile counters", hint="run without --profile"
        )
    if options.test_case in FOREIGN_TEST_CASES:
        raise UsageError(
            f"--test_case {options.test_case} is for a C or C++ interface; this command runs nets in Python",
            hint=f"the cases here are {', '.join(TEST_CASES)}",
        )
    if options.test_case and options.test_case not in TEST_CASES:
        raise UsageError(f"--test_case {options.test_case}: known are {', '.join(TEST_CASES)}")
    if options.compare and (options.bmodel is not None or options.input is not None):
        given = "--bmodel" if options.bmodel is not None else "--input"
        raise UsageError(f"--compare 1 with {given}: there is no reference data to compare with")
    if options.input is not None and options.shapes:
        raise UsageError("--shapes with --input: the shapes are those of the arrays in the file")
    if options.output_shapes and not (options.shapes or options.input):
        raise UsageError("--output_shapes needs the shapes of the inputs", hint="add --shapes")


def _read(path: Path) -> bytes:
    try:
        return read_input(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


class _Test:
    """One run of the tool. folder: where the references are, or None when nothing is compared."""

    def __init__(
        self,
        options: BmrtTestOptions,
        runtime: BModelRuntime,
        chip: DeviceApi,
        folder: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self.options = options
        self.runtime = runtime
        self.chip = chip
        self.nets = runtime.networks
        self._say = say
        self.shapes = parse_shapes(options.shapes, "--shapes") if options.shapes else None
        self.output_shapes = (
            parse_shapes(options.output_shapes, "--output_shapes") if options.output_shapes else None
        )
        self.given: Mapping[str, Array] | None = None
        if options.input is not None:
            self.given = load_npz(options.input, self._check_given)
        self.references = None if folder is None else References(folder, self.nets, self.shapes)
        self.runs = self._plan()

    def info(self, text: str) -> None:
        self._say(f"[BMRT][bmrt_test] INFO:{text}")

    def wrong(self, text: str) -> None:
        self._say(f"[BMRT][bmrt_test] WRONG:{text}")

    def _plan(self) -> list[tuple[int, int]]:
        """The (net, stage) pairs to run, each with all option errors found first."""
        net_idx, stage_idx = self.options.net_idx, self.options.stage_idx
        if net_idx is not None and net_idx >= len(self.nets):
            raise UsageError(f"--net_idx {net_idx}: the bmodel has {len(self.nets)} nets, counted from 0")
        chosen = range(len(self.nets)) if net_idx is None else (net_idx,)
        one_run = self.shapes is not None or self.given is not None
        if one_run and len(chosen) > 1:
            option = "--shapes" if self.shapes is not None else "--input"
            raise UsageError(
                f"{option} is for one net, the bmodel has {len(self.nets)}", hint="add --net_idx"
            )
        runs = []
        for i in chosen:
            net = self.nets[i]
            if stage_idx is not None and stage_idx >= len(net.stages):
                raise UsageError(
                    f"--stage_idx {stage_idx}: net {net.name!r} has {len(net.stages)} stages, counted from 0"
                )
            if one_run:
                runs.append((i, choose_stage(net, self._input_shapes(net), stage_idx)))
            else:
                stages = range(len(net.stages)) if stage_idx is None else (stage_idx,)
                runs += [(i, k) for k in stages]
        if self.options.output is not None and len(runs) > 1:
            raise UsageError(
                f"--output is for one run, these are {len(runs)}", hint="add --net_idx and --stage_idx"
            )
        return runs

    def _check_given(self, arrays: Mapping[str, Array]) -> None:
        """Refuse the arrays of --input where they do not fit the net that they are for."""
        self.given = arrays
        self._plan()

    def _input_shapes(self, net: NetworkInfo) -> list[Shape]:
        """The shapes that --shapes or --input give."""
        if self.given is not None:
            return [a.shape for a in bind_inputs(net, self.given)]
        assert self.shapes is not None
        if len(self.shapes) != len(net.inputs):
            raise UsageError(
                f"--shapes gives {len(self.shapes)}, net {net.name!r} has {len(net.inputs)} inputs"
            )
        return list(self.shapes)

    def run(self) -> int:
        good = True
        self.info(f"Loop num: {self.options.loopnum}")
        for loop in range(self.options.loopnum):
            for net, stage in self.runs:
                self.info(f"==> running network #{net}, name: {self.nets[net].name}, loop: {loop}")
                good &= self._run_stage(net, stage)
        return 0 if good else 1

    def _inputs(self, net: int, stage: int) -> list[Array]:
        info = self.nets[net]
        if self.given is not None:
            return bind_inputs(info, self.given)
        shapes = self.shapes or info.stages[stage].input_shapes
        if self.references is not None:
            return self.references.inputs(net, stage, shapes)
        return random_inputs(info, shapes)

    def _run_stage(self, net: int, stage: int) -> bool:
        info = self.nets[net]
        start = time.perf_counter()
        arrays = self._inputs(net, stage)
        for i, array in enumerate(arrays):
            self.info(f"reading input #{i}, bytesize={array.nbytes}")
        reading = time.perf_counter() - start
        before, cycles = self.chip.instructions, self.chip.cycles
        results = self._launch(info, stage, arrays)
        outputs = results[0].outputs
        self._say_times(info, stage, results)
        if cycles := self.chip.cycles - cycles:
            micros = round(cycles / len(results) / CLOCK_HZ * 1e6)
            self.info(f"net[{info.name}] stage[{stage}], on the chip {micros} us ({timing.modelled()})")
        if counted := self.chip.instructions - before:
            mean = round(counted / len(results))
            self.info(f"net[{info.name}] stage[{stage}], the controller ran {mean} instructions per launch")
        self.info(f"+++ The network[{info.name}] stage[{stage}] output_data +++")
        for i, array in enumerate(outputs):
            self.info(_summary(f"output data #{i}", array))
        if self.options.output is not None:
            save_npz(self.options.output, {t.name: a for t, a in zip(info.outputs, outputs, strict=True)})
        start = time.perf_counter()
        good = self._check_outputs(net, stage, results)
        comparing = time.perf_counter() - start
        self.info(f"load input time(s): {reading + sum(r.load_s for r in results):f}")
        self.info(f"calculate  time(s): {sum(r.calculate_s for r in results):f}")
        self.info(f"get output time(s): {sum(r.get_s for r in results):f}")
        self.info(f"compare    time(s): {comparing:f}")
        return good

    def _launch(self, info: NetworkInfo, stage: int, arrays: list[Array]) -> list[Ran]:
        """calculate_times launches in each thread."""
        by_order = self.options.test_case == "bmrt_launch_data"
        named = {t.name: a for t, a in zip(info.inputs, arrays, strict=True)}

        def launches() -> list[Ran]:
            inputs = arrays if by_order else named
            return [self.runtime.run(info.name, inputs, stage) for _ in range(self.options.calculate_times)]

        threads = self.options.thread_num
        if self.options.test_case == "bmrt_multi_thread":
            threads = max(threads, 2)
        if threads == 1:
            return launches()
        # what gathers findings in this thread does so in those
        contexts = [copy_context() for _ in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(lambda context: context.run(launches), contexts)
            return [ran for part in parts for ran in part]

    def _say_times(self, info: NetworkInfo, stage: int, results: Sequence[Ran]) -> None:
        count = len(results)
        total = round(sum(r.calculate_s for r in results) / count * 1e6)
        npu = min(total, round(sum(sum(r.subnets_s) - r.host_s for r in results) / count * 1e6))
        where = f"net[{info.name}] stage[{stage}]"
        self.info(f"{where}, launch total time is {total} us (npu {npu} us, cpu {total - npu} us)")
        if self.options.subnet_time:
            for k in range(len(results[0].subnets_s)):
                mean = round(sum(r.subnets_s[k] for r in results) / count * 1e6)
                self.info(f"{where}, subnet[{k}] time is {mean} us")

    def _check_outputs(self, net: int, stage: int, results: Sequence[Ran]) -> bool:
        info = self.nets[net]
        outputs = results[0].outputs
        good = True
        for i, other in enumerate(results[1:], 1):
            for tensor, a, b in zip(info.outputs, outputs, other.outputs, strict=True):
                if a.shape != b.shape or a.tobytes() != b.tobytes():
                    self.wrong(f"output {tensor.name}: launch {i} gives other bits than launch 0")
                    good = False
        if self.output_shapes is not None and [a.shape for a in outputs] != list(self.output_shapes):
            got = ", ".join(str(list(a.shape)) for a in outputs)
            self.wrong(f"the outputs have the shapes {got}, --output_shapes is {self.options.output_shapes}")
            good = False
        expected = None
        if self.references is not None:
            expected = self.references.outputs(net, stage, outputs)
            self.info("==>comparing output in mem #0 ... ")
            for tensor, want, got_array in zip(info.outputs, expected, outputs, strict=True):
                good &= self._same(tensor.name, want, got_array)
            verdict = "success" if good else "failed"
            say = self.info if good else self.wrong
            say(f"+++ The network[{info.name}] stage[{stage}] cmp {verdict} +++")
        if self.options.debug_output:
            self._dump(f"net{net}_stage{stage}", outputs, expected)
        return good

    def _same(self, name: str, want: Array, got: Array) -> bool:
        if want.shape != got.shape:
            self.wrong(f"output {name}: expected the shape {list(want.shape)}, got {list(got.shape)}")
            return False
        found = differences(want, got, self.options.accuracy_f, self.options.accuracy_i)
        if len(found):
            for line in report(f"output {name}", want, got, found):
                self.wrong(line)
        return len(found) == 0

    def _dump(self, where: str, outputs: Sequence[Array], expected: Sequence[Array] | None) -> None:
        for kind, arrays in (("output", outputs), ("ref", expected or ())):
            for i, array in enumerate(arrays):
                path = Path(f"{kind}_{where}_{i}.dat")
                write_atomic(path, "".join(f"{v!s}\n" for v in array.reshape(-1)).encode())
                self.info(f"wrote {path}")


def _summary(label: str, array: Array) -> str:
    """The shape and the first values, six digits of floating point ones."""
    spec = "g" if np.issubdtype(array.dtype, np.floating) else "d"
    shape = " ".join(map(str, array.shape))
    values = " ".join(format(v, spec) for v in array.reshape(-1)[:SHOWN].tolist())
    tail = f"... > len={array.size}" if array.size > SHOWN else ">"
    return f"{label} shape: [{shape} ] < {values} {tail}"
