"""The commands of the stepper: a line of words in, a text out."""

from __future__ import annotations

import io
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from firmware_sim.device.commands import Command, layer_names
from firmware_sim.device.replay import Array
from firmware_sim.device.trace import TracedRequest
from firmware_sim.errors import UsageError
from firmware_sim.instructions.instruction import Engine
from firmware_sim.isa.footprint import Space, Tensor, locate
from firmware_sim.npy import read_npy
from firmware_sim.suggest import did_you_mean
from user_layers.files import read_input, write_atomic
from user_layers.stepper.stepper import Stepper

_SHOWN = 12  # commands, and lines of source before and behind
_NAMES = 8  # of a list in a message
_MOST_BYTES = 1 << 26  # at an address: each element takes some forty more while it is looked up


@dataclass(frozen=True)
class Word:
    """A command of the stepper; usage: with its operands."""

    usage: str
    help: str
    short: str = ""

    @property
    def name(self) -> str:
        """What is typed."""
        return self.usage.split()[0]


WORDS = (
    Word("step [N]", "execute the next N commands", "s"),
    Word("back [N]", "as it was N commands ago", "b"),
    Word("goto N", "as it was before command N; `goto end`: behind the last"),
    Word(
        "until PLACE",
        "to the next command of FILE:LINE, of a layer, node or function, or with an id such as BD:7; "
        "behind the next one that writes to a tensor, a buffer or an address (y, y+64, 0x10000000)",
        "u",
    ),
    Word("writer PLACE", "which command wrote there last"),
    Word("where", "the next command, and where it comes from", "w"),
    Word("list", "the lines of C around it", "l"),
    Word("commands [N]", "the next N commands", "c"),
    Word(
        "operands [last]", "what is now where the operands of the next command lie, or of the last one", "o"
    ),
    Word(
        "print WHAT [SHAPE] [TYPE]",
        "an operand of the next command, a tensor or an address: print opd0; print x; "
        "print 0x8000000 1x4x1x8 float32",
        "p",
    ),
    Word("save FILE.npy WHAT [SHAPE] [TYPE]", "the same into a file"),
    Word(
        "check [NAME FILE.npy]",
        "compare tensors with what a layer's test expects, or a file says, and name the command that wrote "
        "what is wrong",
    ),
    Word("tensors", "the tensors and buffers that have names"),
    Word("requests", "the launches and parts of nets that ran", "r"),
    Word("request N", "look at another one, from its beginning"),
    Word("help", "this list", "h"),
    Word("quit", "end", "q"),
)


def first_wrong(requests: Sequence[TracedRequest]) -> int | None:
    """The first that failed, or whose results were wrong: what one wants to look at. None for none."""
    for number, one in enumerate(requests):
        verdict = one.told.verdict
        last = all(later.told.verdict is not verdict for later in requests[number + 1 :])
        if one.failed or (verdict.problem and last):
            return number
    return None


