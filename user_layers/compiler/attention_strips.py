"""8-bit attention between its products in local memory: of strips of tokens (strips.py), in bytes.

What a product of 8 bits makes of strips, [4, channels, rows], are rows of bytes, a column for each token, in
an order of their own: the k-th of each strip side by side. Keys are taken so; queries and values are turned
byte by byte (TPU_TURN_BYTES), and so is the result for the next product. Attention asks for no order of the
keys, as long as values have the same. So nothing is in fp32 between the products, and nothing goes to DDR.
Of several batches whose tokens are written as those of one (one_batch.py), each attends to its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from firmware_sim.chip import ALIGN_BYTES, LOCAL_BYTES, NPU_NUM
from firmware_sim.isa.layout import CHANNELS_MAX
from firmware_sim.wire import DType
from user_layers.compiler.attention_rows import ATTENTION
from user_layers.compiler.one_batch import OneBatch
from user_layers.compiler.rewritten import Array, G, Rewritten, constant, is_a, needed_nodes, spread_mask
from user_layers.graph import BINARY_MUL
from user_layers.net.heads import KEY, QUERY, VALUE, head_channels, head_count, head_size
from user_layers.net.net import Net
from user_layers.net.nodes import LayerNode

_SLOTS = 4
_WORD = 4  # bytes
_RANK = 3  # dimensions of tokens and of pixels
_AT_A_TIME = 8192  # words of scores: BM_ATTEND_WORDS of the kernel
_SHARED = ("heads", "size", "value_size", "shared", "scale", "scaled", "scales")  # parameters of both layers


@dataclass(frozen=True)
class _Tokens:
    """Where an operand comes from, by names. whole: strips of whole numbers in fp32; bytes: the same as int8;
    pixels: that with tokens last, which a product made; rows: of a strip, all batches'; way: the layers from
    there."""

    whole: str
    rows: int
    bytes: str = ""
    pixels: str = ""
    way: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Result:
    """What becomes of a result: integers of this scale and type, multiplied by factors before, if there are
    any. made: their name; turned: with tokens last, where a layer turns them; passed: the layers up to
    there."""

    made: str
    scale: float
    dtype: DType
    factors: Array | None
    turned: str
    passed: tuple[str, ...]


@dataclass(frozen=True)
class _Found:
    """Attention that can be computed so. values: of its parameters; keys: of a batch, that are some; masks:
    in the order of strips."""

    node: LayerNode
    values: Mapping[str, Any]
    operands: tuple[_Tokens, ...]
    result: _Result
    keys: int
    masks: tuple[Array, ...]
    batches: int

    @property
    def tokens(self) -> list[int]:
        """Of each operand, all batches', those that are nobody's too."""
        return [_SLOTS * one.rows for one in self.operands]

    @property
    def nobody(self) -> int:
        """Of each batch's keys, those that are none."""
        return self.tokens[KEY] // self.batches - self.keys


def attend_in_strips(graph: G, net: Net, before: Net, joined: OneBatch[G] | None = None) -> G | None:
    """The graph with such attention wherever there is some; None where there is none. Inputs and outputs are
    the same, results bit by bit where products make operands and there are at most 256 keys: sums of more are
    rounded in other parts, and numbers between two integers may go to either.
    graph: as `in_strips` made it; net: what `resolve` says of it; before: and of the graph without strips;
    joined: what this is, where tokens of several batches are one's there."""
    looking = _Looking(graph, net, before, joined)
    found = [one for node in looking.nodes if (one := looking.attention(node)) is not None]
    return _Writing(graph, looking, found).write(looking.nodes) if found else None


