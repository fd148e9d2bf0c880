"""Commands run in a real gdb and driven through its machine interface, on a terminal of its own.

`tpulayer ... --gdb` starts gdb on one pseudoterminal, as a user has it, and gdb is told to open a second
interface on another (`new-ui mi`). `Mi` also speaks with a gdb that a test starts itself.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import threading
import time
import tty
from pathlib import Path
from types import TracebackType

import pytest

from tests.support.workspaces import environment

LIMIT = 120.0  # s: the device starts in a debugger, on a busy machine

needs_gdb = pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
needs_gdbserver = pytest.mark.skipif(shutil.which("gdbserver") is None, reason="gdbserver is not installed")
needs_arm_gdb = pytest.mark.skipif(
    shutil.which("gdb-multiarch") is None, reason="gdb-multiarch, which knows ARM, is not installed"
)


_END = b"\0the end"
_ON_TERMINAL = (
    "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "from user_layers.cli.main import main; main(sys.argv[1:])"
)


class Mi:
    """An interface of gdb for programs: the numbers of files to read from and, if another, to write to."""

    def __init__(self, reads: int, writes: int | None = None) -> None:
        self._fd, self._writes = reads, reads if writes is None else writes
        self._text = ""
        self._count = 0

    def call(self, command: str) -> str:
        """Run an MI command; its result record, without "done,". AssertionError when gdb refuses it."""
        self._count += 1
        os.write(self._writes, f"{self._count}{command}\n".encode())
        record = self.until(rf"^{self._count}\^(done|running|connected|error|exit)(.*)$")
        assert record[1] != "error", record[0]
        return record[2].lstrip(",")

    def value(self, expression: str) -> str:
        """What gdb prints of an expression in the frame that is selected."""
        text = self.call(f'-data-evaluate-expression "{expression}"')
        found = re.fullmatch(r'value="(.*)"', text)
        assert found is not None, text
        return found[1]

    def frames(self) -> list[tuple[str, str, int]]:
        """The functions on the stack, innermost first, with the name of the file and the line."""
        text = self.call("-stack-list-frames")
        found = []
        for frame in re.findall(r"frame=\{([^}]*)\}", text):
            part = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', frame))
            found.append((part.get("func", ""), Path(part.get("file", "")).name, int(part.get("line", 0))))
        return found

    def stopped(self) -> dict[str, str]:
        """Wait until the program stands still: reason, func, line and what else that record says."""
        text = self.until(r"^\*stopped(.*)$")[1]
        return dict(re.findall(r'([\w-]+)="((?:[^"\\]|\\.)*)"', text))

    def go(self, command: str = "-exec-continue") -> dict[str, str]:
        """Let it run; where it stops next."""
        self.call(command)
        return self.stopped()

    def ready(self) -> None:
        """Wait for gdb's prompt."""
        self.until(r"^\(gdb\)")

    def until(self, pattern: str) -> re.Match[str]:
        """The next line like this; those before it are dropped."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            while "\n" in self._text:
                line, self._text = self._text.split("\n", 1)
                if found := re.match(pattern, line.strip()):
                    return found
            if select.select([self._fd], [], [], 1.0)[0]:
                self._text += os.read(self._fd, 65536).decode(errors="replace")
        raise AssertionError(f"gdb did not say {pattern}")


class InGdb:
    """`tpulayer WORDS --gdb` on a terminal, with an interface `mi` on another, once gdb has stopped at the
    first breakpoint; a context manager, which waits for the end. output: what the terminal has shown."""

    def __init__(self, *words: str, cwd: Path, code: int = 0) -> None:
        self._terminals = [*os.openpty(), *os.openpty()]
        self._console, theirs, ours, interface = self._terminals
        tty.setraw(interface)
        self._code, self._shown = code, bytearray()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-W", "error", "-c", _ON_TERMINAL, *words),
                *("--gdb", "--gdb-command", f"new-ui mi {os.ttyname(interface)}"),
            ],
            cwd=cwd,
            env=environment(TERM="dumb", NO_COLOR="1"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,  # whose terminal it becomes
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.mi = Mi(ours)
        try:
            self.mi.ready()
        except BaseException:
            self._end()
            raise

    @property
    def output(self) -> str:
        return self._shown.decode(errors="replace").replace("\r\n", "\n")

    def keys(self, text: str) -> None:
        """On the terminal; "\x03" is Ctrl-C."""
        os.write(self._console, text.encode())

    def __enter__(self) -> InGdb:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._process.wait(LIMIT)
        finally:
            self._end()
            print(self.output)
        if kind is None:
            assert self._process.returncode == self._code

    def _read(self) -> None:
        while data := os.read(self._console, 65536):
            self._shown += data
            if data.endswith(_END):
                return

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.write(self._terminals[1], _END)
        self._reader.join(LIMIT)
        for fd in self._terminals:
            os.close(fd)
