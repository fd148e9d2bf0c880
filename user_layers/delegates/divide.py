"""Runs of operations into pieces that certainly compile: what each can do alone, many together may not.

A net has at most 16 inputs and outputs, and a few combinations have no layers though each operation has. A
piece is therefore built as the compiler will build it before anybody is told that it goes to the TPU; one
that fails is cut where few tensors cross, until its parts do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from firmware_sim.chip import MAX_TENSORS
from user_layers.delegates.compile import build_partition, compile_partition
from user_layers.delegates.together import REFUSED
from user_layers.delegates.verdicts import reasons
from user_layers.spelling.foreign import ForeignModel
from user_layers.spelling.spell import Spellings
from user_layers.toolkit import Toolkit

_MOST_TRIES = 64  # pieces of one run that are built
_TRIES_ENDED = f"the pieces around it do not compile, of which {_MOST_TRIES} were tried"
Attempt = Callable[[tuple[int, ...]], "str | None"]


@dataclass(frozen=True)
class Division:
    """Of one run. pieces: operations (by index, in order) that compile as one net each, in an order in which
    they can run; left: those that stay with the framework, and why."""

    pieces: tuple[tuple[int, ...], ...]
    left: Mapping[int, str]


def divide(
    model: ForeignModel,
    runs: Sequence[Sequence[int]],
    spellings: Spellings,
    toolkit: Toolkit,
    *,
    dynamic: bool = False,
    opt: int = 2,
    whole: bool | None = None,
    consecutive: bool = False,
    most: int = 0,
) -> tuple[Division, ...]:
    """For each run the pieces that compile.

    runs: operations of the model that `verdicts` allows, of which none depends on another one of the run by
    way of what is not in it. whole: try by compiling the pieces, not only by making their layers; without
    being told, for dynamic nets, of which layers alone do not tell it. consecutive: the runs are without gaps
    in the model's order, and so are the pieces; otherwise what makes a constant for one operation stays with
    it. most: operations of a piece, 0 for any number. dynamic, opt: as of `compile_partition`.
    Errors: those that are not about the operations (MissingError, BuildError).
    """
    full = dynamic if whole is None else whole

    def attempt(chosen: tuple[int, ...]) -> str | None:
        part = model.part(chosen)
        try:
            if full:
                compile_partition(part, spellings, name="try", toolkit=toolkit, opt=opt, dynamic=dynamic)
            else:
                build_partition(part, spellings, name="try", toolkit=toolkit)
        except REFUSED as error:
            return reasons(error.message)
        return None

    return tuple(cut_run(model, run, attempt, consecutive=consecutive, most=most) for run in runs)


def cut_run(
    model: ForeignModel,
    run: Sequence[int],
    attempt: Attempt,
    *,
    consecutive: bool = False,
    most: int = 0,
    most_tries: int = _MOST_TRIES,
) -> Division:
    """The pieces of one run; attempt: why operations do not compile together, None where they do."""
    units = [(index,) for index in sorted(run)] if consecutive else _units(model, sorted(run))
    return _Cutter(_Wires(model, units), attempt, most, most_tries).divided()


def _units(model: ForeignModel, run: list[int]) -> list[tuple[int, ...]]:
    """Each operation with those that make constants for it alone."""
    readers: dict[str, set[int]] = defaultdict(set)
    for index, operation in enumerate(model.operations):
        for name in operation.inputs:
            if name is not None:
                readers[name].add(index)
    inside, made = set(run), set(model.outputs)
    constant: set[str] = {name for name, tensor in model.tensors.items() if tensor.data is not None}
    behind: dict[int, tuple[int, ...]] = defaultdict(tuple)  # of an operation, what makes its constants
    found = []
    for index in run:
        operation = model.operations[index]
        unit = (*behind[index], index)
        if operation.inputs and constant.issuperset(name for name in operation.inputs if name is not None):
            takers = {reader for name in operation.outputs for reader in readers[name]}
            if len(takers) == 1 and takers <= inside and made.isdisjoint(operation.outputs):
                constant.update(operation.outputs)
                behind[takers.pop()] += unit
                continue
        found.append(tuple(sorted(unit)))
    return found


class _Wires:
    """What units of operations read and make, by their places in the run; constants do not count."""

    def __init__(self, model: ForeignModel, units: Sequence[tuple[int, ...]]) -> None:
        self.units = units
        place = {index: at for at, unit in enumerate(units) for index in unit}
        tensors = model.tensors.items()
        counted = {name for name, tensor in tensors if tensor.data is None and 0 not in tensor.shape}
        self.maker: dict[str, int] = {}
        self.readers: dict[str, list[int]] = defaultdict(list)
        self.wanted = set(model.outputs)  # outside of the run
        self.reads: list[list[str]] = [[] for _ in units]
        self.makes: list[list[str]] = [[] for _ in units]
        for index, operation in enumerate(model.operations):
            names = [name for name in operation.inputs if name is not None and name in counted]
            if index not in place:
                self.wanted.update(names)
                continue
            at = place[index]
            made = [name for name in operation.outputs if name in counted]
            self.reads[at] += names
            self.makes[at] += made
            self.maker.update(dict.fromkeys(made, at))
            for name in names:
                self.readers[name].append(at)

    def operations(self, start: int, stop: int) -> tuple[int, ...]:
        """Of the units [start, stop), in the model's order."""
        return tuple(sorted(index for unit in self.units[start:stop] for index in unit))

    def crossing(self, start: int, stop: int) -> list[int]:
        """How many tensors go from [start, k) to [k, stop), for each k from start to stop."""
        steps = [0] * (stop - start + 1)
        for at in range(start, stop):
            for name in self.makes[at]:
                last = max((reader for reader in self.readers[name] if reader < stop), default=at)
                steps[at + 1 - start] += 1
                steps[last + 1 - start] -= 1
        return list(accumulate(steps))

    def stops(self, start: int, stop: int, most: int) -> list[int]:
        """The ends that a piece from `start` may have: those with few enough operations, inputs and outputs,
        and the first one, which cannot be cut."""
        inputs: set[str] = set()
        outputs: set[str] = set()
        found, size = [start + 1], 0
        for at in range(start, stop):
            inputs.update(name for name in self.reads[at] if self.maker.get(name, -1) < start)
            outputs.update(self.makes[at])
            outputs -= {
                name for name in self.reads[at] if name not in self.wanted and max(self.readers[name]) <= at
            }
            size += len(self.units[at])
            if at > start and (len(inputs) > MAX_TENSORS or 0 < most < size):
                break  # they only grow
            if at > start and len(outputs) <= MAX_TENSORS:
                found.append(at + 1)
        return found


