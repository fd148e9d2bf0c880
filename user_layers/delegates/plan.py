"""How a framework's model is divided: what each operation can do, runs of those that can, pieces of these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from user_layers.delegates.divide import divide
from user_layers.delegates.verdicts import Remembered, verdicts
from user_layers.spelling.foreign import ForeignModel
from user_layers.spelling.spell import Spellings
from user_layers.toolkit import Toolkit


@dataclass(frozen=True)
class Plan:
    """pieces: operations (by index, in order) that compile as one net each. reasons: for each operation why
    it stays with the framework, None for those in the pieces."""

    pieces: tuple[tuple[int, ...], ...]
    reasons: tuple[str | None, ...]


def plan(
    model: ForeignModel,
    spellings: Spellings,
    toolkit: Toolkit,
    *,
    remembered: Remembered | None = None,
    dynamic: bool = False,
    opt: int = 2,
    consecutive: bool = False,
    most: int = 0,
) -> Plan:
    """What of a model goes to the TPU. consecutive: the pieces are without gaps in the model's order, for
    frameworks that run their operations in that; otherwise what is connected is together. The rest as of
    `divide`, which this does behind `verdicts`."""
    whys = list(verdicts(model, spellings, toolkit, remembered))
    taken = [index for index, why in enumerate(whys) if why is None]
    runs = consecutive_runs(taken) if consecutive else connected_runs(model, taken)
    found = divide(
        model, runs, spellings, toolkit, dynamic=dynamic, opt=opt, consecutive=consecutive, most=most
    )
    for division in found:
        for index, why in division.left.items():
            whys[index] = why
    return Plan(tuple(piece for division in found for piece in division.pieces), tuple(whys))


def consecutive_runs(taken: Iterable[int]) -> list[tuple[int, ...]]:
    """Numbers in groups without gaps."""
    runs: list[list[int]] = []
    for index in sorted(taken):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [tuple(run) for run in runs]


def connected_runs(model: ForeignModel, taken: Collection[int]) -> list[tuple[int, ...]]:
    """Operations in groups that are connected, with no way from one of a group through others back into it,
    and none from group to group in a circle. In order of their first operations."""
    makers = {name: i for i, operation in enumerate(model.operations) for name in operation.outputs}
    before: list[set[int]] = [
        {makers[name] for name in operation.inputs if name in makers} for operation in model.operations
    ]
    chosen = set(taken)
    # Along any way the number grows where it comes back from what was not chosen: none leads back to it.
    level: list[int] = []
    for index, sources in enumerate(before):
        own = index in chosen
        level.append(max((level[i] + (own and i not in chosen) for i in sources), default=0))
    group = list(range(len(before)))
    for index in sorted(chosen):
        for source in before[index] & chosen:
            if level[source] == level[index]:
                _rename(group, group[source], group[index])
    _merge(before, group, chosen)
    runs: dict[int, list[int]] = defaultdict(list)
    for index in sorted(chosen):
        runs[group[index]].append(index)
    return [tuple(run) for run in runs.values()]


def _rename(group: list[int], old: int, new: int) -> None:
    group[:] = [new if one == old else one for one in group]


def _merge(before: Sequence[Collection[int]], group: list[int], chosen: Collection[int]) -> None:
    """Make one of two groups of which one reads from the other and no way goes through a third."""
    pairs = sorted({(s, i) for i in chosen for s in before[i] if s in chosen})
    for source, index in pairs:
        first, second = group[source], group[index]
        if first != second and not _detour(_after(before, group), first, second):
            _rename(group, second, first)


def _after(before: Sequence[Collection[int]], group: Sequence[int]) -> Mapping[int, set[int]]:
    """The groups that read from each."""
    found: dict[int, set[int]] = defaultdict(set)
    for index, sources in enumerate(before):
        for source in sources:
            if group[source] != group[index]:
                found[group[source]].add(group[index])
    return found


def _detour(after: Mapping[int, Collection[int]], first: int, second: int) -> bool:
    """Whether a way from one group to another goes through a third."""
    seen, todo = {second}, [one for one in after.get(first, ()) if one != second]
    while todo:
        one = todo.pop()
        if second in after.get(one, ()):
            return True
        if one not in seen:
            seen.add(one)
            todo += after.get(one, ())
    return False
