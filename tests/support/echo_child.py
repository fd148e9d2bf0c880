"""A child process for tests/unit/test_process.py: does what the request says, also badly."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
import time

from firmware_sim.errors import CompileError, MissingError
from firmware_sim.processes.process_child import Handler, Link

libc = ctypes.CDLL(None)


def start(args: list[str], fds: list[int], link: Link) -> Handler:
    if args[:1] == ["missing"]:
        raise MissingError("nothing here", hint="look elsewhere")
    if args[:1] == ["die"]:
        os._exit(7)

    def handle(header: dict[str, object], payload: bytes) -> tuple[dict[str, object], bytes]:
        op = str(header["op"])
        amount = float(str(header.get("amount", 0)))
        link.activity = f"operation {op}"
        if op == "echo":
            return {"header": header, "args": args}, payload
        if op == "fd":
            return {}, os.pread(fds[0], 100, 0)
        if op == "log":
            for i in range(int(amount)):
                link.log(f"line {i}")
        elif op == "print":
            print("from python", file=sys.stderr)
            libc.puts(b"from C")
        elif op == "print and die":
            libc.puts(b"." * int(amount) + b"last words")
            libc.abort()
        elif op == "user error":
            raise CompileError("does not fit", hint="make it smaller")
        elif op == "bug":
            raise KeyError("oops")
        elif op == "raise signal":
            os.kill(os.getpid(), int(amount))
        elif op == "exit":
            os._exit(int(amount))
        elif op == "close socket":
            os.closerange(3, 100)
            time.sleep(60)
        elif op == "spin":
            libc.usleep(60_000_000)
        elif op == "ticks":
            for _ in range(8):
                time.sleep(amount)
                link.tick()
        elif op == "chatter":
            while True:
                libc.puts(b"." * 1000)
        elif op == "scribble":
            for fd in range(3, 1024):
                with contextlib.suppress(OSError):
                    os.write(fd, b"what nobody expects there, and a little more of it")
        elif op == "start a program":
            return {"pid": subprocess.Popen(["sleep", "1000"]).pid}, b""
        elif op == "aside":
            with link.aside():
                time.sleep(amount)
        return {"done": op}, b""

    return handle
