"""docs/kernel-api.md and the headers' comments are those of the table, and the table has every function."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from firmware_sim.errors import SourceError, UsageError
from firmware_sim.instructions.table import BY_NAME
from firmware_sim.isa import timing
from tests.paths import ROOT
from user_layers.cli.main import run as cli
from user_layers.codegen import kernel_page
from user_layers.kernel_api import reference
from user_layers.kernel_api.entry import Cost, Entry, Layout, Level, Limit, Operand
from user_layers.kernel_api.prototypes import HEADERS, arguments, functions

PAGE = ROOT / "docs" / "kernel-api.md"


def test_the_page_is_that_of_the_table() -> None:
    text = PAGE.read_text()
    assert kernel_page.with_reference(text) == text, "run python -m user_layers.codegen.regenerate"


@pytest.mark.parametrize("name", HEADERS)
def test_the_comments_are_those_of_the_table(name: str) -> None:
    text = (ROOT / "sdk" / "include" / name).read_text()
    assert kernel_page.with_comments(text) == text, "run python -m user_layers.codegen.regenerate"


def test_every_function_has_a_row_and_every_row_a_function() -> None:
    assert list(reference.ENTRIES.keys() - functions().keys()) == []
    assert list(functions().keys() - reference.ENTRIES.keys()) == []
    assert sum(len(family.entries) for family in reference.FAMILIES) == len(reference.ENTRIES)
    page = PAGE.read_text()
    for name, function in functions().items():
        assert page.count(f"| `{name}` |") == 1, name
        header = (ROOT / "sdk" / "include" / function.header).read_text()
        assert re.search(rf"\*/\n[\w *]+\b{name}\(", header), f"{name} has no comment"


def test_rows_name_arguments_and_instructions_that_there_are() -> None:
    for entry in reference.ENTRIES.values():
        known = arguments(functions()[entry.name])
        for operand in entry.operands:
            assert f"{operand.name}_addr" in known or operand.name in known, (entry.name, operand.name)
        named = {operand.name for operand in entry.operands}
        assert {*entry.in_place, *(name for pair in entry.apart for name in pair)} <= named, entry.name
        for limit in entry.limits:
            assert limit.argument in known, (entry.name, limit.argument)
        if entry.name.startswith("okk_"):
            for cost in entry.costs:
                assert set(cost.issues) <= set(BY_NAME), entry.name


def test_comments_are_made_anew_whatever_they_were() -> None:
    header = (
        "/* Section. */\n\n/** old\n * words */\nvoid okk_poll(void);\nint okk_npu_num(void); /* kept */\n"
    )
    made = kernel_page.with_comments(header)
    assert made.startswith("/* Section. */\n\n/** Waits until all commands")
    assert "old" not in made and made.endswith("int okk_npu_num(void); /* kept */\n")
    assert kernel_page.with_comments(made) == made
    assert max(map(len, made.splitlines())) <= 100


def test_a_page_without_the_mark_is_refused() -> None:
    with pytest.raises(SourceError, match="no mark"):
        kernel_page.with_reference("# Page\n")


def test_a_warning_is_said_with_its_limit() -> None:
    limits = (Limit("cols", 1, 8), Limit("rows", 1, 9, level=Level.WARNING), Limit("h", 1, 2, hidden=True))
    entry = Entry("okk_poll", "", limits=limits)
    assert reference.limit_lines(entry) == ["cols 1..8", "rows 1..9 (else a warning)"]


def test_operands_in_words() -> None:
    one = Operand(
        "input", "fp32", Layout.STRIDED, unit=4, extent="n, c", note="there", unit_without_strides=128
    )
    said = (
        "input, fp32 [n, c] in local memory, strided (NULL: aligned), at multiples of 4 (128 without strides)"
    )
    assert reference.operand_text(one) == f"{said}; there"
    assert reference.cost_text(Cost(("ar.add",), "n", "then")) == "then: 1 command (ar.add), n cycles"


def test_costs_for_programs() -> None:
    """As many commands as instructions are named, where nothing else is stated."""
    costs = Cost(("ar.add", "ar.mul"), "n", "then"), Cost(("ar.add",), "2 * n", "else", "2 * n")
    entry = replace(reference.find("okk_bdc_add"), costs=costs)
    assert reference.json_of(entry)["costs"] == [
        {"when": "then", "issues": ["ar.add", "ar.mul"], "commands": "2", "cycles": "n"},
        {"when": "else", "issues": ["ar.add"], "commands": "2 * n", "cycles": "2 * n"},
    ]


@pytest.mark.parametrize("name", ["okk_bdc_avg_pool2d", "avg_pool2d"])
def test_a_function_by_its_name_with_and_without_prefix(name: str) -> None:
    assert reference.find(name).name == "okk_bdc_avg_pool2d"


def test_a_short_name_of_two_functions_is_the_plain_one() -> None:
    assert reference.find("matmul").name == "okk_bdc_matmul"
    assert reference.find("conv").name == "bm_atomic_conv"


@pytest.mark.parametrize(
    ("wrong", "meant"), [("okk_bdc_ad", "okk_bdc_add"), ("avg_pol2d", "avg_pool2d"), ("_pool2d", "_pool2d")]
)
def test_names_that_are_not_there(wrong: str, meant: str) -> None:
    with pytest.raises(UsageError, match=rf"no function {wrong}; did you mean \w*{meant}"):
        reference.find(wrong)


def test_the_command_prints_one_function(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["okk", "max_pool2d"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("void okk_bdc_max_pool2d(local_addr_t output_addr, ")
    assert "  output = windows(input, -3.4028235e38).max((4, 5))\n" in said
    assert f"\ncosts ({timing.modelled()}):\n  1 command (max_pool.fp32), n * L" in said
    assert cli(["okk", "bm_atomic_sort", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["header"] == "bm_atomic.h" and row["operands"][0]["name"] == "output_data"


def test_the_command_lists_all_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["okk"]) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^  {name} ", said, re.M) for name in functions())
    assert cli(["okk", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["functions"]
    assert [row["name"] for row in listed] == list(reference.ENTRIES)


def test_the_command_refuses_a_name_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["okk", "okk_bdc_ad"]) == 2
    assert "did you mean okk_bdc_add, " in capsys.readouterr().err
