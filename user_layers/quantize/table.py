"""The calibration table: what values each tensor takes. As JSON, and in the vendor's text format."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from firmware_sim.errors import ModelError, UsageError
from firmware_sim.shown import brief
from user_layers.files import write_together
from user_layers.quantize.pictures import Preprocess

_FORMAT = "tpulayer calibration table"
_VERSION = 1
LEAST, MOST = 1e-30, 1e30
"""Thresholds whose steps, and products of two of them, single precision has."""
_ROUNDED = 1.001  # times the largest value, that means of a table's digits may have
_VENDORS_ERROR = 1e-5  # that seven decimals may make of a number
_FAR = 2.0**10  # thresholds are not so many times larger or smaller than the largest value
_OPERATION = re.compile(r"(.+)_[A-Z][A-Za-z0-9]*(|_relu)")  # what the vendor's tables write behind a tensor
_CUT_OUT = re.compile(r"(:part\d+|:picked|:rows|:tokens|:channels|:squares|:exchanged|:sum|:float32)+$")


@dataclass(frozen=True)
class Range:
    """What a tensor's values are like, in the units of the float net.

    low, high: the least and the greatest that were seen. threshold: the magnitude that the largest integer
    stands for; values beyond it are cut. power: the mean of the squares. mean, peaks: of each channel
    (dimension 1, or what channels.py says) the mean and the largest magnitude, or nothing. They are estimates
    for other data. attention: of attention's results the dB that weights of 8 bits keep (attended.py).
    """

    low: float
    high: float
    threshold: float
    power: float = math.nan
    mean: tuple[float, ...] = ()
    peaks: tuple[float, ...] = ()
    attention: float = math.nan

    __repr__ = brief

    @staticmethod
    def between(low: float, high: float) -> Range:
        """Of values of which only the ends are known; nothing is cut."""
        return Range(low, high, max(-low, high))

    @property
    def signed(self) -> bool:
        """Whether there are negative values."""
        return self.low < 0

    def joined(self, other: Range) -> Range:
        """Of the values of both; what depends on how many there are is not known."""
        threshold = max(self.threshold, other.threshold)
        return Range(min(self.low, other.low), max(self.high, other.high), threshold)

    @property
    def largest(self) -> float:
        """The greatest magnitude that was seen."""
        return max(-self.low, self.high)

    @property
    def doubtful(self) -> bool:
        """Whether the threshold is so far from the largest value that 8 bits say nothing."""
        return self.largest > 0 and not 1 / _FAR <= self.threshold / self.largest <= _FAR

    @property
    def mean_square(self) -> float:
        """`power`, or where nobody measured it that of a normal distribution cut at three deviations."""
        return self.power if math.isfinite(self.power) else (self.threshold / 3) ** 2


@dataclass(frozen=True)
class Table:
    """Ranges by the names of tensors. about: how they were found, for people; pictures: how pictures became
    the net's input then; vendors: names may have the operation behind, TENSOR_OPERATION."""

    ranges: Mapping[str, Range]
    about: Mapping[str, Any] = field(default_factory=dict)
    pictures: Preprocess | None = None
    vendors: bool = False

    __repr__ = brief

    def for_tensors(self, names: Collection[str]) -> Table:
        """The same for a graph with these tensors: names of the vendor's tables are read as those of the
        tensors. What passes cut out of one, TENSOR:part0 or TENSOR:picked, or see in other dimensions or
        another order (TENSOR:rows, :tokens, :channels, :squares, :exchanged, :sum) or in float32
        (TENSOR:float32 of a half one), has its range. Names that no tensor has stay, and matter to nobody."""
        found = dict(self.ranges)
        known = {*names, *(_CUT_OUT.sub("", name) for name in names)}
        for name in self.ranges if self.vendors else ():
            told = _OPERATION.fullmatch(name) if name not in known else None
            if told is not None and told[1] in known and told[1] not in self.ranges:
                found[told[1]] = found.pop(name)
        for name in names:
            whole = _CUT_OUT.sub("", name)
            if name not in found and whole in found:
                found[name] = replace(found[whole], mean=(), peaks=())
        return replace(self, ranges=found)

    def behind(self, folded: Mapping[str, tuple[str, str]]) -> Table:
        """The same with ranges of tensors that are part of what makes others, by their names: the name of the
        one before, and what the vendor's tables write behind that one's operation. They call a convolution's
        result behind its normalisation what it is before, and a concatenation's behind relu T_Concat_relu."""
        if not self.vendors:
            return self
        known = {name.rpartition("_")[0] for name in self.ranges} | set(self.ranges)
        told = {
            (found[1], found[2]): one
            for name, one in self.ranges.items()
            if (found := _OPERATION.fullmatch(name))
        }
        more = {
            name: replace(told[before], mean=(), peaks=())
            for name, before in folded.items()
            if name not in known and before in told
        }
        return replace(self, ranges={**self.ranges, **more})


