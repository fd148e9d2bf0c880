"""The device process: holds the emulated chip and the firmware, and answers `device.Device`.

Requests: {"op": "boot", firmware, seconds} and {"op": "handle", activity, record, parts} with the bytes
of a fw_request; the reply's header has the sizes of the recorded streams, the number of recorded steps and
the modelled cycles, its payload is the fw_reply followed by the streams, one RECORDED_STEP per step, and for
each recorded descriptor, BD first, the number of its chain among the header's "chains", uint32.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
import numpy.typing as npt

from firmware_sim.checks.stored import strided
from firmware_sim.chip import DDR_BASE, DESCRIPTOR_BYTES, LOCAL_BYTES, NPU_NUM, STATIC_CONTEXT_OFFSET
from firmware_sim.device.ledger import Deed
from firmware_sim.errors import DeviceCrash, DeviceError, TpulayerError
from firmware_sim.firmware.controller_log import MOST_ACCESSES, IssuedBy
from firmware_sim.firmware.image import EngineFailed, Firmware, FirmwareImage, StreamGroup
from firmware_sim.firmware.leftovers import Leftovers
from firmware_sim.firmware.native import FloatEnvironment, NativeFirmware
from firmware_sim.firmware.sanitized import sanitized
from firmware_sim.firmware.source_lines import Line
from firmware_sim.processes.process_child import ACTIVITY_BYTES, Handler, Link
from firmware_sim.processes.shared_memory import ARENA_CAPACITY, SharedMemory
from firmware_sim.sdk_folder import message_here
from firmware_sim.wire import FLAG_CALLS, RECORDED_STEP, REPLY, REQUEST, CommandGroup, Op, with_flag

if TYPE_CHECKING:  # with it comes what the first launch needs, and not the start
    from firmware_sim.checks.checker import Checker, Site
    from firmware_sim.checks.finding import Frame
    from firmware_sim.checks.memory import Arena
    from firmware_sim.device.trace_file import TraceFile
    from firmware_sim.instructions.instruction import Engine
    from firmware_sim.tpu import Watcher

_ALONE = "a kernel has the controller for itself: no threads, no files"
MOST_RECORDED = 1 << 22  # instructions: 512 MiB

U32 = npt.NDArray[np.uint32]
Where = Callable[["Engine", int], str]

_CALLED_AT = re.compile(rb"\[called at 0x([0-9a-f]+)\]")


def _with_sites(reply: bytes, firmware: Firmware) -> tuple[bytes, str]:
    """The reply with its payload, and the lines of warnings behind it.

    The "[called at 0x...]" of errors and warnings is replaced by the name of the code there, and `sdk/` by
    the folder that it is here.
    """
    if len(reply) < REPLY.size:
        return reply, ""
    status, size = REPLY.unpack_from(reply)
    payload, lines = reply[REPLY.size : REPLY.size + size], reply[REPLY.size + size :]

    def name(match: re.Match[bytes]) -> bytes:
        site = firmware.site(int(match[1], 16))
        return f"[called at {site}]".encode() if site else match[0]

    if status < 0:
        payload = _CALLED_AT.sub(name, message_here(payload))
        size = len(payload)
    return REPLY.pack(status, size) + payload, _CALLED_AT.sub(name, message_here(lines)).decode(
        errors="replace"
    )


class FlushReason(enum.IntEnum):
    """Why the firmware hands over its arenas; FW_FLUSH_* of fw_message.h."""

    POLL = 0
    FULL = 1
    SPLIT = 2
    END = 3
    STEP = 4
    CALL = 6


class Processor(Protocol):
    """What executes descriptors: `tpu.Tpu`, or a test's own. cycles: modelled time of all batches. place:
    what it works on, watcher: what sees each batch before it is executed; see there."""

    cycles: float
    place: memoryview[int] | list[int]
    watcher: Watcher | None

    @property
    def filtered(self) -> int:
        """How many words the newest masked copy kept."""

    def execute(self, bd: U32, gdma: U32, *, where: Where | None = None, streamed: bool = False) -> None:
        """Execute one batch, uint32[n, 32] of each engine; ids count on from the batch before.

        where(engine, index) tells which code issued a descriptor of the batch. streamed: nobody did, the
        engines read a stored stream.
        """

    def end_launch(self) -> None:
        """What was executed since the last call was one launch, which costs time of its own."""

    def check(self, bd: U32, gdma: U32, *, where: Where | None = None) -> None:
        """Raise what `execute` would raise for commands that are illegal by themselves."""

    def allow(self, seconds: float) -> None:
        """From now on at most so much modelled time; a command beyond it is an error."""

    def restart(self) -> None:
        """The ids of both engines count from 1 again."""


class Recording:
    """Collects descriptors instead of executing them; SPLIT (and FULL) begin a new command group.

    steps: how many descriptors of each engine there were after each STEP, as bytes of wire.RECORDED_STEP.
    """

    def __init__(self) -> None:
        self.groups: list[CommandGroup] = []
        self.steps = bytearray()
        self.sites = bytearray(), bytearray()
        """Numbers of chains, uint32 each, of the BD and GDMA descriptors."""
        self._issued = [0, 0]
        self._bd = bytearray()
        self._gdma = bytearray()

    def add(self, bd: U32, gdma: U32, reason: FlushReason, issued: IssuedBy) -> None:
        """Take one batch, uint32[n, 32] of each engine, copied: the arenas are written again afterwards.
        issued: who issued it.

        STEP notes how many descriptors there are by now; FULL, SPLIT and END close the command group, POLL
        does not.
        """
        self._bd += bd.tobytes()
        self._gdma += gdma.tobytes()
        self._issued[0] += len(bd)
        self._issued[1] += len(gdma)
        for sites, numbers in zip(self.sites, issued, strict=True):
            sites += numbers.tobytes()
        if reason is FlushReason.STEP:
            self.steps += RECORDED_STEP.pack(*self._issued)
        elif reason is not FlushReason.POLL and (self._bd or self._gdma):
            self.groups.append(CommandGroup(bytes(self._bd), bytes(self._gdma)))
            self._bd.clear()
            self._gdma.clear()


class Controller:
    """Answers the firmware's calls: executes what it issues, or records it.

    seconds: modelled time that a request may take, 0 for any. What it takes here the parent watches.
    processor: makes it when it is first needed, or gives the one that it made before.
    """

    def __init__(
        self, memory: SharedMemory, processor: Callable[[], Processor], link: Link, seconds: float
    ) -> None:
        self._memory = memory
        self._made = processor
        self._link = link
        self._seconds = seconds or math.inf
        self._parts = False
        self._float = FloatEnvironment()
        self._issued = 0
        self._groups = 0
        self._lost_told = False
        self._request = ""
        self.executed = 0  # commands of both engines, so far
        self.firmware: Firmware | None = None
        self.recording: Recording | None = None
        self.leftovers: Leftovers | None = None
        """Of a native firmware."""
        self.checker: Checker | None = None
        """Sees every batch before it is executed; None without checks."""
        self.trace: TraceFile | None = None
        """Takes down every batch that is executed."""
        self.watched = False
        """Whether the firmware tells what the controller's own code does."""
        self.announced: Checker | None = None
        """The same, in requests in which the firmware tells of calls of layers."""

    @property
    def _processor(self) -> Processor:
        return self._made()

    def begin(self, request: str, *, record: bool, parts: bool) -> None:
        """Start of a request; `request` begins the sentences about its commands. parts: it is a net's
        program: each step has a time of its own, and recorded commands are checked."""
        self._request = request
        self._parts = parts
        self._processor.allow(self._seconds)
        self._issued = 0
        self._groups = 0
        self._lost_told = False
        self._processor.restart()
        self._processor.watcher = self.checker
        if self.checker is not None:
            self.checker.begin(program=parts, recorded=record)
        self.recording = Recording() if record else None

    def end(self) -> None:
        """After a request, also one that failed."""
        if self.trace is not None:
            self._take_accesses()
            self.trace.close()
            self.trace = None
        if self.recording is None:
            self._processor.end_launch()

    def tidy(self) -> tuple[str, DeviceCrash | None]:
        """After a request: what a native kernel left behind is cleared; a warning that says so, as the
        firmware sends them, or "". And an error for what cannot be: the process has to end then."""
        if self.leftovers is None:
            return "", None
        gone, stuck = self.leftovers.clear()
        noted = f"1 {self._request} {' and '.join(gone)}; this was cleared\n" if gone else ""
        return noted, DeviceCrash(f"{self._request} {stuck}", hint=_ALONE) if stuck else None

    @property
    def cycles(self) -> float:
        """Modelled time of everything executed so far."""
        return self._processor.cycles

    @property
    def filtered(self) -> int:
        """How many words the newest masked copy kept (a register of the GDMA)."""
        return self._processor.filtered

    def flush(self, bd_num: int, gdma_num: int, reason: int) -> None:
        """Execute, or record, the first bd_num and gdma_num descriptors of the arenas; reason: a FlushReason.

        After FULL and SPLIT ids count from 1 again. Raises DeviceError for more descriptors than the arenas
        hold, an unknown reason, more of them than are recorded, and what a command itself does wrong.
        """
        if self.checker is not None or self.trace is not None:
            self._take_accesses()
        if reason == FlushReason.CALL and (self.announced is not None or self.trace is not None):
            self._announce(bd_num | gdma_num << 32)
            return
        if max(bd_num, gdma_num) > ARENA_CAPACITY:
            raise self._named(
                f"the firmware hands over {bd_num} + {gdma_num} descriptors: {ARENA_CAPACITY} fit"
            )
        if reason not in FlushReason.__members__.values() or reason == FlushReason.CALL:
            raise self._named(f"the firmware hands over descriptors for the unknown reason {reason}")
        why = FlushReason(reason)
        bd, gdma = self._memory.bd[:bd_num], self._memory.gdma[:gdma_num]
        if self.recording is not None:
            self._count(bd_num, gdma_num)
            if self._parts:  # a net's; whoever records a kernel's looks at what it issues, not at memory
                self._check(bd, gdma)
            assert self.firmware is not None
            self.recording.add(bd, gdma, why, self.firmware.issued(bd_num, gdma_num))
            if self.announced is not None:
                self._look(self.announced, bd, gdma)
        elif bd_num or gdma_num:
            if why is FlushReason.END and not self._parts and self.checker is not None:
                self.checker.site = self._site
                self.checker.unfinished(self._request, bd, gdma)
            # Not the activity: by now another layer may run than the one that issued the commands.
            self._execute(bd, gdma, self._issued_by, self._request, streamed=False)
        # A dynamic net's step hands nothing over: commands of its layer may still wait in the arenas.
        if self.announced is not None and (self.recording is not None or why is not FlushReason.STEP):
            self.announced.settled(self._places)
        if why in (FlushReason.FULL, FlushReason.SPLIT):
            self._processor.restart()
        elif why is FlushReason.STEP and self._parts:
            self._link.tick()

    def run_group(self, group: StreamGroup) -> None:
        """Run both streams of one command group from DDR, ids from 1.

        Raises DeviceError while recording, for streams outside DDR, and for what a command does wrong.
        """
        if self.recording is not None:
            raise self._named("stored command streams were started while recording")
        self._groups += 1
        self._link.activity = f"{self._request}, command group {self._groups}"
        bd = self._stream(group.bd_addr, group.bd_num, "BD")
        gdma = self._stream(group.gdma_addr, group.gdma_num, "GDMA")
        self._processor.restart()
        self._execute(bd, gdma, None, self._link.activity, streamed=True)

    def log(self, text: str) -> None:
        """Hand a piece of the firmware's log to the process that made the request."""
        self._link.log(text)

    def _stream(self, address: int, count: int, engine: str) -> U32:
        size = count * DESCRIPTOR_BYTES
        offset = address - DDR_BASE
        ddr = self._memory.ddr
        if count and (offset < 0 or offset + size > ddr.size or offset % 4):
            raise self._named(f"the {engine} stream of {count} commands at {address:#x} does not lie in DDR")
        # A copy: a command may write where the stream lies, and the engines fetch ahead.
        return ddr[offset : offset + size].view(np.uint32).reshape(count, -1).copy() if count else _EMPTY

    def _count(self, bd_num: int, gdma_num: int) -> None:
        self._issued += bd_num + gdma_num
        if self._issued > MOST_RECORDED:
            from firmware_sim.instructions.instruction import Engine

            newest = (Engine.BD, bd_num - 1) if bd_num else (Engine.GDMA, gdma_num - 1)
            raise self._named(
                f"more than {MOST_RECORDED} instructions to record, one of the newest from "
                f"{self._issued_by(*newest)}",
                hint="does a loop in the kernel never end?",
            )

    def _check(self, bd: U32, gdma: U32) -> None:
        # Later, in a stored stream, nobody knows any more which line of which layer a command is from.
        try:
            self._processor.check(bd, gdma, where=self._issued_by)
        except TpulayerError as error:
            raise type(error)(f"{self._request}: {error.message}", hint=error.hint) from None

    def _execute(self, bd: U32, gdma: U32, where: Where | None, what: str, *, streamed: bool) -> None:
        self._float.reset()
        if self.checker is not None:
            self.checker.group = 0 if where is not None else self._groups
            self.checker.site = self._site if where is not None else None
            self.checker.arena = self._arena(bd, gdma) if where is not None else None
        self._processor.place = [0, 0] if where is None else self._link.notes
        if self.trace is not None:
            with self._link.aside():
                keys = self._keys(len(bd), len(gdma)) if where is not None else None
                self.trace.batch(bd, gdma, 0 if where is not None else self._groups, keys, self._site)
        try:
            self._processor.execute(bd, gdma, where=where, streamed=streamed)
            self.executed += len(bd) + len(gdma)
        except TpulayerError as error:
            from firmware_sim.queues import QueueError

            kind = type(error)
            if isinstance(error, QueueError):
                kind = DeviceError  # what its parent knows
                if self.checker is not None:
                    self.checker.wrong_queue(error, bd, gdma)
            raise kind(f"{what}: {error.message}", hint=error.hint) from None

    def _keys(self, bd_num: int, gdma_num: int) -> tuple[list[object], list[object]]:
        """Of the first commands in the arenas: equal ones where the same code issued them."""
        assert self.firmware is not None
        m, (bd, gdma) = self._memory, self.firmware.issued(bd_num, gdma_num)
        return (
            list(zip(bd.tolist(), m.bd_site[:bd_num].tolist(), m.bd_layer[:bd_num].tolist(), strict=True)),
            list(
                zip(
                    gdma.tolist(),
                    m.gdma_site[:gdma_num].tolist(),
                    m.gdma_layer[:gdma_num].tolist(),
                    strict=True,
                )
            ),
        )

    def _look(self, checker: Checker, bd: U32, gdma: U32) -> None:
        """Show a batch that is recorded."""
        from firmware_sim.batch import queues

        checker.site, checker.arena = self._site, self._arena(bd, gdma)
        with self._link.aside():
            checker.recorded(queues(bd, gdma))

    def _arena(self, bd: U32, gdma: U32) -> Arena:
        from firmware_sim.checks.memory import Arena

        m, n, k = self._memory, len(bd), len(gdma)
        return Arena((m.bd_layer[:n], m.gdma_layer[:k]), (m.bd_site[:n], m.gdma_site[:k]))

    def _take_accesses(self) -> None:
        """Show what the controller's code did since the last time."""
        assert self.firmware is not None
        accesses, lost = self.firmware.accesses(), self.firmware.accesses_lost
        if self.trace is not None:
            self.trace.accessed(accesses, self._memory, lost=lost)
        checker = self.checker
        if checker is None:
            return
        if lost:
            checker.unseen()
            if not self._lost_told:
                self._link.log(
                    f"note: the controller's code made more than {MOST_ACCESSES} accesses that lie apart "
                    "to memory of the engines; only so many were checked\n"
                )
            self._lost_told = True
        if accesses:
            with self._link.aside():
                checker.accessed(accesses, self._frames_at)

    def _frames_at(self, *addresses: int) -> tuple[Frame, ...]:
        from firmware_sim.checks.finding import Frame

        assert self.firmware is not None
        lines = self.firmware.frames_at(*addresses)
        return tuple(Frame(line.file, line.line, line.function) for line in lines)

    def _announce(self, address: int) -> None:
        """The firmware tells of a call of a layer."""
        assert self.firmware is not None
        text = self.firmware.layer(address)
        if self.trace is not None:
            self.trace.announced(text)
        checker = self.announced
        if checker is None:
            return
        assert checker.memory is not None
        try:
            checker.memory.announce(text)
        except ValueError as error:
            raise self._named(f"the firmware tells of {error}") from None

    def function(self, name: str) -> tuple[Frame, ...]:
        """Where a function begins."""
        from firmware_sim.checks.finding import Frame

        assert self.firmware is not None
        with self._link.aside():
            line = self.firmware.function(name)
        return () if line is None else (Frame(line.file, line.line, line.function),)

    def _places(self, address: int) -> tuple[Frame, ...]:
        """The line of a function's beginning."""
        assert self.firmware is not None
        return self._frames_at(address + 1)[:1]

    def _site(self, engine: Engine, index: int) -> Site:
        from firmware_sim.checks.checker import Site
        from firmware_sim.instructions.instruction import Engine

        assert self.firmware is not None
        m, bd = self._memory, engine is Engine.BD
        layers = m.bd_layer if bd else m.gdma_layer
        with self._link.aside():
            frames = _frames(self.firmware.frames(bd, index))
        return Site(frames, self.firmware.layer(int(layers[index])))

    def _issued_by(self, engine: Engine, index: int) -> str:
        from firmware_sim.instructions.instruction import Engine

        assert self.firmware is not None
        m, bd = self._memory, engine is Engine.BD
        sites, layers = (m.bd_site, m.bd_layer) if bd else (m.gdma_site, m.gdma_layer)
        address = int(sites[index])
        with self._link.aside():
            site = self.firmware.site(address)
        text = site or (f"code at {address:#x}" if address else "the firmware itself")
        layer = self.firmware.layer(int(layers[index]))
        return f"layer {layer}, {text}" if layer else text

    def _named(self, text: str, *, hint: str = "") -> DeviceError:
        return DeviceError(f"{self._link.activity}: {text}", hint=hint)


