"""Many launches on several devices from many threads, with mistakes among them: no leak, no mix-up.

`python -m tests.stress --launches 10000 --devices 4 [--kind arm]`
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import random
import re
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from firmware_sim.device.client import Device
from firmware_sim.errors import DeviceCrash, DeviceError
from firmware_sim.firmware.image import Kind
from tests.paths import SOURCES
from user_layers.toolchain.kernel import kernel_firmware

SOURCE = SOURCES / "stress_kernels.c"
TIME_LIMIT = 2.0  # s
THREADS = 3  # for each device
ARGS = struct.Struct("<QQifI")
# how many of a thousand launches go wrong, and how
_WRONG = {"refused": 30, "illegal": 30, "crashes": 6, "aborts": 3, "divides": 3, "endless": 2}
# Bytes of resident memory that a process may have more at the end: Python keeps what several threads needed
# at once to read the line tables of crashed kernels, 40 MB each.
_GROWTH = 96 << 20
_CAUSES = {
    "native": {"crashes": "SIGSEGV", "aborts": "SIGABRT", "divides": "SIGFPE"},
    "arm": {"crashes": "data abort", "aborts": "abort or failed", "divides": "integer division by zero"},
}


@dataclass
class Usage:
    """What this program and its device processes hold."""

    files: int
    threads: int
    children: int
    memories: int  # mappings of device memory
    resident: int  # bytes, of this process without the devices' memory
    devices: list[int]  # resident bytes of each device process, likewise

    def text(self) -> str:
        each = " ".join(f"{n >> 20}" for n in self.devices)
        return (
            f"{self.files} files, {self.threads} threads, {self.children} children, {self.memories} device "
            f"memories, {self.resident >> 20} MiB here, {each or 'no'} MiB in the devices"
        )


def _private(pid: int) -> int:
    """Resident bytes of a process that are not shared memory."""
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(found[1]) << 10 if found else 0


def _children() -> list[int]:
    tasks = Path("/proc/self/task").iterdir()
    return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]


def usage() -> Usage:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free inside the C library's pools is not a leak
    children = _children()
    return Usage(
        len(os.listdir("/proc/self/fd")),
        threading.active_count(),
        len(children),
        Path("/proc/self/maps").read_text().count("memfd:device"),
        _private(os.getpid()),
        [_private(pid) for pid in children],
    )


@dataclass
class Result:
    """problems: empty when all is well."""

    seconds: float = 0.0
    launches: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    usages: dict[str, Usage] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self) -> str:
        total = sum(self.launches.values())
        lines = [f"{total} launches in {self.seconds:.1f} s, {len(self.problems)} problems"]
        lines += [f"  {count:7d}  {name}" for name, count in self.launches.most_common()]
        lines += [f"  {when}: {held.text()}" for when, held in self.usages.items()]
        return "\n".join([*lines, *(f"  PROBLEM {text}" for text in self.problems[:20])])


class _Worker(threading.Thread):
    """Launches of one thread on one device; each result and each error is compared with what it must be."""

    def __init__(self, device: Device, kind: Kind, number: int, launches: int, result: Result) -> None:
        super().__init__()
        self._device = device
        self._kind: Kind = kind
        self._number = number
        self._left = launches
        self._result = result
        self._rng = random.Random(number)
        self._counts: Counter[str] = Counter()
        self.said = 0

    def run(self) -> None:
        try:
            while self._left > 0:
                self._left -= self._one()
        except Exception as error:
            self._problem(f"{type(error).__name__}: {error}")
        with self._result.lock:
            self._result.launches += self._counts

    def _problem(self, text: str) -> None:
        with self._result.lock:
            self._result.problems.append(f"thread {self._number} of device {self._device.dev_id}: {text}")

    def _one(self) -> int:
        """One round; how many launches it took."""
        pick = self._rng.randrange(1000)
        for kernel, share in _WRONG.items():
            if pick < share:
                self._wrong(kernel)
                return 1
            pick -= share
        if pick < 40:
            self._device.launch("says", ARGS.pack(0, 0, 0, 0, self._number))
            self._counts["says"] += 1
            self.said += 1
            return 1
        # Asynchronous launches share one queue and its errors: one thread of each device uses it.
        rounds = 4 if self._number % THREADS == 0 and self._rng.randrange(4) == 0 else 1
        self._compute(rounds)
        return rounds

    def _compute(self, rounds: int) -> None:
        n = self._rng.choice((1, 3, 64, 500))
        x = np.random.default_rng(self._rng.getrandbits(30)).standard_normal(64 * n).astype(np.float32)
        device, number = self._device, np.float32(self._rng.randrange(1 << 20))
        at = device.malloc(x.nbytes)
        outs = [device.malloc(x.nbytes) for _ in range(rounds)]
        try:
            device.write(at, x)
            calls: list[tuple[str, bytes]] = [
                ("compute", ARGS.pack(at, out, n, number + i, 0)) for i, out in enumerate(outs)
            ]
            if rounds == 1:
                device.launch(*calls[0])
            else:
                for call in calls:
                    device.launch_async(*call)
                device.sync()
            for i, out in enumerate(outs):
                if not np.array_equal(device.read_array(out, x.shape, np.float32), x + (number + i)):
                    self._problem(f"the result of compute({number + i}) is another one's")
            self._counts["compute" if rounds == 1 else "compute, asynchronous"] += rounds
        finally:
            for address in (at, *outs):
                device.free(address)

    def _wrong(self, kernel: str) -> None:
        tag = self._rng.randrange(1000)
        place = {"refused": tag * 128 + 4, "illegal": 0x2_0000 + tag * 128}.get(kernel, 0)
        expected = {
            "refused": f"okk_bdc_rsqrt: destination address {place:#x} is not a multiple",
            "illegal": f"+{place:#x}",
            "endless": f"ran for {TIME_LIMIT:g} s",
            **_CAUSES[self._kind],
        }[kernel]
        self._counts[kernel] += 1
        try:
            self._device.launch(kernel, ARGS.pack(0, 0, 0, 0, tag))
        except DeviceError as error:
            crash = kernel in ("crashes", "aborts", "divides", "endless")
            reset = f"device {self._device.dev_id} was reset"
            right = kernel in error.message and expected in error.message
            if not right or isinstance(error, DeviceCrash) != crash or (crash and reset not in error.message):
                self._problem(f"kernel {kernel} ended with: {error}")
        else:
            self._problem(f"kernel {kernel} ended without an error")


def stress(launches: int, devices: int, kind: Kind, *, say: Callable[[str], None] = print) -> Result:
    """Run it; all is well when the result has no problems."""
    result = Result()
    image = kernel_firmware([SOURCE], kind=kind)
    result.usages["before"] = usage()
    logs: list[list[str]] = [[] for _ in range(devices)]
    opened = [Device(image, dev_id=i, time_limit=TIME_LIMIT, on_log=logs[i].append) for i in range(devices)]
    try:
        for device in opened:  # so that all is loaded, and each was reset once
            for _ in range(2):
                _Worker(device, kind, 0, 1, result)._wrong("crashes")
                device.launch(
                    "compute", ARGS.pack(device.malloc(1 << 18), device.malloc(1 << 18), 64, 1.0, 0)
                )
        for device in opened:
            device.launch_async("says", ARGS.pack(0, 0, 0, 0, 0))
            device.sync()
            logs[device.dev_id].clear()
        result.usages["warm"] = warm = usage()
        say(f"{devices} devices, {THREADS} threads each, {launches} launches")
        begin = time.monotonic()
        share = -(-launches // (devices * THREADS))
        workers = [
            _Worker(device, kind, device.dev_id * THREADS + t, share, result)
            for device in opened
            for t in range(THREADS)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        result.seconds = time.monotonic() - begin
        for device in opened:  # those that were just reset load what they need
            device.launch("compute", ARGS.pack(device.malloc(1 << 18), device.malloc(1 << 18), 64, 1.0, 0))
        result.usages["after"] = after = usage()
    finally:
        for device in opened:
            device.close()
    del device, opened
    for i, lines in enumerate(logs):
        mine = [w for w in workers if w._number // THREADS == i]
        wanted = Counter({f"tag {w._number}\n": w.said for w in mine if w.said})
        if Counter(lines) != wanted:
            result.problems.append(f"the log of device {i}: {Counter(lines)} instead of {wanted}")
    workers.clear()
    del worker
    result.usages["closed"] = usage()
    _compare(result, warm, after, devices)
    return result


def _compare(result: Result, warm: Usage, after: Usage, devices: int) -> None:
    before, closed = result.usages["before"], result.usages["closed"]
    for name, a, b in (("warm and after", warm, after), ("before and closed", before, closed)):
        for what in ("files", "threads", "children", "memories"):
            if getattr(a, what) != getattr(b, what):
                result.problems.append(f"{name}: {what} {getattr(a, what)} and {getattr(b, what)}")
    if after.children != devices + before.children:
        result.problems.append(
            f"{after.children} children with {devices} devices and {before.children} before"
        )
    if after.resident > warm.resident + _GROWTH:
        result.problems.append(f"resident memory grew from {warm.resident} to {after.resident}")
    if max(after.devices, default=0) > max(warm.devices, default=0) + _GROWTH:
        result.problems.append(f"device processes grew from {warm.devices} to {after.devices}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--kind", choices=("native", "arm"), default="native")
    options = parser.parse_args()
    result = stress(options.launches, options.devices, options.kind)
    print(result.text())
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
