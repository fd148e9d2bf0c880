"""How long one waits for the first answer: with an empty cache of loops, and warm, side by side.

    python benchmarks/bench_cold_start.py [--repeat N]

Seconds, the least of some runs. Every line is a process of its own. `first` is the first launch after the
device was opened, `again` the next one.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_LAUNCH = """
import sys, time
import numpy as np
from firmware_sim.device.client import Device, StreamGroup
from firmware_sim.isa.layout import BD

words = BD.encode(**{**BD.defaults, **FIELDS, "cmd_id_tpu": 1})
start = time.perf_counter()
device = Device(sys.argv[1])
opened = time.perf_counter()
at = device.malloc(4096)
device.write(at, words)
times = []
for _ in range(2):
    before = time.perf_counter()
    device.run_streams([StreamGroup(at, 0, 1, 0)])
    times.append(time.perf_counter() - before)
device.close()
print(opened - start, *times)
"""

_L = 0x0800_0000
_COMMANDS = {
    "polynomial of 32 terms": {
        "tsk_typ": 9,
        "tsk_eu_typ": 13,
        "res0_n": 1,
        "res0_c": 64,
        "res0_h": 4,
        "res0_w": 4,
        "opd1_n": 32,
        "res0_addr": _L,
        "opd0_addr": _L + 0x8000,
        "opd1_addr": 0x300C00,
    },
    "product [64, 64] x [64, 64]": {
        "tsk_typ": 2,
        "opd0_n": 64,
        "opd0_c": 4,
        "opd0_w": 16,
        "opd1_w": 16,
        "res0_c": 4,
        "res0_w": 16,
        "res0_addr": _L,
        "opd0_addr": _L + 0x8000,
        "opd1_addr": _L + 0x10000,
    },
    "conv 3x3 64->64 56x56": {
        "tsk_typ": 0,
        "tsk_opd_num": 2,
        "res0_n": 1,
        "res0_c": 64,
        "res0_h": 56,
        "res0_w": 56,
        "opd0_c": 64,
        "opd0_h": 56,
        "opd0_w": 56,
        "opd1_h": 3,
        "opd1_w": 3,
        "opd0_up_pad": 1,
        "opd0_dn_pad": 1,
        "opd0_lf_pad": 1,
        "opd0_rt_pad": 1,
        "res0_addr": _L,
        "opd0_addr": _L + 0x10000,
        "opd1_addr": _L + 0x50000,
    },
}


def ran(words: list[str], env: dict[str, str]) -> tuple[float, float, str]:
    """Wall clock, processor time and output of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    from user_layers.toolchain import builtin_artifacts
    from user_layers.toolchain.loops import build_loops

    firmware = str(builtin_artifacts().directory)
    build_loops()
    env = dict(os.environ)
    programs = {
        "tpulayer --help": [sys.executable, "-m", "user_layers.cli.main", "--help"],
        "tpulayer doctor": [sys.executable, "-m", "user_layers.cli.main", "doctor"],
        "import tpulayer": [sys.executable, "-c", "import tpulayer"],
        "python, numpy": [sys.executable, "-c", "import numpy"],
    }
    print(f"{'program':32}{'wall':>8}{'cpu':>8}")
    for name, words in programs.items():
        found = [ran(words, env)[:2] for _ in range(repeat)]
        print(f"{name:32}{min(f[0] for f in found):8.3f}{min(f[1] for f in found):8.3f}")
    print(f"\n{'launch':32}{'open':>8}{'first':>8}{'again':>8}{'loops':>10}")
    for name, fields in _COMMANDS.items():
        script = _LAUNCH.replace("FIELDS", repr(fields))
        with tempfile.TemporaryDirectory() as empty:
            for loops, root in (("there", None), ("missing", empty)):
                given = env if root is None else {**env, "TPULAYER_CACHE": str(Path(root))}
                lines = [
                    list(map(float, ran([sys.executable, "-c", script, firmware], given)[2].split()))
                    for _ in range(repeat)
                ]
                least = [min(line[i] for line in lines) for i in range(3)]
                print(f"{name:32}{least[0]:8.3f}{least[1]:8.3f}{least[2]:8.3f}{loops:>10}")


if __name__ == "__main__":
    main()