class _Looking:
    """A graph, with who makes and who reads each tensor."""

    def __init__(self, graph: G, net: Net, before: Net, joined: OneBatch[G] | None) -> None:
        self.graph, self.net, self.before = graph, net, before
        self.joined: OneBatch[G] = joined or OneBatch(graph)
        self.nodes = needed_nodes(graph, net)
        self.maker = {name: node for node in self.nodes for name in node.outputs}
        self.readers: dict[str, list[LayerNode]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                self.readers.setdefault(name, []).append(node)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor."""
        return self.net.tensors[name].shape

    def values(self, node: LayerNode) -> Mapping[str, Any]:
        """Of a layer's parameters."""
        return self.graph.toolkit.param_values(node.op, node.param)

    def made_by(self, name: str, *ops: str) -> LayerNode | None:
        """What makes a tensor, if it is one of these layers."""
        node = self.maker.get(name)
        return node if node is not None and is_a(node, *ops) else None

    def only_reader(self, name: str, *ops: str) -> LayerNode | None:
        """What alone reads a tensor, if it is one of these layers."""
        readers = self.readers.get(name, [])
        alone = len(readers) == 1 and name not in self.graph.outputs and is_a(readers[0], *ops)
        return readers[0] if alone else None

    def attention(self, node: LayerNode) -> _Found | None:
        """What there is to know of a layer, if it can be computed so."""
        if not is_a(node, ATTENTION):
            return None
        values = self.values(node)
        if not values["unit"] > 0 or values["apart"] or any(len(self.shape(n)) != 3 for n in node.inputs[:3]):
            return None
        operands = [self._tokens(name, head_channels(values, i)) for i, name in enumerate(node.inputs[:3])]
        known = tuple(one for one in operands if one is not None)
        result = self._result(node)
        if len(known) < len(operands) or result is None:
            return None
        queries, keys = (self.shape(node.inputs[i])[1] for i in (QUERY, VALUE))
        batches = self.shape(node.inputs[QUERY])[0]
        masks = []
        for array in (constant(self.graph, name) for name in node.inputs[3:]):
            whole = None if array is None else spread_mask(array, queries, keys)
            if whole is None or len(whole) not in (1, batches):
                return None
            rows = known[QUERY].rows // batches, known[KEY].rows // batches
            each = [_in_strips(mask, *rows) for mask in whole]
            masks.append(np.concatenate(each * (batches // len(each)), axis=1))
        found = _Found(node, values, known, result, keys, tuple(masks), batches)
        return found if self._bears(found) else None

    def _tokens(self, name: str, columns: Array) -> _Tokens | None:
        """An operand, of which attention reads these columns."""
        way: list[str] = []
        if self.shape(name)[0] > 1:
            if name not in self.joined.read:
                return None
            read = self.joined.read[name]
            way += read.passed
            name = read.whole
        cut = self.made_by(name, "TPU_SLICE")
        if cut is not None:
            values = self.values(cut)
            field = [values[key][0] for key in ("axes", "starts", "steps")]
            if values["count"] != 1 or field != [1, 0, 1]:
                return None
            way.append(cut.name)
            name = cut.inputs[0]
        seen = self.made_by(name, "TPU_RESHAPE")
        if seen is None or not self._joins(seen.inputs[0], name):
            return None
        whole = seen.inputs[0]
        found = _Tokens(whole, self.shape(whole)[1])
        times = self.made_by(whole, "TPU_CONST_BINARY", "TPU_BINARY")
        factors = self._factors(times) if times is not None else None
        plain = self.made_by(times.inputs[0], "TPU_DEQUANTIZE") if times is not None else None
        if times is None or factors is None or plain is None:
            return found
        given = self.net.tensors[plain.inputs[0]]
        steps = np.broadcast_to(factors, self.shape(whole)[2])[columns] * given.scale
        if given.dtype is not DType.INT8 or np.abs(steps - 1).max() > 1e-6:
            return found
        turn = self.made_by(given.name, "TPU_TURN")
        if turn is not None and len(self.shape(turn.inputs[0])) != _RANK:  # of a picture
            turn = None
        way += [seen.name, times.name, plain.name, *([turn.name] if turn is not None else [])]
        return replace(
            found, bytes=given.name, pixels=turn.inputs[0] if turn is not None else "", way=tuple(way)
        )

    def _joins(self, strips: str, tokens: str) -> bool:
        """Whether a tensor has strips, and another one the same as tokens of one batch."""
        shape = self.shape(strips)
        return (
            len(shape) == _RANK
            and shape[0] == _SLOTS
            and self.shape(tokens) == (1, _SLOTS * shape[1], shape[2])
        )

    def _factors(self, node: LayerNode) -> Array | None:
        """By which a layer multiplies its first input: one, or one for each channel."""
        values = self.values(node)
        if values["binary_op"] != BINARY_MUL:
            return None
        if is_a(node, "TPU_CONST_BINARY"):
            return np.array([values["value"]], np.float64)
        array = constant(self.graph, node.inputs[1])
        return array.reshape(-1) if array is not None and array.size in (1, array.shape[-1]) else None

    def _result(self, node: LayerNode) -> _Result | None:
        """What becomes of a result, if nothing reads it but what makes integers of strips of it."""
        name, passed = node.outputs[0], list[str]()
        if self.shape(name)[0] > 1:
            way = self.joined.made.get(name)
            if way is None or len(self.readers[name]) > 1 or name in self.graph.outputs:
                return None
            passed += way.passed
            name = way.whole
        joined = self.only_reader(name, "TPU_CONCAT")
        if joined is not None:
            if joined.inputs[0] != name or joined.outputs[0] in self.before.tensors:  # the model's own
                return None
            passed.append(joined.name)
            name = joined.outputs[0]
        seen = self.only_reader(name, "TPU_RESHAPE")
        if seen is None or not self._joins(seen.outputs[0], name):
            return None
        name, factors = seen.outputs[0], None
        even = self.only_reader(name, "TPU_BINARY")
        if even is not None:
            factors = self._factors(even)
            if factors is None or len(factors) != self.shape(name)[2]:
                return None
            passed.append(even.name)
            name = even.outputs[0]
        small = self.only_reader(name, "TPU_QUANTIZE")
        if small is None:
            return None
        made, turned = small.outputs[0], ""
        passed += [seen.name, small.name]
        turn = self.only_reader(made, "TPU_TURN")
        if turn is not None and len(self.shape(turn.outputs[0])) == _RANK:  # not into a picture
            turned = turn.outputs[0]
            passed.append(turn.name)
        values = self.values(small)
        return _Result(made, values["scale"], DType(values["dtype"]), factors, turned, tuple(passed))

    def _bears(self, one: _Found) -> bool:
        """Whether the kernel takes operands of these sizes, and has room for them."""
        values, (query, key, value) = one.values, one.operands
        size, value_size, heads = (int(values[name]) for name in ("size", "value_size", "heads"))
        made, tokens = heads * value_size, one.tokens
        channels = [self.shape(operand.whole)[2] for operand in one.operands]
        if key.rows != value.rows or self.shape(one.result.made)[1] != query.rows:
            return False
        if any(operand.rows % one.batches for operand in one.operands):
            return False
        if one.nobody >= key.rows // one.batches or max(*tokens, *channels, made) > CHANNELS_MAX:
            return False
        places = (*values["from"], *values["step"], *channels, size, value_size)
        if any(place % _SLOTS for place in places) or size > CHANNELS_MAX - NPU_NUM:
            return False
        if values["scale"] == 0 or (values["scaled"] and 0 in values["scales"][:heads]):
            return False  # keys that are nobody's would weigh as much as the others
        own = [head_channels(values, i).size for i in (QUERY, KEY, VALUE)]  # of products that are divided
        row = max(channels[QUERY], channels[VALUE], own[QUERY] + own[VALUE]) / _SLOTS
        words = _lines(tokens[QUERY], row) + _lines(tokens[KEY], row) + _lines(tokens[QUERY], made / _SLOTS)
        words += _lines(max(channels[KEY], own[KEY]), key.rows) + _lines(NPU_NUM, made)
        words += sum(_lines(tokens[QUERY], mask.shape[2]) for mask in one.masks)
        words += _room(tokens[QUERY] // one.batches, tokens[KEY] // one.batches, size, value_size)
        return words * _WORD <= LOCAL_BYTES


def _lines(rows: int, words: float) -> int:
    """Words of a lane that so many rows take."""
    line = ALIGN_BYTES // _WORD
    return -(-rows // NPU_NUM) * math.ceil(words / line) * line


def _room(queries: int, keys: int, size: int, value: int) -> int:
    """Words of a lane that the kernel takes beside its tiles (bm_attend_room_of)."""
    slots = min(-(-queries // NPU_NUM), max(1, _AT_A_TIME // _lines(1, keys)))
    widest, begun = max(keys, value), NPU_NUM + size
    parts = (widest, keys, keys, value, *[widest / _SLOTS] * 2, keys / _SLOTS, begun / _SLOTS)
    return slots * sum(_lines(1, words) for words in parts)


def _in_strips(mask: Array, rows: int, key_rows: int) -> Array:
    """[1, queries, 1 or heads * keys] in the order of strips, of [1 or heads, queries, keys]."""
    heads, queries, keys = mask.shape
    whole = np.zeros((heads, _SLOTS * rows, _SLOTS * key_rows), mask.dtype)
    whole[:, :queries, :keys] = mask
    there = whole[:, _order(rows)][:, :, _order(key_rows)]
    made: Array = np.ascontiguousarray(there.swapaxes(0, 1)).reshape(1, _SLOTS * rows, -1)
    return made


def _order(rows: int) -> Array:
    """Which token comes where."""
    order: Array = np.arange(_SLOTS * rows).reshape(_SLOTS, rows).T.reshape(-1)
    return order


class _Writing(Rewritten[G]):
    """The graph with attention in bytes."""

    def __init__(self, graph: G, looking: _Looking, found: Sequence[_Found]) -> None:
        super().__init__(graph)
        self.looking = looking
        self.found = {one.node.name: one for one in found}
        self.gone = {name for one in found for name in one.result.passed}
        self.pixels: dict[str, str] = {}  # by the tokens that are turned
        self.turned: dict[str, str] = {}  # by what is turned, byte by byte

    def node(self, node: LayerNode) -> None:
        if node.name in self.found:
            self._attend(self.found[node.name])
        elif node.name not in self.gone:
            self.keep(node)

    def _attend(self, one: _Found) -> None:
        values = one.values
        first, step = list(values["from"]), list(values["step"])
        product = self._product(one)
        if product is None:
            pixels = [self._pixels(operand) for operand in one.operands]
        else:
            pixels = self._divided(one, product)
            size = [head_size(values, i) for i in (QUERY, KEY, VALUE)]
            first, step = [0, 0, head_count(values, QUERY) * size[QUERY]], size
        inputs = [pixels[i] if i == KEY else self._in_bytes(pixels[i]) for i in (QUERY, KEY, VALUE)]
        for name, mask in zip(one.node.inputs[3:], one.masks, strict=True):
            inputs.append(self.made.add_const(self.tensor(f"{name}:rows"), mask))
        result, title = one.result, one.node.name
        if result.factors is not None:
            factors = np.tile(result.factors.astype(np.float32), (1, NPU_NUM, 1))  # in each lane
            inputs.append(self.made.add_const(self.tensor(f"{result.made}:factors"), factors))
        own = {name: values[name] for name in _SHARED}
        own |= {
            "batches": one.batches,
            "from": first,
            "step": step,
            "nobody": one.nobody,
            "unit": values["unit"],
        }
        own |= {"masked": len(one.masks), "evened": int(result.factors is not None)}
        own |= {"dtype": int(result.dtype), "result_scale": result.scale}
        made = self.tensor(f"{one.node.outputs[0]}:rows")
        self.made.add_tpu_layer("TPU_ATTENTION_INT8", inputs, own, [made], name=title)
        pixel = result.turned or self.tensor(f"{result.made}:pixels")
        self.add("TPU_TURN_BYTES", made, {}, pixel, f"{title}:back")
        if not result.turned:
            self.turn(pixel, result.made, f"{title}:rows")

    def _product(self, one: _Found) -> LayerNode | None:
        """What makes queries, keys and values and nothing else, and can be divided."""
        pixels, *others = {operand.pixels for operand in one.operands}
        node = self.looking.made_by(pixels, "TPU_CONV_INT8")
        if others or node is None or self.values(node)["groups"] != 1:
            return None
        way = {*one.operands[QUERY].way}
        read = {pixels} | {name for each in self.looking.nodes if each.name in way for name in each.outputs}
        readers = {reader.name for name in read for reader in self.looking.readers[name]}
        return node if readers <= way | {one.node.name} and not read & {*self.old.outputs} else None

    def _divided(self, one: _Found, node: LayerNode) -> list[str]:
        """Two products: of queries and values, which are turned while the other one makes keys."""
        made = node.outputs[0]
        columns = [head_channels(one.values, i).reshape(-1) for i in (QUERY, KEY, VALUE)]
        others, keys = self.tensor(f"{made}:others"), self.tensor(f"{made}:keys")
        self.part(node, 0, [*columns[QUERY], *columns[VALUE]], others, self.title(f"{node.name}:others"))
        self._in_bytes(others)
        self.part(node, 0, [*columns[KEY]], keys, self.title(f"{node.name}:keys"))
        return [others, keys, others]

    def _pixels(self, operand: _Tokens) -> str:
        """An operand with its tokens last."""
        if operand.pixels:
            return operand.pixels
        source = operand.bytes or operand.whole
        if source not in self.pixels:
            small = source
            if not operand.bytes:
                small = self.tensor(f"{source}:bytes")
                self.add("TPU_QUANTIZE", source, {"dtype": int(DType.INT8), "scale": 1.0}, small, small)
            stem = f"{source}:pixels"
            self.pixels[source] = self.turn(small, self.tensor(stem), stem)
        return self.pixels[source]

    def _in_bytes(self, pixels: str) -> str:
        if pixels not in self.turned:
            stem = f"{pixels}:tokens"
            self.turned[pixels] = self.add("TPU_TURN_BYTES", pixels, {}, self.tensor(stem), stem)
        return self.turned[pixels]
