"""examples/yolov3 with PyTorch: the network from its list of layers, its loss, a few steps of training."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

torch: Any = pytest.importorskip("torch", reason="needs torch: pip install torch==2.13.0")

from tests.paths import ROOT  # noqa: E402
from user_layers.caffe.read import read_caffe  # noqa: E402
from user_layers.caffe.spellings import CAFFE  # noqa: E402
from user_layers.caffe.weights import read_caffemodel  # noqa: E402
from user_layers.spelling.spell import spell  # noqa: E402

MODULES = ("network", "scenes", "targets", "loss", "in_torch", "weights", "make_model", "train")
SIZE, WIDTH = 64, Fraction(1, 32)


@pytest.fixture(scope="module")
def yolo() -> Iterator[SimpleNamespace]:
    """The modules of the example, which import each other as programs beside each other do."""
    sys.path.insert(0, str(ROOT / "examples" / "yolov3"))
    try:
        yield SimpleNamespace(**{name: __import__(name) for name in MODULES})
    finally:
        sys.path.remove(str(ROOT / "examples" / "yolov3"))
        for name in MODULES:
            sys.modules.pop(name, None)


def _loss(yolo: SimpleNamespace, heads: list[Any], boxes: Any, classes: list[int], anchors: Any) -> float:
    picture = np.zeros((3, SIZE, SIZE), np.float32)
    scene = yolo.scenes.Scene(picture, np.array(boxes, np.float32), np.array(classes))
    wanted = yolo.targets.targets([scene], anchors, SIZE)
    return float(yolo.loss.loss(heads, wanted, [torch.from_numpy(scene.boxes)], anchors))


def test_loss(yolo: SimpleNamespace) -> None:
    """The right answer costs nearly nothing; each mistake costs more, but not a second box nearby."""
    anchors = yolo.train.settings(WIDTH, SIZE).anchors
    side = anchors[8]  # the middle head's second anchor
    box = [24 - side / 2, 40 - side / 2, 24 + side / 2, 40 + side / 2]
    anchors = tuple(a if a == side else a / 100 for a in anchors)  # the only anchor of a similar shape
    heads = [torch.zeros(1, 3, 10, SIZE // s, SIZE // s) for s in (32, 16, 8)]
    for head in heads:
        head[:, :, 4:] = -20  # nothing anywhere
    right = heads[1][0, 1, :, 2, 1]  # of the cell with the middle: the centre of the cell, the anchor's size
    right[4] = right[5 + 3] = 20
    whole = [h.flatten(1, 2) for h in heads]
    assert _loss(yolo, whole, [box], [3], anchors) < 1e-3
    assert _loss(yolo, whole, [box], [2], anchors) > 10  # another class
    for channel, value in ((0, 3.0), (2, 0.5), (4, -3.0)):  # beside, larger, unsure
        kept, right[channel] = right[channel].item(), value
        assert _loss(yolo, whole, [box], [3], anchors) > 0.1, channel
        right[channel] = kept
    heads[1][0, 0, 4, 0, 0] = 5  # sure of something far away
    assert _loss(yolo, whole, [box], [3], anchors) > 3
    heads[1][0, 0, 4, 0, 0] = -20
    right[0] = math.log(15)  # 31 pixels from the left, where the next cell begins at 32
    box = [31 - side / 2, box[1], 31 + side / 2, box[3]]
    assert _loss(yolo, whole, [box], [3], anchors) < 1e-3
    beside = heads[1][0, 1, :, 2, 2]
    beside[0], beside[4] = -20, 5  # sure of the same object
    assert _loss(yolo, whole, [box], [3], anchors) < 1e-3
    beside[2] = 2  # and of a box that is too wide
    assert _loss(yolo, whole, [box], [3], anchors) > 3


def test_network_is_what_its_files_say(yolo: SimpleNamespace, tmp_path: Path) -> None:
    """A few steps of training lower the loss; the files, read and run elsewhere, give torch's heads."""
    settings = yolo.train.settings(WIDTH, SIZE)
    net = yolo.train.started(settings, 0)
    batch = [yolo.scenes.scene(n, SIZE) for n in range(2)]
    wanted = yolo.targets.targets(batch, settings.anchors, SIZE)
    truths = [torch.from_numpy(scene.boxes) for scene in batch]

    def loss() -> float:
        with torch.no_grad():
            return float(yolo.loss.loss(net(yolo.train.pictures(batch)), wanted, truths, settings.anchors))

    before = loss()
    yolo.train.train(net, settings, 0, lambda step: step / 12)
    assert loss() < before
    headless = yolo.network.yolov3(yolo.train.settings(WIDTH, SIZE, detect=False))
    yolo.make_model.write_model(tmp_path, headless, net.blobs())
    spelled = spell(read_caffe(tmp_path / "yolov3.prototxt"), CAFFE)
    session = onnxruntime.InferenceSession(spelled.proto.SerializeToString())
    x = yolo.train.pictures(batch[:1])
    with torch.no_grad():
        expected = net(x)
    found = session.run(None, {"data": x.numpy()})
    again = yolo.train.started(settings, 1)
    again.load(read_caffemodel(tmp_path / "yolov3.caffemodel"))
    with torch.no_grad():
        assert all(torch.equal(*both) for both in zip(expected, again.eval()(x), strict=True))
    for theirs, ours in zip(expected, found, strict=True):
        assert np.abs(theirs.numpy() - ours).max() <= 1e-4 * max(1, np.abs(ours).max())
