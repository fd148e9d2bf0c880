"""Nets in the styles of published prototxts, small: read whole, and run as OpenCV runs them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from tests.support.opencv import opencv_outputs
from user_layers.caffe.blobs import wanted_blobs
from user_layers.caffe.prototxt import read_net
from user_layers.caffe.read import read_caffe
from user_layers.caffe.spellings import CAFFE
from user_layers.caffe.text import TextFile
from user_layers.caffe.weights import write_caffemodel
from user_layers.spelling.foreign import Array, ForeignModel, Tensor
from user_layers.spelling.infer import inferred
from user_layers.spelling.spell import spell

onnxruntime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

LENET = """
name: "LeNet"
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 2 dim: 1 dim: 28 dim: 28 } } }
layer {
  name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 6 kernel_size: 5 stride: 1
    weight_filler { type: "xavier" } bias_filler { type: "constant" } }
}
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" inner_product_param { num_output: 20 } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "ip2" top: "prob" }
"""
ALEXNET = """
name: "AlexNet"
input: "data"
input_dim: 1
input_dim: 3
input_dim: 63
input_dim: 63
layers { name: "conv1" type: CONVOLUTION bottom: "data" top: "conv1" blobs_lr: 1 blobs_lr: 2
  weight_decay: 1 weight_decay: 0 convolution_param { num_output: 8 kernel_size: 11 stride: 4 } }
layers { name: "relu1" type: RELU bottom: "conv1" top: "conv1" }
layers { name: "norm1" type: LRN bottom: "conv1" top: "norm1"
  lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 } }
layers { name: "pool1" type: POOLING bottom: "norm1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layers { name: "conv2" type: CONVOLUTION bottom: "pool1" top: "conv2"
  convolution_param { num_output: 8 pad: 2 kernel_size: 5 group: 2 } }
layers { name: "relu2" type: RELU bottom: "conv2" top: "conv2" }
layers { name: "fc6" type: INNER_PRODUCT bottom: "conv2" top: "fc6" inner_product_param { num_output: 16 } }
layers { name: "relu6" type: RELU bottom: "fc6" top: "fc6" }
layers { name: "drop6" type: DROPOUT bottom: "fc6" top: "fc6" dropout_param { dropout_ratio: 0.5 } }
layers { name: "fc8" type: INNER_PRODUCT bottom: "fc6" top: "fc8" inner_product_param { num_output: 10 } }
layers { name: "prob" type: SOFTMAX bottom: "fc8" top: "prob" }
"""


def _inception(name: str, bottom: str, channels: int) -> str:
    def conv(what: str, below: str, kernel: int) -> str:
        pad = f"pad: {kernel // 2}" if kernel > 1 else ""
        return (
            f'layer {{ name: "{name}/{what}" type: "Convolution" bottom: "{below}" top: "{name}/{what}"\n'
            f"  convolution_param {{ num_output: {channels} {pad} kernel_size: {kernel}\n"
            f'    weight_filler {{ type: "xavier" std: 0.03 }} }} }}\n'
            f'layer {{ name: "{name}/relu_{what}" type: "ReLU" '
            f'bottom: "{name}/{what}" top: "{name}/{what}" }}\n'
        )

    parts = ["1x1", "3x3", "5x5", "pool_proj"]
    bottoms = " ".join(f'bottom: "{name}/{part}"' for part in parts)
    return (
        conv("1x1", bottom, 1)
        + conv("3x3_reduce", bottom, 1)
        + conv("3x3", f"{name}/3x3_reduce", 3)
        + conv("5x5_reduce", bottom, 1)
        + conv("5x5", f"{name}/5x5_reduce", 5)
        + f'layer {{ name: "{name}/pool" type: "Pooling" bottom: "{bottom}" top: "{name}/pool"\n'
        f"  pooling_param {{ pool: MAX kernel_size: 3 stride: 1 pad: 1 }} }}\n"
        + conv("pool_proj", f"{name}/pool", 1)
        + f'layer {{ name: "{name}/output" type: "Concat" {bottoms} top: "{name}/output" }}\n'
    )


GOOGLENET = (
    """
name: "GoogleNet"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 32 dim: 32 } } }
layer { name: "conv1/7x7_s2" type: "Convolution" bottom: "data" top: "conv1/7x7_s2"
  convolution_param { num_output: 8 pad: 3 kernel_size: 7 stride: 2 } }
layer { name: "pool1/3x3_s2" type: "Pooling" bottom: "conv1/7x7_s2" top: "pool1/3x3_s2"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "pool1/norm1" type: "LRN" bottom: "pool1/3x3_s2" top: "pool1/norm1"
  lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 } }