def write_table(table: Table, path: Path) -> None:
    """As JSON, one tensor to a line. Errors: UsageError where it cannot be written."""
    _write(path, table_text(table))


def table_text(table: Table) -> str:
    """As JSON, one tensor to a line."""
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(_as_json(one))}" for name, one in table.ranges.items()
    )
    told: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "about": dict(table.about)}
    if table.vendors:
        told["vendors"] = True
    if table.pictures is not None:
        told["pictures"] = table.pictures.as_json()
    head = json.dumps(told, indent=1)
    return f'{head[:-2]},\n "tensors": {{\n{lines}\n }}\n}}\n'


def write_vendor_table(table: Table, path: Path, names: Mapping[str, str] | None = None) -> None:
    """In the vendor's text format: a tensor's name, its threshold, least and greatest value on each line.
    names: by which the vendor calls tensors; of two that have one the last counts.

    Errors: UsageError for names that the format cannot hold, too."""
    ranges = {(names or {}).get(name, name): one for name, one in table.ranges.items()}
    lines = ["# op_name    threshold    min    max"]
    for name, r in ranges.items():
        if name.startswith("#") or len(name.split()) != 1:
            raise UsageError(
                f"the vendor's format has no place for a tensor called {name!r}: a name ends at a space, "
                "and # begins a remark",
                hint="leave --vendor out, or give the tensor another name",
            )
        lines.append(" ".join((name, *map(_in_vendors_digits, (r.threshold, r.low, r.high)))))
    _write(path, "\n".join(lines) + "\n")


def _in_vendors_digits(value: float) -> str:
    """With seven decimals, as the vendor's tables have numbers; small ones with as many digits as float32."""
    text = f"{value:.7f}"
    return text if abs(float(text) - value) <= _VENDORS_ERROR * abs(value) else f"{value:.9g}"


def _write(path: Path, text: str) -> None:
    try:
        write_together({path: text})
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}", hint="give another file") from e


def _as_json(one: Range) -> dict[str, Any]:
    found: dict[str, Any] = {"threshold": one.threshold, "min": one.low, "max": one.high}
    for what, number in (("power", one.power), ("attention", one.attention)):
        if math.isfinite(number):
            found[what] = number
    for key, values in (("mean", one.mean), ("peak", one.peaks)):
        if values:
            found[key] = [float(f"{value:.6g}") for value in values]
    return found