def _frames(lines: Iterable[Line]) -> tuple[Frame, ...]:
    from firmware_sim.checks.finding import Frame

    return tuple(Frame(line.file, line.line, line.function) for line in lines)


_EMPTY: U32 = np.zeros((0, DESCRIPTOR_BYTES // 4), np.uint32)


def found(checker: Checker, *, failed: bool = False) -> dict[str, object]:
    """What the checks found in a request, for the header of its reply."""
    findings, stored = checker.end(failed=failed)
    return {
        "findings": [finding.to_json() for finding in findings],
        "stored": [
            [
                number,
                one.finding.to_json(),
                strided(one.ranges + DDR_BASE),
            ]
            for number, one in stored
        ],
    }


def bm1684(memory: SharedMemory) -> Processor:
    """The emulated chip."""
    from firmware_sim.memory import Memory
    from firmware_sim.tpu import Tpu

    local = memory.local.reshape(NPU_NUM, LOCAL_BYTES)
    processor: Processor = Tpu(Memory(memory.ddr, local, memory.l2, STATIC_CONTEXT_OFFSET))
    return processor


def start(args: list[str], fds: list[int], link: Link) -> Handler:
    """Entry of the child process. args: MODULE:FUNCTION that makes the Processor. fds: the memfd."""
    link.activity = "the device process"
    memory = SharedMemory(fds[0])
    memory.protect_guards()
    module, _, function = args[0].partition(":")
    made: list[Processor] = []
    controllers: list[Controller] = []
    checkers: list[Checker] = []

    def processor() -> Processor:
        if not made:
            with link.aside():  # its modules take longer to import than a firmware to boot
                made.append(getattr(import_module(module), function)(memory))
        return made[0]

    def boot(header: dict[str, object]) -> tuple[dict[str, object], bytes]:
        path, ddr = Path(str(header["firmware"])), str(header["ddr"])
        link.activity = f"firmware {path}"
        controller = Controller(memory, processor, link, float(str(header["seconds"])))
        link.notes[2] = 0
        if ddr:
            with link.aside():  # a cold disk is no fault of the firmware
                from firmware_sim.arm.firmware_arm import ArmFirmware  # and with it the ARM emulator

            image = FirmwareImage(path, Path(ddr))
            name = f"device {header['dev_id']}"
            gdb = cast("tuple[int, str] | None", header["gdb"])
            controller.firmware = ArmFirmware(image, memory, controller, link, name, gdb)
        elif header["server"] is not None:
            from firmware_sim.firmware.hosted import HostedFirmware

            server = int(str(header["server"]))
            controller.firmware = HostedFirmware(path, server, memory, controller, link)
        else:
            activity = (link.activity_address, ACTIVITY_BYTES)
            native = NativeFirmware(
                path, memory, controller, activity, link.frames_address, link.newest_address
            )
            link.notes[2] = native.base
            controller.firmware = native
        controller.watched = header["server"] is None and (bool(ddr) or sanitized(path) is None)
        controllers[:] = [controller]
        link.meanwhile = ready
        return {}, b""

    def ready() -> None:
        """Before the first request: what making the processor changes in this process no kernel did."""
        [controller] = controllers
        try:
            processor()
        finally:
            if isinstance(controller.firmware, NativeFirmware):
                controller.leftovers = Leftovers()

    def checked(controller: Controller, header: dict[str, object]) -> Checker | None:
        """The checks that the request asks for, which know what the host did before."""
        kinds = header["checks"]
        assert isinstance(kinds, list)
        if not kinds:
            controller.checker = None
            for checker in checkers:
                checker.shadow.forget()
                checker.execute_with(None)
            return None
        with link.aside():  # their modules, and the processor's, take longer to import than a kernel to run
            from firmware_sim.checks.checker import Checker
            from firmware_sim.checks.rules import Kind

            wanted = frozenset(map(Kind, kinds))
            if not checkers or checkers[0].kinds != wanted:
                known = (checkers[0].shadow, checkers[0].objects) if checkers else ()
                checkers[:] = [Checker(wanted, *known)]
        checker = controller.checker = checkers[0]
        checker.execute_with(processor())
        if "objects" in header:
            anew, changes = cast(tuple[bool, list[list[int | str]]], header["objects"])
            checker.objects.apply(changes, anew=anew)
        deeds = header["deeds"]
        assert isinstance(deeds, list)
        for deed, start, nbytes in deeds:
            note = checker.wrote if deed == Deed.WROTE else checker.anew
            note(start - DDR_BASE, nbytes)
        if not controller.watched:
            checker.unseen()
        return checker

    def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
        if header["op"] == "boot":
            return boot(header)
        [controller] = controllers
        firmware = controller.firmware
        assert firmware is not None
        link.activity = str(header["activity"])
        checker = checked(controller, header)
        if checker is not None and checker.memory is not None:
            checker.memory.watched = controller.watched
        controller.announced = None
        if checker is not None and checker.memory is not None and header["parts"] and header["checked"]:
            controller.announced = checker
        record = bool(header["record"])
        controller.trace = None
        if header["trace"] and not record:
            with link.aside():
                from firmware_sim.device.trace_file import TraceFile

                controller.trace = TraceFile(str(header["trace"]))
            if not controller.watched:
                controller.trace.unwatched()
        if controller.announced is not None or (controller.trace is not None and header["parts"]):
            payload = with_flag(payload, FLAG_CALLS)
        firmware.watch(record or checker is not None or controller.trace is not None)
        before, run, done = controller.cycles, firmware.instructions, controller.executed
        controller.begin(link.activity, record=record, parts=bool(header["parts"]))
        if checker is not None and not record and REQUEST.unpack_from(payload)[0] == Op.LAUNCH:
            checker.launched(lambda: controller.function(link.activity.removeprefix("kernel ")))
        error: Exception | None = None
        try:
            reply = firmware.handle(payload)
        except EngineFailed as failed:
            error, reply = failed.error, failed.reply
        except Exception as failure:
            error, reply = failure, b""
        controller.end()
        noted, stuck = controller.tidy()
        with link.aside():  # reading the line table takes a moment, which is not the kernel's
            reply, warnings = _with_sites(reply, firmware)
        warnings += noted
        error = stuck or error
        if isinstance(error, TpulayerError):
            error.noted = warnings
            error.found = {} if checker is None else found(checker, failed=True)
        if error is not None:
            raise error
        recording = controller.recording or Recording()
        groups, steps = recording.groups, bytes(recording.steps)
        controller.recording = None
        sizes = [[len(g.bd), len(g.gdma)] for g in groups]
        parts = [reply, *(part for g in groups for part in (g.bd, g.gdma)), steps]
        parts += map(bytes, recording.sites)
        cycles = controller.cycles - before
        instructions = firmware.instructions - run
        answer = {
            "reply": len(reply),
            "groups": sizes,
            "steps": len(steps) // RECORDED_STEP.size,
            "cycles": cycles,
            "commands": controller.executed - done,
            "instructions": instructions,
            "warnings": warnings,
            "chains": firmware.chains() if record else [],
            **({} if checker is None else found(checker)),
        }
        return answer, b"".join(parts)

    return handle
