"""The parameters of a layer that Caffe does not have, read by name from what its prototxt says.

No schema knows these fields. What the text has is kept as it stands: numbers, texts (strings and words
alike), messages as mappings; a name that stands more than once holds a tuple. Whoever reads a field says what
it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from firmware_sim.errors import CompileError, TpulayerError, UsageError
from firmware_sim.shown import count as counted
from firmware_sim.shown import listed
from firmware_sim.suggest import did_you_mean

T = TypeVar("T")
_FLAGS = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_REALS = ("inf", "infinity", "nan")


class Required:
    """The default of what has none."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = Required()


class Message:
    """Fields by name. Each method reads one; with a default it may be missing. A field that is there and that
    nobody reads is an error, see `check_read`.

    what: the layer, for messages; path: of this message in it, "" for the layer itself.
    Errors of all methods: CompileError that names layer and field.
    """

    def __init__(self, what: str, fields: Mapping[str, Any], path: str = "", absent: str = "") -> None:
        self._what = what
        self._fields = dict(fields)
        self._path = path
        self._absent = absent
        self._asked: dict[str, tuple[Message, ...]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._path or self._what}: {listed(self._fields)}>"

    # ---- one value ----

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return bool(self._values(name))

    def count(self, name: str) -> int:
        """How often the field is there."""
        return len(self._values(name))

    def integer(
        self,
        name: str,
        default: int | Required = REQUIRED,
        *,
        least: int | None = None,
        most: int | None = None,
    ) -> int:
        """A whole number, from `least` to `most`."""
        value = self._one(name)
        return self._default(name, default) if value is None else self._integer(name, value, least, most)

    def number(
        self,
        name: str,
        default: float | Required = REQUIRED,
        *,
        least: float | None = None,
        most: float | None = None,
    ) -> float:
        """A number, from `least` to `most`."""
        value = self._one(name)
        return self._default(name, default) if value is None else self._number(name, value, least, most)

    def flag(self, name: str, default: bool | Required = REQUIRED) -> bool:
        """true or false."""
        value = self._one(name)
        if value is None:
            return self._default(name, default)
        found = _FLAGS.get(str(value).lower() if isinstance(value, (bool, str)) else repr(value))
        if found is None:
            raise self._wrong(name, "true or false", value)
        return found

    def text(self, name: str, default: str | Required = REQUIRED) -> str:
        """A text in quotation marks, or a word."""
        value = self._one(name)
        return self._default(name, default) if value is None else self._text(name, value)

    def choice(
        self, name: str, words: Sequence[str] | Mapping[str, int], default: str | Required = REQUIRED
    ) -> int:
        """The number of a word, as of an enum: what the mapping says, or its place in the sequence. The
        prototxt may have the number itself."""
        known = dict(words) if isinstance(words, Mapping) else {word: i for i, word in enumerate(words)}
        value = self._one(name)
        if value is None:
            value = self._default(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and value in known.values():
            return value
        if not isinstance(value, str) or value not in known:
            meant = did_you_mean(value, known) if isinstance(value, str) else ""
            raise self.error(
                f"{self._at(name)} is {_shown(value)}, which is none of {', '.join(known)}{meant}"
            )
        return known[value]

    # ---- several values ----

    def integers(
        self,
        name: str,
        default: Sequence[int] | Required = (),
        *,
        count: int | tuple[int, int] | None = None,
        least: int | None = None,
        most: int | None = None,
    ) -> tuple[int, ...]:
        """Whole numbers of a repeated field. count: how many, or the fewest and the most."""
        found = tuple(self._integer(name, value, least, most) for value in self._values(name))
        return self._counted(name, found, default, count)

    def numbers(
        self,
        name: str,
        default: Sequence[float] | Required = (),
        *,
        count: int | tuple[int, int] | None = None,
        least: float | None = None,
        most: float | None = None,
    ) -> tuple[float, ...]:
        """Numbers of a repeated field. count: how many, or the fewest and the most."""
        found = tuple(self._number(name, value, least, most) for value in self._values(name))
        return self._counted(name, found, default, count)

    def texts(
        self,
        name: str,
        default: Sequence[str] | Required = (),
        *,
        count: int | tuple[int, int] | None = None,
    ) -> tuple[str, ...]:
        """Texts of a repeated field. count: how many, or the fewest and the most."""
        found = tuple(self._text(name, value) for value in self._values(name))
        return self._counted(name, found, default, count)

    # ---- messages ----

    def message(self, name: str) -> Message:
        """A message. Where it is missing all its fields are."""
        if not self._values(name):
            absent = f"there is no {self._at(name)}{did_you_mean(name, self._unread())}"
            return self._kept(name, (Message(self._what, {}, self._at(name), self._absent or absent),))[0]
        self._one(name)
        return self.messages(name)[0]

    def messages(self, name: str, *, count: int | tuple[int, int] | None = None) -> tuple[Message, ...]:
        """The messages of a repeated field. count: how many, or the fewest and the most."""
        values = self._values(name)
        for value in values:
            if not isinstance(value, Mapping):
                raise self._wrong(name, "a message, { ... }", value)
        paths = [self._at(name) if len(values) == 1 else f"{self._at(name)}[{i}]" for i in range(len(values))]
        made = tuple(Message(self._what, value, path) for value, path in zip(values, paths, strict=True))
        self._counted(name, made, (), count)
        return self._kept(name, made)

    def raw(self) -> Mapping[str, Any]:
        """All fields as they stand, for a reader of its own. They count as read."""
        for name in self._fields:
            self._asked.setdefault(name, ())
        return dict(self._fields)

    # ---- errors ----

    def error(self, text: str, hint: str = "") -> CompileError:
        """An error that names the layer, to be raised."""
        return CompileError(f"{self._what}: {text}", hint=hint)

    def named(self, error: TpulayerError) -> TpulayerError:
        """An error of the graph's as one that names the layer; others, and those that do so already, as they
        are."""
        known = error.message.startswith(self._what) or not isinstance(error, (UsageError, CompileError))
        return error if known else self.error(error.message, error.hint)

    def check_read(self, by: str) -> None:
        """Refuse fields that nobody has read, here and in the messages that somebody has. by: who reads."""
        for message in self._all():
            unread = message._unread()
            if unread:
                meant = did_you_mean(
                    unread[0], [name for name in message._asked if name not in message._fields]
                )
                known = ", ".join(message._asked) or "no field"
                raise self.error(
                    f"{', '.join(message._at(name) for name in unread)}: {by} does not read "
                    f"{'this field' if len(unread) == 1 else 'these fields'}{meant}",
                    hint=f"it reads {known}{f' of {message._path}' if message._path else ''}",
                )

    def _all(self) -> Iterator[Message]:
        yield self
        for parts in self._asked.values():
            for part in parts:
                yield from part._all()

    def _unread(self) -> list[str]:
        return [name for name in self._fields if name not in self._asked]

    def _kept(self, name: str, made: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages of a field: always the same objects, so that all that was read of them is known."""
        before = self._asked.get(name)
        if before:
            return before
        self._asked[name] = made
        return made

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _values(self, name: str) -> tuple[Any, ...]:
        self._asked.setdefault(name, ())
        if name not in self._fields:
            return ()
        value = self._fields[name]
        return tuple(value) if isinstance(value, (tuple, list)) else (value,)

    def _one(self, name: str) -> Any:
        values = self._values(name)
        if len(values) > 1:
            raise self.error(f"{self._at(name)} is there {len(values)} times; once is expected")
        return values[0] if values else None

    def _default(self, name: str, default: T | Required) -> T:
        if isinstance(default, Required):
            meant = did_you_mean(name, self._unread())
            why = f": {self._absent}" if self._absent else meant
            raise self.error(f"{self._at(name)} is missing{why}")
        return default

    def _counted(
        self,
        name: str,
        found: tuple[T, ...],
        default: Sequence[T] | Required,
        count: int | tuple[int, int] | None,
    ) -> tuple[T, ...]:
        fewest, most = (count, count) if isinstance(count, int) else count or (0, None)
        if not found:
            empty = isinstance(default, Required) or (fewest and not default)
            return tuple(self._default(name, REQUIRED if empty else default))
        if most is not None and not fewest <= len(found) <= most:
            wanted = str(most) if fewest == most else f"{fewest} to {most}"
            raise self.error(f"{self._at(name)} has {counted(len(found), 'value')}; expected {wanted}")
        return found

    def _integer(self, name: str, value: Any, least: int | None, most: int | None) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number", value)
        self._check_range(name, value, least, most)
        return value

    def _number(self, name: str, value: Any, least: float | None, most: float | None) -> float:
        if isinstance(value, str) and value.lower().lstrip("-") in _REALS:
            value = float(value)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self._wrong(name, "a number", value)
        self._check_range(name, value, least, most)
        return float(value)

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise self._wrong(name, "a text", value)
        return value

    def _check_range(self, name: str, value: float, least: float | None, most: float | None) -> None:
        if (least is not None and not value >= least) or (most is not None and not value <= most):
            wanted = f"from {least} to {most}" if least is not None and most is not None else ""
            wanted = wanted or (f"at least {least}" if least is not None else f"at most {most}")
            raise self.error(f"{self._at(name)} is {_shown(value)}; expected {wanted}")

    def _wrong(self, name: str, wanted: str, value: Any) -> CompileError:
        return self.error(f"{self._at(name)} is {_shown(value)}; expected {wanted}")


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a message"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
