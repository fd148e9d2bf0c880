"""The two 1024-bit descriptor layouts: range-checked encoding, decoding, whole streams by column.

`bd_fields.csv` and `gdma_fields.csv` (offset, width, name; least significant bit first) are the only
statement of the layouts; the C encoder header, the decoder and the reference page come from them.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from firmware_sim.chip import DESCRIPTOR_BYTES
from firmware_sim.errors import UsageError

WORDS = DESCRIPTOR_BYTES // 4

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Field:
    """`width` bits at bit `offset` of a descriptor."""

    name: str
    offset: int
    width: int

    @property
    def limit(self) -> int:
        """The largest value that fits."""
        return (1 << self.width) - 1

    @cached_property
    def words(self) -> list[tuple[int, int, int, int]]:
        """Its parts in 32-bit words: (word, shift in the word, bits, shift in the value)."""
        parts = []
        done = 0
        while done < self.width:
            word, shift = divmod(self.offset + done, 32)
            bits = min(32 - shift, self.width - done)
            parts.append((word, shift, bits, done))
            done += bits
        return parts


_FEW = 4  # descriptors that are decoded one by one


class Row:
    """One descriptor of a `Columns`: `row["opd0_addr"]` is a plain int."""

    __slots__ = ("_columns", "index")

    def __init__(self, columns: Columns, index: int) -> None:
        self._columns = columns
        self.index = index

    def __getitem__(self, name: str) -> int:
        return self._columns.ints(name)[self.index]


class Columns:
    """A stream of n descriptors, decoded field by field on demand.

    `columns["opd0_addr"]` is uint64[n], computed on first use for the whole stream.
    """

    def __init__(self, layout: Layout, words: U32) -> None:
        self.layout = layout
        self.words = words
        self._columns: dict[str, U64] = {}
        self._ints: dict[str, list[int]] = {}
        self._plain: list[list[int]] | None = None

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, name: str) -> U64:
        column = self._columns.get(name)
        if column is None:
            field = self.layout[name]
            column = np.zeros(len(self.words), np.uint64)
            for word, shift, bits, place in field.words:
                part = self.words[:, word].astype(np.uint64) >> np.uint64(shift)
                column |= (part & np.uint64((1 << bits) - 1)) << np.uint64(place)
            self._columns[name] = column
        return column

    def ints(self, name: str) -> list[int]:
        """The column as plain ints: fast to index one by one."""
        values = self._ints.get(name)
        if values is None:
            few = len(self.words) <= _FEW and name not in self._columns
            values = self._ints[name] = self._one_by_one(name) if few else self[name].tolist()
        return values

    def _one_by_one(self, name: str) -> list[int]:
        """The same for a few descriptors, for which numpy's own time would be most of it."""
        if self._plain is None:
            self._plain = self.words.tolist()
        parts = self.layout[name].words
        return [
            sum((row[word] >> shift & (1 << bits) - 1) << place for word, shift, bits, place in parts)
            for row in self._plain
        ]

    def row(self, index: int) -> Row:
        """One descriptor of the stream, its fields as plain ints."""
        return Row(self, index)


