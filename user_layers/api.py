"""What programs hold: the graph that builds, compiles and runs a net."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from firmware_sim.device.findings import OnFindings, together
from firmware_sim.errors import UsageError
from user_layers.graph import GraphBuilder
from user_layers.net.nodes import caller
from user_layers.toolkit import Toolkit

if TYPE_CHECKING:
    import numpy as np
    import onnx
    from numpy.typing import ArrayLike, NDArray

    from user_layers.net.compiled import CompiledNet, Stage
    from user_layers.onnx.custom import MapFunction


class Graph(GraphBuilder):
    """A net: built layer by layer, compiled, and run on the emulated chip; a context manager that ends its
    child processes.

    Layers are added in the order in which they run: each may use inputs, constants and outputs of layers
    added before it. Tensors that no layer uses become outputs of the net, in the order of their making,
    unless `add_output` names others. Mistakes raise UsageError with the line that made them.

    toolkit: where the layers come from, by default the workspace around the current folder; closed with
    the graph.
    """

    def __init__(self, chip: str = "BM1684", name: str = "net", *, toolkit: Toolkit | None = None) -> None:
        super().__init__(chip, name, toolkit=toolkit)
        self._compiled: CompiledNet | None = None

    def _stages(self) -> tuple[Stage, ...]:
        return self._compiled.stages if self._compiled is not None else ()

    @staticmethod
    def from_onnx(
        model: str | Path | onnx.ModelProto,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        custom: Mapping[str, str | MapFunction] | None = None,
        name: str | None = None,
        toolkit: Toolkit | None = None,
        cpu: bool = True,
    ) -> Graph:
        """The graph of an ONNX model, a file or an onnx.ModelProto; its inputs and outputs keep their names.

        shapes: of inputs with free dimensions. custom: what nodes become, by their names or operations: a
        layer ("TPU_CROP"), "FILE.py:FUNCTION", or a function of a Graph and a MappedNode. cpu: what no layer
        computes runs on onnxruntime; otherwise it is a CompileError.
        Errors: ModelError, CompileError, UsageError; MissingError without the extra `onnx`.
        """
        from user_layers.onnx import graph_from_onnx

        made = graph_from_onnx(
            model, shapes=shapes, custom=custom, name=name, toolkit=toolkit, cpu=cpu, graph_type=Graph
        )
        return cast("Graph", made)

    @staticmethod
    def from_file(
        path: str | Path,
        *,
        weight: str | Path | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None,
        custom: Mapping[str, str | MapFunction] | None = None,
        name: str | None = None,
        toolkit: Toolkit | None = None,
        cpu: bool = True,
    ) -> Graph:
        """The graph of a model's file: ONNX's, .tflite, .pt2 (an exported PyTorch program), .ms or .mindir
        (MindSpore Lite), .prototxt (Caffe; see `from_caffe`). Arguments and errors are those of `from_onnx`;
        of other frameworks' models `custom` names nodes as OPERATION/OP, as the ONNX model has them that
        means the same."""
        from user_layers.formats import in_onnx
        from user_layers.onnx import graph_from_onnx

        proto, source = in_onnx(path, weight=weight, shapes=shapes, toolkit=toolkit)
        made = graph_from_onnx(
            proto,
            shapes=shapes,
            custom=custom,
            name=name,
            toolkit=toolkit,
            cpu=cpu,
            graph_type=Graph,
            source=source,
        )
        return cast("Graph", made)

    @staticmethod
    def from_caffe(
        prototxt: str | Path,
        caffemodel: str | Path | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        custom: Mapping[str, str | MapFunction] | None = None,
        name: str | None = None,
        toolkit: Toolkit | None = None,
        cpu: bool = True,
    ) -> Graph:
        """The graph of a net of Caffe's, as it is deployed (phase TEST); inputs and outputs have the names of
        its blobs.

        caffemodel: the weights, by default the file of the prototxt's name with the ending .caffemodel.
        shapes: of inputs, instead of those that the prototxt gives. custom, name, cpu: as of `from_onnx`.
        Layers of types that Caffe does not have are those of the workspace's folder caffe/.
        Errors: ModelError with line and column, CompileError, UsageError; MissingError without the extra
        `caffe`.
        """
        if Path(prototxt).suffix.lower() != ".prototxt":
            raise UsageError(
                f"{prototxt} is not a .prototxt", hint="from_caffe takes the .prototxt, then the .caffemodel"
            )
        return Graph.from_file(
            prototxt, weight=caffemodel, shapes=shapes, custom=custom, name=name, toolkit=toolkit, cpu=cpu
        )

    def compile(
        self,
        dynamic: bool = False,
        *,
        directory: str | Path | None = None,
        ref_inputs: Mapping[str, ArrayLike] | None = None,
        ref_outputs: Mapping[str, ArrayLike] | None = None,
        opt: int = 2,
        log: Callable[[str], None] | None = None,
        verbose: bool = False,
        report: bool = False,
        layers: bool = False,
    ) -> CompiledNet:
        """Compile the graph.

        dynamic: the firmware interprets the net and takes any input shapes up to the ones given here;
        otherwise command streams are recorded for exactly these shapes.
        directory: also write compilation.bmodel, input_ref_data.dat and output_ref_data.dat there.
        ref_inputs, ref_outputs: arrays by name for the two .dat files; inputs left out are seeded random
        numbers, outputs left out are what the compiled net gives on the emulator.
        opt: 0 runs every layer by itself in DDR, 1 keeps as many layers as fit together in local memory, 2
        chooses what is kept there by modelled cycles.
        log: called with each line (one per layer); verbose: the lines also go to stderr.
        report: measure what happens to every node (CompiledNet.report); also written to the directory, as
        report.txt, report.json and local_memory.svg (see docs/report.md).
        layers: also write a net for each layer, with its reference data, to the folder layers/ in the
        directory, for `tpulayer pack` (see docs/on-a-card.md).
        Errors: CompileError, UsageError; DeviceError when a layer's function fails; CheckError when all is
        compiled and written, and checks found something while reference data was made.
        """
        from user_layers.product import compile_net

        with together():
            self._compiled = compile_net(
                self,
                dynamic,
                directory=directory,
                ref_inputs=ref_inputs,
                ref_outputs=ref_outputs,
                opt=opt,
                log=log,
                verbose=verbose,
                report=report,
                layers=layers,
            )
        return self._compiled

    def run(
        self,
        inputs: Mapping[str, ArrayLike],
        *,
        check: str | None = None,
        on_findings: OnFindings | None = None,
    ) -> list[NDArray[np.generic]]:
        """Run what was compiled last on the emulator, with an array for each input by its name; outputs in
        the order of `outputs`.

        check: what is looked at while it runs, as of `Device`, by default what the toolkit's device does.
        on_findings: gets what checks find as a list, and CheckError is not raised.
        """
        if self._compiled is None:
            raise UsageError("the graph is not compiled", hint="call compile() before run()")
        if not isinstance(inputs, Mapping):
            wanted = ", ".join(f"{name!r}: array" for name in self.inputs)
            raise UsageError(
                f"{caller()}: run() takes arrays by the names of the inputs, given is "
                f"{'an array' if hasattr(inputs, 'shape') else type(inputs).__name__}",
                hint=f"run({{{wanted}}})",
            )
        from user_layers.runtime.references import run_net

        with together(check=check, on_findings=on_findings):
            return run_net(self._compiled, self.toolkit, inputs)
