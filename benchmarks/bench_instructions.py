"""Instructions against the vendor's functional model and numpy, side by side in one run.

    python benchmarks/bench_instructions.py [--threads N] [--quick]

Medians and ratios; the same descriptors and data for both models. The vendor's model is fetched from the
package index (see tests/oracle); without it only our own times are shown. At the end: the geometric mean
of the ratios over all classes of the golden executions, each command repeated in a stream.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

L, DDR = 0x0800_0000, 0x1_0000_0000


@dataclass
class Case:
    name: str
    engine: str
    fields: dict[str, int]
    numpy: Callable[[], Any] | None = None
    repeat: int = 9
    input_bytes: int = 0x70000  # of each lane filled with numbers
    note: str = field(default="")


def cases() -> list[Case]:
    rng = np.random.default_rng(0)

    def f32(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    size = {"res0_n": 1, "res0_c": 64, "res0_h": 128, "res0_w": 128}
    places = {"res0_addr": L, "opd0_addr": L + 0x10000, "opd1_addr": L + 0x20000}
    a, b, out = f32(64, 16384), f32(64, 16384), f32(64, 16384)

    def md(name: str, task: int, eu: int, plain: Callable[[], Any] | None, **more: int) -> Case:
        return Case(name, "bd", {"tsk_typ": task, "tsk_eu_typ": eu, **size, **places, **more}, plain)

    found = [
        md("add, 64 lanes x 64 KiB", 8, 2, lambda: np.add(a, b, out=out)),
        md("mul", 8, 0, lambda: np.multiply(a, b, out=out)),
        md("div", 8, 12, lambda: np.divide(a, b, out=out)),
        md("mac (AR)", 3, 1, lambda: out.__iadd__(a * b)),
        md("max (md_cmp)", 13, 22, lambda: np.maximum(a, b, out=out)),
        md("and (AR)", 3, 7, lambda: np.bitwise_and(a.view(np.uint32), b.view(np.uint32)), opt_res0_prec=4),
        md("taylor, 32 terms", 9, 13, None, opd1_n=32, opd1_addr=0x300C00),
        md("rsqrt", 9, 17, lambda: 1 / np.sqrt(np.abs(a))),
        md("fp32 to int32", 9, 14, lambda: a.astype(np.int32)),
        md("table lookup", 6, 0, None, opt_opd0_prec=2, opd1_h=8, opd1_addr=0x300400),
    ]
    for name, eu in (("add", 2), ("mul", 0), ("max", 4)):
        fixed = {"opt_res0_prec": 0, "opt_opd0_prec": 0, "opt_opd1_prec": 0, "opt_opd1_sign": 0, "res0_n": 4}
        found.append(md(f"{name}, 8-bit, n=4", 3, eu, None, **fixed, opt_right_shift=1 if eu != 4 else 0))
    window = {
        "opd0_up_pad": 1,
        "opd0_dn_pad": 1,
        "opd0_lf_pad": 1,
        "opd0_rt_pad": 1,
        "opd1_h": 3,
        "opd1_w": 3,
    }
    plane = {"res0_c": 64, "res0_h": 56, "res0_w": 56, "opd0_h": 56, "opd0_w": 56, "tsk_opd_num": 2}
    plane |= {"res0_addr": L, "opd0_addr": L + 0x10000, "opd1_addr": L + 0x50000}
    conv = {"tsk_typ": 0, "opd0_c": 64, **plane, **window}
    small = {"opt_res0_prec": 0, "opt_opd0_prec": 0, "opt_opd1_prec": 0, "opt_opd2_prec": 3}
    w, cols = f32(64, 576), f32(576, 3136)
    left, right = f32(512, 512), f32(512, 512)
    found += [
        Case("conv 3x3 64->64 56x56 fp32", "bd", {"res0_n": 1, **conv}, lambda: w @ cols),
        Case("conv int8, same, n=4", "bd", {"res0_n": 4, "opt_right_shift": 9, **conv, **small}),
        Case(
            "conv winograd int8, same, n=4",
            "bd",
            {"res0_n": 4, "opt_right_shift": 9, "opt_winograd": 1, **conv, **small, "opd1_h": 4, "opd1_w": 4},
        ),
    ]
    for name, eu in (("depthwise 3x3", 1), ("max pool 3x3", 4)):
        pool = {"tsk_typ": 1, "tsk_eu_typ": eu, **plane, **window}
        found.append(Case(f"{name} fp32", "bd", {"res0_n": 1, **pool}))
        found.append(Case(f"{name} int8, n=4", "bd", {"res0_n": 4, **pool, **small}))
    mm = {"tsk_typ": 2, "opd0_n": 512, "opd0_c": 16, "opd0_w": 32, "opd1_w": 32, "res0_c": 16, "res0_w": 32}
    mm |= {"res0_addr": L, "opd0_addr": L + 0x20000, "opd1_addr": L + 0x40000}
    vector = {
        "tsk_typ": 14,
        "opd0_c": 32,
        "opd0_w": 32,
        "opd1_w": 32,
        "res0_c": 32,
        "res0_w": 32,
        "res0_addr": L,
    }
    vector |= {"res0_addr": L, "opd0_addr": L + 0x40000, "opd1_addr": L + 0x48000}
    found += [
        Case("matmul 512^3 fp32", "bd", mm, lambda: left @ right),
        Case("matmul 512^3 int8", "bd", {**mm, **small, "opt_right_shift": 9}),
        Case("matmul2 256^3", "bd", {"tsk_typ": 4, **places}),
        Case("vector mul 1024 x 1024", "bd", vector),
    ]
    shape = {
        f"{s}_{x}size": n for s in ("src", "dst") for x, n in zip("nchw", (1, 64, 128, 128), strict=True)
    }
    src, dst = f32(64 * 16384), f32(64 * 16384)
    for name, direction, to in (("S2L 4 MiB", 0, "dst"), ("L2S 4 MiB", 1, "src")):
        away = "src" if to == "dst" else "dst"
        fields = {"direction": direction, f"{to}_start_addr_l32": L, f"{away}_start_addr_h8": 1, **shape}
        found.append(Case(name, "gdma", fields, lambda: np.copyto(dst, src)))
    return found


def _words(engine: str, fields: dict[str, int]) -> Any:
    from firmware_sim.isa.layout import BD, GDMA

    layout = BD if engine == "bd" else GDMA
    number = {"cmd_id_tpu": 1} if engine == "bd" else {"cmd_id": 1}
    return np.frombuffer(layout.encode(**{**layout.defaults, **number, **fields}), np.uint32).reshape(1, 32)


def _median(run: Callable[[], Any], repeat: int) -> float:
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--threads", type=int, default=0, help="threads of the emulator (default: all)")
    parser.add_argument("--quick", action="store_true", help="leave the golden classes out")
    given = parser.parse_args()
    if given.threads:
        os.environ["TPULAYER_THREADS"] = str(given.threads)
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        # as in the device process; numpy, which is imported by now, reads it when it starts
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])

    from firmware_sim.instructions.instruction import Engine
    from firmware_sim.instructions.workers import threads
    from firmware_sim.isa.footprint import Space
    from firmware_sim.memory import Memory
    from firmware_sim.tpu import Tpu
    from tests.oracle.client import Oracle, Unavailable

    tpu = Tpu(Memory.create(ddr_bytes=64 << 20))
    memory = tpu.memory
    rng = np.random.default_rng(1)
    values = rng.standard_normal((64, 0x1C000)).astype(np.float32)
    memory.local[:, :0x70000] = values.view(np.uint8).reshape(64, -1)
    memory.ddr[: 4 << 20] = values.view(np.uint8).reshape(-1)[: 4 << 20]
    none = np.zeros((0, 32), np.uint32)
    try:
        oracle: Oracle | None = Oracle()
    except Unavailable as error:
        print(f"no vendor model: {error}")
        oracle = None
    print(f"{threads()} threads; milliseconds, medians")
    print(f"{'case':34}{'ours':>10}{'vendor':>10}{'ratio':>8}{'numpy':>10}{'ours/numpy':>12}")
    before = [(Space.LOCAL, lane << 19, memory.local[lane, :0x70000].copy()) for lane in range(64)]
    before.append((Space.DDR, 0, memory.ddr[: 4 << 20].copy()))
    for case in cases():
        words = _words(case.engine, case.fields)
        streams = (words, none) if case.engine == "bd" else (none, words)

        def run(streams: tuple[Any, Any] = streams) -> None:
            tpu.restart()
            tpu.execute(*streams)

        ours = _median(run, case.repeat) * 1e3
        theirs = plain = float("nan")
        if oracle is not None:
            kind = Engine.BD if case.engine == "bd" else Engine.GDMA
            answer = oracle.ask([(kind, words.tobytes())], before, [], repeat=5)
            theirs = statistics.median(answer.seconds[1:]) * 1e3
        if case.numpy is not None:
            plain = _median(case.numpy, case.repeat) * 1e3
        print(
            f"{case.name:34}{ours:10.3f}{theirs:10.2f}{theirs / ours:8.1f}{plain:10.3f}{ours / plain:12.1f}"
        )
    places = {"opd0_addr": L + 0x10000, "opd1_addr": L + 0x20000}
    small = {"tsk_typ": 8, "tsk_eu_typ": 2, "res0_n": 1, "res0_c": 64, "res0_h": 4, "res0_w": 8}
    rows = [
        _words("bd", {**places, **small, "cmd_id_tpu": i + 1, "res0_addr": L + i % 8 * 128})
        for i in range(60000)
    ]
    stream = np.concatenate(rows)
    start = time.perf_counter()
    tpu.restart()
    tpu.execute(stream, none)
    each = (time.perf_counter() - start) / len(stream) * 1e6
    print(f"60,000 adds on 64 lanes x 128 B: {each:.2f} us each")
    if oracle is not None and not given.quick:
        _golden(tpu, oracle)


_COPIES = 64


def _repeated(engine: Any, words: Any) -> Any:
    """The command many times over in one stream: how commands come in practice."""
    from firmware_sim.instructions.instruction import Engine
    from firmware_sim.isa.layout import BD, GDMA

    layout, field = (BD, "cmd_id_tpu") if engine is Engine.BD else (GDMA, "cmd_id")
    fields = layout.decode(words.tobytes())
    copies = [layout.encode(**{**fields, field: i + 1}) for i in range(_COPIES)]
    return np.frombuffer(b"".join(copies), np.uint32).reshape(_COPIES, 32)


def _golden(tpu: Any, oracle: Any) -> None:
    """Every golden execution once more on both, and the geometric mean of the ratios by class."""
    from firmware_sim.errors import TpulayerError
    from firmware_sim.instructions.instruction import Engine
    from tests.support.golden_vectors import executions
    from user_layers.encode.conformance import _numbered

    none = np.zeros((0, 32), np.uint32)
    ours: dict[str, list[float]] = defaultdict(list)
    for case in executions():
        words = [(engine, _numbered(engine, data)) for engine, data in case.descriptors]
        try:
            streams = [(engine, _repeated(engine, w)) for engine, w in words]

            def run(streams: Any = streams) -> None:
                for engine, w in streams:
                    tpu.restart()
                    tpu.execute(*((w, none) if engine is Engine.BD else (none, w)))

            for region in case.before:
                tpu.memory.flat(region.space)[region.offset : region.offset + len(region.data)] = region.data
            mine = _median(run, 3) / _COPIES
        except TpulayerError:
            continue
        regions = [(r.space, r.offset, r.data) for r in case.before]
        answer = oracle.ask(case.descriptors, regions, [], repeat=5, checks=case.cls != "md_sum")
        n = len(case.descriptors)
        theirs = sum(statistics.median(answer.seconds[5 * i + 1 : 5 * i + 5]) for i in range(n))
        ours[case.cls].append(theirs / mine)
    means = {cls: math.exp(statistics.fmean(map(math.log, ratios))) for cls, ratios in ours.items()}
    total = math.exp(statistics.fmean(map(math.log, means.values())))
    slowest = sorted(means.items(), key=lambda item: item[1])[:8]
    print(f"golden set, {len(means)} classes, geometric mean vendor/ours: {total:.1f}")
    print("least:", ", ".join(f"{cls} {ratio:.1f}" for cls, ratio in slowest))


if __name__ == "__main__":
    main()
