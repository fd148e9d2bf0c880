"""Tokens, whose channels are the last dimension: products of all of them with one constant matrix.

The 8-bit product of matrices multiplies one number at a time, and a lane has few columns: it takes as
long as that of fp32. A convolution with one tap takes four numbers of four batches at a time, and pixels,
which tokens are once their channels are second. So tokens are turned, and stay so from product to product,
through what works element by element.
"""

from __future__ import annotations

import math

from firmware_sim.chip import NPU_NUM
from firmware_sim.isa.bursts import BURST_BYTES
from firmware_sim.isa.timing import FITTED, convolution_fixed, local_to_local, matrix_product
from user_layers.net.nodes import LayerNode
from user_layers.quantize.rewrite import Rewriting, are_rows, rule, second_shape
from user_layers.quantize.rules_linear import CHANNELS, POINT, conv_of, in_integers, linear, tell
from user_layers.quantize.rules_movement import in_fp32
from user_layers.quantize.scales import F64, Step
from user_layers.quantize.sites import Site, constant

_READ = FITTED.read_burst / BURST_BYTES  # cycles of a byte from DDR
_SIDE = 15  # of windows that products of batches are given
_BEGUN = 500  # cycles of commands that convert, turn, cut or join a tensor, however small it is
_CONVERTED = 12  # cycles of 16 numbers of a lane that become integers, or numbers again
_ELEMENTWISE = ("TPU_UNARY", "TPU_CONST_BINARY", "TPU_TURN")