class Layout:
    """The fields of one engine's descriptor."""

    def __init__(self, name: str, fields: tuple[Field, ...], defaults: Mapping[str, int]) -> None:
        self.name = name
        self.fields = fields
        self._by_name = {f.name: f for f in fields}
        for f in defaults:
            self[f]
        self.defaults = dict(defaults)
        """What the vendor's encoder writes into fields that an instruction does not use; others are 0."""

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> Field:
        try:
            return self._by_name[name]
        except KeyError:
            raise UsageError(f"{self.name} descriptors have no field {name!r}") from None

    def encode(self, **values: int) -> bytes:
        """The 128 bytes of a descriptor; fields not given are 0 (spread `defaults` for the vendor's).

        Raises UsageError naming field, value and limit when a value does not fit.
        """
        word = 0
        for name, value in values.items():
            field = self[name]
            if not 0 <= value <= field.limit:
                raise UsageError(
                    f"{self.name} field {name}: {value} does not fit in {field.width} bits (0..{field.limit})"
                )
            word |= int(value) << field.offset
        return word.to_bytes(DESCRIPTOR_BYTES, "little")

    def decode(self, descriptor: bytes) -> dict[str, int]:
        """All fields of one descriptor of 128 bytes."""
        if len(descriptor) != DESCRIPTOR_BYTES:
            raise UsageError(f"a {self.name} descriptor has {DESCRIPTOR_BYTES} bytes, not {len(descriptor)}")
        word = int.from_bytes(descriptor, "little")
        return {f.name: (word >> f.offset) & f.limit for f in self.fields}

    def columns(self, words: U32) -> Columns:
        """View a stream, uint32[n, 32], as columns."""
        if words.ndim != 2 or words.shape[1] != WORDS or words.dtype != np.uint32:
            raise UsageError(f"a {self.name} stream is uint32[n, {WORDS}], not {words.dtype}{words.shape}")
        return Columns(self, words)

    def mask(self, *names: str) -> U32:
        """uint32[32] with the bits of the named fields set."""
        word = 0
        for name in names:
            field = self[name]
            word |= field.limit << field.offset
        return np.frombuffer(word.to_bytes(DESCRIPTOR_BYTES, "little"), np.uint32)

    @cached_property
    def covered(self) -> U32:
        """uint32[32] with the bits of all fields set; the rest of a descriptor is unused."""
        return self.mask(*self._by_name)


def _load(file: str) -> tuple[Field, ...]:
    with open(Path(__file__).with_name(file), newline="") as f:
        return tuple(Field(r["name"], int(r["offset"]), int(r["width"])) for r in csv.DictReader(f))


def _bd_defaults(fields: tuple[Field, ...]) -> dict[str, int]:
    flags = ("cmd_en", "cmd_id_en", "opt_shift_typ", "opt_relu", "opt_opd1_sign", "opt_opd2_sign")
    values = dict.fromkeys(flags, 1)
    values["tsk_opd_num"] = 2
    for prec in ("res0", "opd0", "opd1", "opd2"):
        values[f"opt_{prec}_prec"] = 2
    values["short_opd2_str"] = 2
    values["res_op_x_str"] = values["res_op_y_str"] = 1
    values["tsk_lane_num"] = 2**64 - 1
    for operand in ("res0", "opd0", "opd1", "opd2"):
        for axis in "nchw":
            values[f"{operand}_{axis}_str"] = 1
            if operand != "opd2":  # the third operand has no sizes of its own
                values[f"{operand}_{axis}"] = 1
    order = {f.name: i for i, f in enumerate(fields)}
    return dict(sorted(values.items(), key=lambda item: order[item[0]]))


_BD_FIELDS = _load("bd_fields.csv")

BD = Layout("BD", _BD_FIELDS, _bd_defaults(_BD_FIELDS))
"""Descriptors of the tensor engine."""

GDMA = Layout(
    "GDMA",
    _load("gdma_fields.csv"),
    {
        "pio_gdma_enable": 1,
        "barrier_enable": 1,
        "prefetch_disable": 1,
        "lrn_shift_num": 1,
        "localmem_mask_l32": 0xFFFF_FFFF,
        "localmem_mask_h32": 0xFFFF_FFFF,
    },
)
"""Descriptors of the DMA engine between system and local memory."""

EXTENT_MAX = BD["res0_n"].limit
"""Of n, h and w in an instruction, and of any extent in a DMA command."""

CHANNELS_MAX = BD["res0_c"].limit
"""Of channels in an instruction of the tensor unit."""

WINDOW_STEP_MAX = BD["opd0_up_pad"].limit
"""Of a pad, a stride and a dilation of a window."""
