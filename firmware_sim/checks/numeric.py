"""Numbers that go wrong: NaN and infinity from finite inputs, saturated elements, denormals that become zero.

Looks at one command after the other, when it is done. Where a result could be saturated or flushed, the
command's reference is executed again from the same inputs: without flushing, or so that it marks what it
clips. Exact and slow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from firmware_sim import chip
from firmware_sim.batch import Batch
from firmware_sim.checks.finding import Finding, Issued
from firmware_sim.checks.influence import Marked, influenced
from firmware_sim.errors import DeviceError
from firmware_sim.flush import HARDWARE, exactly
from firmware_sim.instructions.dma import data_format
from firmware_sim.instructions.instruction import Engine, Instruction, Run
from firmware_sim.instructions.loops import native
from firmware_sim.instructions.saturate import marking
from firmware_sim.instructions.table import lookup
from firmware_sim.isa.codes import Format, Precision
from firmware_sim.isa.footprint import Access, Constant, Operand, Space, Tensor, address_text
from firmware_sim.isa.layout import Row
from firmware_sim.memory import Memory

Words = npt.NDArray[np.unsignedinteger]
Marks = npt.NDArray[np.bool_]
Written = Callable[[Space, npt.NDArray[np.int64], int], Marks]

_FLOATS = (
    *("ar.mul", "ar.mac", "ar.add", "ar.sub", "ar.max", "ar.min", "ar.select_gt", "ar.div"),
    *(
        "md_scalar.",
        "md_linear.",
        "md_cmp.",
        "md_sum",
        "md_sfu.taylor",
        "md_sfu.rsqrt",
        "md_sfu.fp32_normalize",
    ),
    *("conv.fp32", "conv.winograd_fp32", "depthwise.fp32", "max_pool.fp32", "matmul.fp32", "matmul2"),
    *("correlation", "vector_correlation.mul", "vector_correlation.add", "vector_correlation.sub"),
    *("vector_correlation.max", "vector_correlation.min", "vector_correlation.div"),
)
"""Commands whose operands and results are all fp32."""
_CLIPPED = ("ar.fixed.", "conv.int8", "conv.winograd_int8", "depthwise.int8", "matmul.int8", "gdma.winograd")
"""Commands that clip their results by `saturate`."""
_WITH_RELU = ("conv.", "depthwise.", "matmul.")  # what relu cuts off is meant to be
_SIGN, _EXPONENT, _MANTISSA = np.uint32(0x8000_0000), np.uint32(0x7F80_0000), np.uint32(0x007F_FFFF)
_ENDS = {Format.INT8: (-128, 127), Format.UINT8: (0, 255)}
MOST = 1 << 27
"""Elements of a command's operands beyond which nobody looks at it: their indices alone take a gigabyte."""


def not_finite(bits: Words) -> Marks:
    """NaN and infinities among fp32 bits."""
    found: Marks = (bits & _EXPONENT) == _EXPONENT
    return found


def is_nan(bits: Words) -> Marks:
    """NaN among fp32 bits."""
    found: Marks = (bits & ~_SIGN) > _EXPONENT
    return found


def is_denormal(bits: Words) -> Marks:
    """Denormals among fp32 bits: not zero, below 2**-126."""
    found: Marks = ((bits & _EXPONENT) == 0) & ((bits & _MANTISSA) != 0)
    return found


@dataclass
class _Held:
    """Elements of one operand, [n, c, h, w]: where they lie in flat memory, and their bits before."""

    tensor: Tensor
    at: npt.NDArray[np.int64]
    flat: Words
    before: Words

    @classmethod
    def of(cls, tensor: Tensor, memory: Memory) -> _Held:
        flat = memory.flat(tensor.space).view(f"u{tensor.itemsize}")
        at = np.broadcast_to(tensor.indices(), tensor.shape)
        return cls(tensor, at, flat, flat[at])

    def now(self) -> Words:
        return self.flat[self.at]

    def put(self, values: Words) -> None:
        self.flat[self.at] = values


