"""YOLOv3 as files of Caffe's, with random weights.

    python examples/yolov3/make_model.py DIR [--width 1/8] [--size 416] [--seed 0] [--no-detect] [--upsample]

writes DIR/yolov3.prototxt and DIR/yolov3.caffemodel. A network with 1/8 of the channels has about 1/64 of the
weights.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path

from network import Layer, Settings, prototxt, yolov3
from weights import Blobs, caffemodel, random_blobs

from user_layers.files import write_together


def write_model(folder: Path, layers: list[Layer], blobs: Blobs) -> tuple[Path, Path]:
    """The two files of a network, written together."""
    text, data = folder / "yolov3.prototxt", folder / "yolov3.caffemodel"
    write_together({text: prototxt(layers), data: caffemodel(layers, blobs)})
    return text, data


def _settings(arguments: argparse.Namespace) -> Settings:
    return Settings(
        width=arguments.width,
        size=arguments.size,
        classes=arguments.classes,
        batch=arguments.batch,
        upsample=arguments.upsample,
        detect=arguments.detect,
        confidence_threshold=arguments.confidence_threshold,
    )


def main(words: list[str] | None = None) -> None:
    """Write the files that the words of the command line ask for."""
    parser = argparse.ArgumentParser(description="Writes yolov3.prototxt and yolov3.caffemodel.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the files go")
    parser.add_argument("--width", type=Fraction, default=Fraction(1), help="part of the channels: 1/8")
    parser.add_argument("--size", type=int, default=416, help="height and width of the picture")
    parser.add_argument("--classes", type=int, default=80)
    parser.add_argument("--batch", type=int, default=1, help="pictures at once")
    parser.add_argument("--seed", type=int, default=0, help="of the random weights")
    parser.add_argument("--confidence-threshold", type=float, default=0.5)
    parser.add_argument("--no-detect", dest="detect", action="store_false", help="end with the heads")
    parser.add_argument("--upsample", action="store_true", help="layers Upsample, not Deconvolution")
    arguments = parser.parse_args(words)
    try:
        layers = yolov3(_settings(arguments))
    except ValueError as error:
        parser.error(str(error))
    for path in write_model(arguments.folder, layers, random_blobs(layers, arguments.seed)):
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
