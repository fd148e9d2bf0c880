"""The table of docs/checking.md, from the table of rules of the checks."""

from __future__ import annotations

from firmware_sim.checks.rules import RULES

COLUMNS = "| rule | what is wrong | what to do |\n|---|---|---|\n"


def rows() -> str:
    """A row for each rule."""
    return "".join(
        f"| `{rule.name}`{' (advice)' if rule.advice else ''} | {rule.title} | {rule.hint} |\n"
        for rule in RULES.values()
    )


def with_rules(page: str) -> str:
    """The page, whose last table is that of the rules, with these rows."""
    head, found, _ = page.partition(COLUMNS)
    assert found, "docs/checking.md has no table of rules"
    return f"{head}{found}{rows()}"
