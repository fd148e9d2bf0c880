"""ONNX's recurrent layers: the inputs of all steps into gates by one product of matrices, then one layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from firmware_sim.chip import MATRIX_WIDTH_MAX, NPU_NUM
from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Array, Node

_AT_A_TIME = 16  # that it computes; with fewer in each of more lanes all copies are of smaller pieces


@dataclass(frozen=True)
class _Cell:
    """code: of TPU_RECURRENT; signs: of the gates, in ONNX's order, as the layer takes them; products: how
    many of them each product with a state makes; activations: that the layer has."""

    code: int
    signs: tuple[float, ...]
    products: tuple[int, ...]
    activations: tuple[str, ...]


_LSTM = _Cell(0, (-1, -1, -1, 1), (4,), ("Sigmoid", "Tanh", "Tanh"))
_GRU = _Cell(1, (1, -1, 1), (2, 1), ("Sigmoid", "Tanh"))
_GRU_AFTER = _Cell(2, (1, -1, 1), (3,), ("Sigmoid", "Tanh"))
_RNN = _Cell(3, (1,), (1,), ("Tanh",))

_DIRECTIONS = ("forward", "reverse", "bidirectional")
_X, _W, _R, _B, _LENGTHS, _STATE, _CELL_STATE, _PEEPHOLES = range(8)


@dataclass(frozen=True)
class _Columns:
    """Rows of ONNX's weights, [gates * hidden, ..], as columns [lane, gate, unit]: hidden units are dealt
    over the lanes, `units` to each."""

    cell: _Cell
    hidden: int
    units: int

    @property
    def lanes(self) -> int:
        return -(-self.hidden // self.units)

    def of(self, rows: Array, first: int = 0, count: int | None = None) -> Array:
        """[gates * hidden, n] of some gates as [lanes, count * units, n], with zeros beyond hidden units."""
        gates = rows.reshape(len(self.cell.signs), self.hidden, -1)
        gates = gates * np.array(self.cell.signs, np.float32)[:, None, None]
        chosen = gates[first:][:count]
        missing = self.lanes * self.units - self.hidden
        whole = np.pad(chosen, ((0, 0), (0, missing), (0, 0)))
        apart = whole.reshape(len(chosen), self.lanes, self.units, -1).swapaxes(0, 1)
        return np.ascontiguousarray(apart.reshape(self.lanes, len(chosen) * self.units, -1), np.float32)


@converts("LSTM", "GRU", "RNN")
def recurrent(to: Lowering, node: Node) -> None:
    """TPU_MATMUL for the inputs of all steps and both directions, TPU_RECURRENT behind it."""
    cell = _cell(node)
    given = [name for name in node.inputs if name]
    to.need_float(*(name for name in given if name != _input(node, _LENGTHS)))
    weights, recurrence, bias = (to.known(node, index) for index in (_W, _R, _B))
    if weights is None or recurrence is None or len(to.shape(node.inputs[_X])) != 3:
        raise Unsupported("weights that are left out, or an input that has not three dimensions")
    columns = _columns(node, cell, weights, recurrence, bias)
    _check(to, node)
    gates, apart = _gates(to, node, columns, weights, bias)
    param = {
        "cell": cell.code,
        "hidden": columns.hidden,
        "units": columns.units,
        "directions": len(weights),
        "reverse": int(node.attributes.get("direction", "forward") == "reverse"),
        "initial": 0,
    }
    operands, taken = [gates], 0
    for count in cell.products:
        each = np.stack([columns.of(one, taken, count).swapaxes(1, 2) for one in recurrence])
        operands.append(to.add_const(np.ascontiguousarray(each), f"{node.makes[0]}:recurrence{taken}"))
        taken += count
    if cell is _GRU_AFTER:
        added = np.stack([columns.of(one).reshape(-1) for one in apart])
        operands.append(to.add_const(added, f"{node.makes[0]}:added"))
    for bit, index in enumerate((_STATE, _CELL_STATE) if cell is _LSTM else (_STATE,)):
        if _input(node, index):
            operands.append(to.tensor(_input(node, index)))
            param["initial"] += 1 << bit
    _outputs(to, node, cell, operands, param)


def _gates(
    to: Lowering, node: Node, columns: _Columns, weights: Array, bias: Array | None
) -> tuple[str, Array]:
    """What the inputs of all steps give to the gates, [steps, batch, columns]; what is added to products with
    states instead, [directions, gates * hidden]."""
    made = columns.hidden * len(columns.cell.signs)
    shifts = np.zeros((len(weights), 2, made), np.float32) if bias is None else bias.reshape(-1, 2, made)
    apart = np.zeros_like(shifts[:, 1])
    if columns.cell is _GRU_AFTER:  # what is added to the part that is reset
        apart[:, 2 * columns.hidden :] = shifts[:, 1, 2 * columns.hidden :]
    stem = node.makes[0]
    rows = np.concatenate([columns.of(one).reshape(-1, weights.shape[2]) for one in weights])
    inputs = [to.tensor(node.inputs[_X]), to.add_const(np.ascontiguousarray(rows.T), f"{stem}:weights")]
    if bias is not None:
        sums = np.concatenate([columns.of(one).reshape(-1) for one in shifts.sum(axis=1) - apart])
        inputs.append(to.add_const(sums, f"{stem}:bias"))
    return to.between("TPU_MATMUL", node, inputs, {"trans_a": 0, "trans_b": 0, "alpha": 1.0}), apart


def _outputs(
    to: Lowering, node: Node, cell: _Cell, operands: Sequence[str], param: Mapping[str, object]
) -> None:
    """The layer; outputs that are left out it makes all the same."""
    stem, names = node.makes[0], []
    wanted = [*node.outputs, "", ""][: 3 if cell is _LSTM else 2]
    for index, name in enumerate(wanted):
        names.append(to.output(node, index) if name else to.fresh(f"{stem}:state{index}"))
    to.layer("TPU_RECURRENT", node, operands, param, names)


def _input(node: Node, index: int) -> str:
    return node.inputs[index] if index < len(node.inputs) else ""


def _cell(node: Node) -> _Cell:
    """Raises Unsupported for what the layer does not compute."""
    cell = {"LSTM": _LSTM, "RNN": _RNN, "GRU": _GRU}[node.op]
    if node.op == "GRU" and node.attributes.get("linear_before_reset", 0):
        cell = _GRU_AFTER
    for name in ("clip", "input_forget"):
        if node.attributes.get(name, 0):
            raise Unsupported(f"{name} = {node.attributes[name]}")
    for name, known in (("direction", _DIRECTIONS), ("layout", (0,))):
        if node.attributes.get(name, known[0]) not in known:
            raise Unsupported(f"{name} = {node.attributes[name]!r}")
    chosen = [str(name) for name in node.attributes.get("activations") or cell.activations]
    other = [name for i, name in enumerate(chosen) if name != cell.activations[i % len(cell.activations)]]
    if other:
        raise Unsupported(f"the activation {other[0]}; {', '.join(cell.activations)} is what a layer has")
    if _input(node, _PEEPHOLES) and node.op == "LSTM":
        raise Unsupported("peepholes")
    return cell


def _columns(node: Node, cell: _Cell, weights: Array, recurrence: Array, bias: Array | None) -> _Columns:
    """Raises Unsupported for weights that do not fit one another, and for too many hidden units."""
    hidden, gates = recurrence.shape[-1], len(cell.signs)
    rows = (len(weights), gates * hidden)
    fits = weights.ndim == 3 and weights.shape[:2] == rows and recurrence.shape == (*rows, hidden)
    if not fits or (bias is not None and bias.shape != (len(weights), 2 * gates * hidden)):
        raise Unsupported(f"weights of the shapes {weights.shape} and {recurrence.shape}")
    if (node.attributes.get("direction", "forward") == "bidirectional") != (len(weights) == 2):
        raise Unsupported(f"weights for {len(weights)} directions")
    most = NPU_NUM * (MATRIX_WIDTH_MAX // gates)
    if hidden > most:
        raise Unsupported(f"{hidden} hidden units; a layer has up to {most}")
    return _Columns(cell, hidden, min(hidden, max(-(-hidden // NPU_NUM), _AT_A_TIME // gates)))


def _check(to: Lowering, node: Node) -> None:
    """Raises Unsupported where sequences may be shorter than all steps."""
    lengths = to.known(node, _LENGTHS)
    steps = to.shape(node.inputs[_X])[0]
    if lengths is not None and (lengths != steps).any():
        raise Unsupported(f"sequences of other lengths than {steps} steps")