def read_table(path: Path) -> Table:
    """A table of either format. Errors: UsageError for a file that cannot be read, ModelError with tensor or
    line for what is not a table: NaN, infinities, a threshold that is not above 0."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as e:
        reason = e.strerror if isinstance(e, OSError) else "it is no text"
        raise UsageError(
            f"cannot read the calibration table {path}: {reason}", hint="`tpulayer calibrate` makes one"
        ) from e
    found = parse_table(path, text)
    if not found.ranges:
        raise _bad(path, "has no tensors")
    return found


def parse_table(path: Path, text: str) -> Table:
    """The text of a table of either format; path: what messages call it. Errors: ModelError."""
    return _from_json(path, text) if text.lstrip().startswith("{") else _from_lines(path, text)


def _from_json(path: Path, text: str) -> Table:
    try:
        whole = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as e:
        raise _bad(path, f"is no JSON: {e}") from e
    tensors = whole.get("tensors")
    if whole.get("format") != _FORMAT or not isinstance(tensors, dict):
        raise _bad(path, f'lacks "format": "{_FORMAT}" and "tensors"')
    if whole.get("version") != _VERSION:
        raise _bad(path, f"has version {whole.get('version')}; this release reads version {_VERSION}")
    about = whole.get("about")
    try:
        pictures = Preprocess.of_json(whole["pictures"]) if "pictures" in whole else None
    except (ValueError, KeyError, TypeError, IndexError) as e:
        raise _bad(path, f'has damaged "pictures": {type(e).__name__}: {e}') from e
    return Table(
        {name: _range(path, f"tensor {name!r}", one) for name, one in tensors.items()},
        about if isinstance(about, dict) else {},
        pictures,
        bool(whole.get("vendors", False)),
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Errors: ValueError for a name that comes twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} comes twice")
    return found


def _range(path: Path, what: str, one: Any) -> Range:
    if not isinstance(one, dict):
        raise _bad(path, f"{what} is no object")
    values: dict[str, float] = {}
    for key in ("threshold", "min", "max", "power", "attention"):
        value = one.get(key, math.nan if key in ("power", "attention") else None)
        if not _is_number(value):
            raise _bad(path, f"{what} has no number {key!r}")
        values[key] = float(value)
    lists = []
    for key in ("mean", "peak"):
        found = one.get(key, [])
        if not isinstance(found, list) or not all(_is_number(v) and math.isfinite(v) for v in found):
            raise _bad(path, f"{what}: {key!r} is no list of numbers")
        lists.append(tuple(found))
    mean, peaks = lists
    if any(peak < 0 for peak in peaks) or values["power"] < 0:
        raise _bad(path, f"{what}: a 'peak' or the 'power' is below 0")
    made = Range(
        values["min"], values["max"], values["threshold"], values["power"], mean, peaks, values["attention"]
    )
    if mean and peaks and len(mean) != len(peaks):
        raise _bad(path, f"{what}: 'mean' has {len(mean)} channels, 'peak' {len(peaks)}")
    if any(abs(one) > made.largest * _ROUNDED for one in mean):
        raise _bad(
            path, f"{what}: a 'mean' of {max(mean, key=abs):g} is beyond the least and the greatest value"
        )
    if made.largest > 0 and (made.largest * _ROUNDED) ** 2 < made.power < math.inf:
        raise _bad(path, f"{what}: a 'power' of {made.power:g} is more than the square of the largest value")
    if made.largest > 0 and made.power == 0:
        raise _bad(path, f"{what}: the 'power' is 0 where values are not")
    return _checked(path, what, made)


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether it can be a float; an integer of JSON may be too large."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) <= sys.float_info.max
    return isinstance(value, float)


def _from_lines(path: Path, text: str) -> Table:
    ranges: dict[str, Range] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        what = f"line {number}"
        if re.fullmatch("F32|F16|BF16|INT8", words[-1]) and len(words) == 2:
            raise _bad(path, f"{what}: {words[1]} for a tensor; that belongs into --fp32")
        try:
            threshold, low, high = map(float, words[-3:])
        except ValueError:
            raise _bad(path, f"{what} is not NAME THRESHOLD MIN MAX") from None
        if len(words) != 4:
            raise _bad(path, f"{what} is not NAME THRESHOLD MIN MAX")
        one = _checked(path, f"{what} ({words[0]})", Range(low, high, threshold))
        if ranges.setdefault(words[0], one) != one:
            raise _bad(path, f"{what} ({words[0]}): another range for what an earlier line has")
    return Table(ranges, {"from": path.name}, vendors=True)


def _checked(path: Path, what: str, one: Range) -> Range:
    if not all(map(math.isfinite, (one.low, one.high, one.threshold))):
        raise _bad(path, f"{what}: a threshold or an end is not finite")
    if one.threshold <= 0:
        raise _bad(path, f"{what}: the threshold {one.threshold:g} is not above 0")
    if not LEAST <= one.threshold <= MOST:
        raise _bad(path, f"{what}: the threshold {one.threshold:g} is not between {LEAST:g} and {MOST:g}")
    if one.low > one.high:
        raise _bad(path, f"{what}: the least value {one.low:g} is above the greatest {one.high:g}")
    return one


def _bad(path: Path, what: str) -> ModelError:
    """what: "has no tensors", or an entry of the table and what is wrong with it."""
    of_one = what.startswith(("tensor ", "line "))
    told = f"in the calibration table, {what}" if of_one else f"the calibration table {what}"
    return ModelError(f"{path}: {told}", hint="`tpulayer calibrate` makes one")
