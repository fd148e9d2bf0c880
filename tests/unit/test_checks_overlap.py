"""Results over operands that are still read: against going through the elements one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firmware_sim import chip
from firmware_sim.checks.finding import Issued
from firmware_sim.checks.hazard import Hazard
from firmware_sim.checks.records import Record
from firmware_sim.checks.sequence import Records
from firmware_sim.isa.footprint import Tensor
from tests.support.check_batches import batch_of, command

L = chip.LOCAL_BASE
PLACES = st.sampled_from([0, 4, 8, 64, 128, 256])
STRIDES = st.sampled_from([0, 1, 2, 8, 32])


@st.composite
def copies(draw: st.DrawFn) -> bytes:
    """An element-wise command with strides."""
    fields = {f"res0_{axis}": draw(st.integers(1, 3)) for axis in "nhw"} | {"res0_c": 66}
    for operand in ("opd0", "res0"):
        fields[f"{operand}_addr"] = L + draw(PLACES)
        fields |= {f"{operand}_{axis}_str": draw(STRIDES) for axis in "nchw"}
    return command("ar.copy", 1, 0, short_opd0_str=0, short_res0_str=0, **fields)


def _one_by_one(record: Record) -> int:
    """Bytes that an element reads after an earlier one was written there."""
    tensors = {one.name: one for one in record.operands if isinstance(one, Tensor)}
    read, made = (tensors[name].indices().reshape(-1).tolist() for name in ("opd0", "res0"))
    written: set[int] = set()
    late: set[int] = set()
    for source, target in zip(read, made, strict=True):
        late |= {source} & written
        written.add(target)
    return 4 * len(late)


@given(copies())
def test_element_by_element(copy: bytes) -> None:
    records = Records()
    [record] = records.sequence(batch_of([copy], [])).records
    found = records.replaced.get(record)
    assert (found.nbytes if found else 0) == _one_by_one(record)


def test_a_window_over_its_input() -> None:
    shape = {"opd0_c": 3, "opd0_h": 8, "opd0_w": 8, "res0_c": 3, "res0_h": 8, "res0_w": 8}
    commands = [
        command("max_pool.fp32", 1 + k, 0, res0_addr=L + at, opd0_addr=L, opd1_addr=L + 0x10000, **shape)
        for k, at in enumerate((128, 0x20000, 0))
    ]
    records = Records()
    sequence = records.sequence(batch_of(commands, []))
    findings = list(
        Hazard(lambda space, at: "x").over(sequence, records.replaced, lambda k: Issued("BD", k, ""))
    )
    assert [(one.rule, one.by and one.by.id, one.operand) for one in findings] == [
        ("hazard.overlap", 0, "opd0"),
        ("hazard.overlap", 2, "opd0"),
    ]
