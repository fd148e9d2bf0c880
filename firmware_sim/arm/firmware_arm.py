"""The firmware as it goes onto the chip: two images, booted and asked through the message ring."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from firmware_sim.arm import layout
from firmware_sim.arm.images import Images, from_elf, load_pair
from firmware_sim.arm.machine import Fault, Machine
from firmware_sim.chip import DDR_BASE
from firmware_sim.errors import DeviceCrash, DeviceError
from firmware_sim.firmware.controller_log import Chain, ControllerAccess, Frames, IssuedBy
from firmware_sim.firmware.image import EngineFailed, Engines, FirmwareImage, StreamGroup
from firmware_sim.firmware.source_lines import Line, SourceLines, place_text
from firmware_sim.processes.process_child import Link
from firmware_sim.processes.shared_memory import ARENA_CAPACITY, SharedMemory
from firmware_sim.wire import MAX_ARGUMENTS, REPLY

_OVERWRITTEN = "does something in it write where the firmware's memory is?"
_REQUEST_BYTES = MAX_ARGUMENTS + 4096  # with what goes before the arguments; the rest is for the reply
REPLY_BYTES = layout.MESSAGES_BYTES - _REQUEST_BYTES


class ArmFirmware:
    """Loads and boots a pair of images; DeviceError when they do not fit together or refuse to boot.

    The link block of the controller lies in the page that the link shares with the parent process, which so
    learns what ran, and where, also of a controller that never comes back. name: the device's, for messages.
    gdb: the number of a socket on which a gdb is waited for, once the firmware has booted, and what to tell
    then.
    """

    def __init__(
        self,
        image: FirmwareImage,
        memory: SharedMemory,
        engines: Engines,
        link: Link,
        name: str,
        gdb: tuple[int, str] | None = None,
    ) -> None:
        assert image.ddr is not None
        self._image = image
        self._memory = memory
        self._engines = engines
        self._link = link
        self._name = name
        self._images = load_pair(image.path, image.ddr)
        self._source_lines: SourceLines | None = None
        self._error: Exception | None = None
        self._lost = False
        self._machine = Machine(memory, link.page_address, link.frames_address)
        if gdb is not None:
            from firmware_sim.arm.gdb_server import GdbServer

            self._machine.gdb = GdbServer(gdb[0], lambda: link.log(gdb[1]))
        self._booted = False
        self._frames = Frames(self._lines)
        self._boot()

    @property
    def images(self) -> Images:
        """The pair that was loaded, with the version and build that its header states."""
        return self._images

    @property
    def instructions(self) -> int:
        """How many the controller has run."""
        return self._machine.instructions

    def _boot(self) -> None:
        machine = self._machine
        machine.load(self._images)
        self._run()
        status = int(machine.ring["boot_status"])
        if int(machine.ring["magic"]) != layout.RING_MAGIC or status != 0:
            raise DeviceError(
                f"{self._image} refused to boot (code {status})", hint="build it again with rebuild_layers"
            )
        machine.protect()
        self._booted = True

    def handle(self, request: bytes) -> bytes:
        """Put one request (fw_request, payload) into the ring and run the controller until it answers.

        The reply is fw_reply and payload. After a fault or a wrong answer the next request boots the images
        again. Raises DeviceCrash when the firmware faults, DeviceError for a request larger than the ring's
        space, for a message left unanswered and an overwritten ring, and EngineFailed for the first error of
        an engine call made on the way.
        """
        if len(request) > _REQUEST_BYTES:
            raise DeviceError(f"a request of {len(request)} bytes; the ring takes {_REQUEST_BYTES}")
        if not self._booted:  # after a fault
            self._boot()
        if self._machine.watcher is not None:
            self._machine.watcher.begin()
        self._booted = False  # until it has answered as it should
        self._error = None
        ring, at = self._machine.ring, layout.MESSAGES - layout.WINDOW
        self._machine.window[at : at + len(request)] = np.frombuffer(request, np.uint8)
        number = int(ring["head"])
        slot = ring["slot"][number % layout.RING_SLOTS]
        slot["request"], slot["request_bytes"] = layout.MESSAGES, len(request)
        reply = layout.MESSAGES + _REQUEST_BYTES
        slot["reply"], slot["reply_capacity"], slot["reply_bytes"] = reply, REPLY_BYTES, 0
        ring["head"] = number + 1
        self._run(number + 1)
        size = int(slot["reply_bytes"])
        answered = int(ring["tail"]) == number + 1 and int(ring["boot_status"]) == 0
        self._booted = answered and REPLY.size <= size <= REPLY_BYTES
        start = reply - layout.WINDOW
        answer = self._machine.window[start : start + size].tobytes() if self._booted else b""
        if self._error is not None:
            raise EngineFailed(self._error, answer)
        if not self._booted:
            why = f"answered with {size} bytes" if answered else "left a message unanswered"
            raise DeviceError(
                f"{self._link.activity}: the firmware {why}; {self._name} was reset", hint=_OVERWRITTEN
            )
        return answer

    def _run(self, messages: int = 0) -> None:
        """Let the controller run, serving the engines and the log, until it waits for a message.

        messages: how many the ring got since the firmware booted.
        """
        machine = self._machine
        while True:
            try:
                command = machine.run()
            except Fault as fault:
                raise self._crash(fault) from None
            ring, working = machine.ring, command in (layout.LINK_RUN, layout.LINK_LOG)
            if int(ring["head"]) != messages or (working and int(ring["tail"]) != max(0, messages - 1)):
                # It would work on old messages, perhaps for hours.
                raise DeviceError(
                    f"{self._link.activity}: the message ring was overwritten; {self._name} was reset",
                    hint=_OVERWRITTEN,
                )
            if command == layout.LINK_LOG:
                self._on_log()
            elif command == layout.LINK_RUN:
                self._on_run()
            elif command != layout.LINK_IDLE:
                raise DeviceError(
                    f"{self._link.activity}: the controller asks for {command}, which does not exist; "
                    f"{self._name} was reset"
                )
            machine.link["command"] = layout.LINK_NONE
            if command == layout.LINK_IDLE:
                return

    def _crash(self, fault: Fault) -> DeviceCrash:
        with self._link.aside():  # reading the line table takes a moment
            lines = self._lines()
            place = place_text(lines, fault.frames, self._link.newest)
        if not lines and fault.frames:
            place = f" at {fault.frames[0] - 1:#x}"
        return DeviceCrash(
            f"{self._link.activity or 'the firmware'} crashed: {fault.cause}{place}; {self._name} was reset"
        )

    def _guarded(self, call: Callable[[], None]) -> bool:
        """Run one engine call; its error waits until the firmware has answered and refuses what follows."""
        if self._error is None:
            try:
                call()
            except Exception as error:
                self._error = error
        return self._error is None

    def _on_log(self) -> None:
        start = layout.LOG - layout.WINDOW
        size = min(int(self._machine.link["log_bytes"]), layout.MESSAGES - layout.LOG)
        text = self._machine.window[start : start + size].tobytes().decode(errors="replace")
        self._machine.link["log_bytes"] = 0
        self._guarded(lambda: self._engines.log(text))

    def _on_run(self) -> None:
        machine = self._machine
        bd, gdma = machine.bd, machine.gdma
        where = [(int(r["addr_h8"]) << 32) + int(r["addr_l32"]) for r in (bd, gdma)]
        counts = [int(bd["count"]), int(gdma["count"])]
        reason = int(machine.link["reason"])
        if reason == layout.CALL:
            done = self._guarded(lambda: self._engines.flush(counts[0], counts[1], reason))
        elif reason == layout.RUN_GROUP:
            group = StreamGroup(where[0], where[1], counts[0], counts[1])
            done = self._guarded(lambda: self._engines.run_group(group))
        else:
            done = self._guarded(lambda: self._flush(where, counts, reason))
        machine.link["filtered"] = self._engines.filtered
        for engine, count in zip((bd, gdma), counts, strict=True):
            engine["start"] = 0
            engine["status"] = 0 if done else 1
            engine["done_id"] = count

    def _flush(self, where: Sequence[int], counts: Sequence[int], reason: int) -> None:
        """Hand the streams over, with who issued each descriptor."""
        m, window = self._memory, self._machine.window
        sites = window[layout.SITES - layout.WINDOW :][: 4 * ARENA_CAPACITY * 8].view(np.uint64)
        for i, (stream, site, layer) in enumerate(
            ((m.bd, m.bd_site, m.bd_layer), (m.gdma, m.gdma_site, m.gdma_layer))
        ):
            n, start = counts[i], where[i] - DDR_BASE
            if n > ARENA_CAPACITY or start < 0 or start % 4 or start + n * 128 > window.size:
                raise DeviceError(f"{n} descriptors at {where[i]:#x} do not lie in the controller's DDR")
            stream[:n] = window[start : start + n * 128].view(np.uint32).reshape(n, 32)
            site[:n] = sites[i * ARENA_CAPACITY :][:n]
            layer[:n] = sites[(2 + i) * ARENA_CAPACITY :][:n]
        if self._machine.watcher is not None:
            self._machine.watcher.handed_over()
        self._engines.flush(counts[0], counts[1], reason)

    # ---- for checks ----

    def watch(self, on: bool) -> None:
        """See `Firmware`."""
        self._machine.watch(on)

    def accesses(self) -> list[ControllerAccess]:
        """See `Firmware`."""
        watcher = self._machine.watcher
        self._lost = watcher is not None and watcher.log.lost
        return [] if watcher is None else watcher.taken()

    @property
    def accesses_lost(self) -> bool:
        """See `Firmware`."""
        return self._lost

    def frames(self, engine_is_bd: bool, index: int) -> tuple[Line, ...]:
        """See `Firmware`."""
        watcher = self._machine.watcher
        sites = self._memory.bd_site if engine_is_bd else self._memory.gdma_site
        chain = () if watcher is None else watcher.chain(engine_is_bd, index)
        return self._frames(*(chain or (int(sites[index]),)))

    def frames_at(self, *addresses: int) -> tuple[Line, ...]:
        """See `Firmware`."""
        return self._frames(*addresses)

    def function(self, name: str) -> Line | None:
        """See `Firmware`."""
        return self._lines().function(name)

    def issued(self, bd_num: int, gdma_num: int) -> IssuedBy:
        """See `Firmware`."""
        watcher = self._machine.watcher
        if watcher is None:
            return np.zeros(bd_num, np.uint32), np.zeros(gdma_num, np.uint32)
        return watcher.issued(bd_num, gdma_num)

    def chains(self) -> list[Chain]:
        """See `Firmware`."""
        watcher = self._machine.watcher
        return [()] if watcher is None else watcher.chains

    # ---- for messages ----

    def _lines(self) -> SourceLines:
        """Of the linked program beside the images, if it is the one that they were made from."""
        if self._source_lines is None:
            path = self._image.debug
            known = False
            if path.is_file():
                known = from_elf(path, self._images.version).build == self._images.build
            self._source_lines = SourceLines(path if known else None)
        return self._source_lines

    def site(self, address: int) -> str:
        """The source line of a return address, `firmware+0x...` where none is known; empty for 0."""
        if not address:
            return ""
        line = self._lines().at(address - 1)
        return str(line) if line else f"firmware+{address:#x}"

    def layer(self, address: int) -> str:
        """The label at an address in the controller's memory, up to its NUL; empty for 0."""
        return self._machine.text(address) if address else ""
