"""Rules of the guide, each broken once: an error where the vendor's encoder or model refuses, too, else a
warning, and what is computed are the bits of the vendor's model. Table: tests/oracle/test_kernel_rules.py."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.memory import Memory
from firmware_sim.tpu import Tpu
from tests.paths import GOLDEN
from tests.support import firmware_harness as fh
from tests.support.isa_cases import fill, windows
from tests.support.kernel_rules import checksum
from user_layers.encode.calls import Calls

# Refused though the vendor's model executes them, by rule.
_NOT_EXECUTED = {
    r".*stride . below 0": "strides of a descriptor are counted from 0",
    r".*extent . of 0.*": "sizes of a descriptor start at 1; where the model does not crash it does nothing",
    r"packed operand off a word": "the units read words",
    r"0 terms": "a series without terms",
    r"kernel (over the input|0)|no output channels": "there is no result",
    r"(tensor and constant|constant and tensor)": "the vendor's encoder takes the constant for an address",
    r"src w-stride [023]": "GDMA moves w with stride 1, which the vendor's encoder asks of one side only",
    r"no rows": "sizes start at 1",
    r"lshift 31": "what more than 16 does is not verified",
}
# Accepted without a word, though the guide forbids it: it cannot matter.
_HARMLESS = (
    r".* of one column|okk_bdc_conv2d another NPU, input"
    r"|.*greater_select (tensor and constant|constant and tensor)|okk_bdc_(4N_)?int8_to_fp32 work is src"
    r"|.*fp32_to_4N_int8 work is (src|dst)|.*split_low_8bit work is src"
    r"|bm_atomic_memcpy_2D (columns over the matrix|row stride under the columns)"
    r"|bm_atomic_matmul_quantized left columns per channel over the matrix"
)


@pytest.fixture(scope="module")
def firmware(firmware_library: Path) -> fh.Harness:
    return fh.Harness(firmware_library)


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / "kernel_rules.jsonl").read_text().splitlines()]


def _memory(chip: Tpu, firmware: fh.Harness) -> int:
    """The checksum of memory after what the firmware issued."""
    fill(chip.memory, 1)
    chip.restart()
    bd, gdma = (np.frombuffer(b"".join(d), np.uint32).reshape(-1, 32) for d in (firmware.bd, firmware.gdma))
    chip.execute(bd, gdma)
    local, ddr = windows(chip.memory)
    return checksum([*local, ddr])


def test_broken_rules_are_as_the_vendor_has_them(firmware: fh.Harness) -> None:
    chip = Tpu(Memory.create(ddr_bytes=1 << 20))
    count: Counter[str] = Counter()
    for row in _rows():
        reply = firmware.okk(row["fn"], row["args"])
        warned = [line for line in reply.warnings.splitlines() if row["fn"] in line]
        if row["vendor"] != "executes":
            assert reply.status != 0, row
            count["refused by both"] += 1
        elif reply.status != 0:
            assert any(re.fullmatch(rule, row["rule"].split(",")[0]) for rule in _NOT_EXECUTED), (
                row,
                reply.text,
            )
            count["refused here"] += 1
        else:
            assert warned or re.fullmatch(_HARMLESS, f"{row['fn']} {row['rule']}"), row
            assert all(re.match(r"\d+ \w+: .+ \[called at 0x[0-9a-f]+\]$", line) for line in warned), warned
            assert _memory(chip, firmware) == row["memory"], row
            count["warned" if warned else "harmless"] += 1
    assert min(count.values()) > 20 and count["warned"] > 150, count


def test_a_warning_counts_the_calls_of_one_place(firmware: fh.Harness) -> None:
    (row,) = [r for r in _rows() if r["rule"] == "32-bit shift by 33" and "arith" in r["fn"]]
    firmware.okk(row["fn"], row["args"])
    calls = Calls()
    for _ in range(3):
        calls.call(row["fn"], row["args"])
    (line,) = firmware.call_api(calls).warnings.splitlines()
    assert line.startswith(
        "3 okk_bdc_32bit_arithmetic_shift_C: shift count 33 is outside -32..32 [called at 0x"
    )
