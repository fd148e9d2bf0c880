"""Trains a narrow YOLOv3 on synthetic scenes, and writes it as Caffe's files.

    python examples/yolov3/train.py DIR       writes DIR/yolov3.prototxt and DIR/yolov3.caffemodel

The network is the published one at a fraction of its width, its scenes those of scenes.py. It needs torch;
a CPU is enough.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from in_torch import Network
from loss import loss
from make_model import write_model
from network import BOXES, Settings, yolov3
from scenes import CLASSES, FIRST_OF_TRAINING, LARGEST, SMALLEST, Scene, scene
from targets import targets
from torch import Tensor, nn

from user_layers.caffe.weights import read_caffemodel

BATCH = 8
OFTEN = 50  # batches between two messages
# Scenes are made once; turned, mirrored and with colours exchanged each is 48.
SCENES = 800
RATE = 5e-3  # of learning, at its highest
DECAY = 5e-4
# Of all boxes about one in a hundred has an object: what the heads say before they learned anything.
RARE = -4.6
# The detector leaves out lower scores. Average precision counts what is unsure too; draw.py leaves it out.
UNSURE = 0.05


def settings(width: Fraction, size: int, *, detect: bool = True) -> Settings:
    """The network for scenes: shapes are turned any way, so its nine anchors are squares."""
    sides = np.geomspace(SMALLEST * 0.8, LARGEST, 9) * size
    anchors = tuple(round(float(side), 1) for side in sides for _ in "wh")
    return Settings(
        width=width,
        size=size,
        classes=len(CLASSES),
        anchors=anchors,
        detect=detect,
        confidence_threshold=UNSURE,
    )


def batches(size: int, seed: int) -> Iterator[list[Scene]]:
    """BATCH scenes, for ever. The first time each is as it was made, so training starts at once."""
    random = np.random.default_rng(seed)
    pool: list[Scene] = []
    while len(pool) < SCENES:
        first = FIRST_OF_TRAINING + seed * SCENES + len(pool)
        pool += [scene(number, size) for number in range(first, first + BATCH)]
        yield pool[-BATCH:]
    while True:
        chosen = random.choice(len(pool), BATCH, replace=False)
        yield [_turned(pool[index], random) for index in chosen]


def _turned(scene: Scene, random: np.random.Generator) -> Scene:
    image, boxes = scene.image[random.permutation(3)], scene.boxes
    size = image.shape[1]
    if random.random() < 0.5:
        image = image[:, :, ::-1]
        boxes = np.stack([size - boxes[:, 2], boxes[:, 1], size - boxes[:, 0], boxes[:, 3]], 1)
    if random.random() < 0.5:
        image = image[:, ::-1]
        boxes = np.stack([boxes[:, 0], size - boxes[:, 3], boxes[:, 2], size - boxes[:, 1]], 1)
    if random.random() < 0.5:
        image, boxes = image.transpose(0, 2, 1), boxes[:, [1, 0, 3, 2]]
    return Scene(image, boxes, scene.classes)


def train(net: Network, chosen: Settings, seed: int, done: Callable[[int], float]) -> None:
    """Trains it, and says how it goes.

    done: from the number of batches so far, the part of the training that is over; it ends at 1. The rate of
    learning follows it: up for a tenth, then down to nothing.
    """
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    recent: list[float] = []
    net.train()
    for step, batch in enumerate(batches(chosen.size, seed)):
        part = done(step)
        if part >= 1:
            break
        optimizer.param_groups[0]["lr"] = RATE * _rate(part)
        value = loss(
            net(pictures(batch)),
            targets(batch, chosen.anchors, chosen.size),
            [torch.from_numpy(scene.boxes) for scene in batch],
            chosen.anchors,
        )
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        optimizer.step()
        recent.append(value.item())
        if len(recent) == OFTEN:
            print(f"{step + 1} batches, {100 * part:.0f} %: loss {sum(recent) / OFTEN:.2f}", flush=True)
            recent.clear()
    net.eval()


def _rate(part: float) -> float:
    rising = 0.1
    if part < rising:
        return 0.04 + 0.96 * part / rising
    return (1 + math.cos(math.pi * (part - rising) / (1 - rising))) / 2


def started(chosen: Settings, seed: int) -> Network:
    """The untrained network: variances kept through the layers, and heads that expect nothing."""
    torch.manual_seed(seed)
    net = Network(yolov3(chosen))
    for part in net.parts.values():
        if isinstance(part, nn.Conv2d) and part.bias is None:
            nn.init.kaiming_normal_(part.weight, a=0.1)
        elif isinstance(part, nn.Conv2d):
            nn.init.normal_(part.weight, std=0.01)
            nn.init.zeros_(part.bias)
            with torch.no_grad():
                part.bias.view(BOXES, -1)[:, 4] = RARE
    return net


def pictures(batch: Sequence[Scene]) -> Tensor:
    """Their pictures as a tensor [n, 3, size, size]."""
    return torch.from_numpy(np.stack([scene.image for scene in batch]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where yolov3.prototxt and yolov3.caffemodel go")
    parser.add_argument("--width", type=Fraction, default=Fraction(1, 12), help="part of the channels (1/12)")
    parser.add_argument("--size", type=int, default=160, help="of the pictures, a multiple of 32 (160)")
    parser.add_argument("--minutes", type=float, default=8, help="how long to train (8)")
    parser.add_argument("--seed", type=int, default=0, help="of the starting weights and the scenes (0)")
    parser.add_argument("--start", type=Path, help="a .caffemodel that this program wrote, to train further")
    parser.add_argument("--half", action="store_true", help="store the weights as float16")
    chosen = parser.parse_args(arguments)
    try:
        wanted = settings(chosen.width, chosen.size)
    except ValueError as error:
        parser.error(str(error))
    if chosen.minutes <= 0:
        parser.error(f"{chosen.minutes} minutes are no time to train")
    net = started(wanted, chosen.seed)
    if chosen.start is not None:
        try:
            net.load(read_caffemodel(chosen.start))
        except ValueError as error:
            parser.error(f"{chosen.start} is of another network: {error}")
    began = time.monotonic()
    train(net, wanted, chosen.seed, lambda _: (time.monotonic() - began) / 60 / chosen.minutes)
    blobs = net.blobs(np.float16 if chosen.half else np.float32)
    for path in write_model(chosen.folder, yolov3(wanted), blobs):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
