"""One emulated BM1684 with a firmware running on it, in a process of its own.

DDR addresses 0x1_0000_0000 .. +12 GiB. The first 0x510_0000 bytes belong to the firmware; malloc hands
out what follows, in multiples of 4 KiB. The memories are shared with the device process, so reads and
writes of any size cost one copy and no message.
"""

from __future__ import annotations

import errno
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from firmware_sim import variables, wire
from firmware_sim.checks.finding import Attribute, Finding
from firmware_sim.checks.objects import BOTH, Allocations
from firmware_sim.checks.rules import Kind as CheckKind
from firmware_sim.checks.rules import chosen as chosen_checks
from firmware_sim.chip import (
    DDR_BASE,
    DDR_BYTES,
    DESCRIPTOR_BYTES,
    LOCAL_BYTES,
    MAX_TENSORS,
    NPU_NUM,
    STATIC_CONTEXT_OFFSET,
)
from firmware_sim.device import current_trace, payloads
from firmware_sim.device.crash_report import describe
from firmware_sim.device.debugging import session
from firmware_sim.device.doubtful import Doubtful, Filled
from firmware_sim.device.findings import Delivery, OnFindings, words
from firmware_sim.device.heap import Heap
from firmware_sim.device.kernel_warnings import KernelWarning, Mode, Told, chosen, parsed
from firmware_sim.device.launch_queue import LaunchQueue
from firmware_sim.device.ledger import Deed, Ledger
from firmware_sim.device.time_limit import time_limit as limit_of
from firmware_sim.errors import (
    AddressError,
    DeviceCrash,
    DeviceError,
    MissingError,
    TpulayerError,
    UsageError,
)
from firmware_sim.firmware import sanitized
from firmware_sim.firmware.image import (
    FirmwareImage,
    FirmwareInfo,
    FirmwareLayer,
    Kind,
    StreamGroup,
    find_firmware,
)
from firmware_sim.processes.process import Child
from firmware_sim.processes.shared_memory import SharedMemory
from firmware_sim.wire import CommandGroup, Program, Recorded, TensorRecord

__all__ = ["Device", "FirmwareError", "FirmwareInfo", "StreamGroup"]

BOOT_LIMIT = 10.0  # s: loading a library from a cold disk is no fault of the kernels
HEAP_OFFSET = STATIC_CONTEXT_OFFSET
HEAP_ALIGN = 4096

_BM1684 = "firmware_sim.device.main:bm1684"


