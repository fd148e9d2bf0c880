"""Runs nets of a bmodel on the vendor's runtime, with its Python 3.10.

    runtime_child.py BMODEL IN.npz OUT.npz

Arrays are named NET|NUMBER and have the types of the file.
"""

import importlib
import os
import sys

import numpy as np

importlib.import_module("tpu_mlir")  # sets the library path, which only a new process reads
ROOT = os.environ["TPUC_ROOT"]
if "TPULAYER_RUNTIME_CHILD" not in os.environ:
    os.environ["TPULAYER_RUNTIME_CHILD"] = "1"
    link = os.path.join(ROOT, "lib", "libcmodel.so")  # the runtime loads the model of the chip by this name
    part = f"{link}.{os.getpid()}"
    os.symlink("libcmodel_bm1684.so", part)
    os.replace(part, link)
    os.execv(sys.executable, [sys.executable, *sys.argv])

sys.path.insert(0, os.path.join(ROOT, "python"))
runtime = importlib.import_module("pyruntime_bm")

bmodel, given, made = sys.argv[1:]
arrays = dict(np.load(given))
model = runtime.Model(bmodel, 0, "")
results = {}
for name in dict.fromkeys(key.rpartition("|")[0] for key in arrays):
    net = model.Net(name)
    shapes = []
    for i, tensor in enumerate(net.inputs):
        array = arrays[f"{name}|{i}"]
        assert tensor.data.dtype == array.dtype, (tensor.name, tensor.data.dtype, array.dtype)
        tensor.data.reshape(-1)[: array.size] = array.reshape(-1)
        shapes.append(list(array.shape))
    for i, (tensor, shape) in enumerate(zip(net.outputs, net.forward_dynamic(shapes), strict=True)):
        results[f"{name}|{i}"] = tensor.data.reshape(-1)[: int(np.prod(shape))].reshape(shape).copy()
np.savez(made, **results)
