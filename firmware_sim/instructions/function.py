"""What an operation computes element by element, stated twice: for numpy, and as an expression to compile.

The numpy function is the reference: slow and obvious. The expression is what runs, in a loop made from it
(firmware_sim.instructions.loops.source); tests hold the two together.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from firmware_sim.instructions import elementwise, fp32
from firmware_sim.instructions.loops.native import Loop
from firmware_sim.isa.footprint import Operand, Tensor
from firmware_sim.memory import Memory

F32 = npt.NDArray[np.float32]
Words = elementwise.Words

_OPERANDS = ("opd0", "opd1", "opd2", "opd3", "old")


@dataclass(frozen=True)
class Expression:
    """One element of the result from one of each operand: all fp32 numbers, or all words (uint32).

    text: C, of operands by their names in the descriptor (`old`: what the result was before) and of
    what elementwise.h in firmware_sim.instructions.loops has for it. each: the operands of which one element
    stands for a plane.
    """

    text: str
    floats: bool
    each: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands in it, in the order in which the loop takes them."""
        return tuple(name for name in _OPERANDS if re.search(rf"\b{name}\b", self.text))

    def __str__(self) -> str:
        return f"{self.text}, fp32" if self.floats else self.text

    def loop(self) -> Loop:
        """The compiled loop over rows."""
        from firmware_sim.instructions.loops.source import name_of

        return Loop(name_of(self))


@dataclass(frozen=True)
class Function:
    """reference: of uint32 arrays, see elementwise.Bound; expression: the same for one element."""

    reference: elementwise.Kernel
    expression: Expression

    def bind(self, memory: Memory, inputs: tuple[Operand, ...], out: Tensor) -> elementwise.Run:
        """A function that performs out = reference(*inputs). Raises DeviceError as elementwise.Bound does."""
        expression = self.expression
        return elementwise.bind(
            memory, self.reference, inputs, out, expression.loop, by_plane=bool(expression.each)
        )

    def plus_old(self) -> Function:
        """The same of fp32 numbers, with the result's old value added at last."""
        if not self.expression.floats:
            raise ValueError(f"{self.expression.text}: only fp32 numbers are added to the old ones")

        def add(*arguments: Words) -> Words:
            *operands, old = arguments
            result = fp32.add(self.reference(*operands).view(np.float32), old.view(np.float32))
            return result.view(np.uint32)

        expression = self.expression
        return Function(add, replace(expression, text=f"({expression.text}) + old"))


class _OnFloats:
    """`ufunc`: the function where it is one of numpy's, which can write its result in place."""

    def __init__(self, function: Callable[..., F32]) -> None:
        self._function = function
        self.ufunc = function if isinstance(function, np.ufunc) else None

    def __call__(self, *arguments: Words) -> Words:
        result: Words = self._function(*[a.view(np.float32) for a in arguments]).view(np.uint32)
        return result


def on_floats(function: Callable[..., F32]) -> elementwise.Kernel:
    """An fp32 function as one of raw words."""
    return _OnFloats(function)


def of_words(reference: elementwise.Kernel, text: str) -> Function:
    """Both of words."""
    return Function(reference, Expression(text, floats=False))


def of_floats(reference: Callable[..., F32], text: str, *, each: tuple[str, ...] = ()) -> Function:
    """Both of fp32 numbers."""
    return Function(on_floats(reference), Expression(text, floats=True, each=each))
