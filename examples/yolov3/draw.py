"""Runs a compiled detector of scenes on the emulator, and draws what it found.

    python examples/yolov3/draw.py NET OUT.png --scenes 0 1 2     scenes of scenes.py, side by side
    python examples/yolov3/draw.py NET OUT.png --image FILE       a picture, made as large as the net wants it

NET is the folder that bmnetu wrote. Run it in the workspace with the layer YOLOV3_DETECT_OUT.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from precision import Detections, detections_of
from scenes import CLASSES, scene

from tpulayer import load_bmodel

# Of boxes and labels, by class; white words are to be read on them.
COLOURS = ((214, 39, 40), (31, 100, 200), (24, 128, 60), (160, 50, 170), (190, 95, 0))
GREY = 128  # around pictures that are no squares
GAP = 6  # between pictures, in pixels

Picture = NDArray[np.float32]


def fitted(image: Image.Image, size: int) -> Picture:
    """A picture of any size as the net takes it, [3, size, size]: in the middle, with grey around it."""
    image = image.convert("RGB")
    scale = size / max(image.size)
    image = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    square = Image.new("RGB", (size, size), (GREY, GREY, GREY))
    square.paste(image, ((size - image.width) // 2, (size - image.height) // 2))
    picture: Picture = np.asarray(square, np.float32).transpose(2, 0, 1) / np.float32(255)
    return picture


def draw(picture: Picture, found: Detections, zoom: int = 2) -> Image.Image:
    """The picture, enlarged, with a box, class and score around everything found, the surest on top."""
    pixels = np.clip(picture.transpose(1, 2, 0) * 255, 0, 255).round().astype(np.uint8)
    image = Image.fromarray(pixels)
    image = image.resize((image.width * zoom, image.height * zoom), Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(7 + 3 * zoom)
    order = np.argsort(found.scores, kind="stable")
    for index in order:
        corners = tuple(float(v) * zoom for v in found.boxes[index])
        pen.rectangle(corners, outline=_colour(found.classes[index]), width=zoom + 1)
    for index in order:  # over the boxes, so that all words can be read
        left, top = (float(v) * zoom for v in found.boxes[index][:2])
        words = f"{CLASSES[found.classes[index]]} {found.scores[index]:.2f}"
        _, _, width, height = pen.textbbox((0, 0), words, font=font)
        # above the box, or in it at the upper edge; never beyond the picture's sides
        x = min(max(left, 0), image.width - width - 4)
        y = top - height - 3 if top >= height + 3 else max(top, 0)
        pen.rectangle((x, y, x + width + 4, y + height + 3), fill=_colour(found.classes[index]))
        pen.text((x + 2, y + 1), words, fill=(255, 255, 255), font=font)
    return image


def _colour(kind: int) -> tuple[int, int, int]:
    return COLOURS[kind % len(COLOURS)]


def tiled(images: Sequence[Image.Image], columns: int) -> Image.Image:
    """Pictures of one size side by side, in rows."""
    width, height = images[0].size
    columns = min(columns, len(images))
    rows = math.ceil(len(images) / columns)
    sheet = Image.new("RGB", (columns * (width + GAP) - GAP, rows * (height + GAP) - GAP), (255, 255, 255))
    for index, image in enumerate(images):
        row, column = divmod(index, columns)
        sheet.paste(image, (column * (width + GAP), row * (height + GAP)))
    return sheet


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("net", type=Path, help="the folder that bmnetu wrote")
    parser.add_argument("out", type=Path, help="the picture to write, .png or .jpg")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--scenes", type=int, nargs="+", metavar="N", help="scenes by their numbers")
    what.add_argument("--image", type=Path, nargs="+", help="pictures of any size")
    parser.add_argument("--least", type=float, default=0.5, help="scores of what is drawn (0.5)")
    parser.add_argument("--zoom", type=int, default=2, help="pixels per pixel of the net (2)")
    parser.add_argument("--columns", type=int, default=3, help="pictures side by side (3)")
    chosen = parser.parse_args(arguments)
    with load_bmodel(chosen.net) as nets:
        net = nets.networks[0]
        size = net.stages[0].input_shapes[0][2]
        if chosen.scenes:
            pictures = [scene(number, size).image for number in chosen.scenes]
        else:
            pictures = [fitted(Image.open(path), size) for path in chosen.image]
        drawn = []
        for picture in pictures:
            rows = nets.launch(net.name, [picture[None]])[0].astype(np.float32, copy=False)
            (found,) = detections_of(rows, 1, size)
            found = found.surer(chosen.least)
            drawn.append(draw(picture, found, chosen.zoom))
            named = (f"{CLASSES[k]} {s:.2f}" for k, s in zip(found.classes, found.scores, strict=True))
            print(", ".join(named) or "nothing found")
    tiled(drawn, chosen.columns).save(chosen.out, quality=80)
    print(f"{chosen.out}: {chosen.out.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
