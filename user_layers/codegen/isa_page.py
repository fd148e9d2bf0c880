"""The table of docs/isa.md, from the instruction table.

What a row of that table states goes into the page as it is; operands, limits and cycles are those of the
instruction's example, found by asking its semantics about descriptors that differ from it in one field.
"""

from __future__ import annotations

import itertools
import math

from firmware_sim.errors import DeviceError
from firmware_sim.instructions.example import example, row_of
from firmware_sim.instructions.instruction import Instruction, Semantics
from firmware_sim.instructions.table import TABLE
from firmware_sim.isa.codes import Direction, Eu, OtherEngine, Precision, Special, Task
from firmware_sim.isa.footprint import Constant, Operand, Space, Tensor
from firmware_sim.isa.layout import BD, Row
from firmware_sim.memory import Memory

COLUMNS = 6
_DDR_BYTES = 64 << 20
_CODES = {"tsk_typ": Task, "opt_res0_prec": Precision, "special_func": Special, "direction": Direction}
_ADDRESSES = {"src": "src_start_addr_l32", "dst": "dst_start_addr_l32", "mask": "dst_nstride"}
_ALIGNMENTS = tuple(1 << bit for bit in range(10))


class _Probe:
    """One instruction, asked about its example with fields changed."""

    def __init__(self, instruction: Instruction, semantics: Semantics, memory: Memory) -> None:
        self._instruction, self._semantics, self._memory = instruction, semantics, memory
        self.fields = example(instruction)

    def _row(self, changes: dict[str, int]) -> Row:
        return row_of(self._instruction.engine, {**self.fields, **changes})

    def operands(self, **changes: int) -> dict[str, Operand]:
        """By name, what lies in several parts once."""
        return {o.name: o for o in self._semantics.operands(self._row(changes)) if o.name != "zeros"}

    def takes(self, **changes: int) -> bool:
        """Whether it is still this instruction, and is executed."""
        row = self._row(changes)
        if any(row[name] not in values for name, values in self._instruction.match.items()):
            return False
        try:
            self._semantics.bind(row, self._memory)
        except DeviceError:
            return False
        return True

    def cycles(self) -> float:
        """On its engine, as real chips take them."""
        return self._semantics.cycles(self._row({})).chip

    def may_be_constant(self, name: str) -> bool:
        """Whether the operand may be a number in the descriptor."""
        field = f"opt_{name}_const"
        if field not in BD or not self.takes(**{field: 1}):
            return False
        return isinstance(self.operands(**{field: 1})[name], Constant)

    def alignment(self, name: str) -> int:
        """Bytes of which the operand's address must be a multiple."""
        field = _ADDRESSES.get(name, f"{name}_addr")
        return next(n for n in _ALIGNMENTS if self.takes(**{field: self.fields[field] + n}))

    def widths(self) -> str:
        """The precisions of operands that go together; nothing where those of inputs do not count."""
        fields = {name: f"opt_{name}_prec" for name in self.operands() if f"opt_{name}_prec" in BD}
        counts = [
            name for name, field in fields.items() if not all(self.takes(**{field: p}) for p in range(8))
        ]
        if set(counts) <= {"res0"}:
            return ""
        result = {"res0"} & {name for name in fields if fields[name] in self._instruction.match}
        names = sorted({*counts} | result)
        taken = [
            some
            for some in itertools.product(sorted(Precision), repeat=len(names))
            if self.takes(**{fields[n]: int(p) for n, p in zip(names, some, strict=True)})
        ]
        each = [sorted(set(column)) for column in zip(*taken, strict=True)]
        if len(taken) == math.prod(map(len, each)):
            columns = zip(names, each, strict=True)
            return ", ".join(f"`{n}` {' or '.join(p.name for p in some)}" for n, some in columns)
        found = [", ".join(f"`{n}` {p.name}" for n, p in zip(names, some, strict=True)) for some in taken]
        return "; or ".join(found)


def _code(instruction: Instruction) -> str:
    """`tsk_typ` 3 (ARITHMETIC), ..."""
    out = []
    for name, values in instruction.match.items():
        codes = _CODES.get(name)
        if name == "tsk_eu_typ":
            if len(values) == len(range(32)):
                continue
            codes = OtherEngine if Task.OTHER_ENGINE in instruction.match["tsk_typ"] else Eu
        numbers = sorted(values)
        if len(numbers) > len(Direction):  # all but a few
            left_out = sorted(set(range(32)) - set(numbers))
            out.append(f"`{name}` not {', '.join(map(str, left_out))}")
            continue
        said = [f"{n} ({codes(n).name})" if codes else str(n) for n in numbers]
        out.append(f"`{name}` {', '.join(said)}")
    return "; ".join(out)


def _grouped(said: dict[str, str], between: str) -> str:
    """What is said of each name, of several at once where it is the same."""
    names: dict[str, list[str]] = {}
    for name, text in said.items():
        names.setdefault(text, []).append(f"`{name}`")
    return "; ".join(f"{', '.join(some)}{between}{text}" for text, some in names.items())


def _operand(probe: _Probe, operand: Operand) -> str:
    if isinstance(operand, Constant):
        return "a constant"
    where = "" if operand.space is Space.LOCAL else f" in {operand.space.name}"
    size = "x".join(map(str, operand.shape))
    constant = " or a constant" if probe.may_be_constant(operand.name) else ""
    return f"{size}, {8 * operand.itemsize}-bit{where}{constant}"


def _limits(probe: _Probe, operands: dict[str, Operand]) -> str:
    aligned = {name: probe.alignment(name) for name, o in operands.items() if isinstance(o, Tensor)}
    said = {name: str(n) for name, n in aligned.items() if n > 1}
    return "; ".join(filter(None, [_grouped(said, " at multiples of "), probe.widths()]))


def _computes(instruction: Instruction) -> str:
    """The summary, and the expressions that are compiled where it does not consist of one."""
    out = instruction.summary.replace("|", "\\|")
    if instruction.reason:
        return f"{out}: {instruction.status.value}, {instruction.reason}"
    functions = instruction.semantics.functions if instruction.semantics else ()
    texts = [f.expression.text for f in functions if f.expression.text not in instruction.summary]
    return "; ".join([out, *(f"`{text}`".replace("|", "\\|") for text in texts)])


def _row(instruction: Instruction, memory: Memory) -> str:
    cells = [f"`{instruction.name}`", f"{instruction.engine.value}: {_code(instruction)}"]
    if instruction.semantics is None:
        cells += ["", _computes(instruction), "", ""]
    else:
        probe = _Probe(instruction, instruction.semantics, memory)
        operands = probe.operands()
        cells += [
            _grouped({name: _operand(probe, o) for name, o in operands.items()}, ": "),
            _computes(instruction),
            _limits(probe, operands),
            f"{round(probe.cycles())}",
        ]
    return "| " + " | ".join(cells) + " |\n"


def rows() -> str:
    """One row for each instruction, in the order of the table."""
    memory = Memory.create(ddr_bytes=_DDR_BYTES)
    return "".join(_row(instruction, memory) for instruction in TABLE)