class FirmwareError(DeviceError):
    """The firmware answered a request with an error. status: a wire.Status value, or a layer's own code."""

    def __init__(self, message: str, *, hint: str = "", status: int = wire.Status.RUNTIME_ERROR) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class _ToStderr:
    """The firmware's log, which comes in pieces of lines; the last line of a request is ended."""

    def __init__(self) -> None:
        self._inside = False

    def __call__(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
        self._inside = not text.endswith("\n")

    def end(self) -> None:
        if self._inside:
            self("\n")


class Device:
    """An emulated chip; a context manager.

    firmware, kind: see `find_firmware` (MissingError when there is none). time_limit: seconds after which a
    launch is stopped, whatever it does, see `firmware_sim.device.time_limit`; 0 for any time. on_log: gets
    each piece of the firmware's log, in the thread of the call that caused it; it must not call the device.
    processor: "module:function" that makes what executes descriptors (see device_main.Processor).
    warnings: what becomes of calls that the guide forbids and that work all the same: "show", "error" (the
    request raises DeviceError when it has run) or "ignore"; None: what TPULAYER_WARNINGS says, else "show".
    on_warning: gets each of them once, instead of stderr; like on_log it must not call the device.
    check: what is looked at while commands run: "off", "all", or kinds of docs/checking.md with commas
    between; None: what TPULAYER_CHECK says, else memory, init, hazard and sync. A request whose checks find
    something ends as without them, its results in place, and then raises CheckError; advice goes to stderr.
    on_findings: gets the findings of each request that has some as a list, and nothing is raised or written.
    check_limit: how many of a request are told in full; None: TPULAYER_CHECK_LIMIT, else 10.

    Every method may be called from several threads; calls are served one after the other. After a
    DeviceCrash the device is reset: the memories, also DDR, keep their content and allocations, and the
    next call boots the firmware again.
    """

    def __init__(
        self,
        firmware: str | Path | FirmwareImage | None = None,
        *,
        kind: Kind | None = None,
        dev_id: int = 0,
        time_limit: float | None = None,
        on_log: Callable[[str], None] | None = None,
        on_warning: Callable[[KernelWarning], None] | None = None,
        warnings: Mode | None = None,
        processor: str = _BM1684,
        check: str | None = None,
        check_limit: int | None = None,
        on_findings: OnFindings | None = None,
    ) -> None:
        variables.check()
        self._served = False  # by a process that knew what is in the memories
        self._findings = Delivery(check, check_limit, on_findings)
        self._limit = limit_of(time_limit)
        self._warn = Told(chosen(warnings), on_warning)
        self.firmware = find_firmware(firmware, kind, dev_id)
        self.dev_id = dev_id
        self._to_stderr = _ToStderr()
        self._on_log = on_log or self._to_stderr
        self._processor = processor
        self._lock = threading.RLock()
        self._cycles = 0.0
        self._commands = 0
        self._instructions = 0
        self.heap = Heap(DDR_BASE + HEAP_OFFSET, DDR_BYTES - HEAP_OFFSET, HEAP_ALIGN)
        self._queue = LaunchQueue()
        self._ledger = Ledger()
        self._doubtful = Doubtful()
        self._allocations = Allocations()
        self._child: Child | None = None
        try:
            self._memory: SharedMemory | None = SharedMemory.create(f"device {dev_id}")
        except (OSError, ValueError) as error:
            of_files = isinstance(error, OSError) and error.errno == errno.EFBIG
            raise MissingError(
                f"no address space for the 12 GiB of device {dev_id}: {error}",
                hint="a limit on the size of files (ulimit -f) holds for it too"
                if of_files
                else "a limit on virtual memory (ulimit -v) is too low for the emulator",
            ) from None
        try:
            self._started()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._memory is None else "open"
        return f"<Device {self.dev_id}, {state}: {self.firmware.kind} firmware {self.firmware}>"

    def close(self) -> None:
        """End the device process and release the memories; views handed out stay valid."""
        self._queue.close()
        with self._lock:
            if self._child is not None:
                self._child.close()
                self._child = None
            if self._memory is not None:
                self._memory.close()
                self._memory = None

    def load_firmware(self, firmware: str | Path | FirmwareImage) -> None:
        """Boot another firmware (okkernel_load_firmware) after what launch_async started.

        The memories keep what they hold. MissingError when there is none at that path, DeviceError when it
        does not boot; the device goes on with the one it had.
        """
        self._queue.join()
        with self._lock:
            self._open()
            before, self.firmware = self.firmware, find_firmware(firmware)
            if self._child is not None:
                self._child.close()
                self._child = None
            try:
                self._started()
            except BaseException:
                self.firmware = before
                raise

    # ---- memory ----

    def malloc(self, nbytes: int, name: str = "", rights: int = BOTH) -> int:
        """Absolute address of a new DDR buffer, a multiple of 4096; DeviceError when DDR is full.

        name: what findings call it; rights: what commands may do there, READS, WRITES or both of
        firmware_sim.checks.records.
        """
        with self._lock:
            self._open()
            at = self.heap.malloc(nbytes)
            self._note(Deed.HANDED_OUT, at, nbytes)
            self._allocations.add(at, nbytes, name, rights)
            return at

    def free(self, addr: int) -> None:
        """Give back what malloc returned; its content is lost. DeviceError for any other address."""
        with self._lock:
            memory = self._open()
            size = self.heap.free(addr)
            memory.discard_ddr(addr - DDR_BASE, size)
            self._note(Deed.GAVE_BACK, addr, size)
            self._allocations.remove(addr)

    def write(self, addr: int, data: bytes | npt.NDArray[np.generic]) -> None:
        """Copy bytes, or an array's elements in C order, to DDR; addr in bytes, absolute.

        AddressError when they do not lie in DDR, or where the firmware's own memory is; CheckError, once
        they are there, when they leave their buffer, or it was freed.
        """
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8) if isinstance(data, np.ndarray) else data
        with self._lock:
            self.check_writable(addr, len(raw))
            self._ddr(addr, len(raw))[:] = np.frombuffer(raw, np.uint8)
            self._note(Deed.WROTE, addr, len(raw))
        self._copied("writing", addr, len(raw), [])

    def read(self, addr: int, nbytes: int) -> bytes:
        """A copy of nbytes of DDR from an absolute address. AddressError when they do not lie in DDR.

        CheckError, once, when what a request stored there depends on memory that nothing wrote; and when
        they begin in a buffer and end beyond it.
        """
        with self._lock:
            data = self._ddr(addr, nbytes).tobytes()
            found = self._doubtful.read(addr, nbytes)
        self._copied("reading", addr, nbytes, found)
        return data

    def read_array(
        self, addr: int, shape: Sequence[int], dtype: npt.DTypeLike, filled: Filled | None = None
    ) -> npt.NDArray[np.generic]:
        """A copy of a continuous tensor in DDR. filled: what of it means nothing. Errors: as of `read`."""
        kind = np.dtype(dtype)
        with self._lock:
            raw = self._ddr(addr, math.prod(shape) * kind.itemsize).copy()
            found = self._doubtful.read(addr, raw.size, filled)
        self._copied("reading", addr, raw.size, found)
        out: npt.NDArray[np.generic] = raw.view(kind).reshape(shape)
        return out

    def _note(self, deed: Deed, addr: int, nbytes: int) -> None:
        self._ledger.note(deed, addr, nbytes)
        self._doubtful.settle(addr, nbytes)

    def _copied(self, doing: str, addr: int, nbytes: int, found: list[Finding]) -> None:
        with self._lock:
            wrong = self._allocations.wrong_copy(addr, nbytes, doing)
        if wrong is not None and self._findings.looks_for(CheckKind.MEMORY):
            found = [wrong, *found]
        if found:
            self._findings.add(f"{doing} {nbytes} bytes at {addr:#x}", found)

    def check_writable(self, addr: int, nbytes: int) -> None:
        """AddressError unless a program may write nbytes at an absolute address.

        They have to lie in DDR, and not where the firmware keeps its code, messages and stacks.
        """
        with self._lock:
            self._ddr(addr, nbytes)
        if addr < self.heap.start:
            raise AddressError(
                f"{nbytes} bytes at {addr:#x} lie where the firmware's own memory is, which programs may not "
                f"write, up to {self.heap.start - 1:#x}",
                hint="give addresses of memory that the device has allocated",
            )

    def file_of(self, addr: int, nbytes: int) -> tuple[str, int]:
        """A file from which other processes map nbytes of DDR, and their offset in it. It can be opened as
        long as the device is open; mappings stay. AddressError as of `write`."""
        with self._lock:
            self.check_writable(addr, nbytes)
            found = self._doubtful.read(addr, nbytes)
            self._note(Deed.WROTE, addr, nbytes)  # whenever they write there: nobody sees it
            place = self._open().ddr_file(addr - DDR_BASE)
        self._copied("mapping", addr, nbytes, found)
        return place

    @property
    def local_memory(self) -> npt.NDArray[np.uint8]:
        """All local memory as it is now, uint8[64 NPUs, 524288]: a view, not a copy."""
        with self._lock:
            return self._open().local.reshape(NPU_NUM, LOCAL_BYTES)

    @property
    def l2(self) -> npt.NDArray[np.uint8]:
        """L2 as it is now, uint8[4 Mi]: a view, not a copy."""
        with self._lock:
            return self._open().l2

    def _open(self) -> SharedMemory:
        if self._memory is None:
            raise DeviceError(f"device {self.dev_id} is closed")
        return self._memory

    def _ddr(self, addr: int, nbytes: int) -> npt.NDArray[np.uint8]:
        memory = self._open()
        start = addr - DDR_BASE
        if nbytes < 0 or start < 0 or start + nbytes > DDR_BYTES:
            raise AddressError(
                f"{nbytes} bytes at {addr:#x} do not lie in DDR ({DDR_BASE:#x} .. {DDR_BASE + DDR_BYTES:#x})"
            )
        return memory.ddr[start : start + nbytes]

    # ---- checks ----

    @property
    def check(self) -> str:
        """What is looked at, in the words of the constructor; may be set between requests. UsageError for
        words that name no check."""
        return words(self._findings.kinds)

    @check.setter
    def check(self, kinds: str) -> None:
        with self._lock:
            self._findings.kinds = chosen_checks(kinds)

    @contextmanager
    def checking(self, kinds: str) -> Iterator[None]:
        """Within the block these checks are made, then those from before again."""
        before, self.check = self.check, kinds
        try:
            yield
        finally:
            self.check = before

    # ---- what was executed ----

    @property
    def cycles(self) -> float:
        """Modelled time, in cycles of chip.CLOCK_HZ, of everything executed since the device was opened."""
        return self._cycles

    @property
    def commands(self) -> int:
        """Commands of both engines that were executed since the device was opened, those recorded not among
        them."""
        return self._commands

    @property
    def instructions(self) -> int:
        """What the controller has run since the device was opened; 0 with a native firmware."""
        return self._instructions

    # ---- what the firmware does ----

    def query(self) -> FirmwareInfo:
        """Layers and kernels of the running firmware."""
        payload, _ = self._call(wire.Op.QUERY, b"", "the firmware")
        if len(payload) < wire.INFO.size:
            raise DeviceError(f"{self.firmware}: its answer to a query is {len(payload)} bytes long")
        abi, layer_count, kernel_count, _ = wire.INFO.unpack_from(payload)
        names_at = wire.INFO.size + layer_count * wire.LAYER_INFO.size
        if len(payload) < names_at:
            raise DeviceError(f"{self.firmware}: its answer to a query ends inside its {layer_count} layers")
        layers = tuple(
            FirmwareLayer(payloads.text(name), op_type, param_bytes, param_hash)
            for op_type, param_bytes, param_hash, name in wire.LAYER_INFO.iter_unpack(
                payload[wire.INFO.size : names_at]
            )
        )
        kernels = payload[names_at:].split(b"\0")[:kernel_count]
        return FirmwareInfo(abi, layers, tuple(map(payloads.text, kernels)))

    def launch(self, kernel: str, args: bytes = b"") -> None:
        """Run a free kernel, as okkernel_launch_sync does; args are the bytes of its argument struct."""
        self._queue.join()
        self._call(wire.Op.LAUNCH, payloads.launch(kernel, args), f"kernel {kernel}")

    def launch_async(self, kernel: str, args: bytes = b"") -> None:
        """Start a free kernel after all that were started before (okkernel_launch_async); see sync."""
        payload = payloads.launch(kernel, args)
        self._open()
        self._queue.add(lambda: self._call(wire.Op.LAUNCH, payload, f"kernel {kernel}"))

    def sync(self, limit: float | None = None) -> None:
        """Wait for all kernels that launch_async started (okkernel_sync), at most `limit` seconds; without
        one as long as the time limits of the launches let them run.

        Raises the first error of one of them; those after it have run. DeviceError at the limit.
        """
        self._queue.sync(limit)

    def record_launch(self, kernel: str, args: bytes = b"") -> list[CommandGroup]:
        """Run a free kernel without executing what it issues; returns its descriptors."""
        payload = payloads.launch(kernel, args)
        _, recorded = self._call(wire.Op.LAUNCH, payload, f"kernel {kernel}", record=True)
        return list(recorded.groups)

    def infer_shape(
        self,
        op_type: int,
        param: bytes,
        inputs: Sequence[TensorRecord],
        out_num: int,
        scales: Sequence[float] = (),
    ) -> list[TensorRecord]:
        """Ask a layer's shape function for its outputs. scales: in which they are wanted where they are
        quantised, for each output; 0: as the layer likes, for all of them where there are none."""
        if not 0 <= out_num <= MAX_TENSORS:
            raise UsageError(f"{out_num} outputs: a layer has at most {MAX_TENSORS}")
        records, host = payloads.encode(inputs, "inputs")
        head = wire.packed(wire.LAYER_CALL, op_type, len(param), len(inputs), out_num, len(host), len(scales))
        wanted = wire.packed(f"<{len(scales)}f", *scales)
        payload = payloads.aligned([head, records, param, host, wanted])
        reply, _ = self._call(wire.Op.SHAPE, payload, f"the shape function of op_type {op_type}")
        return payloads.decode(reply, out_num)

    def record(self, program: Program, *, checked: bool = True) -> Recorded:
        """Run a program with fixed addresses without executing anything; returns its descriptors. checked:
        False where others of the same layers are, as of programs that only measure."""
        data = program.encode()
        head = wire.packed(wire.RUN, wire.RunMode.FIXED, 0, 0, len(data), 0, 0, 0, 0)
        payload = payloads.aligned([head, data])
        return self._call(wire.Op.PROGRAM, payload, "the program", record=True, checked=checked)[1]

    def run_streams(
        self,
        groups: Sequence[StreamGroup],
        modelled: Callable[[], float] | None = None,
        where: Attribute | None = None,
    ) -> None:
        """Run command groups whose descriptor streams lie in DDR, one after the other.

        modelled: gives their seconds on the chip; asked only when they take long here. where: says of a
        finding's command, by group (from 1), engine and id, what is known of who issued it.
        """
        parts = [wire.packed(wire.GROUP, g.bd_addr, g.gdma_addr, g.bd_num, g.gdma_num) for g in groups]
        payload = payloads.aligned([wire.packed(wire.STREAMS, len(groups), 0), *parts])
        more = None if modelled is None else lambda: self._limit.of_net(modelled())
        self._call(wire.Op.STREAMS, payload, "the static network", more=more, where=where)

    def run_program(
        self,
        program_addr: int,
        program_bytes: int,
        inputs: Sequence[TensorRecord],
        outputs: Sequence[TensorRecord],
        neuron_addr: int,
        neuron_bytes: int,
        coeff_addr: int,
    ) -> list[TensorRecord]:
        """Run a dynamic program that lies in DDR.

        The firmware may allocate from [neuron_addr, +neuron_bytes). Returns the outputs with the shapes
        that came out.
        """
        ins, _ = payloads.encode(inputs, "inputs")
        outs, _ = payloads.encode(outputs, "outputs")
        head = wire.packed(
            wire.RUN,
            wire.RunMode.DYNAMIC,
            len(inputs),
            len(outputs),
            program_bytes,
            program_addr,
            neuron_addr,
            neuron_bytes,
            coeff_addr,
        )
        reply, _ = self._call(wire.Op.PROGRAM, payloads.aligned([head, ins, outs]), "the dynamic network")
        return payloads.decode(reply, len(outputs))

    # ---- the process ----

    def _started(self) -> Child:
        memory = self._open()
        if self._child is None or not self._child.alive:
            server = self.firmware.server
            self._allocations.forgotten()
            debugger = session(self.firmware)
            self._child = Child(
                "firmware_sim.device.main",
                [self._processor],
                fds=[memory.fd, *([] if server is None else [server])],
                limit=self._limit.seconds,
                name=f"device {self.dev_id}",
                crashed=lambda crash: describe(crash, self.firmware, self._memory, self.dev_id),
                on_log=self._on_log,
                # The emulator's arithmetic is not BLAS's; its threads would only slow the start.
                env={"OPENBLAS_NUM_THREADS": "1", **sanitized.environment(self.firmware.path)},
                debugger=debugger,
            )
            boot = {
                "op": "boot",
                "firmware": str(self.firmware.path),
                "ddr": str(self.firmware.ddr or ""),
                "server": server,
                "gdb": None if debugger is None or not debugger.fds else [*debugger.fds, debugger.says],
                "dev_id": self.dev_id,
                "seconds": self._limit.seconds,
                **self._findings.header(),
            }
            if self._served:
                self._ledger.again()
            self._served = True
            try:
                self._child.request(boot, limit=BOOT_LIMIT)
            except BaseException:
                self._child.close()
                self._child = None
                raise
        return self._child

    def _call(
        self,
        op: wire.Op,
        payload: bytes,
        activity: str,
        *,
        record: bool = False,
        more: Callable[[], float] | None = None,
        where: Attribute | None = None,
        checked: bool = True,
    ) -> tuple[bytes, Recorded]:
        """One firmware request: the payload of its reply, and what was recorded."""
        head = wire.REQUEST.pack(op, len(payload), wire.FLAG_RECORD if record else 0, 0)
        parts = op is wire.Op.PROGRAM  # of a net, each layer has its own time
        header: dict[str, object] = {"op": "handle", "activity": activity, "record": record, "parts": parts}
        with self._lock:
            header |= self._findings.header(checked=checked)
            runs = not record and op in (wire.Op.LAUNCH, wire.Op.STREAMS, wire.Op.PROGRAM)
            trace = None if not runs else current_trace.begun(self._open(), self._allocations)
            header["trace"] = "" if trace is None else str(trace.path)
            try:
                child = self._started()  # a new process has to be told what is there
                header["deeds"] = self._ledger.take() if header["checks"] else []
                if header["checks"]:
                    header["objects"] = self._allocations.take()
                answer, data = child.request(header, head + payload, more=more)
            except TpulayerError as error:
                self._to_stderr.end()
                if trace is not None:
                    trace.end(activity, 0.0, where, error.message)
                self._warn(activity, parsed(error.noted), failed=True)
                self._findings.take(activity, error.found, where, failed=True)
                if isinstance(error, DeviceCrash):
                    self._reset(error)
                raise
            finally:
                self._to_stderr.end()
            self._doubtful.renew(cast("list[Any]", answer.get("stored", [])), where)
            self._cycles += float(str(answer["cycles"]))
            self._commands += int(str(answer["commands"]))
            self._instructions += int(str(answer["instructions"]))
        end = int(str(answer["reply"]))
        if end < wire.REPLY.size:
            raise DeviceError(f"{activity}: the firmware gave no reply")
        status, size = wire.REPLY.unpack_from(data)
        body = data[wire.REPLY.size : wire.REPLY.size + size]
        if wire.REPLY.size + size > end:
            raise DeviceError(f"{activity}: the firmware's reply is damaged ({size} bytes announced)")
        failed = status < 0
        if trace is not None:
            why = self._refused(status, body, activity).message if failed else ""
            trace.end(activity, float(str(answer["cycles"])), where, why)
        try:
            self._warn(activity, parsed(str(answer["warnings"])), failed=failed)
        except DeviceError:
            failed = True
            raise
        finally:
            self._findings.take(activity, answer, where, failed=failed)
        if status < 0:
            raise self._refused(status, body, activity)
        groups = []
        sizes = answer["groups"]
        assert isinstance(sizes, list)
        for bd, gdma in sizes:
            groups.append(CommandGroup(data[end : end + bd], data[end + bd : end + bd + gdma]))
            end += bd + gdma
        step, count = wire.RECORDED_STEP, int(str(answer["steps"]))
        steps = tuple((bd, gdma) for bd, gdma in step.iter_unpack(data[end : end + count * step.size]))
        end += count * step.size
        each = wire.SITE_BYTES
        bd, gdma = (each * sum(pair[i] for pair in sizes) // DESCRIPTOR_BYTES for i in range(2))
        chains = tuple(map(tuple, cast("list[list[int]]", answer["chains"])))
        sites = wire.RecordedSites(chains, data[end : end + bd], data[end + bd : end + bd + gdma])
        return body, Recorded(tuple(groups), steps, sites)

    def _reset(self, crash: DeviceCrash) -> None:
        """End a native firmware's process that still runs: what a kernel left there cannot be cleared."""
        if self._child is not None and self._child.alive and self.firmware.kind == "native":
            self._child.close()
            crash.message += f"; device {self.dev_id} was reset"

    def _refused(self, status: int, body: bytes, activity: str) -> FirmwareError:
        text = payloads.text(body).strip()
        if not text:
            known = status in wire.Status.__members__.values()
            text = f"{activity} failed with code {wire.Status(status).name if known else status}"
        subject, _, kernel = activity.partition(" ")
        # Of a layer, the firmware's text tells the name; of a kernel it may (a file of that name does not).
        if subject == "kernel" and not re.search(rf"(^|kernel | in |: ){re.escape(kernel)}\b(?!\.)", text):
            text = f"{activity}: {text}"
        return FirmwareError(text, status=status)
