"""Which tensors live in the memory of another one: reshapes, pieces, layers that work in place in DDR, and
concatenations, which are elided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from user_layers.compiler.attributes import DescribedNet, LayerAttributes
from user_layers.compiler.pieces import piece_offsets
from user_layers.net.net import Net


@dataclass(frozen=True)
class Aliases:
    """parent: output of a layer -> the input whose memory it shares; part: input of a layer -> the output in
    whose memory it lies, and at which byte, or the output of one -> the same of its input; elided: nodes that
    need not run."""

    parent: dict[str, str] = field(default_factory=dict)
    elided: frozenset[int] = frozenset()
    part: dict[str, tuple[str, int]] = field(default_factory=dict)

    def place(self, name: str) -> tuple[str, int]:
        """The tensor that owns the memory, and the byte of it at which this one begins."""
        offset = 0
        while True:
            if name in self.parent:
                name = self.parent[name]
            elif name in self.part:
                name, first = self.part[name]
                offset += first
            else:
                return name, offset

    def root(self, name: str) -> str:
        """The tensor that owns the memory in which this one lies; itself, when it shares none."""
        return self.place(name)[0]

    def classes(self, net: Net) -> dict[str, list[str]]:
        """All tensors of the net by the owner of their memory, in the order of their making."""
        found: dict[str, list[str]] = {}
        for name in net.tensors:
            found.setdefault(self.root(name), []).append(name)
        return found


def find_aliases(described: DescribedNet, dynamic: bool, nodes: Iterable[int] | None = None) -> Aliases:
    """DescribedNet -> Aliases. nodes: only outputs of these are considered (None: all).

    just_reshape: the bytes stay as they are and nothing runs, unless both ends must exist apart (two of
    net input, constant and net output in one memory). is_share_mem_layer: the layer runs and writes over
    its input, if nothing else reads that memory afterwards. is_concat_layer: nothing runs if all inputs
    can be made where they lie in the output. Slices and splits whose pieces follow one another in the input
    are not run either (pieces.py). Where sharing is impossible the layer runs like any other. A
    dynamic net's outputs have memory of their own, from the runtime, and it elides neither concatenations nor
    slices, for sizes vary.
    Errors: CompileError when the sizes do not allow what the descriptor promises.
    """
    net = described.net
    result = Aliases()
    elided = set()
    inside = range(len(described.attrs)) if nodes is None else sorted(nodes)
    for i in inside:
        attrs = described.attrs[i]
        if attrs.is_concat_layer and not dynamic and _elide_concat(net, result, attrs, inside):
            elided.add(i)
        if not dynamic and _elide_pieces(described, result, i):
            elided.add(i)
        if not (attrs.just_reshape or attrs.share_mem):
            continue
        _check_sizes(net, attrs)
        source, target = attrs.node.inputs[0], attrs.node.outputs[0]
        if dynamic and target in net.outputs:
            continue
        if _fixed_places(net, result, source) + (target in net.outputs) > 1:
            continue
        if not attrs.just_reshape and not _may_overwrite(net, result, source, i):
            continue
        result.parent[target] = source
        if attrs.just_reshape:
            elided.add(i)
    return Aliases(result.parent, frozenset(elided), result.part)


def _elide_pieces(described: DescribedNet, result: Aliases, k: int) -> bool:
    """Leave all outputs of a node where they lie in its input, if none has a place of its own in the net."""
    net, node = described.net, described.net.nodes[k]
    offsets = piece_offsets(described, k)
    if offsets is None or any(name in net.outputs for name in node.outputs):
        return False
    if net.tensors[result.root(node.inputs[0])].data is not None:
        return False
    result.part.update(
        (name, (node.inputs[0], offset)) for name, offset in zip(node.outputs, offsets, strict=True)
    )
    return True


def _elide_concat(net: Net, result: Aliases, attrs: LayerAttributes, inside: Sequence[int]) -> bool:
    """Put the inputs of a node into its output's memory, if all of them are made by nodes of `inside`, own
    their memory, each another one, and have no place of their own in the net."""
    target, end = attrs.node.outputs[0], 0
    parts: dict[str, tuple[str, int]] = {}
    for name in attrs.node.inputs:
        owner = result.root(name)
        size = net.tensors[name].nbytes
        if owner in parts or net.tensors[owner].nbytes != size:  # or it is a piece of its owner
            return False
        members = _members(net, result, owner)
        if _fixed_places(net, result, owner) or any(net.producer[m] not in inside for m in members):
            return False
        parts[owner] = (target, end)
        end += size
    if end != net.tensors[target].nbytes:
        raise attrs.nonsense(
            "is_concat_layer()",
            f"true, but its inputs have {end} bytes and its output {net.tensors[target].nbytes}",
            "false where the output is something else",
        )
    result.part.update(parts)
    return True


def _members(net: Net, aliases: Aliases, name: str) -> list[str]:
    root = aliases.root(name)
    return [other for other in net.tensors if aliases.root(other) == root]


def _fixed_places(net: Net, aliases: Aliases, name: str) -> int:
    """How many tensors in this memory have a place of their own in the net."""
    return sum(
        m in net.inputs or m in net.outputs or net.tensors[m].data is not None
        for m in _members(net, aliases, name)
    )


def _may_overwrite(net: Net, aliases: Aliases, name: str, node: int) -> bool:
    return _fixed_places(net, aliases, name) == 0 and all(
        reader <= node for m in _members(net, aliases, name) for reader in net.consumers[m]
    )


def _check_sizes(net: Net, attrs: LayerAttributes) -> None:
    node = attrs.node
    if len(node.outputs) != 1:
        method = "just_reshape" if attrs.just_reshape else "is_share_mem_layer"
        raise attrs.nonsense(
            f"{method}()", f"true for a layer with {len(node.outputs)} outputs", "one output"
        )
    source, target = net.tensors[node.inputs[0]], net.tensors[node.outputs[0]]
    if attrs.just_reshape and source.nbytes != target.nbytes:
        raise attrs.nonsense(
            "just_reshape()",
            f"true, but {list(source.shape)} {source.dtype.numpy_name} has {source.nbytes} bytes and "
            f"{list(target.shape)} {target.dtype.numpy_name} has {target.nbytes}",
            "false where the sizes differ",
        )
    if attrs.share_mem and target.nbytes > source.nbytes:
        raise attrs.nonsense(
            "is_share_mem_layer()",
            f"true, but the output's {target.nbytes} bytes do not fit into the input's {source.nbytes}",
            "false where the output is larger",
        )
