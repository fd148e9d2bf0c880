"""A debugger in a few lines: packets of gdb's remote serial protocol, from the side that gdb has."""

from __future__ import annotations

import re
import socket
from types import TracebackType

LIMIT = 60.0  # s


class Remote:
    """A connection to a target at a port of this machine; a context manager."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self._bytes = b""

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, raw: bytes) -> None:
        """Bytes as they are."""
        self._socket.sendall(raw)

    def tell(self, text: str) -> None:
        """A packet whose answer comes later."""
        data = text.encode()
        self.send(b"$%s#%02x" % (data, sum(data) & 0xFF))

    def ask(self, text: str) -> str:
        """A packet, and the text of its answer."""
        self.tell(text)
        return self.heard()

    def heard(self) -> str:
        """The next packet of the target; acknowledgements are passed over. EOFError when it is gone."""
        while (found := re.search(rb"\$([^#]*)#([0-9a-f]{2})", self._bytes)) is None:
            self._more()
        self._bytes = self._bytes[found.end() :]
        assert sum(found[1]) & 0xFF == int(found[2], 16)
        return found[1].decode()

    def sign(self) -> bytes:
        """The next byte."""
        while not self._bytes:
            self._more()
        first, self._bytes = self._bytes[:1], self._bytes[1:]
        return first

    def _more(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise EOFError("the target has closed the connection")
        self._bytes += data


def word(text: str) -> int:
    """A register's value as packets have it."""
    return int.from_bytes(bytes.fromhex(text), "little")
