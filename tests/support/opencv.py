"""Caffe's nets as OpenCV's module dnn runs them, in a process of its own.

OpenCV reads Caffe's files up to version 4. The environment's TPULAYER_OPENCV names a Python that has such a
one; without it, the Python that runs the tests is asked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support.detection_reference import Array

_SCRIPT = """
import sys
import cv2
import numpy as np

if int(cv2.__version__.split(".")[0]) > 4:
    sys.exit(f"OpenCV {cv2.__version__} reads no files of Caffe's; a version below 5 does")
if len(sys.argv) > 1:
    prototxt, weights, given, made, inputs, *names = sys.argv[1:]
    cv2.setNumThreads(1)
    net = cv2.dnn.readNetFromCaffe(prototxt, weights)
    for name, array in zip(inputs.split(","), np.load(given).values(), strict=True):
        net.setInput(array, name)
    np.savez(made, *net.forward(names))
"""


@cache
def _python() -> str:
    """Skips the test where there is no OpenCV that reads Caffe's files."""
    python = os.environ.get("TPULAYER_OPENCV", sys.executable)
    asked = subprocess.run([python, "-c", _SCRIPT], capture_output=True, text=True, timeout=60)
    if asked.returncode:
        said = asked.stderr.strip().splitlines()[-1]
        pytest.skip(f"{python}: {said}; TPULAYER_OPENCV may name a Python with OpenCV below 5")
    return python


def opencv_outputs(
    prototxt: Path, weights: Path, inputs: Mapping[str, Array], names: Sequence[str], folder: Path
) -> list[Array]:
    """The blobs of these names, for inputs by name. folder: for what the two processes tell each other."""
    python = _python()
    given, made = folder / "opencv_inputs.npz", folder / "opencv_outputs.npz"
    np.savez(given, *inputs.values())
    words = [str(prototxt), str(weights), str(given), str(made), ",".join(inputs), *names]
    subprocess.run([python, "-c", _SCRIPT, *words], check=True, timeout=300)
    with np.load(made) as arrays:
        return [arrays[name] for name in arrays.files]
