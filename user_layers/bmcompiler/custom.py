"""add_tpu_layer: layers of the workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from firmware_sim.errors import UsageError
from user_layers.bmcompiler.calls import Bytes, Ints, Shapes, Texts, vendor
from user_layers.bmcompiler.session import BMCompiler


@vendor
def add_tpu_layer(
    p_bmcpl: BMCompiler,
    input_num: int,
    input_names: Annotated[Sequence[str], Texts("input_num")],
    input_shapes: Annotated[Sequence[Sequence[int]], Shapes("input_num", "input_dims")],
    input_dims: Annotated[Sequence[int], Ints("input_num")],
    input_dtypes: Annotated[Sequence[int], Ints("input_num")],
    output_num: int,
    output_names: Annotated[Sequence[str], Texts("output_num")],
    output_shapes: Annotated[Sequence[Sequence[int]] | None, Shapes("output_num", "output_dims", made=True)],
    output_dims: Annotated[Sequence[int] | None, Ints("output_num")],
    output_dtypes: Annotated[Sequence[int] | None, Ints("output_num")],
    op_type: int | str,
    layer_param: Annotated[Mapping[str, Any] | bytes | None, Bytes("param_size")],
    param_size: int,
) -> None:
    """A layer of the workspace: input_num tensors with input_dims[i] dimensions each, the same for outputs.

    output_shapes, output_dims and output_dtypes may each be NULL (None): the layer's shape function knows
    them. Those that are given are compared with what it says when the net is compiled. In C, shapes without
    output_dims have as many numbers as it says that there are dimensions.

    dtypes are codes of bmcompiler_defs.h: 0 fp32, ... layer_param: the bytes of the parameter struct in
    bmtpu.h, of which param_size are used. In Python op_type may be "TPU_CROP", and layer_param the
    struct's fields by name (param_size is its size then).
    """
    graph = p_bmcpl.graph
    info = p_bmcpl.toolkit.op(op_type, "op_type")
    if isinstance(layer_param, (bytes, bytearray, memoryview)):
        data = bytes(layer_param)
        if len(data) < param_size:
            raise UsageError(f"layer_param has {len(data)} bytes, param_size is {param_size}")
        layer_param = data[:param_size]
    elif param_size != info.param_size:
        raise UsageError(
            f"param_size is {param_size}, the parameter struct of {info.op} has {info.param_size} bytes"
        )
    ins = [
        p_bmcpl.use(name, shape, dtype)
        for name, shape, dtype in zip(input_names, input_shapes, input_dtypes, strict=True)
    ]
    graph.add_tpu_layer(info.op, ins, layer_param, output_names, output_shapes, output_dtypes)
    if output_dims is not None:
        graph.nodes[-1] = replace(graph.nodes[-1], dims=tuple(output_dims))
