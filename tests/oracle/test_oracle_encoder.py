"""The kernel API against the vendor's encoder: the golden calls with arguments changed at random.

Where both make descriptors they are the same bytes; what the vendor's encoder refuses is refused here. The
other way round there is no such rule: what its model refuses is refused here, too (test_kernel_rules.py).
The encoder is fetched like the model of test_oracle.py, with the same skip.
"""

from __future__ import annotations

import os
import pickle
import random
import select
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firmware_sim.errors import DeviceError, UsageError
from tests.oracle.client import Unavailable, fetch
from tests.support.golden_vectors import lines
from user_layers.encode.encoder import Encoded, Encoder

CALLS = int(os.environ.get("TPULAYER_ORACLE_EXAMPLES", "150")) * 4
_SECONDS = 300
_LANE = 0x8_0000
_NOT_COMPARED = {
    "bm_atomic_sort",  # a form of our own
    "bm_atomic_gather_data",
}
# pairs of a function's name and arguments
Call = tuple[str, dict[str, Any]]


class Vendor:
    """The vendor's encoder in a child process."""

    def __init__(self, scratch: Path) -> None:
        script = Path(__file__).with_name("encoder_child.py")
        self._said = open(scratch / "said", "wb")  # noqa: SIM115 (closed in close)
        self._child = subprocess.Popen(
            [sys.executable, str(script), str(fetch())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            cwd=scratch,
        )

    def ask(self, jobs: list[list[Call]]) -> list[Any]:
        """Per list of calls the answers, or the text of the check that failed."""
        assert self._child.stdin and self._child.stdout
        pickle.dump(jobs, self._child.stdin)
        self._child.stdin.flush()
        ready, _, _ = select.select([self._child.stdout], [], [], _SECONDS)
        assert ready, f"no answer within {_SECONDS} s"
        answers: list[Any] = pickle.load(self._child.stdout)
        return answers

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()
        self._said.close()


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendor]:
    try:
        opened = Vendor(tmp_path_factory.mktemp("vendor"))
    except Unavailable as error:
        pytest.skip(str(error))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def encoder() -> Iterator[Encoder]:
    with Encoder() as opened:
        yield opened


def _golden() -> dict[str, list[dict[str, Any]]]:
    known = defaultdict(list)
    for name in ("okk_encode", "bm_atomic", "okk_encode_rejected", "bm_atomic_rejected"):
        for line in lines(name):
            if line["fn"] not in _NOT_COMPARED:
                known[line["fn"]].append(line["args"])
    return known


def _changed(rnd: random.Random, name: str, value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if value is None or (isinstance(value, list) and "stride" in name):
        size = 4 if value is None else len(value)
        stride = [rnd.choice([0, 1, 2, 5, rnd.randrange(3000)]) for _ in range(size)]
        if size == 4:
            stride[3] = rnd.choice([1, 1, 1, 0, 2])
        return None if value is None and (size != 4 or name in ("padding", "stride", "dilation")) else stride
    if isinstance(value, list):
        most = 16 if "pad" in name or len(value) == 2 else 300
        out = list(value)
        out[rnd.randrange(len(out))] = rnd.choice([0, 1, 2, 3, 4, 5, rnd.randrange(most)])
        return out
    if isinstance(value, dict):
        bits = rnd.choice([0x1000, 0x1080, 0x1004, 3 * _LANE + 128, 0x3F800000, 0x80000000, 0x7FC00000])
        return {"is_addr": rnd.random() < 0.5, "bits": f"0x{bits:08x}"}
    if isinstance(value, str):
        return hex(rnd.choice([0, 1, 0x7F, 0x80, 0xFF]))
    if isinstance(value, float):
        return rnd.choice([0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), 3.0e38])
    if "addr" in name:
        return max(0, value + rnd.choice([4, 128, -128, 1, 2, 64, _LANE, -_LANE]))
    return rnd.choice([0, 1, 2, 3, 4, 5, 7, 8, 14, 15, 16, 17, 31, 32, 33, 64, -1, value + 1, value - 1])


def _calls(rnd: random.Random, count: int) -> list[Call]:
    golden = _golden()
    names, calls = sorted(golden), []
    for i in range(count):
        name = names[i % len(names)]
        args = dict(rnd.choice(golden[name]))
        for key in rnd.sample(sorted(args), min(len(args), rnd.choice([1, 1, 2, 3]))):
            args[key] = _changed(rnd, key, args[key])
        calls.append((name, args))
    return calls


def _ours(encoder: Encoder, calls: list[Call]) -> Encoded | str:
    try:
        return encoder.run(calls)
    except (DeviceError, UsageError) as error:
        return error.message


def test_changed_calls(vendor: Vendor, encoder: Encoder) -> None:
    calls = _calls(random.Random(CALLS), CALLS)
    same = refused = 0
    for call, theirs in zip(calls, vendor.ask([[call] for call in calls]), strict=True):
        ours = _ours(encoder, [call])
        if isinstance(theirs, str):
            # NULL where the vendor's encoder reads it ends it without a word
            assert isinstance(ours, str) or theirs == "ended", f"accepted: {call}\n{theirs}"
            refused += 1
        elif isinstance(ours, Encoded):
            ((gdma, bd, ids, parallel),) = theirs
            issued = ours.calls[0]
            assert (ours.gdma, ours.bd) == (gdma, bd), call
            assert (list(issued.ids), issued.parallel) == (ids, parallel), call
            same += 1
    assert same > CALLS // 4 and refused > CALLS // 20, (same, refused)


def test_sequences_with_parallel_sections(vendor: Vendor, encoder: Encoder) -> None:
    rnd, golden = random.Random(CALLS), _golden()
    sequences: list[list[Call]] = []
    for _ in range(CALLS // 20):
        calls: list[Call] = []
        inside = False
        for _ in range(rnd.randrange(2, 25)):
            if rnd.random() < 0.2:
                calls.append(("okk_parallel_end" if inside else "okk_parallel_start", {}))
                inside = not inside
            else:
                name = rnd.choice(sorted(golden))
                calls.append((name, golden[name][0]))
        sequences.append([*calls, ("okk_parallel_end", {})] if inside else calls)
    compared = 0
    for calls, theirs in zip(sequences, vendor.ask(sequences), strict=True):
        ours = _ours(encoder, calls)
        assert isinstance(ours, str) == isinstance(theirs, str), (calls, ours, theirs)
        if isinstance(ours, str):
            continue
        for (name, _), issued, (gdma, bd, ids, parallel) in zip(calls, ours.calls, theirs, strict=True):
            assert [d.hex() for d in issued.gdma] == gdma, name
            assert [d.hex() for d in issued.bd] == bd, name
            assert (list(issued.ids), issued.parallel) == (ids, parallel), name
            compared += 1
    assert compared > CALLS // 10
