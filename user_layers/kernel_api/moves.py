"""Rows of the table: copies and fills by the DMA engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from user_layers.kernel_api import costs
from user_layers.kernel_api.entry import Cost, Entry, Extents, Family, Layout, Level, Limit, Operand

_FIELD = 65535
_SIDES: Mapping[str, int] = {"n": _FIELD, "c": _FIELD, "h": _FIELD, "w": _FIELD}
_PIECES: Mapping[str, int] = {**_SIDES, "c": 65472}
_EXTENTS = {
    "S2L": Extents(_SIDES, strided=Extents(_PIECES, "nc"), strided_when="with strides"),
    "L2S": Extents(_SIDES, strided=Extents(_PIECES, "nc"), strided_when="with strides"),
    "L2L": Extents(_SIDES, "nhw"),
    "S2S": Extents(_SIDES, "nchw"),
}
_FILL = Extents(_SIDES)
_PLACES = {"S": ("DDR or L2", Layout.SYSTEM), "L": ("local memory", Layout.STRIDED)}
_OFF = "an address that is not a multiple of 128 is a warning"
_W = "The w-stride of given strides is 1 where there is more than one column."


_WIDTH = "of the width in its name"


def _copies() -> tuple[Entry, ...]:
    out = []
    for direction in ("S2L", "L2S", "L2L", "S2S"):
        source, target = direction[0], direction[2]
        notes: tuple[str, ...] = (_W,)
        if "L" in direction:
            notes += ("In local memory a tensor starts at any byte; two may start on different NPUs.",)
        if source == target:
            notes += ("Source and destination that overlap without being the same: undefined.",)
        for bits in (32, 16, 8):
            out.append(
                Entry(
                    f"okk_gdma_{bits}bit_cpy_{direction}",
                    f"Copies from {_PLACES[source][0]} to {_PLACES[target][0]}.",
                    "src",
                    0.0,
                    (
                        Operand("dst", _WIDTH, _PLACES[target][1], "result", 1),
                        Operand("src", _WIDTH, _PLACES[source][1], unit=1),
                    ),
                    _EXTENTS[direction],
                    costs=(Cost((f"gdma.copy.{direction.lower()}",), costs.COPIES[direction]),),
                    notes=notes,
                )
            )
    return tuple(out)


def _matrices() -> tuple[Entry, ...]:
    limits = (
        Limit("rows", 1, _FIELD),
        Limit("cols", 1, _FIELD, given={"row_stride": 70_000, "cols_per_channel": 1}),
        Limit("cols_per_channel", 1, _FIELD),
        Limit("cols_per_channel", None, 8, "cols_per_channel up to cols", level=Level.WARNING),
    )
    stride = Limit("row_stride", 8, None, "row_stride from cols on")
    notes = (
        "Column k lies in channel k // cols_per_channel at k % cols_per_channel; the last channel may be "
        "short. "
        "Row r is batch r, as far from the next as if the matrix began on NPU 0: start it there, or "
        "where its channels do not go around.",
    )
    local = Operand("dst", "32-bit", Layout.MATRIX, "result", 4, "rows x cols", _OFF)
    system = Operand("src", "32-bit", Layout.SYSTEM_MATRIX, "input", 1, "rows x cols")
    return (
        Entry(
            "okk_gdma_32bit_matrix_S2L",
            "Copies a matrix from DDR or L2 into the matrix layout of local memory.",
            "src",
            0.0,
            (local, system),
            None,
            (*limits, Limit("row_stride", 0, None, hidden=True), replace(stride, level=Level.WARNING)),
            (Cost(("gdma.copy.s2l",), costs.READ),),
            notes=notes,
        ),
        Entry(
            "okk_gdma_32bit_matrix_L2S",
            "Copies a matrix from the matrix layout of local memory to DDR or L2.",
            "src",
            0.0,
            (
                Operand("dst", "32-bit", Layout.SYSTEM_MATRIX, "result", 1, "rows x cols"),
                Operand("src", "32-bit", Layout.MATRIX, "input", 4, "rows x cols", _OFF),
            ),
            None,
            (*limits, replace(stride, given={"rows": 2})),
            (Cost(("gdma.copy.l2s",), costs.WRITE),),
            notes=notes,
        ),
    )


def _fills() -> tuple[Entry, ...]:
    out = []
    for place, letter, cycles in (("system", "S", costs.WRITE), ("local", "L", costs.LOCAL)):
        name, layout = _PLACES[letter]
        notes: tuple[str, ...] = (_W,)
        if place == "local":
            notes += (
                "A NULL stride is the aligned one of 32-bit elements at every width, so that channels of "
                "16-bit and "
                "8-bit tensors lie further apart than in their aligned layout: give strides.",
            )
        for bits in (32, 16, 8):
            out.append(
                Entry(
                    f"okk_gdma_{bits}bit_set_C_{place}",
                    f"Fills a tensor in {name} with C.",
                    "C",
                    0.0,
                    (Operand("dst", _WIDTH, layout, "result", 1),),
                    _FILL,
                    costs=(Cost(("gdma.fill",), cycles),),
                    notes=notes,
                )
            )
    return tuple(out)


FAMILIES = (
    Family(
        "Copies and fills",
        "S is system memory (DDR or L2, absolute addresses below 2^40), L local memory. Bits go through "
        "unchanged. "
        "In cycles, `bytes` are those moved, and `pieces` are what lies together on both sides, within one "
        "channel. System "
        "memory is met in `bursts`: the blocks of 64 bytes that pieces touch, each piece for itself (where "
        "they do not all begin "
        "at multiples of 64 bytes, on the average over all beginnings). What lies together in system "
        "memory, channels and "
        "batches too, is a run: `jumps` lead from a run of at least 64 bytes to the next, and `scattered` "
        "are shorter runs, "
        "where there are several. So rows that are short or not at multiples of 64 bytes are slow. In the "
        "local function "
        "of a layer only copies from L2 into local memory are allowed.",
        (
            *_copies(),
            Entry(
                "okk_gdma_compact_S2L",
                "Copies a tensor from DDR or L2 into the compact layout of local memory, from NPU 0 on.",
                "src",
                0.0,
                (
                    Operand("dst", "32-bit", Layout.COMPACT, "result", 1, note="on NPU 0"),
                    Operand("src", "32-bit", Layout.CONTINUOUS, unit=1),
                ),
                Extents(_PIECES, "nc"),
                costs=(Cost(("gdma.copy.s2l",), costs.READ),),
            ),
            *_matrices(),
            *_fills(),
        ),
    ),
)