"""
    + _inception("inception_3a", "pool1/norm1", 4)
    + _inception("inception_3b", "inception_3a/output", 3)
    + """
layer { name: "pool5/8x8_s1" type: "Pooling" bottom: "inception_3b/output" top: "pool5"
  pooling_param { pool: AVE kernel_size: 8 stride: 1 } }
layer { name: "pool5/drop" type: "Dropout" bottom: "pool5" top: "pool5" dropout_param { dropout_ratio: 0.4 } }
layer { name: "loss3/classifier" type: "InnerProduct" bottom: "pool5" top: "loss3/classifier"
  inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "loss3/classifier" top: "prob" }
"""
)
SQUEEZENET = """
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 1 dim: 3 dim: 33 dim: 33 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 8 kernel_size: 3 stride: 2 weight_filler { type: "xavier" } } }
layer { name: "relu_conv1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
layer { name: "fire2/squeeze1x1" type: "Convolution" bottom: "pool1" top: "fire2/squeeze1x1"
  convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "fire2/relu_squeeze1x1" type: "ReLU" bottom: "fire2/squeeze1x1" top: "fire2/squeeze1x1" }
layer { name: "fire2/expand1x1" type: "Convolution" bottom: "fire2/squeeze1x1" top: "fire2/expand1x1"
  convolution_param { num_output: 6 kernel_size: 1 } }
layer { name: "fire2/expand3x3" type: "Convolution" bottom: "fire2/squeeze1x1" top: "fire2/expand3x3"
  convolution_param { num_output: 6 pad: 1 kernel_size: 3 } }
layer { name: "fire2/concat" type: "Concat" bottom: "fire2/expand1x1" bottom: "fire2/expand3x3"
  top: "fire2/concat" }
layer { name: "conv10" type: "Convolution" bottom: "fire2/concat" top: "conv10"
  convolution_param { num_output: 10 pad: 1 kernel_size: 1
    weight_filler { type: "gaussian" mean: 0.0 std: 0.01 } } }
layer { name: "pool10" type: "Pooling" bottom: "conv10" top: "pool10"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "prob" type: "Softmax" bottom: "pool10" top: "prob" }
"""


def _normalized(name: str, bottom: str, top: str, convolution: str, rectified: bool = True) -> str:
    relu = f'layer {{ bottom: "{top}" top: "{top}" name: "{name}_relu" type: "ReLU" }}\n' if rectified else ""
    return (
        f'layer {{ bottom: "{bottom}" top: "{top}" name: "{name}" type: "Convolution"\n'
        f"  convolution_param {{ {convolution} bias_term: false }} }}\n"
        f'layer {{ bottom: "{top}" top: "{top}" name: "bn_{name}" type: "BatchNorm"\n'
        f"  batch_norm_param {{ use_global_stats: true }} param {{ lr_mult: 0 }} }}\n"
        f'layer {{ bottom: "{top}" top: "{top}" name: "scale_{name}" type: "Scale"\n'
        f"  scale_param {{ bias_term: true }} }}\n{relu}"
    )


RESNET = (
    'name: "ResNet"\ninput: "data"\ninput_shape { dim: 1 dim: 3 dim: 32 dim: 32 }\n'
    + _normalized("conv1", "data", "conv1", "num_output: 8 kernel_size: 7 pad: 3 stride: 2")
    + 'layer { bottom: "conv1" top: "pool1" name: "pool1" type: "Pooling"\n'
    "  pooling_param { kernel_size: 3 stride: 2 pool: MAX } }\n"
    + _normalized("res2a_branch1", "pool1", "res2a_branch1", "num_output: 12 kernel_size: 1", False)
    + _normalized("res2a_branch2a", "pool1", "res2a_branch2a", "num_output: 4 kernel_size: 1")
    + _normalized("res2a_branch2b", "res2a_branch2a", "res2a_branch2b", "num_output: 4 kernel_size: 3 pad: 1")
    + _normalized(
        "res2a_branch2c", "res2a_branch2b", "res2a_branch2c", "num_output: 12 kernel_size: 1", False
    )
    + """
layer { bottom: "res2a_branch1" bottom: "res2a_branch2c" top: "res2a" name: "res2a" type: "Eltwise" }
layer { bottom: "res2a" top: "res2a" name: "res2a_relu" type: "ReLU" }
layer { bottom: "res2a" top: "pool5" name: "pool5" type: "Pooling"
  pooling_param { kernel_size: 8 stride: 1 pool: AVE } }
layer { bottom: "pool5" top: "fc" name: "fc" type: "InnerProduct" inner_product_param { num_output: 10 } }
layer { bottom: "fc" top: "prob" name: "prob" type: "Softmax" }
"""
)
MOBILENET = (
    """
name: "MOBILENET"
layer { name: "data" type: "Input" top: "data" input_param { shape: { dim: 1 dim: 3 dim: 32 dim: 32 } } }
"""
    + _normalized("conv1", "data", "conv1", "num_output: 8 pad: 1 kernel_size: 3 stride: 2")
    + _normalized(
        "conv2_1/dw", "conv1", "conv2_1/dw", "num_output: 8 pad: 1 kernel_size: 3 group: 8 engine: CAFFE"
    )
    + _normalized(
        "conv2_1/sep", "conv2_1/dw", "conv2_1/sep", "num_output: 16 pad: 0 kernel_size: 1 stride: 1"
    )
    + """
layer { name: "pool6" type: "Pooling" bottom: "conv2_1/sep" top: "pool6"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "fc7" type: "Convolution" bottom: "pool6" top: "fc7"
  param { lr_mult: 1.0 decay_mult: 1.0 } convolution_param { num_output: 10 kernel_size: 1 } }
layer { name: "prob" type: "Softmax" bottom: "fc7" top: "prob" }
"""
)
NETS = {
    "lenet": LENET,
    "alexnet_v1": ALEXNET,
    "googlenet": GOOGLENET,
    "squeezenet": SQUEEZENET,
    "resnet": RESNET,
    "mobilenet": MOBILENET,
}


def made(name: str, folder: Path) -> ForeignModel:
    """The net with seeded weights, as files in the folder, and as it is read."""
    path = folder / f"{name}.prototxt"
    path.write_text(NETS[name])
    write_caffemodel(path.with_suffix(".caffemodel"), name, weights(path))
    return read_caffe(path)


def weights(path: Path) -> list[tuple[str, str, list[Array]]]:
    """Numbers for all layers, of such sizes that results stay near 1; shapes follow from layer to layer."""
    rng = np.random.default_rng(5)
    net = read_net(TextFile(str(path), path.read_text()), {*CAFFE, "Input"}, {})
    shapes = dict(net.inputs)
    found = []
    for layer in net.layers:
        if layer.kind == "Input":
            shapes[layer.tops[0]] = tuple(layer.attributes["shape"][0]["dim"])
            continue
        bottoms = [shapes[bottom] for bottom in layer.bottoms]
        blobs = []
        for number, shape in enumerate(wanted_blobs(layer.kind, layer.attributes, bottoms) or []):
            array = rng.standard_normal(shape) / math.sqrt(math.prod(shape[1:]))
            if layer.kind == "BatchNorm":
                array = [array, np.abs(array) + 0.5, np.full(shape, 2.0)][number]
            blobs.append(array.astype(np.float32))
        if blobs:
            found.append((layer.name, layer.kind, blobs))
        shapes[layer.tops[0]] = _shape(layer.kind, layer.attributes, bottoms, blobs)
    return found


def _shape(
    kind: str, attributes: object, bottoms: list[tuple[int, ...]], blobs: list[Array]
) -> tuple[int, ...]:
    from user_layers.spelling.foreign import Operation

    dtype = np.dtype(np.float32)
    tensors = {f"b{i}": Tensor(shape, dtype) for i, shape in enumerate(bottoms)}
    tensors |= {f"w{i}": Tensor(blob.shape, dtype, blob) for i, blob in enumerate(blobs)}
    told = {**attributes, "blobs": len(blobs)}  # type: ignore[dict-item]
    operation = Operation(kind, "x", tuple(tensors), ("y",), told)
    return inferred("Caffe", operation, {**tensors, "y": Tensor((), dtype)}, CAFFE)["y"].shape


@pytest.mark.parametrize("name", sorted(NETS))
def test_a_net_is_read_and_is_as_opencv_has_it(name: str, tmp_path: Path) -> None:
    model = made(name, tmp_path)
    assert model.inputs == ("data",) and model.outputs == ("prob",)
    layers = len(re.findall(r"^layers? \{", NETS[name], re.MULTILINE)) - NETS[name].count('type: "Input"')
    assert len(model.operations) == layers
    x = np.random.default_rng(1).standard_normal(model.tensors["data"].shape).astype(np.float32)
    session = onnxruntime.InferenceSession(spell(model, CAFFE).proto.SerializeToString())
    (prob,) = session.run(None, {"data": x})
    assert prob.shape == model.tensors["prob"].shape and np.abs(prob.sum(1) - 1).max() < 1e-5
    assert prob.std() > 1e-3  # it depends on something
    files = tmp_path / f"{name}.prototxt", tmp_path / f"{name}.caffemodel"
    (want,) = opencv_outputs(*files, {"data": x}, ["prob"], tmp_path)
    assert np.abs(prob - want.reshape(prob.shape)).max() < 1e-4 * np.abs(want).max()
