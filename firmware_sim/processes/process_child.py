"""The child's half of `process.py`: frames, the pulse page, and the loop that answers requests.

Kept apart from the parent's half because a child imports nothing it does not need: the start of a
process is paid by every user of the emulator.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence

from firmware_sim.errors import MissingError, TpulayerError, system_error

FRAME = struct.Struct("<4sIQ")  # kind, bytes of the JSON header, bytes of the payload
MAX_HEADER = 64 << 20
MAX_PAYLOAD = 1 << 36  # arrays of a model on the host may be as large as the chip's memory
_LARGE = 1 << 18  # bytes that go through the socket at once
HELLO, REQUEST, REPLY, ERROR, LOG = b"HELO", b"REQ ", b"REPL", b"ERR ", b"LOG "
INTERNAL = "InternalError"

# The file that parent and child share: a page for the clock and for notes; a page that C code, also of
# an emulated controller, may write, and whatever it writes there can at most end its own process; text of
# a fatal error.
PULSE_TICKS = 0  # u64: grows with every part of a request
PULSE_ASIDE = 1  # u64: not 0 while something runs whose time does not count
PULSE_LOST = 2  # u64: not 0 when the child could not answer: C code has closed its files
NOTES_OFFSET = 24
NOTES = 3  # u64 each; see Link.notes
CODE_PAGE = 4096
PAGE_BYTES = 4096
PULSE_BYTES = CODE_PAGE + PAGE_BYTES
NEWEST_OFFSET = CODE_PAGE  # u64: code address of the newest call that C code notes
ACTIVITY_OFFSET = CODE_PAGE + 64
ACTIVITY_BYTES = 512
FRAMES_OFFSET = ACTIVITY_OFFSET + ACTIVITY_BYTES
FRAMES = 16  # u64 each; FW_FRAMES of sdk/firmware/fw_message.h

Handler = Callable[[dict[str, object], bytes], tuple[dict[str, object], bytes]]


def send_frame(sock: socket.socket, kind: bytes, header: dict[str, object], payload: bytes = b"") -> None:
    """Send one frame; OSError when the other side is gone."""
    text = json.dumps(header).encode()
    head = FRAME.pack(kind, len(text), len(payload)) + text
    if len(payload) < _LARGE:
        sock.sendall(head + payload)
    else:  # not worth a copy
        sock.sendall(head)
        sock.sendall(payload)


class FrameReader:
    """Collects the bytes of a stream socket and cuts them into frames."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = bytearray()

    def read_available(self) -> bool:
        """Take what the socket has (one recv); False at the end of the stream."""
        data = self._sock.recv(_LARGE)
        self._data += data
        return bool(data)

    def next(self) -> tuple[bytes, dict[str, object], bytes] | None:
        """The next whole frame, or None until more bytes come; ValueError for what is not a frame."""
        if len(self._data) < FRAME.size:
            return None
        kind, header_bytes, payload_bytes = FRAME.unpack_from(self._data)
        if header_bytes > MAX_HEADER or payload_bytes > MAX_PAYLOAD:
            raise ValueError(f"frame of {header_bytes} + {payload_bytes} bytes")
        middle = FRAME.size + header_bytes
        end = middle + payload_bytes
        if len(self._data) < end:
            return None
        header = json.loads(bytes(self._data[FRAME.size : middle]))
        with memoryview(self._data) as data:
            payload = bytes(data[middle:end])
        del self._data[:end]
        return kind, header, payload


