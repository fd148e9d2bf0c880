"""Long streams of small matrix products, every command another one, beside the vendor's functional model.

    python benchmarks/bench_streams.py [--commands N]

One thread; microseconds for a command when the emulator sees it for the first time (it is decoded, checked
and prepared) and when it comes again, and the vendor's model's, which does the same each time. The vendor's
model is fetched from the package index (see tests/oracle); without it only our own times are shown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

import numpy as np

_LOCAL = 0x0800_0000
_ASKED = 400  # commands that the vendor's model runs
_SHAPES = ((4, 16, 16), (8, 64, 64), (16, 64, 256), (1, 256, 256), (64, 64, 64))


def stream(m: int, k: int, n: int, count: int, *, fixed: bool) -> Any:
    """Products [m, k] x [k, n], 16 columns to a channel, at places of their own; uint32[count, 32]."""
    from firmware_sim.isa.layout import BD

    sizes = {"tsk_typ": 2, "opd0_n": m, "opd0_c": k // 16, "opd0_w": 16, "opd1_w": 16}
    sizes |= {"res0_c": n // 16, "res0_w": 16}
    if fixed:
        sizes |= {"opt_res0_prec": 0, "opt_opd0_prec": 0, "opt_opd1_prec": 0, "opt_right_shift": 6}
    words = []
    for i in range(count):
        places = {
            "res0_addr": _LOCAL + 0x60000 + i % 16 * 0x2000,
            "opd0_addr": _LOCAL + i // 16 % 64 * 0x800,
            "opd1_addr": _LOCAL + 0x20000 + i // 1024 % 32 * 0x2000,
        }
        words.append(BD.encode(**{**BD.defaults, **sizes, **places, "cmd_id_tpu": i + 1}))
    return np.frombuffer(b"".join(words), np.uint32).reshape(count, 32)


def ours(tpu: Any, words: Any) -> tuple[float, float]:
    """Microseconds of a command, the first time and again."""
    none = np.zeros((0, 32), np.uint32)
    times = []
    for _ in range(4):
        tpu.restart()
        start = time.process_time()
        tpu.execute(words, none)
        times.append((time.process_time() - start) / len(words) * 1e6)
    return times[0], min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--commands", type=int, default=8192, help="commands of a stream (at most 32768)")
    given = parser.parse_args()
    if os.environ.get("TPULAYER_THREADS") != "1" or os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        os.environ |= {"TPULAYER_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, *sys.argv])

    from firmware_sim.instructions.instruction import Engine
    from firmware_sim.isa.footprint import Space
    from firmware_sim.memory import Memory
    from firmware_sim.tpu import Tpu
    from tests.oracle.client import Oracle, Unavailable

    tpu = Tpu(Memory.create(ddr_bytes=1 << 20))
    numbers = np.random.default_rng(1).standard_normal((64, 0x18000)).astype(np.float32)
    tpu.memory.local[:, :0x60000] = numbers.view(np.uint8).reshape(64, -1)
    before = [(Space.LOCAL, lane << 19, tpu.memory.local[lane, :0x60000].copy()) for lane in range(64)]
    try:
        oracle: Oracle | None = Oracle()
    except Unavailable as error:
        print(f"no vendor model: {error}")
        oracle = None
    print(f"{'product':24}{'first':>9}{'again':>9}{'vendor':>9}{'first':>9}{'again':>9}")
    for fixed in (False, True):
        for m, k, n in _SHAPES:
            words = stream(m, k, n, given.commands, fixed=fixed)
            first, again = ours(tpu, words)
            theirs = float("nan")
            if oracle is not None:
                asked = [(Engine.BD, row.tobytes()) for row in words[:_ASKED]]
                answer = oracle.ask(asked, before, [], repeat=1)
                theirs = statistics.median(answer.seconds) * 1e6
            name = f"[{m}, {k}] x [{k}, {n}] {'int8' if fixed else 'fp32'}"
            print(
                f"{name:24}{first:9.1f}{again:9.1f}{theirs:9.1f}{theirs / first:9.1f}{theirs / again:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