class _Cutter:
    """Cuts one run; pieces are [start, stop) of its units."""

    def __init__(self, wires: _Wires, attempt: Attempt, most: int, most_tries: int) -> None:
        self.wires, self.attempt, self.most, self.tries_left = wires, attempt, most, most_tries
        self.left: dict[int, str] = {}

    def divided(self) -> Division:
        pieces: list[tuple[int, int]] = []
        for piece in self.solved(0, len(self.wires.units)):
            # The halving may have cut in more places than needed.
            if pieces and pieces[-1][1] == piece[0] and self.compiles(pieces[-1][0], piece[1]):
                pieces[-1] = (pieces[-1][0], piece[1])
            else:
                pieces.append(piece)
        return Division(tuple(self.wires.operations(*piece) for piece in pieces), self.left)

    def solved(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The pieces of a range that compile, in order. Without recursion, for runs may be long."""
        found, todo = [], [(start, stop)] if start < stop else []
        while todo:
            start, stop = todo.pop()
            why = self.why_not(start, stop)
            if why is None:
                found.append((start, stop))
            elif stop - start == 1:
                self.left.update(dict.fromkeys(self.wires.operations(start, stop), why))
            else:
                cuts = self.cuts(start, stop)
                todo += reversed([*zip([start, *cuts], [*cuts, stop], strict=True)])
        return found

    def why_not(self, start: int, stop: int) -> str | None:
        chosen = self.wires.operations(start, stop)
        if 0 < self.most < len(chosen) and stop - start > 1:
            return f"at most {self.most} operations are wanted in a piece"
        if self.tries_left == 0:
            return _TRIES_ENDED
        self.tries_left -= 1
        return self.attempt(chosen)

    def compiles(self, start: int, stop: int) -> bool:
        """Whether two pieces that are neighbours are one; not asked again of the run that is being cut."""
        if (start, stop) == (0, len(self.wires.units)) or self.tries_left == 0:
            return False
        return stop in self.wires.stops(start, stop, self.most) and self.why_not(start, stop) is None

    def cuts(self, start: int, stop: int) -> list[int]:
        """Where to cut a range of two or more that does not compile: by the limits if it is beyond them,
        otherwise near its middle."""
        crossing = self.wires.crossing(start, stop)
        if stop not in self.wires.stops(start, stop, self.most):
            return self.limited(start, stop, crossing)
        quarter = max(1, (stop - start) // 4)
        places = range(start + quarter, stop - quarter + 1)
        return [min(places, key=lambda k: (crossing[k - start], abs(2 * k - start - stop), k))]

    def limited(self, start: int, stop: int, crossing: list[int]) -> list[int]:
        """The cuts into as few pieces within the limits as there can be; of these those that the fewest
        tensors cross."""
        best: dict[int, tuple[int, int, int]] = {stop: (0, 0, stop)}  # pieces, tensors, the first one's end
        for at in reversed(range(start, stop)):
            ways = (
                (1 + best[end][0], crossing[end - start] + best[end][1], end)
                for end in self.wires.stops(at, stop, self.most)
            )
            best[at] = min(ways)
        found, at = [], best[start][2]
        while at < stop:
            found.append(at)
            at = best[at][2]
        return found