@dataclass
class _Command:
    """One command with its operands. written: of elements at these places which bytes were ever written, or
    depend on those that were; None where nobody knows."""

    instruction: Instruction
    row: Row
    operands: tuple[Operand, ...]
    memory: Memory
    held: list[_Held]
    written: Written | None

    def known(self, one: _Held) -> Marks:
        """Bytes of an operand, [n, c, h, w, itemsize], that mean something: others only fill up a tile."""
        size = one.tensor.itemsize
        if self.written is None:
            return np.ones((*one.tensor.shape, size), bool)
        return self.written(one.tensor.space, one.at * size, size)

    @property
    def results(self) -> list[_Held]:
        return [one for one in self.held if Access.WRITE in one.tensor.access]

    @property
    def inputs(self) -> list[_Held]:
        return [one for one in self.held if Access.READ in one.tensor.access]

    def depending(self, marks: Callable[[Words], Marks]) -> list[Marks]:
        """Of each result the elements that depend on marked ones of the inputs, as they were before."""
        marked = [Marked(one.tensor, marks(one.before)) for one in self.inputs]
        marked = [one for one in marked if one.marks.any()]
        found = influenced(self.instruction.name, self.row, self.operands, marked)
        return [
            np.logical_or.reduce(
                [np.zeros(one.tensor.shape, bool), *(m.marks for m in found if _same(m.tensor, one.tensor))]
            )
            for one in self.results
        ]

    def again(self, *, marks: bool) -> list[Words]:
        """The results of the reference from the same inputs: marks of what is clipped, or without flushing.
        Memory is afterwards as it was."""
        after = [one.now() for one in self.results]
        for one in self.results:
            one.put(one.before)
        semantics = self.instruction.semantics
        assert semantics is not None
        try:
            special = marking() if marks else exactly()
            with native.references(), np.errstate(all="ignore"), special:
                semantics.bind(self.row, self.memory)()
            return [one.now() for one in self.results]
        finally:
            for one, values in zip(self.results, after, strict=True):
                one.put(values)


class Numeric:
    """The check `numeric` of one device."""

    def __init__(
        self, memory: Memory, named: Callable[[Space, int], str], written: Written | None = None
    ) -> None:
        """written: see `Shadow.written`, after the command that is looked at."""
        self._memory = memory
        self._named = named
        self._written = written

    def around(
        self, batch: Batch, engine: Engine, index: int, run: Run, issued: Callable[[], Issued]
    ) -> list[Finding]:
        """Execute a command, inside `flushing()`, and look at its results. issued: who issued it."""
        row = batch.columns[engine].row(index)
        instruction, operands = _computing(engine, row)
        tensors = [operand for operand in operands if isinstance(operand, Tensor)]
        if instruction is None or (elements := sum(math.prod(tensor.shape) for tensor in tensors)) > MOST:
            run()
            if instruction is None:
                return []
            what = (
                f"{instruction.name}: {elements} elements are not looked at; at most {MOST} of a command are"
            )
            return [Finding("numeric.unseen", what, issued())]
        held = [_Held.of(tensor, self._memory) for tensor in tensors]
        command = _Command(instruction, row, operands, self._memory, held, self._written)
        run()
        return [
            Finding(
                *(look.rule, look.what, issued(), look.operand, self._named(look.space, look.offset)),
                *(address_text(look.space, look.offset), look.lanes, look.nbytes),
            )
            for look in _looked(command)
        ]


def _computing(engine: Engine, row: Row) -> tuple[Instruction | None, tuple[Operand, ...]]:
    """The instruction of a command and its operands; None for one that computes nothing, or is illegal:
    executing it says what is wrong."""
    try:
        instruction = lookup(engine, row)
        if instruction.semantics is None or not _computes(instruction.name):
            return None, ()
        return instruction, instruction.semantics.operands(row)
    except DeviceError:
        return None, ()


