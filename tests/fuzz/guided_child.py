"""The process that guided.py watches: a target with its Python instrumented, called by libFuzzer.

python -m tests.fuzz.guided_child TARGET FINDINGS STATS [options of libFuzzer]
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

_INSTRUMENTED = ["firmware_sim", "user_layers"]
_FIRST = 3  # inputs before any is timed: they import what they need, which takes seconds
_OFTEN = 1.0  # s between two writings of the statistics


def main() -> None:
    import atheris

    os.environ.pop("LD_PRELOAD", None)  # for Python alone: a shell does not start with it
    name, findings, stats = sys.argv[1:4]
    silent = os.dup(2)
    with open(os.devnull, "wb") as nothing:  # it names each module
        os.dup2(nothing.fileno(), 2)
    with atheris.instrument_imports(include=_INSTRUMENTED):
        _fuzz(atheris, name, Path(findings), Path(stats), silent)


def _fuzz(atheris: Any, name: str, findings: Path, stats: Path, stderr: int) -> None:
    from tests.fuzz.__main__ import target
    from tests.fuzz.driver import Finding, kind_of, outcome_of, save
    from tests.fuzz.guided import Guided, known_kinds

    made = target(name)
    assert isinstance(made, Guided)
    if not made.environment():  # AddressSanitizer reserves terabytes
        limit = made.megabytes << 21
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    made.start()
    warnings.simplefilter("error", RuntimeWarning)  # numbers that numpy cannot compute with
    folder = next(Path(word) for word in sys.argv[4:] if not word.startswith("-"))
    for path in sorted(folder.glob("seed-*"))[:_FIRST]:
        with suppress(Exception):
            made.one(path.read_bytes())
    os.dup2(stderr, 2)
    seen = known_kinds(findings, name)
    counts: Counter[str] = Counter()
    written, slowest = time.monotonic(), 0.0

    def one(data: bytes) -> None:
        nonlocal written, slowest
        begin = time.monotonic()
        try:
            outcome = outcome_of(lambda: made.one(data))
        except Finding as finding:
            outcome = "FINDING"
            kind = kind_of(str(finding))
            if kind not in seen:
                seen.add(kind)
                save(findings, name, {"input": data.hex()}, str(finding))
        counts[outcome] += 1
        now = time.monotonic()
        slowest = max(slowest, now - begin)
        if now - written > _OFTEN:
            written = now
            stats.write_text(json.dumps({"counts": counts, "slowest": slowest}))

    def changed(data: bytes, longest: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.randrange(made.own) == 0:
            return made.changed(rng, data)[:longest]
        return bytes(atheris.Mutate(data, longest))

    arguments = [os.environ.get("TPULAYER_FUZZ_AGAIN", sys.argv[0]), *sys.argv[4:]]
    atheris.Setup(arguments, one, custom_mutator=changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
