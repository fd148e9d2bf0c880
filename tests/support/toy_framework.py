"""A small framework with channels last, for tests of what delegates share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from user_layers.spelling.foreign import Array, ForeignModel, Operation, Tensor
from user_layers.spelling.spell import Spellings
from user_layers.spelling.speller import Speller

F32 = np.dtype(np.float32)
TOY = Spellings()

TensorLike = tuple[Any, ...] | Array | Tensor


def _given(op: Operation) -> list[str]:
    return [name for name in op.inputs if name is not None]


@TOY.of("CONV")
def _conv(to: Speller, op: Operation) -> None:
    """x, a kernel [out, h, w, in] and a bias; no padding."""
    x, w, b = _given(op)
    kernel = to.const(to.known(w, "kernel").transpose(0, 3, 1, 2))
    to.put(op.outputs[0], to.one("Conv", to.first(x), kernel, to.own(b)), first=True)


@TOY.of("POOL")
def _pool(to: Speller, op: Operation) -> None:
    """A maximum over windows of `size`."""
    (x,) = _given(op)
    size = int(op.attributes["size"])
    value = to.one("MaxPool", to.first(x), kernel_shape=[size] * 2, strides=[size] * 2)
    to.put(op.outputs[0], value, first=True)


@TOY.of("FLAT")
def _flat(to: Speller, op: Operation) -> None:
    """Wants the framework's own order."""
    (x,) = _given(op)
    shape = to.const(to.shape(op.outputs[0]), np.int64)
    to.put(op.outputs[0], to.one("Reshape", to.own(x), shape))


@TOY.of("DENSE")
def _dense(to: Speller, op: Operation) -> None:
    x, w = _given(op)
    to.put(op.outputs[0], to.one("MatMul", to.own(x), to.own(w)))


@TOY.of("ADD", "MUL", "SUB")
def _binary(to: Speller, op: Operation) -> None:
    values, first = to.alike(_given(op), op.outputs[0])
    to.put(op.outputs[0], to.one(op.kind.capitalize(), *values), first=first)


@TOY.of("RELU", "TANH", "DET", "NOT")
def _unary(to: Speller, op: Operation) -> None:
    values, first = to.alike(_given(op), op.outputs[0])
    name = {"DET": "Det"}.get(op.kind, op.kind.capitalize())
    to.put(op.outputs[0], to.one(name, *values), first=first)


@TOY.of("LESS")
def _less(to: Speller, op: Operation) -> None:
    values, first = to.alike(_given(op), op.outputs[0])
    to.put(op.outputs[0], to.one("Less", *values), first=first)


@TOY.of("SOFTMAX")
def _softmax(to: Speller, op: Operation) -> None:
    (x,) = _given(op)
    to.put(op.outputs[0], to.one("Softmax", to.own(x), axis=-1))


def tensor(what: TensorLike) -> Tensor:
    """A float32 tensor of a shape, a constant of an array, or what is one."""
    if isinstance(what, Tensor):
        return what
    return Tensor(what, F32) if isinstance(what, tuple) else Tensor(what.shape, what.dtype, what)


def toy(
    tensors: Mapping[str, TensorLike],
    operations: Sequence[tuple[Any, ...]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    name: str = "toy",
) -> ForeignModel:
    """operations: kind, inputs, output and, if any, attributes; each is called as its output."""
    return ForeignModel(
        "Toy",
        name,
        {key: tensor(what) for key, what in tensors.items()},
        tuple(inputs),
        tuple(outputs),
        tuple(Operation(kind, out, tuple(ins), (out,), dict(*rest)) for kind, ins, out, *rest in operations),
    )


def random(*shape: int, seed: int = 0) -> Array:
    """Seeded float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def small_net() -> ForeignModel:
    """conv 3x3, relu, pool, flat, dense, softmax on an image [1, 9, 11, 3]."""
    return toy(
        {
            "image": (1, 9, 11, 3),
            "k": random(8, 3, 3, 3),
            "b": random(8, seed=1),
            "a": (1, 7, 9, 8),
            "r": (1, 7, 9, 8),
            "p": (1, 3, 4, 8),
            "f": (1, 96),
            "w": random(96, 10, seed=2) / 10,
            "d": (1, 10),
            "y": (1, 10),
        },
        [
            ("CONV", ["image", "k", "b"], "a"),
            ("RELU", ["a"], "r"),
            ("POOL", ["r"], "p", {"size": 2}),
            ("FLAT", ["p"], "f"),
            ("DENSE", ["f", "w"], "d"),
            ("SOFTMAX", ["d"], "y"),
        ],
        ["image"],
        ["y"],
    )