def _same(one: Tensor, other: Tensor) -> bool:
    return (one.space, one.offset, one.shape) == (other.space, other.offset, other.shape)


def _computes(name: str) -> bool:
    return name.startswith((*_FLOATS, *_CLIPPED, "md_sfu.fp32_to_int", "gdma.convert"))


@dataclass(frozen=True)
class _Look:
    """What a finding needs of the command: offset: of the first element; lanes, nbytes: of all."""

    rule: str
    what: str
    operand: str
    space: Space
    offset: int
    lanes: tuple[int, ...]
    nbytes: int


def _looked(command: _Command) -> Iterator[_Look]:
    name = command.instruction.name
    if name.startswith(_FLOATS):
        yield from _floats(command)
    elif name.startswith(_CLIPPED):
        yield from _clipped(command)
    elif name == "md_sfu.fp32_to_int":
        yield from _truncated(command)
    else:
        yield from _converted(command)


def _floats(command: _Command) -> Iterator[_Look]:
    results = [one.now() for one in command.results]
    constants = [o.bits for o in command.operands if isinstance(o, Constant)]
    if (
        any(not_finite(bits).any() for bits in results)
        and not not_finite(np.array(constants, np.uint32)).any()
    ):
        excused = command.depending(not_finite)
        for one, bits, known in zip(command.results, results, excused, strict=True):
            new = not_finite(bits) & ~known
            yield from _told("numeric.nan", "NaN from finite operands", command, one, new & is_nan(bits))
            yield from _told(
                "numeric.infinite", "infinities from finite operands", command, one, new & ~is_nan(bits)
            )
    lost = [np.zeros(one.tensor.shape, bool) for one in command.results]
    if HARDWARE and any((bits & ~_SIGN == 0).any() for bits in results):
        exact = command.again(marks=False)
        lost = [is_denormal(e) & (bits & ~_SIGN == 0) for e, bits in zip(exact, results, strict=True)]
    for one, marks in zip(command.results, lost, strict=True):
        yield from _told("numeric.denormal", "results below 2**-126 become 0", command, one, marks)
    if not any(marks.any() for marks in lost):
        for one in command.inputs:
            marks = is_denormal(one.before)
            yield from _told("numeric.denormal", "denormals count as 0", command, one, marks)


def _clipped(command: _Command) -> Iterator[_Look]:
    if not any(_at_an_end(one.now(), one.tensor.itemsize).any() for one in command.results):
        return
    relu = command.instruction.name.startswith(_WITH_RELU) and command.row["opt_relu"]
    on_bd = command.instruction.engine is Engine.BD
    size = 2 if on_bd and command.row["opt_res0_prec"] == Precision.INT16 else 1
    for one, words in zip(command.results, command.again(marks=True), strict=True):
        marks = words.view(f"u{size}").reshape(*words.shape, -1)  # of the batches that share a word
        clipped = (marks == 1 if relu else marks != 0) & command.known(one).reshape(*marks.shape, -1).all(-1)
        what = "results beyond the range of their type"
        for look in _told("numeric.saturated", what, command, one, clipped.any(-1), int(clipped.sum())):
            yield replace(look, nbytes=int(clipped.sum()) * size)


