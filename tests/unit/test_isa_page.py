"""docs/isa.md shows the instruction table as it is."""

from __future__ import annotations

import re

import pytest

from firmware_sim.instructions.example import example, row_of
from firmware_sim.instructions.instruction import Instruction
from firmware_sim.instructions.table import TABLE, lookup
from firmware_sim.memory import Memory
from tests.paths import ROOT
from user_layers.codegen import isa_page
from user_layers.codegen.page_table import with_table

PAGE = ROOT / "docs" / "isa.md"


def test_the_page_is_that_of_the_table() -> None:
    text = PAGE.read_text()
    made = with_table(text, isa_page.COLUMNS, isa_page.rows())
    assert made == text, "run python -m user_layers.codegen.regenerate"


def test_every_instruction_has_a_row() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (?:BD|GDMA): ", PAGE.read_text(), re.MULTILINE)
    assert rows == [i.name for i in TABLE]


@pytest.fixture(scope="module")
def memory() -> Memory:
    return Memory.create(ddr_bytes=64 << 20)


@pytest.mark.parametrize("instruction", TABLE, ids=lambda i: i.name)
def test_every_example_is_a_legal_descriptor_of_its_instruction(
    instruction: Instruction, memory: Memory
) -> None:
    row = row_of(instruction.engine, example(instruction))
    assert lookup(instruction.engine, row) is instruction
    if instruction.semantics:
        instruction.semantics.bind(row, memory)