class Session:
    """A walk through what ran. requests: those whose memories were kept; UsageError where there are none."""

    def __init__(self, requests: Sequence[TracedRequest]) -> None:
        self._all = list(requests)
        kept = [k for k, one in enumerate(self._all) if one.before is not None]
        if not kept:
            raise UsageError(
                "nothing ran on a device" if not self._all else "no request was kept with its memories",
                hint="name a command that runs something, or another --request",
            )
        wrong = first_wrong(requests)
        self.number = wrong if wrong in kept else kept[0]
        self.replay = Stepper(self._all[self.number])

    def do(self, line: str) -> str | None:
        """Carry out a line; its text, None where it ends the session. UsageError, DeviceError."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise UsageError(f"{line}: {error}") from None
        if not words:
            return ""
        name = next((w.name for w in WORDS if words[0] in (w.name, w.short)), None)
        if name is None:
            known = [w.name for w in WORDS]
            raise UsageError(
                f"unknown command {words[0]}{did_you_mean(words[0], known)}", hint="`help` lists them"
            )
        if name == "quit":
            return None
        method = getattr(self, f"_{name}")
        usage = next(w.usage for w in WORDS if w.name == name)
        least = len(usage.partition("[")[0].split()) - 1
        most = len(usage.split()) - 1
        if not least <= len(words) - 1 <= most:
            raise UsageError(f"usage: {usage}")
        text: str = method(*words[1:])
        return text

    # ---- moving ----

    def _step(self, count: str = "1") -> str:
        self.replay.step(_number(count, "a number of commands"))
        return self._where()

    def _back(self, count: str = "1") -> str:
        self.replay.back(_number(count, "a number of commands"))
        return self._where()

    def _goto(self, number: str) -> str:
        self.replay.goto(len(self.replay) if number == "end" else _number(number, "the number of a command"))
        return self._where()

    def _until(self, place: str) -> str:
        replay = self.replay
        file, _, line = place.rpartition(":")
        if file in ("BD", "GDMA") and line.isdecimal():
            found = replay.until_id(Engine(file), int(line))
        elif file and line.isdecimal():
            found = replay.until_line(file, int(line))
        elif (memory := self._memory(place)) is not None:
            found = replay.until_written(*memory)
        else:
            found = replay.until_layer(place)
            self._must_be_known(place, found)
        if found is None:
            return f"no command from here on: {place}"
        return self._where()

    def _must_be_known(self, place: str, found: Command | None) -> None:
        sites = self.replay.request.sites
        known = sorted({name for one in sites for name in layer_names(one)})
        request = self.replay.request
        names = [one.name for one in request.told.tensors]
        names += [one.name for one in request.buffers if one.name not in names]
        if found is None and place not in known:
            close = did_you_mean(place, [*known, *names])
            raise UsageError(
                f"{place} is no layer, node, function, tensor or buffer{close}",
                hint=f"there are {', '.join([*known, *names][:_NAMES]) or 'none with names'}; "
                "FILE:LINE, BD:7 and addresses are places too",
            )

    def _memory(self, place: str) -> tuple[Space, int, int] | None:
        """Memory, offset and bytes of a tensor, a buffer or an address; None for other words."""
        word, _, more = place.partition("+")
        for one in self.replay.request.told.tensors:
            if one.name in (place, word):
                size = int(np.prod(one.shape)) * np.dtype(one.dtype).itemsize
                return self._part(place if one.name == place else more and place, one.address, size, more)
        for buffer in self.replay.request.buffers:
            if buffer.name in (place, word):
                return self._part(place, buffer.address, buffer.nbytes, more)
        if word[:1].isdecimal():
            address = _number(word, "an address") + (_number(more, "a number of bytes") if more else 0)
            return *locate(address, place), 1
        return None

    def _part(self, place: str, address: int, nbytes: int, more: str) -> tuple[Space, int, int]:
        offset = _number(more, "a number of bytes") if more and place.endswith(f"+{more}") else 0
        if offset >= max(nbytes, 1):
            raise UsageError(f"{place} is beyond its end: it has {nbytes} bytes")
        space, start = locate(address + offset, place)
        return space, start, 1 if offset else max(nbytes, 1)

    # ---- looking ----

    def _where(self) -> str:
        replay, command = self.replay, self.replay.next
        if command is None:
            why = f": {replay.stopped}" if replay.stopped else ""
            return f"all {len(replay)} commands of {replay.request.what} are done{why}"
        return f"{self._line(command)}\n  {command.text}"

    def _line(self, command: Command) -> str:
        text = f"command {command.number} of {len(self.replay)}: {command.engine.value} {command.issued.name}"
        return f"{text}{f'; {command.place}' if command.place else ''}"

    def _list(self) -> str:
        command = self.replay.next or self.replay.last
        frames = command.issued.frames if command is not None else ()
        if not frames:
            return "which line issued this command is not known"
        frame = frames[0]
        try:
            lines = Path(frame.file).read_text(errors="replace").splitlines()
        except OSError as error:
            return f"{frame.file}:{frame.line}: cannot be read: {error.strerror}"
        half = _SHOWN // 2
        shown = range(max(frame.line - half, 1), min(frame.line + half, len(lines)) + 1)
        return "\n".join(f"{'>' if k == frame.line else ' '} {k:5} {lines[k - 1]}" for k in shown)

    def _commands(self, count: str = str(_SHOWN)) -> str:
        first = self.replay.position
        behind = min(first + _number(count, "a number of commands"), len(self.replay))
        return "\n".join(self._line(self.replay[k]) for k in range(first, behind)) or self._where()

    def _operands(self, which: str = "next") -> str:
        if which not in ("next", "last"):
            raise UsageError("usage: operands [last]")
        command = self.replay.next if which == "next" else self.replay.last
        if command is None:
            return self._where()
        parts = [self._line(command)]
        for one in command.operands:
            if isinstance(one, Tensor):
                text = _shown(self.replay.operand(command, one.name))
                parts.append(f"{one.name} at {self.replay.where(one.space, one.offset)}: {text}")
            else:
                number = np.uint32(one.bits).view(np.float32)
                parts.append(f"{one.name} = 0x{one.bits:08x} ({number:g})")
        return "\n".join(parts)

    def _values(self, what: str, more: Sequence[str]) -> Array:
        command = self.replay.next or self.replay.last
        operands = [one.name for one in command.operands if isinstance(one, Tensor)] if command else []
        if command is not None and what in operands:
            _at_most(more, 1, "an operand has its own shape: give at most a type")
            return self.replay.operand(command, what, *map(_dtype, more))
        if what[:1].isdecimal() or what in [one.name for one in self.replay.request.buffers]:
            named = not what[:1].isdecimal()
            address = self.replay.buffer(what) if named else _number(what, "an address")
            if not more and not (named and self._is_tensor(what)):
                raise UsageError(f"{what}: give a shape", hint=f"print {what} 1x4x8x8 float32")
            if more:
                shape, dtype = _shape(more[0]), _dtype(more[1]) if more[1:] else "float32"
                if math.prod(shape) * np.dtype(dtype).itemsize > _MOST_BYTES:
                    raise UsageError(
                        f"{more[0]} {dtype}: more than {_MOST_BYTES >> 20} MiB", hint="look at a part of it"
                    )
                return self.replay.array(address, shape, dtype)
        _at_most(more, 0, "a tensor has its own shape and type")
        if not self._is_tensor(what):
            known = [*operands, *(one.name for one in self.replay.request.told.tensors)]
            raise UsageError(
                f"{what} is no operand, tensor or address{did_you_mean(what, known)}",
                hint=f"there are {', '.join(known[:_NAMES]) or 'none with names'}",
            )
        return self.replay.tensor(what)

    def _is_tensor(self, name: str) -> bool:
        return any(one.name == name for one in self.replay.request.told.tensors)

    def _print(self, what: str, *more: str) -> str:
        return _shown(self._values(what, more))

    def _save(self, file: str, what: str, *more: str) -> str:
        array = self._values(what, more)
        data = io.BytesIO()
        np.save(data, array)
        write_atomic(Path(file), data.getvalue())
        return f"{what}: {list(array.shape)} {array.dtype} -> {file}"

    def _writer(self, place: str) -> str:
        memory = self._memory(place)
        if memory is None:
            self._must_be_known(place, None)
            raise UsageError(f"{place} is no tensor, buffer or address")
        command = self.replay.writer(*memory, before=self.replay.position)
        return f"no command so far wrote to {place}" if command is None else self._line(command)

    def _check(self, name: str = "", file: str = "") -> str:
        told = self.replay.request.told
        if name:
            if not file:
                raise UsageError("usage: check NAME FILE.npy")
            wanted = {name: _read(Path(file))}
        else:
            names = {one.name for one in told.tensors}
            wanted = {key: array for key, array in told.expected.items() if key in names}
        if not wanted:
            return "nobody says what must be in a tensor here: check NAME FILE.npy"
        texts = []
        for key, array in wanted.items():
            found = self.replay.blame(key, array)
            texts.append(str(found) if found else f"{key}: {array.size} elements equal")
        return "\n".join(texts)

    def _tensors(self) -> str:
        request = self.replay.request
        lines = [
            f"{one.name}: {list(one.shape)} {one.dtype} at 0x{one.address:x}" for one in request.told.tensors
        ]
        known = {one.name for one in request.told.tensors}
        lines += [
            f"{one.name}: {one.nbytes} bytes at 0x{one.address:x}"
            for one in request.buffers
            if one.name not in known
        ]
        return "\n".join(lines) or "none have names"

    def _requests(self) -> str:
        lines = []
        for k, one in enumerate(self._all):
            state = "failed" if one.failed else f"{one.cycles:.0f} cycles"
            here = "> " if k == self.number else "  "
            kept = "" if one.before is not None else f"; not kept: step --request {k}"
            wrong = "; WRONG" if one.told.verdict.problem else ""
            label = f" ({one.told.label})" if one.told.label else ""
            lines.append(f"{here}{k}: {one.what}{label}, {len(one)} commands, {state}{wrong}{kept}")
        return "\n".join(lines)

    def _request(self, number: str) -> str:
        k = _number(number, "the number of a request")
        if k >= len(self._all):
            raise UsageError(f"there is no request {k}", hint=f"they are numbered 0 to {len(self._all) - 1}")
        self.replay, self.number = Stepper(self._all[k]), k
        return self._where()

    def _help(self) -> str:
        width = max(len(word.usage) for word in WORDS) + 2
        return "\n".join(f"{w.short:2} {w.usage:{width}}{w.help}" for w in WORDS)


def _number(text: str, what: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if value < 0:
        raise UsageError(f"{text} is not {what}")
    return value


def _read(path: Path) -> Array:
    try:
        return read_npy(io.BytesIO(read_input(path)))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path} is no .npy file: {error}") from None


def _shape(text: str) -> tuple[int, ...]:
    shape = tuple(_number(part, "a shape such as 1x4x8x8") for part in text.split("x"))
    if 0 in shape:
        raise UsageError(f"{text} has no elements", hint="a shape such as 1x4x8x8")
    return shape


def _dtype(text: str) -> str:
    try:
        dtype = np.dtype(text)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        raise UsageError(f"{text} is not a type of numbers here", hint="for example float32, int8")
    return str(dtype.name)


def _at_most(words: Sequence[str], count: int, why: str) -> None:
    if len(words) > count:
        raise UsageError(f"{words[count]}: {why}")


def _shown(array: Array) -> str:
    with np.printoptions(precision=6, threshold=200, edgeitems=3, linewidth=110, suppress=True):
        return f"{list(array.shape)} {array.dtype}\n{array}"