def _at_an_end(bits: Words, itemsize: int) -> Marks:
    """Where one of the bytes, or halves, could be the end of its range: never wrongly false."""
    found = np.zeros(bits.shape, bool)
    for size in (1, 2):
        if itemsize % size == 0:
            parts = np.ascontiguousarray(bits).view(f"u{size}").reshape(*bits.shape, -1)
            top = 1 << 8 * size
            ends = (parts == 0) | (parts == top - 1) | (parts == top // 2) | (parts == top // 2 - 1)
            found |= ends.any(-1)
    return found


def _truncated(command: _Command) -> Iterator[_Look]:
    [source], [result] = command.inputs, command.results
    values = source.before.view(np.float32)
    fits = (values >= np.float32(-(2.0**31))) & (values < np.float32(2.0**31))
    yield from _told("numeric.saturated", "numbers beyond the range of int32", command, result, ~fits)


def _converted(command: _Command) -> Iterator[_Look]:
    source, target = (data_format(command.row, side) for side in ("src", "dst"))
    if source not in (Format.FP32, Format.FP16):
        return

    def values(bits: Words) -> npt.NDArray[np.float32]:
        if source is Format.FP16:  # exponents are only rebased
            return (
                (bits & 0x8000).astype(np.uint32) << 16
                | ((bits & 0x7FFF).astype(np.uint32) << 13) + (112 << 23)
            ).view(np.float32)
        return bits.view(np.float32)

    def beyond(bits: Words) -> Marks:
        low, high = _ENDS[target]
        rounded = np.rint(values(bits))
        found: Marks = ~((rounded >= low) & (rounded <= high))
        return found

    def overflows(bits: Words) -> Marks:
        magnitude = np.abs(values(bits))
        found: Marks = (magnitude >= 2.0**16) & np.isfinite(magnitude)
        return found

    def vanishes(bits: Words) -> Marks:
        magnitude = np.abs(values(bits))
        found: Marks = (magnitude < 2.0**-14) & (magnitude > 0)
        return found

    told: tuple[tuple[str, str, Callable[[Words], Marks]], ...]
    if target in _ENDS:
        told = (("numeric.saturated", f"numbers beyond the range of {target.name.lower()}", beyond),)
    elif target is Format.FP16:
        told = (
            ("numeric.infinite", "finite numbers that are infinite in fp16", overflows),
            ("numeric.denormal", "numbers below 2**-14 become 0 in fp16", vanishes),
        )
    else:
        return
    with np.errstate(all="ignore"):
        for rule, what, marks in told:
            for one, found in zip(command.results, command.depending(marks), strict=True):
                yield from _told(rule, what, command, one, found)


def _told(
    rule: str, what: str, command: _Command, one: _Held, marks: Marks, total: int | None = None
) -> Iterator[_Look]:
    """The finding of marked elements of an operand, if there are any. total: how many, where that is not the
    number of marks."""
    if total is None:
        marks = marks & command.known(one).all(-1) if marks.any() else marks
        total = int(np.count_nonzero(marks))
    if not total:
        return
    tensor = one.tensor
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(marks)), marks.shape))
    at = one.at[marks] * tensor.itemsize
    lanes = np.unique(at // chip.LOCAL_BYTES).tolist() if tensor.space is Space.LOCAL else []
    text = (
        f"{command.instruction.name}: {total} {what}, the first {tensor.name}[{', '.join(map(str, first))}]"
    )
    text += _values(command, one, first)
    offset = int(one.at[first]) * tensor.itemsize
    yield _Look(rule, text, tensor.name, tensor.space, offset, tuple(lanes), total * tensor.itemsize)


def _values(command: _Command, one: _Held, first: tuple[int, ...]) -> str:
    """The numbers of an element: its own now, and those of operands of the same shape before."""
    name = command.instruction.name
    number = _float if name.startswith(_FLOATS) else _hex
    said = [f"{number(one.now()[first])} now"] if one in command.results else [number(one.before[first])]
    for operand in command.operands:
        if isinstance(operand, Constant):
            said.append(f"{operand.name} {number(np.uint32(operand.bits))}")
    for other in command.inputs:
        if other is not one and other.tensor.shape == one.tensor.shape:
            source = _float if name in ("md_sfu.fp32_to_int",) else number
            said.append(f"{other.tensor.name} {source(other.before[first])}")
    return f": {', '.join(said)}"


def _float(bits: np.unsignedinteger) -> str:
    return f"{float(np.uint32(bits).view(np.float32)):g}"


def _hex(bits: np.unsignedinteger) -> str:
    return f"0x{int(bits):x}"