class Link:
    """What a handler may use beside its return value: log lines, the clock, the activity text, notes."""

    def __init__(self, sock: socket.socket, pulse_fd: int) -> None:
        self._sock = sock
        self.meanwhile: Callable[[], object] | None = None
        """What to do once between two requests, so that the next one finds it done. What it raises does not
        count: who needs it tries again."""
        self.page_fd = pulse_fd
        """The file that parent and child share, for one more process that C code runs in."""
        self._page = mmap.mmap(pulse_fd, PULSE_BYTES)
        words = memoryview(self._page)[: NOTES_OFFSET + 8 * NOTES].cast("Q")
        self._words = words[: NOTES_OFFSET // 8]
        self.notes = words[NOTES_OFFSET // 8 :]
        """NOTES numbers for the report of an end: Crash.notes."""
        self._anchor = ctypes.c_char.from_buffer(self._page)
        start = ctypes.addressof(self._anchor)
        self.page_address = start + CODE_PAGE
        """The page for C code, PAGE_BYTES; what follows the frames is free for the handler's use."""
        self.activity_address = start + ACTIVITY_OFFSET
        """Address of the activity text for C code: ACTIVITY_BYTES bytes, NUL-terminated."""
        self.frames_address = start + FRAMES_OFFSET
        """Address for the FRAMES numbers that C code notes when it crashes, see Crash.frames."""
        self.newest_address = start + NEWEST_OFFSET
        """Address for the number of Crash.newest."""

    def log(self, text: str) -> None:
        """Hand one piece of text to the parent's `on_log`."""
        send_frame(self._sock, LOG, {"text": text})

    def tick(self) -> None:
        """The next part of the request begins: its time starts again."""
        self._words[PULSE_TICKS] += 1

    def lose(self) -> None:
        """The socket is gone."""
        self._words[PULSE_LOST] = 1

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """The time inside does not count, as far as it is below the parent's ASIDE_LIMIT."""
        self._words[PULSE_ASIDE] += 1
        try:
            yield
        finally:
            self._words[PULSE_ASIDE] -= 1

    @property
    def newest(self) -> int:
        """What C code noted at newest_address."""
        return int.from_bytes(self._page[NEWEST_OFFSET : NEWEST_OFFSET + 8], "little")

    @property
    def frames_noted(self) -> bool:
        """Whether C code has noted where it crashed."""
        return any(self._page[FRAMES_OFFSET : FRAMES_OFFSET + 8])

    @property
    def activity(self) -> str:
        """What runs now: a phrase that begins the sentence of a crash report."""
        end = ACTIVITY_OFFSET + ACTIVITY_BYTES
        return self._page[ACTIVITY_OFFSET:end].split(b"\0", 1)[0].decode(errors="replace")

    @activity.setter
    def activity(self, text: str) -> None:
        data = text.encode()[: ACTIVITY_BYTES - 1]
        self._page[ACTIVITY_OFFSET : ACTIVITY_OFFSET + len(data) + 1] = data + b"\0"


def die_with_parent(fd: int) -> None:
    """End this process, and its group if it leads one, when the other end of `fd` closes, whatever the main
    thread is doing.

    A thread, and not PR_SET_PDEATHSIG: that signal comes when the *thread* that started the child
    ends. The main thread may be in C code forever; ctypes and cffi calls release the GIL.
    """

    def watch() -> None:
        poll = select.poll()
        poll.register(fd, 0)  # 0: only POLLHUP and POLLERR
        poll.poll()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with what it has started
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="watch parent").start()


def _error_header(error: BaseException) -> dict[str, object]:
    if isinstance(error, TpulayerError):
        words = {"message": error.message, "hint": error.hint}
        return {"error": type(error).__name__, **words, "noted": error.noted, "found": error.found}
    if refused := system_error(error):
        return {"error": MissingError.__name__, "message": refused, "hint": "", "noted": "", "found": {}}
    return {"error": INTERNAL, "message": "".join(traceback.format_exception(error)), "hint": ""}


def _serve(
    handler: Handler, reader: FrameReader, sock: socket.socket, flush: Callable[[], None], link: Link
) -> None:
    while True:
        frame = reader.next()
        if frame is None:
            sock.setblocking(True)  # C code may have thought otherwise
            if not reader.read_available():
                return
            continue
        _, header, payload = frame
        try:
            reply, data = handler(header, payload)
            kind = REPLY
        except Exception as error:
            kind, reply, data = ERROR, _error_header(error), b""
        try:
            flush()
            send_frame(sock, kind, reply, data)
        except OSError:
            link.lose()
            raise
        if link.meanwhile is not None:
            prepare, link.meanwhile = link.meanwhile, None
            with contextlib.suppress(Exception):
                prepare()


def child_main(argv: Sequence[str]) -> None:
    """Entry of every child: MODULE SOCKET_FD PULSE_FD FD,FD... ARG...; see `process.Child`."""
    module, sock_fd, pulse_fd, fd_list, *args = argv
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the parent, which ends us
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the report is the parent's; no 12 GB core files
    for fd in (sock_fd, pulse_fd, *filter(None, fd_list.split(","))):
        os.set_inheritable(int(fd), False)  # programs that C code starts have nothing to do with them
    sock = socket.socket(fileno=int(sock_fd))
    os.lseek(int(pulse_fd), PULSE_BYTES, os.SEEK_SET)  # the text of a fatal error goes behind the pages
    faulthandler.enable(file=int(pulse_fd), all_threads=False)
    libc = ctypes.CDLL(None)
    # C code's printf must come out even if a later line crashes: stdout by lines (_IOLBF is 1 on Linux).
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 1, ctypes.c_size_t(0))

    def flush() -> None:
        libc.fflush(None)
        sys.stdout.flush()
        sys.stderr.flush()

    with contextlib.suppress(OSError):  # of the socket: the parent is gone, or C code has closed it
        try:
            die_with_parent(int(sock_fd))
            link = Link(sock, int(pulse_fd))
            start = importlib.import_module(module).start
            handler: Handler = start(args, [int(fd) for fd in fd_list.split(",") if fd], link)
        except Exception as error:
            flush()
            send_frame(sock, ERROR, _error_header(error))
        else:
            flush()
            send_frame(sock, HELLO, {})
            _serve(handler, FrameReader(sock), sock, flush, link)
    os._exit(0)  # nothing to tidy up, and no destructors of foreign libraries
