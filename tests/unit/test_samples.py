"""Samples for calibrating and evaluating: what is refused, and with which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware_sim.errors import UsageError
from user_layers.quantize.data import Batch, batches, samples_in

SHAPES = {"x": (2, 3, 4)}
GOOD = np.arange(60, dtype=np.float32).reshape(5, 3, 4)


def with_first(value: float, dtype: Any = np.float32) -> np.ndarray:
    """Good samples, of which the fourth holds this."""
    made = GOOD.astype(dtype)
    made[3, 1, 2] = value
    return made


def read(path: Path, shapes: dict[str, tuple[int, ...]] | None = None, **arrays: Any) -> list[Batch]:
    np.savez(path / "data.npz", **arrays)
    return list(batches(path / "data.npz", shapes or SHAPES))


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"x": GOOD[:0]}, "has no samples"),
        ({"z": GOOD}, "has no array 'x'; it has z"),
        ({"x": GOOD[:, :2]}, r"'x' is \[5, 2, 4\], and the net takes \[2, 3, 4\]"),
        ({"x": np.float32(1)}, r"'x' is \[\], and the net takes"),
        ({"x": GOOD.astype(np.complex64)}, "'x' is complex64, no numbers"),
        ({"x": GOOD.astype("U3")}, "'x' is <U3, no numbers"),
        ({"x": with_first(np.nan)}, "'x' holds NaN in sample 3"),
        ({"x": with_first(1e200, np.float64)}, "'x' holds what is too large for float32 in sample 3"),
        (
            {"x": with_first(2**24 + 1, np.int64)},
            "'x' holds an integer that float32 does not have in sample 3",
        ),
        ({"x": GOOD, "labels": np.zeros(4)}, "4 labels for 5 samples"),
        ({"x": GOOD, "labels": np.int64(4)}, "one number instead of labels for 5 samples"),
        ({"x": np.array([{}] * 5, object)}, "it holds objects"),
    ],
)
def test_what_no_net_can_take(tmp_path: Path, arrays: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read(tmp_path, **arrays)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64])
def test_numbers_of_any_type(tmp_path: Path, dtype: Any) -> None:
    given = (GOOD % 2).astype(dtype)
    first, *_, last = read(tmp_path, x=given)
    np.testing.assert_array_equal(first.inputs["x"], given[:2])
    assert first.inputs["x"].dtype == np.float32 and (first.count, last.count) == (2, 1)


def test_infinities_are_for_masks(tmp_path: Path) -> None:
    given = read(tmp_path, x=with_first(-np.inf))
    assert given[1].inputs["x"][1, 1, 2] == -np.inf


def test_an_input_that_is_called_labels(tmp_path: Path) -> None:
    (only,) = read(tmp_path, {"labels": (5, 3, 4)}, labels=GOOD)
    np.testing.assert_array_equal(only.inputs["labels"], GOOD)
    assert only.labels is None


@pytest.mark.parametrize("damage", ["cut", "no numpy", "changed", "empty"])
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=GOOD)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(
        {
            "cut": content[:middle],
            "no numpy": b"hello, world",
            "changed": content[: middle - 40] + bytes(40) + content[middle:],
            "empty": b"",
        }[damage]
    )
    with pytest.raises(UsageError, match="it is damaged, or no file of numpy's"):
        list(batches(path, SHAPES))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none.npz: No such file or directory"):
        list(batches(tmp_path / "none.npz", SHAPES))


def test_how_many_samples_there_are_is_known_before(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((7, 2)))
    np.savez(tmp_path / "b.npz", x=np.zeros((5, 3)), labels=np.zeros(5))
    assert [samples_in(tmp_path / name) for name in ("a.npy", "b.npz", "")] == [7, 5, 12]
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for i in range(3):
        (pictures / f"{i}.png").touch()
    (pictures / "notes.txt").touch()
    assert samples_in(pictures) == 3
    np.savez(tmp_path / "c.npz", x=np.zeros((5, 3)), y=np.zeros(4))
    (tmp_path / "d.npy").touch()
    for name in ("c.npz", "d.npy", "missing.npy", ""):
        assert samples_in(tmp_path / name) is None
