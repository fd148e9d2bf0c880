"""The firmware as a shared library in this process: firmware.so, built for the machine itself."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from firmware_sim.chip import STATIC_CONTEXT_OFFSET
from firmware_sim.errors import DeviceError
from firmware_sim.firmware.controller_log import Chain, ControllerAccess, Frames, IssuedBy, WatchBlock
from firmware_sim.firmware.image import EngineFailed, Engines, StreamGroup
from firmware_sim.firmware.source_lines import Line, SourceLines
from firmware_sim.processes.shared_memory import ARENA_CAPACITY, SharedMemory
from firmware_sim.wire import ABI_VERSION

REPLY_CAPACITY = 4 << 20
_FLUSH_ACCESSES = 5  # FW_FLUSH_ACCESSES


class _Group(ctypes.Structure):
    _fields_ = (
        ("bd_addr", ctypes.c_uint64),
        ("gdma_addr", ctypes.c_uint64),
        ("bd_num", ctypes.c_uint32),
        ("gdma_num", ctypes.c_uint32),
    )


FLUSH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
RUN_GROUP = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Group))
LOG = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32)


class Platform(ctypes.Structure):
    """fw_platform of sdk/firmware/fw_message.h."""

    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("bd", ctypes.c_void_p),
        ("gdma", ctypes.c_void_p),
        ("bd_site", ctypes.c_void_p),
        ("gdma_site", ctypes.c_void_p),
        ("ddr", ctypes.c_void_p),
        ("ddr_bytes", ctypes.c_uint64),
        ("local", ctypes.c_void_p),
        ("l2", ctypes.c_void_p),
        ("dtcm", ctypes.c_void_p),
        ("flush", FLUSH),
        ("run_group", RUN_GROUP),
        ("log", LOG),
        ("activity", ctypes.c_void_p),
        ("activity_bytes", ctypes.c_uint32),
        ("filtered", ctypes.c_uint32),
        ("bd_layer", ctypes.c_void_p),
        ("gdma_layer", ctypes.c_void_p),
        ("frames", ctypes.c_void_p),
        ("ddr_reserved", ctypes.c_uint64),
        ("newest", ctypes.c_void_p),
        ("watch", ctypes.c_void_p),
    )


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class FloatEnvironment:
    """Puts the thread's floating-point environment back to IEEE defaults.

    A library built with -ffast-math switches the processor to flush denormals when it is loaded, and a
    kernel may change rounding; the emulator's numpy arithmetic runs on the same thread.
    """

    def __init__(self) -> None:
        self._fesetenv = ctypes.CDLL("libm.so.6").fesetenv
        self._default = ctypes.c_void_p(-1)  # FE_DFL_ENV of glibc

    def reset(self) -> None:
        """Rounding to nearest and IEEE denormals again, in the calling thread (glibc's FE_DFL_ENV)."""
        self._fesetenv(self._default)


class NativeFirmware:
    """Loads and boots `path`; DeviceError when it cannot be loaded or refuses to boot.

    activity: address and size of the text block in which the firmware notes what it runs; frames: address
    of the numbers in which it notes where it crashes; newest: of the one in which it notes calls.
    """

    def __init__(
        self,
        path: Path,
        memory: SharedMemory,
        engines: Engines,
        activity: tuple[int, int],
        frames: int,
        newest: int,
    ) -> None:
        self._engines = engines
        self._path = path
        self._source_lines: SourceLines | None = None
        self._error: Exception | None = None
        try:
            self._lib = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL)
            boot, self._handle = self._lib.fw_boot, self._lib.fw_handle
        except (OSError, AttributeError) as error:
            raise DeviceError(
                f"{path} cannot be loaded as a firmware: {error}", hint="build it again with rebuild_layers"
            ) from None
        self._handle.restype = ctypes.c_uint32
        self._watch = WatchBlock()
        self._memory = memory
        self._reply = ctypes.create_string_buffer(REPLY_CAPACITY)
        self._window = memory.controller_window(STATIC_CONTEXT_OFFSET)
        # The callbacks must live as long as the library may call them.
        self._platform = Platform(
            abi_version=ABI_VERSION,
            capacity=ARENA_CAPACITY,
            bd=memory.bd.ctypes.data,
            gdma=memory.gdma.ctypes.data,
            bd_site=memory.bd_site.ctypes.data,
            gdma_site=memory.gdma_site.ctypes.data,
            ddr=self._window.ctypes.data,
            ddr_bytes=self._window.size,
            local=memory.local.ctypes.data,
            l2=memory.l2.ctypes.data,
            dtcm=memory.dtcm.ctypes.data,
            flush=FLUSH(self._on_flush),
            run_group=RUN_GROUP(self._on_run_group),
            log=LOG(self._on_log),
            activity=activity[0],
            activity_bytes=activity[1],
            bd_layer=memory.bd_layer.ctypes.data,
            gdma_layer=memory.gdma_layer.ctypes.data,
            frames=frames,
            ddr_reserved=STATIC_CONTEXT_OFFSET,
            newest=newest,
            watch=self._watch.address,
        )
        status = boot(ctypes.byref(self._platform))
        if status != 0:
            raise DeviceError(
                f"{path} refused to boot (code {status}); this device speaks firmware ABI {ABI_VERSION}",
                hint="build it again with rebuild_layers",
            )
        self._base = self.base
        self._frames = Frames(self._lines, self._base)

    @property
    def base(self) -> int:
        """Where the library lies: what its code addresses count from."""
        info = _DlInfo()
        ctypes.CDLL(None).dladdr(self._handle, ctypes.byref(info))
        return int(info.base or 0)

    @property
    def instructions(self) -> int:
        """Always 0: nobody counts the processor's own instructions."""
        return 0

    def handle(self, request: bytes) -> bytes:
        """Call fw_handle with one request (fw_request, payload) and return its reply (fw_reply, payload).

        Raises EngineFailed for the first error of an engine call made on the way: ctypes cannot let it pass
        through the C code. A crash ends the process; its parent reports it.
        """
        self._error = None
        # c_void_p and not a plain int or bytes: without argtypes ctypes would pass 32 bits.
        size = self._handle(
            ctypes.c_char_p(request),
            ctypes.c_uint32(len(request)),
            ctypes.byref(self._reply),
            ctypes.c_uint32(REPLY_CAPACITY),
        )
        reply = ctypes.string_at(self._reply, min(size, REPLY_CAPACITY))
        if self._error is not None:
            raise EngineFailed(self._error, reply)
        return reply

    def _lines(self) -> SourceLines:
        """Read when the first message needs it."""
        if self._source_lines is None:
            self._source_lines = SourceLines(self._path)
        return self._source_lines

    def site(self, address: int) -> str:
        """The source line of a return address, else `symbol+0x...`; empty where no library lies."""
        info = _DlInfo()
        if not address or not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info)):
            return ""
        # a return address: the call is just before it
        if line := self._lines().at(address - int(info.base or 0) - 1):
            return str(line)
        if not info.symbol:
            return f"firmware.so+{address - int(info.base or 0):#x}"
        return f"{info.symbol.decode(errors='replace')}+{address - int(info.address or 0):#x}"

    def layer(self, address: int) -> str:
        """The NUL-terminated label at an address of this process, as the firmware noted it; empty for 0."""
        return ctypes.string_at(address).decode(errors="replace") if address else ""

    def watch(self, on: bool) -> None:
        """See `Firmware`. Code without instrumentation (a build with sanitizers) makes no accesses."""
        self._watch.watch(on)

    def accesses(self) -> list[ControllerAccess]:
        """See `Firmware`."""
        return self._watch.take()

    @property
    def accesses_lost(self) -> bool:
        """See `Firmware`."""
        return self._watch.lost

    def frames(self, engine_is_bd: bool, index: int) -> tuple[Line, ...]:
        """See `Firmware`."""
        chain = self._watch.chain(engine_is_bd, index)
        sites = self._memory.bd_site if engine_is_bd else self._memory.gdma_site
        return self._frames(*chain) if chain else self._frames(int(sites[index]))

    def frames_at(self, *addresses: int) -> tuple[Line, ...]:
        """See `Firmware`."""
        return self._frames(*addresses)

    def function(self, name: str) -> Line | None:
        """See `Firmware`."""
        return self._lines().function(name)

    def issued(self, bd_num: int, gdma_num: int) -> IssuedBy:
        """See `Firmware`."""
        return self._watch.issued(bd_num, gdma_num)

    def chains(self) -> list[Chain]:
        """See `Firmware`; code outside the image lies before it, or behind its end."""
        return [tuple(address - self._base for address in chain) for chain in self._watch.chains()]

    def _guarded(self, call: Callable[[], None]) -> int:
        """Run one engine call; ctypes would swallow its error, so keep it and refuse all that follow."""
        if self._error is not None:
            return -1
        try:
            call()
        except Exception as error:
            self._error = error
            return -1
        return 0

    def _on_flush(self, bd_num: int, gdma_num: int, reason: int) -> int:
        self._watch.empty()
        if reason == _FLUSH_ACCESSES:
            return 0
        status = self._guarded(lambda: self._engines.flush(bd_num, gdma_num, reason))
        self._platform.filtered = self._engines.filtered
        return status

    def _on_run_group(self, group: ctypes._Pointer[_Group]) -> int:
        g = group.contents
        where = StreamGroup(g.bd_addr, g.gdma_addr, g.bd_num, g.gdma_num)
        return self._guarded(lambda: self._engines.run_group(where))

    def _on_log(self, text: int | None, size: int) -> None:
        data = ctypes.string_at(text, size) if text else b""
        self._guarded(lambda: self._engines.log(data.decode(errors="replace")))
