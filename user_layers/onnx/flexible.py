"""Which extents of its inputs a dynamic net must be given as it was compiled.

Converters write what follows from shapes into parameters and constants: pads that keep the size, positions
to gather, shapes that are expanded to. The graph of the same model with smaller inputs shows whether one did:
then it is another graph, and the compiled one would compute something else for such inputs. Of a net in
integers that graph is in integers too, of the same table, and 8 bits or not as there, whatever is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from firmware_sim.chip import MAX_SHAPE_DIMS
from firmware_sim.errors import CompileError, DeviceError, ModelError, UsageError
from user_layers.graph import GraphBuilder
from user_layers.net.compiled import CompiledNet
from user_layers.onnx.build import Built, build
from user_layers.onnx.custom import MapFunction
from user_layers.onnx.model import Model

Shapes = Mapping[str, tuple[int, ...]]
_NO_MODEL = (CompileError, DeviceError, ModelError, UsageError)


# How much smaller an extent becomes. Not as large as another one: layers are told of equal extents otherwise.
_Change = Callable[[int, Collection[int]], int]  # (extent, all extents of the inputs) -> extent


def _less(extent: int, others: Collection[int]) -> int:
    """Most that follows from an extent shows with one less."""
    return _unlike(range(extent - 1, 1, -1), others, max(1, extent - 1))


def _half(extent: int, others: Collection[int]) -> int:
    """A quotient of an odd one by two does not."""
    half = extent - extent // 2
    return _unlike(range(half, extent), others, half)


def _few(extent: int, others: Collection[int]) -> int:
    """What depends on it in coarser steps. With one, many layers become others that compute the same."""
    return _unlike(range(2, extent), others, min(extent, 2))


def _unlike(extents: range, others: Collection[int], otherwise: int) -> int:
    return next((extent for extent in extents if extent not in others), otherwise)


@dataclass(frozen=True)
class _Difference:
    """The first layer that another graph has otherwise. on_host: of that, more runs on the host. form: it is
    made of other layers."""

    layer: str
    on_host: bool
    form: bool


_NOTHING_LEARNT = _Difference("", on_host=True, form=True)


@dataclass(frozen=True)
class Fixed:
    """The first layer that depends on the first extent of the inputs, on the second, and on the third and
    later ones; None where no layer does."""

    n: str | None
    c: str | None
    h_w: str | None


def fixed_extents(
    graph: GraphBuilder, shapes: Shapes, smaller: Callable[[Shapes], GraphBuilder], layers: int
) -> Fixed:
    """shapes: of the inputs that the graph was made for; smaller: makes the graph for others; layers: how
    many of the graph's count, from the first.

    Inputs with which there is no model tell nothing: the layers refuse them when the net runs. Where inputs
    cannot become smaller in one axis alone (a mask has in its third what tokens have in their second), all
    their extents that are equal to these do; where some cannot become smaller like the others (initial states
    of both directions), those that can are tried apart. Much smaller batches and sequences may be computed by
    other layers because these are faster then: that tells nothing either.
    """
    known: dict[tuple[tuple[int, ...], ...], _Difference | None] = {tuple(shapes.values()): None}
    extents = {extent for shape in shapes.values() for extent in shape}

    def tried(small: Shapes) -> _Difference | None:
        """What is different with these inputs."""
        key = tuple(small.values())
        if key not in known:
            try:
                known[key] = _first_difference(graph, smaller(small), layers)
            except _NO_MODEL:
                known[key] = _NOTHING_LEARNT
        return known[key]

    def probe(axes: range, change: _Change, form: bool) -> str | None:
        """form: whether other layers tell something."""

        def layer(one: _Difference | None) -> str | None:
            told = one is not None and not one.on_host and (form or not one.form)
            return one.layer if one is not None and told else None

        changed = {
            name: tuple(change(extent, extents) if i in axes else extent for i, extent in enumerate(shape))
            for name, shape in shapes.items()
        }
        found = tried(changed)
        if found is None or not found.on_host:
            return layer(found)
        tries = []
        if len(shapes) > 1:
            equal = {extent for shape in shapes.values() for i, extent in enumerate(shape) if i in axes}
            tries.append(
                {n: tuple(change(e, extents) if e in equal else e for e in s) for n, s in shapes.items()}
            )
        alone = {name: {**shapes, name: shape} for name, shape in changed.items()}
        tries += alone.values()
        tries.append({n: s if tried(alone[n]) is None else shapes[n] for n, s in changed.items()})
        return next(filter(None, (layer(tried(each)) for each in tries)), None)

    def depends(axes: range) -> str | None:
        return probe(axes, _less, True) or probe(axes, _half, False) or probe(axes, _few, False)

    rest = range(2, MAX_SHAPE_DIMS)
    # Not so few rows and columns: windows do not fit then.
    return Fixed(
        depends(range(1)), depends(range(1, 2)), probe(rest, _less, True) or probe(rest, _half, True)
    )


def fixed_extents_of(
    built: Built,
    model: Model,
    read: Callable[[Shapes], Model],
    custom: Mapping[str, str | MapFunction] | None = None,
    cpu: bool = True,
) -> Fixed:
    """The same for what `build` made of a model; read: the model for other shapes of its inputs. Layers that
    were added to the graph since do not count."""
    shapes = {value.name: value.fixed for value in model.inputs if value.fixed is not None}
    graph = built.graph

    def smaller(given: Shapes) -> GraphBuilder:
        return build(
            read(given),
            graph.name,
            custom=custom,
            toolkit=graph.toolkit,
            cpu=cpu,
            int8=built.int8,
            integers=built.quantised is not None,
        ).graph

    return fixed_extents(graph, shapes, smaller, built.layers)


def restricted(net: CompiledNet, fixed: Fixed) -> CompiledNet:
    """The net with stages that refuse inputs of other fixed extents."""
    stages = tuple(
        replace(
            stage,
            n_dynamic=stage.n_dynamic and fixed.n is None,
            c_dynamic=stage.c_dynamic and fixed.c is None,
            h_w_dynamic=stage.h_w_dynamic and fixed.h_w is None,
        )
        for stage in net.stages
    )
    return replace(net, stages=stages)


def _first_difference(a: GraphBuilder, b: GraphBuilder, layers: int) -> _Difference | None:
    """The first of so many layers of `a` that has other parameters, operands, or another model for the host
    in `b`."""
    on_host = sum(node.cpu is not None for node in b.nodes) > sum(node.cpu is not None for node in a.nodes)
    form = [node.op for node in a.nodes[:layers]] != [node.op for node in b.nodes]
    for i, node in enumerate(a.nodes[:layers]):
        if i >= len(b.nodes):
            return _Difference(node.name, on_host, form)
        other = b.nodes[i]
        constants = [
            [graph.tensors[name].data if name in graph.tensors else name for name in of.inputs]
            for graph, of in ((a, node), (b, other))
        ]
        models = [None if of.cpu is None else of.cpu.model for of in (node, other)]
        if (
            (node.op, node.param, node.outputs) != (other.op, other.param, other.outputs)
            or constants[0] != constants[1]
            or models[0] != models[1]
        ):
            return _Difference(node.name, on_host, form)
    return _Difference(a.nodes[layers - 1].name, on_host, form) if len(b.nodes) > layers else None
