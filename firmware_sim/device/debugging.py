"""gdb and the device process: stopped at the first line of a kernel or layer, natively and on the controller.

Natively gdb starts the process; nothing has to be allowed for that which a debugger does not need anyway. On
the controller the emulator answers gdb's protocol (firmware_sim/arm/gdb_server.py), on this machine alone.
What is chosen here holds for every device that this process opens.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from firmware_sim.errors import MissingError
from firmware_sim.firmware.image import FirmwareImage, Kind
from firmware_sim.firmware.source_lines import SourceLines
from firmware_sim.processes.debugger import Debugger, attended
from firmware_sim.sdk_folder import sdk_dir

HOST = "127.0.0.1"
_GDBS: dict[Kind, tuple[str, ...]] = {
    "native": ("gdb", "gdb-multiarch"),
    "arm": ("gdb-multiarch", "arm-none-eabi-gdb", "gdb"),
}
_TO_INSTALL: dict[Kind, str] = {
    "native": "apt-get install gdb (Debian, Ubuntu), or dnf install gdb (Fedora)",
    "arm": "apt-get install gdb-multiarch (Debian, Ubuntu), or dnf install gdb (Fedora)",
}
_PROBE_LIMIT = 60.0  # s for a gdb to say what it can


@dataclass(frozen=True)
class Choice:
    """kind: of the firmware that is debugged. functions: where it stops. commands: for gdb, once it has
    stopped there first: each a command, or a file of some. port: no gdb is started, but one may connect there
    (0: to a free one, which is told)."""

    kind: Kind
    functions: tuple[str, ...]
    commands: tuple[str, ...] = ()
    port: int | None = None


_chosen: Choice | None = None


@contextlib.contextmanager
def debugging(choice: Choice) -> Iterator[None]:
    """Within the block devices with a firmware of this kind run in gdb. MissingError where there is none."""
    global _chosen
    _program(choice)  # said before anything is built
    with attended() if choice.port is None else contextlib.nullcontext():
        _chosen = choice
        try:
            yield
        finally:
            _chosen = None


def session(image: FirmwareImage) -> Debugger | None:
    """How to start the process of a device that boots `image`; None: without a debugger. The first of `fds`,
    if any, is a socket for the emulator to accept gdb's connection from."""
    if _chosen is None or image.kind != _chosen.kind or image.server is not None:
        return None
    if image.kind == "native":
        return _native(_chosen, image)
    return _controller(_chosen, image)


def _native(choice: Choice, image: FirmwareImage) -> Debugger:
    program = _program(choice)

    def under(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        if choice.port is not None:
            wrapper = [f"{name}={value}" for name, value in environment.items()]
            return [program, "--once", "--wrapper", "env", *wrapper, "--", f"{HOST}:{choice.port}", *command]
        before = [f"set environment {name}={value}" for name, value in environment.items()]
        before += ["set startup-with-shell off", "set disable-randomization off"]  # containers refuse it
        first = [*_breakpoints(choice, image), "run"]
        return [*_gdb(program, before, first, choice), "--args", *command]

    if choice.port is not None:
        text = f"gdbserver starts the device; in gdb: target remote {HOST}:PORT, {_places(choice)}"
        print(text, file=sys.stderr, flush=True)
    return Debugger(under, terminal=choice.port is None)


def _controller(choice: Choice, image: FirmwareImage) -> Debugger:
    if not image.debug.is_file():
        raise MissingError(
            f"there is no {image.debug}, from which gdb knows the lines of {image}", hint="run build_layers"
        )
    try:
        listener = socket.create_server((HOST, choice.port or 0), backlog=1)
    except OSError as error:
        raise MissingError(
            f"the gdb server cannot have port {choice.port} of {HOST}: {error.strerror or error}",
            hint="--gdb-port 0 takes a free one and tells which",
        ) from None
    port = listener.getsockname()[1]
    fds = (listener.detach(),)
    if choice.port is not None:
        says = (
            f"gdb server for the controller at {HOST}:{port}; in a gdb for ARM: file {image.debug}, "
            f"target remote {HOST}:{port}, {_places(choice)}\n"
        )
        return Debugger(terminal=False, fds=fds, says=says)
    # The emulator answers once the firmware is loaded, on a busy machine some seconds from now.
    first = ["set remotetimeout 60", f"target remote {HOST}:{port}", *_breakpoints(choice, image), "continue"]
    before = ["set print symbol off"]  # at 0 are functions that the linker has dropped
    return Debugger(beside=[*_gdb(_program(choice), before, first, choice), str(image.debug)], fds=fds)


def _program(choice: Choice) -> str:
    """The gdb to run, or the server. MissingError when it is not there."""
    if choice.port is not None:
        found = shutil.which("gdbserver") if choice.kind == "native" else ""
        if found is None:
            raise MissingError(
                "--gdb-port: gdbserver is not installed",
                hint="apt-get install gdbserver (Debian, Ubuntu), or dnf install gdb-gdbserver (Fedora); "
                "--gdb needs gdb alone",
            )
        return found
    names = _GDBS[choice.kind]
    there = [path for name in names if (path := shutil.which(name))]
    for path in there:
        if choice.kind == "native" or _knows_arm(path):
            return path
    lacking = f"{there[0]} knows no ARM" if there else f"{names[0]} is not installed"
    raise MissingError(f"--gdb: {lacking}", hint=_TO_INSTALL[choice.kind])


def _knows_arm(gdb: str) -> bool:
    try:
        said = subprocess.run(
            [gdb, "-batch", "-nx", "-ex", "set architecture armv5te"],
            capture_output=True,
            timeout=_PROBE_LIMIT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"armv5te" in said.stdout and said.returncode == 0


def _gdb(program: str, before: Sequence[str], first: Sequence[str], choice: Choice) -> list[str]:
    """The command, up to the program that is debugged. before: settings; first: what gdb does by itself."""
    settings = [
        "set breakpoint pending on",
        "set print thread-events off",
        "set confirm off",
        "set auto-load python-scripts off",  # those of Python itself, which gdb warns of
        f"set directories {':'.join(map(str, _folders()))}:$cdir:$cwd",
        "skip -gfi */fw_native_watch*.c",  # what the compiler calls before accesses
        *before,
    ]
    words = [program, "-q"]
    for text in settings:
        words += ["-iex", text]
    for text in first:
        words += ["-ex", text]
    for text in choice.commands:
        words += ["-x" if Path(text).is_file() else "-ex", text]
    return words


def _folders() -> list[Path]:
    """Where the C of the firmware itself is, which debug information names without its place."""
    sdk = sdk_dir()
    return [sdk / name for name in ("firmware", "arm", "libc", "layers/device", "layers/lib", "generated")]


def _breakpoints(choice: Choice, image: FirmwareImage) -> list[str]:
    lines = SourceLines(image.debug)
    found = []
    for name in choice.functions:
        line = lines.function(name)
        found.append(f"break {name}" if line is None else f'break -source "{line.file}" -function {name}')
    return found


def _places(choice: Choice) -> str:
    return ", ".join(f"break {name}" for name in choice.functions)
