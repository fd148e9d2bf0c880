"""Entries of the cache: whole or not there, and not more than it may hold."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from firmware_sim.errors import UsageError
from user_layers.toolchain import entries


def _entry(parent: Path, name: str, size: int = 10, age_s: float = 0.0) -> Path:
    temporary = parent / f"{name}.1.tmp"
    (temporary / "deep").mkdir(parents=True)
    (temporary / "deep" / "file").write_bytes(bytes(size))
    (temporary / "other").write_bytes(b"x")
    entries.put(temporary, parent / name)
    os.utime(parent / name, (time.time() - age_s,) * 2)
    return parent / name


def test_an_entry_is_whole_until_something_of_it_is_cut(tmp_path: Path) -> None:
    assert not entries.is_whole(tmp_path / "none")
    entry = _entry(tmp_path, "a")
    assert entries.is_whole(entry) and [path.name for path in tmp_path.iterdir()] == ["a"]
    (entry / "more").write_bytes(b"made later")
    assert entries.is_whole(entry)
    for name in ("deep/file", "other", "contents.json"):
        kept = (entry / name).read_bytes()
        for damage in (kept[:-1], b""):
            (entry / name).write_bytes(damage)
            assert not entries.is_whole(entry), name
        (entry / name).unlink()
        assert not entries.is_whole(entry), name
        (entry / name).write_bytes(kept)
        assert entries.is_whole(entry)
    (entry / "contents.json").write_text("[]")
    assert not entries.is_whole(entry)
    assert entries.is_whole(_entry(tmp_path, "a"))  # what was damaged is replaced


def test_what_is_built_aside_is_an_entry_when_nothing_fails(tmp_path: Path) -> None:
    for text in ("one", "two"):
        with entries.building(tmp_path / "a") as folder:
            (folder / "file").write_text(text)
        assert entries.is_whole(tmp_path / "a") and (tmp_path / "a" / "file").read_text() == text
    with pytest.raises(ZeroDivisionError), entries.building(tmp_path / "a") as folder:
        (folder / "file").write_text(str(1 // 0))
    assert (tmp_path / "a" / "file").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_entries_used_longest_ago_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, age in (("oldest", 9e4), ("old", 8e4), ("fresh", 60.0), ("new", 1e6)):
        _entry(tmp_path, name, 400_000, age)
    (tmp_path / "scan").mkdir()
    os.utime(tmp_path / "scan", (time.time() - 1e6,) * 2)
    for name, age in (("left.1.tmp", 1e6), ("building.2.tmp", 10.0)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    entries.remove_least_used(tmp_path, tmp_path / "new")  # two gigabytes
    assert {path.name for path in tmp_path.iterdir()} == {
        *("oldest", "old", "fresh", "new", "scan", "building.2.tmp")
    }
    monkeypatch.setenv("TPULAYER_CACHE_SIZE", "0.0013")
    entries.remove_least_used(tmp_path, tmp_path / "new")
    assert not (tmp_path / "oldest").exists() and (tmp_path / "old").exists()
    monkeypatch.setenv("TPULAYER_CACHE_SIZE", "0")
    entries.remove_least_used(tmp_path, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["building.2.tmp", "fresh", "new", "scan"]


@pytest.mark.parametrize("text", ["-1", "nan", "big"])
def test_a_size_that_is_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPULAYER_CACHE_SIZE", text)
    with pytest.raises(UsageError, match=f"TPULAYER_CACHE_SIZE {text}: give a number of gigabytes"):
        entries.most_bytes()