@rule("TPU_MATMUL")
def product(state: Rewriting, site: Site) -> str | None:
    """[..., T, K] x constant [K, N]: a convolution of tokens, or of T batches seen as pictures."""
    left, right, *_ = site.node.inputs
    weights = constant(state.net, right)
    if weights is None:
        return "a product of two computed matrices"
    if weights.ndim != 2 or site.values["trans_a"]:
        return "a product of several matrices" if weights.ndim != 2 else "a left matrix that is transposed"
    weights = weights if site.values["trans_b"] else weights.T
    weights = weights * (site.values["alpha"] or 1.0)
    if state.pays(site.node, lambda: _tokens_pay(state, site, weights.shape)):
        return _of_tokens(state, site, weights)
    if len(state.info(left).shape) != 2:
        return "slower in 8 bits than in fp32 with conversions beside it"
    rows, columns = state.info(left).shape
    kernel = _kernel_of(columns)
    if kernel is None:
        return f"a sum of {columns:,} products, which no kernel of an instruction has"
    window = {**POINT, "kernel_h": kernel[0], "kernel_w": kernel[1]}
    shape = (rows, columns // math.prod(kernel), *kernel)
    return linear(state, site, 1, window, shape, weights.reshape(-1, *shape[1:]))


def _kernel_of(columns: int) -> tuple[int, int] | None:
    """The least window that makes a row of numbers a picture of no more channels than an instruction adds up
    at once: all sums are exact then."""
    sides = range(1, _SIDE + 1)
    found = [
        (h * w, h, w)
        for h in sides
        for w in sides
        if columns % (h * w) == 0 and columns // (h * w) <= CHANNELS
    ]
    return min(found)[1:] if found else None


def _tokens_pay(state: Rewriting, site: Site, weights: tuple[int, ...]) -> bool:
    """Whether a product [..., T, K] x [K, N] is one of tokens in 8 bits: where it takes fewer cycles than in
    fp32, with conversions and turns. weights: [N, K]."""
    left = site.node.inputs[0]
    shape = state.info(left).shape
    if len(shape) < 2:
        return False
    batches, inner, tokens = second_shape(shape)
    columns, _ = weights
    if max(tokens, inner, columns) > CHANNELS:
        return False
    sides = [inner] * (left not in state.second) + [columns] * (not _stays(state, site))
    moved = sum(sides)
    rows, bias = batches * tokens, len(site.node.inputs) > 2
    # One batch lies in strips, a fourth of the tokens in each slot.
    fours, pixels = (1, math.ceil(tokens / 4)) if batches == 1 else (math.ceil(batches / 4), tokens)
    computed = convolution_fixed((4 * fours, columns, pixels, 1), 0, inner, (1, 1), bias=bias).chip
    computed += _CONVERTED * rows * moved / (16 * NPU_NUM)
    transfers = columns * inner * _READ + local_to_local(4 * fours * pixels * moved).chip
    edges = 4 * rows * moved * _READ + _BEGUN * len(sides)
    if are_rows(shape):  # or a picture of one pixel to each row, whose words lie apart in DDR
        alone = convolution_fixed((rows, columns, 1, 1), 0, inner, (1, 1), bias=bias).chip
        apart = moved - inner * (left in state.bytes)
        alone += _BEGUN * len(sides) + (4 * _READ + FITTED.scattered / 4) * rows * apart
        return max(computed, transfers + edges) < max(alone, columns * inner * _READ)
    plain = matrix_product(rows, 0, (NPU_NUM, math.ceil(columns / NPU_NUM)), inner, bias=bias).chip
    given = 4 * (columns * inner + rows * (columns + inner)) * _READ
    return max(computed, transfers + edges) < max(plain, given)


def _stays(state: Rewriting, site: Site) -> bool:
    """Whether all who read a result take it with channels second."""
    readers = [state.net.nodes[k] for k in state.net.consumers[site.output]]
    inside = bool(readers) and site.output not in state.net.outputs
    return inside and all(
        one.op.op in _ELEMENTWISE or _multiplies(state, one, site.output) for one in readers
    )


def _of_tokens(state: Rewriting, site: Site, weights: F64) -> str | None:
    """[..., T, K] x constant, given as [N, K]: a convolution with one tap, of tokens with channels second."""
    node = site.node
    left = node.inputs[0]
    bias = constant(state.net, node.inputs[2]) if len(node.inputs) > 2 else None
    if len(node.inputs) > 2 and bias is None:
        return "a bias that is computed"
    shape = second_shape(state.info(left).shape)
    tokens = len(state.info(left).shape) > 2
    found = in_integers(state, site, weights[:, :, None, None], bias, shape, tokens=tokens)
    if isinstance(found, str):
        return found
    source, given = state.as_second(node, left)
    inputs, values = conv_of(state, site, source, found, {"groups": 1, **POINT})
    made = state.result_second(site.output, Step(found.scale, not site.relu))
    state.layer(site, "TPU_CONV_INT8", inputs, values, made)
    tell(state, site, given, found)
    return None


@rule("TPU_TURN")
def turned(state: Rewriting, site: Site) -> str | None:
    """Tokens and channels change places: what is second of the one is last of the other; nothing moves."""
    source, output = site.node.inputs[0], site.output
    before, after = state.info(source).shape, state.info(output).shape
    rows = len(before) == len(after) == 3 and not are_rows(before) and output not in state.net.outputs
    if not state.is_bytes(source):
        if not (rows and _of_products(state, output)) and not _of_convolutions(state, output):
            return "its input is not in 8 bits"
        if missing := state.missing(source):
            return missing
    if rows and source in state.second:
        state.note(output, *state.second[source])
        if source in state.bytes:
            state.note(output, *state.bytes[source], second=True)
        return None
    if source in state.second and len(before) == 3 and len(after) == 4 and not are_rows(before):
        own, step = state.second[source]
        state.reshaped(site, own, (0, *after[1:]), state.result(site, step))
        return None
    own, step = state.as_bytes(site.node, source)
    if rows:
        state.note(output, own, step, second=True)
    elif len(after) == 3:
        state.reshaped(site, own, (0, before[1], -1), state.result_second(output, step))
    else:
        state.move(site, [own], site.values, step)
    return None


def _of_products(state: Rewriting, name: str) -> bool:
    """Whether all who read a tensor multiply its rows with a constant matrix."""
    readers = [state.net.nodes[k] for k in state.net.consumers[name]]
    return bool(readers) and all(_multiplies(state, one, name) for one in readers)


def _of_convolutions(state: Rewriting, name: str) -> bool:
    """Whether all who read a tensor are convolutions in 8 bits, of a picture."""
    readers = [state.net.nodes[k] for k in state.net.consumers[name]]
    picture = len(state.info(name).shape) == 4 and name not in state.net.outputs
    return picture and bool(readers) and all(n.op.op == "TPU_CONV" and not in_fp32(state, n) for n in readers)


def _multiplies(state: Rewriting, node: LayerNode, name: str) -> bool:
    right = node.inputs[1] if node.op.op == "TPU_MATMUL" and node.inputs[0] == name else name
    return state.info(right).data is not None
