"""Heads of tokens as TPU_ATTENTION takes them: what values they are views of, and which are shared."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from user_layers.onnx.model import Array, Model
from user_layers.onnx.views import MOST_PICKED, Step, View, broadcasts, steps_back


@dataclass(frozen=True)
class Heads:
    """Heads of tokens as the layer takes them. shape: of the tensor that they lie in, three or four extents;
    first, step: the first head's first channel, and channels from one to the next, with three. tokens_first:
    that tensor has tokens before batches still."""

    view: View
    shape: tuple[int, ...]
    first: int = 0
    step: int = 0
    tokens_first: bool = False


def batch_and_heads(shape: tuple[int, ...]) -> tuple[int, int]:
    """Of a result: the last dimension before tokens and elements are heads, those before it batches."""
    lead = shape[:-2]
    return (int(np.prod(lead[:-1])), lead[-1]) if lead else (1, 1)


def heads_of(view: View, batch: int, heads: int) -> Heads | None:
    """A view as the layer takes its operands, if it does."""
    tokens, size = view.shape[-2:]
    if size > 1 and view.strides[-1] != 1:
        return None
    lead = np.lib.stride_tricks.as_strided(np.empty(1, np.int8), view.shape[:-2], view.strides[:-2])
    apart = _merged(lead.shape[:-1], lead.strides[:-1])
    if apart is None:
        return None
    (between, step), row = (apart, lead.strides[-1] if lead.ndim else 0), view.strides[-2]
    dense = (batch == 1 or between == heads * tokens * size) and (heads == 1 or step == tokens * size)
    if dense and (tokens == 1 or row == size) and view.count == batch * heads * tokens * size:
        if heads == 1 or tokens == 1:
            return Heads(view, (batch, tokens, heads * size), 0, size)
        return Heads(view, (batch, heads, tokens, size))
    tokens_first = tokens > 1 and batch > 1 and row == batch * between
    width = between if tokens == 1 or tokens_first else row
    apart_by = width if tokens_first else tokens * width
    if width <= 0 or (batch > 1 and between != apart_by) or view.count != batch * tokens * width:
        return None
    if view.offset + (heads - 1) * step + size > width or step < 0:
        return None
    return Heads(view, (batch, tokens, width), view.offset, step if heads > 1 else size, tokens_first)


def shared_heads(
    model: Model, operands: tuple[str, str], shape: tuple[int, ...], keys: int
) -> tuple[dict[str, list[Heads]], int]:
    """Keys and values of which several heads of queries have one, as views of what lies nearest first, and
    how many; none where each has its own, or where that is not so of both. operands: transposed keys, and
    values; shape: of the result."""
    batch, heads = batch_and_heads(shape)
    found: dict[str, list[tuple[Heads, int]]] = {}
    if operands[0] == operands[1] or len(shape) < 3:
        return {}, 0
    for name, turned in zip(operands, (True, False), strict=True):
        own = model.value(name).fixed
        if own is None or name in model.constants:
            return {}, 0
        whole = (*shape[:-2], *own[-2:])
        if not broadcasts(own, whole):
            return {}, 0

        def last(a: Array, whole: tuple[int, ...] = whole, turned: bool = turned) -> Array:
            a = np.broadcast_to(a, whole)
            return a.swapaxes(-1, -2) if turned else a

        for view, times in _given_often(model, name, last, own != whole):
            one = heads_of(view, batch, heads // times) if view.shape[-2] == keys else None
            if one is not None:
                found.setdefault(name, []).append((one, times))
    furthest = {seen[-1][1] for seen in found.values()}
    if len(found) != 2 or len(furthest) != 1:
        return {}, 0
    (times,) = furthest
    return {name: [one for one, often in seen if often == times] for name, seen in found.items()}, times


def _given_often(model: Model, name: str, last: Step, repeats: bool) -> Iterator[tuple[View, int]]:
    """What a value [..., heads, tokens, size] is made of by giving each of fewer heads several times, one
    after the other: these heads, and how often each is given. repeats: `last` broadcasts."""
    for back in steps_back(model, name, expanded=True):
        if not repeats and not any(model.makers[made].op == "Expand" for made in back.nodes):
            continue  # nothing gives a number twice
        if math.prod(back.shape) > MOST_PICKED:
            return
        seen = last(back.seen(np.arange(math.prod(back.shape), dtype=np.int64).reshape(back.shape)))
        if seen.size > MOST_PICKED:
            return
        heads = seen.shape[-3]
        times = next(n for n in range(heads, 0, -1) if heads % n == 0 and _gives_each(seen, n))
        own = seen[..., ::times, :, :]
        strides = _strides(own) if times > 1 else None
        if strides is not None:
            offset = int(own.flat[0])
            count = math.prod(back.shape)
            yield View(back.source, count, own.shape, strides, offset, back.factor, back.nodes), times


def _gives_each(seen: Array, times: int) -> bool:
    groups = seen.reshape(*seen.shape[:-3], -1, times, *seen.shape[-2:])
    return bool((groups == groups[..., :1, :, :]).all())


def _strides(seen: Array) -> tuple[int, ...] | None:
    """Those by which indices lie; None where they lie by none."""
    rank = range(seen.ndim)
    steps, places = [], np.zeros((1,) * seen.ndim, np.int64)
    for d in rank:
        line = seen[tuple(slice(None) if d == own else 0 for own in rank)]
        steps.append(int(line[1] - line[0]) if line.size > 1 else 0)
        places = places + (np.arange(line.size) * steps[-1]).reshape(*(-1 if d == own else 1 for own in rank))
    return tuple(steps) if np.array_equal(seen, seen.flat[0] + places) else None


def _merged(extents: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """The stride of dimensions taken as one; 0 where there is one element, None where they are not one."""
    large = [(n, s) for n, s in zip(extents, strides, strict=True) if n > 1]
    for (_, outer), (n, inner) in itertools.pairwise(large):
        if outer != n * inner:
            return None
    return large[-1][1] if large else 0
