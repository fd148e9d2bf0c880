"""Writes networks as ONNX files, by a Python with the packages of the extra `models`.

    python benchmarks/models/build.py NAME FILE

Weights are seeded, statistics and factors of normalisations random too, so that no layer is one that changes
nothing. Ends with code 3 and a line where a package is missing.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

OPSET = 17
MISSING = 3
SIDE = 224


def main() -> int:
    name, path = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")
    try:
        import torch

        from benchmarks.models.networks import BUILDERS

        torch.manual_seed(1684)
        torch.backends.mha.set_fastpath_enabled(False)  # one operation that ONNX does not have
        made = BUILDERS[name]()
    except ImportError as error:
        print(f"{name}: {error}; install the extra `models`", file=sys.stderr)
        return MISSING
    model, *inputs = made if isinstance(made, tuple) else (made, torch.randn(1, 3, SIDE, SIDE))
    model.eval()
    _randomize(model, torch)
    _export(model, tuple(inputs), path, torch)
    return 0


def _randomize(model: Any, torch: Any) -> None:
    """Statistics and factors of normalisations, and what begins as zero, whole heads in some networks, whose
    results would tell nothing; activations keep their size through the layers."""
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)
        for module in model.modules():
            if getattr(module, "running_mean", None) is not None:
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.7, 1.3)
            if "Norm" in type(module).__name__ and getattr(module, "weight", None) is not None:
                module.weight.uniform_(0.8, 1.2)
                if getattr(module, "bias", None) is not None:
                    module.bias.normal_(0, 0.1)


def _export(model: Any, inputs: tuple[Any, ...], path: Path, torch: Any) -> None:
    names = [f"in{i}" for i in range(len(inputs))]
    whole = path.with_suffix(".part")
    with torch.no_grad():
        torch.onnx.export(
            model, inputs, str(whole), opset_version=OPSET, dynamo=False, input_names=names, verbose=False
        )
    whole.replace(path)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(main())
