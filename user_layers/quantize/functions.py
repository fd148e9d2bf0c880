"""What a function of one element makes of given numbers: the layer itself is asked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from user_layers.compiler.pipeline import compile_graph
from user_layers.graph import GraphBuilder
from user_layers.net.nodes import LayerNode
from user_layers.runtime.references import run_net
from user_layers.toolkit import Toolkit


def of_all(toolkit: Toolkit, node: LayerNode, numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The results of a layer with one input for each of these numbers."""
    graph = GraphBuilder(name="function", toolkit=toolkit)
    graph.add_input("x", numbers.shape)
    graph.add_tpu_layer(node.op.op, ["x"], node.param, ["y"])
    (made,) = run_net(compile_graph(graph, opt=0), toolkit, {"x": numbers})
    return made.astype(np.float32, copy=False)
