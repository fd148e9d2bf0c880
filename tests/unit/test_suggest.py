"""What a misspelled name was probably meant to be."""

from __future__ import annotations

import pytest

from firmware_sim.suggest import closest


@pytest.mark.parametrize(
    ("word", "meant"),
    [("RELU", "ReLU"), ("Relu", "ReLU"), ("ELUU", "ELU"), ("Poolin", "Pooling"), ("Nothing", "")],
)
def test_a_name_in_another_case_is_meant_before_one_that_is_alike(word: str, meant: str) -> None:
    assert closest(word, iter(["ELU", "ReLU", "Pooling"])) == meant
