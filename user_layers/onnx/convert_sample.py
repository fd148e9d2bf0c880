"""GridSample: a picture at places that the net computes.

Nothing in a stream of commands chooses an address by data, so each place weighs all pixels: the weight of a
row times that of a column, of which all but two are 0 (linear), or all but one (nearest). The sums are matrix
products, in the static stream as any other, and no place, whatever it is, reads what is not the picture.
Positions are computed in float32 step by step as onnxruntime does, so that places fall to the same side.
"""

from __future__ import annotations

from user_layers.net.functions import unary_param
from user_layers.onnx.convert_composed import Steps
from user_layers.onnx.convert_movement import shape_param
from user_layers.onnx.lower import Lowering, Unsupported, converts
from user_layers.onnx.model import Node

_MODES = {"bilinear": "linear", "linear": "linear", "nearest": "nearest"}
_PADS = ("zeros", "border")
_WORDS = 1 << 25  # written and read between the layers, some 10 ms
_MACS = 1 << 33  # 15 ms at the chip's peak


@converts("GridSample")
def grid_sample(to: Lowering, node: Node) -> None:
    """Pictures [n, c, h, w] at places [n, y, x, 2]; p is y * x. Either the product of [n, c, h * w] with
    weights [n, h * w, p], or, with few channels, that of rows [n, c * h, w] with columns' weights [n, w, p],
    whose results are weighed by rows and summed."""
    to.need_float(*node.inputs)
    mode = str(node.attributes.get("mode", "linear"))
    pads = str(node.attributes.get("padding_mode", "zeros"))
    shape, made = to.shape(node.inputs[0]), to.shape(node.outputs[0])
    if len(shape) != 4:
        raise Unsupported("places in a volume")
    if mode not in _MODES or pads not in _PADS:
        raise Unsupported(f"the mode {mode!r} with padding {pads!r}")
    n, c, h, w = shape
    places = made[2] * made[3]
    by_rows = 2 * c < w
    words = n * places * h * (4 * c if by_rows else 2 * w)
    if words > _WORDS or n * c * h * w * places > _MACS:
        raise Unsupported(f"{n * places} places in a picture of {h}x{w}: each weighs all of its pixels")
    do, x = Steps(to, node), to.tensor(node.inputs[0])
    sizes = {"axis": 2, "sizes": [1, 1, *[0] * 14]}
    apart = [to.fresh(f"{node.outputs[0]}:{axis}") for axis in "xy"]
    to.graph.add_tpu_layer("TPU_SPLIT", [do.shaped(to.tensor(node.inputs[1]), (0, -1, 2))], sizes, apart)
    columns, rows = (
        _weights(do, do.shaped(of, (0, 1, -1)), extent, mode, pads)
        for of, extent in zip(apart, (w, h), strict=True)
    )
    plain = {"trans_a": 0, "trans_b": 0, "alpha": 1.0}
    if by_rows:
        lines = to.between("TPU_MATMUL", node, [do.shaped(x, (0, -1, w)), columns], plain)
        weighed = do.two("MUL", do.shaped(lines, (0, -1, h, -4)), do.shaped(rows, (0, 1, h, -4)))
        found = do.reduced("Sum", weighed, [2], keep=0)
    else:
        both = do.two("MUL", do.shaped(rows, (0, h, 1, -4)), do.shaped(columns, (0, 1, w, -4)))
        found = to.between(
            "TPU_MATMUL", node, [do.shaped(x, (0, 0, -1)), do.shaped(both, (0, -1, -5))], plain
        )
    to.simple("TPU_RESHAPE", node, [found], shape_param((0, 0, -1, made[3])))


def _weights(do: Steps, places: str, extent: int, mode: str, pads: str) -> str:
    """Of so many pixels along one axis, at places [n, 1, p]: [n, extent, p]."""
    if do.node.attributes.get("align_corners", 0):
        at = do.by("MUL", do.by("MUL", do.by("ADD", places, 1.0), 0.5), float(extent - 1))
    else:
        at = do.by("MUL", do.by("SUB", do.by("MUL", do.by("ADD", places, 1.0), float(extent)), 1.0), 0.5)
    if _MODES[mode] == "nearest":
        at = do.one("ROUND", at)
    if pads == "border":
        limits = unary_param("CLIP", 0.0, float(extent - 1))
        at = do.to.between("TPU_UNARY", do.node, [at], limits)
    pixels = do.numbers(range(extent), (extent, 1), "pixels")
    if _MODES[mode] == "nearest":
        return do.two("EQUAL", at, pixels)
    return do.one("RELU", do.by("SUB", do.one("ABS", do.two("SUB", at, pixels)), 1.0, inversed=1))
