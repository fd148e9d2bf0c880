"""YOLOv3 with a layer of the user's: how long compiling takes, and the emulated run beside OpenCV's.

    python benchmarks/bench_yolov3.py [--width 1] [--size 416] [--opt 2] [--runs 3]

Needs a workspace with the layer of examples/yolov3 around the current folder (docs/yolov3.md), and, for the
comparison, a Python with OpenCV below 5 in TPULAYER_OPENCV, which runs the backbone on one thread. Both take
turns; the ratio is that of the medians. The modelled time of the chip has the layer's commands in it, but not
what the controller does.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from firmware_sim.chip import CLOCK_HZ
from firmware_sim.isa import timing
from tpulayer import Device, Graph, Toolkit, Workspace, firmware_image, load_bmodel
from user_layers.bmodel import save

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "yolov3"
OPENCV = """
import sys, time, cv2, numpy as np
cv2.setNumThreads(1)
net = cv2.dnn.readNetFromCaffe(*sys.argv[1:3])
names = net.getUnconnectedOutLayersNames()
picture = np.load(sys.argv[3])
for line in sys.stdin:
    net.setInput(picture)
    start = time.perf_counter()
    net.forward(names)
    print(time.perf_counter() - start, flush=True)
"""


def seconds_of_children() -> float:
    """Processor time of this process and of those that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", default="1")
    parser.add_argument("--size", default="416")
    parser.add_argument("--opt", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), arguments)


def measure(folder: Path, arguments: argparse.Namespace) -> None:
    words = ["--width", arguments.width, "--size", arguments.size]
    for name, more in (("whole", []), ("heads", ["--no-detect"])):
        command = [sys.executable, str(EXAMPLE / "make_model.py"), str(folder / name), *words, *more]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    size = int(arguments.size)
    picture = np.random.default_rng(0).uniform(0, 1, (1, 3, size, size)).astype(np.float32)
    np.save(folder / "picture.npy", picture)
    with ExitStack() as stack:
        toolkit = stack.enter_context(Toolkit())
        start, used = time.perf_counter(), seconds_of_children()
        graph = Graph.from_caffe(folder / "whole" / "yolov3.prototxt", toolkit=toolkit)
        read = time.perf_counter() - start
        net = graph.compile(opt=arguments.opt)
        took = time.perf_counter() - start
        print(f"reading {read:.1f} s, reading and compiling {took:.1f} s", end="")
        print(f" ({seconds_of_children() - used:.1f} s of this process), opt {arguments.opt}")
        print(net)
        save(folder / "net.bmodel", net)
        device = stack.enter_context(Device(firmware_image(Workspace.find())))
        with load_bmodel(folder / "net.bmodel", device=device) as nets:
            opencv = _opencv(folder)
            ours, theirs = [], []
            for _ in range(arguments.runs):
                before, start = device.cycles, time.perf_counter()
                nets.launch("yolov3", {"data": picture})
                ours.append(time.perf_counter() - start)
                cycles = device.cycles - before
                if opencv is not None:
                    theirs.append(_ask(opencv))
            if opencv is not None:
                opencv.kill()
                opencv.wait()
    print(f"emulated run: {statistics.median(ours):.2f} s", end="")
    if theirs:
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(f"; OpenCV {statistics.median(theirs):.2f} s; {ratio:.1f} times", end="")
    print(f"\nchip: {cycles / CLOCK_HZ * 1000:.1f} ms, {cycles:.0f} cycles ({timing.modelled()})")


def _opencv(folder: Path) -> subprocess.Popen[str] | None:
    python = os.environ.get("TPULAYER_OPENCV")
    if not python:
        print("not beside OpenCV: TPULAYER_OPENCV names no Python")
        return None
    files = [str(folder / "heads" / f"yolov3.{end}") for end in ("prototxt", "caffemodel")]
    return subprocess.Popen(
        [python, "-c", OPENCV, *files, str(folder / "picture.npy")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _ask(opencv: subprocess.Popen[str]) -> float:
    assert opencv.stdin is not None and opencv.stdout is not None
    opencv.stdin.write("run\n")
    opencv.stdin.flush()
    return float(opencv.stdout.readline())


if __name__ == "__main__":
    main()
