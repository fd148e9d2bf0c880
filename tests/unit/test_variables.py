"""Variables of the environment that hold what they may not: every command says so before it begins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from firmware_sim import variables
from firmware_sim.errors import UsageError, system_error
from user_layers.cli.main import run

WRONG = {
    "TPULAYER_TIME_LIMIT": ("soon", "a number of seconds, 0 for no limit"),
    "TPULAYER_HOST_LIMIT": ("1.5", "a whole number of seconds, 1 or more"),
    "TPULAYER_HOST_MEMORY": ("all", "a number of gigabytes, 0 for no limit"),
    "TPULAYER_CACHE_SIZE": ("-1", "a number of gigabytes"),
    "TPULAYER_THREADS": ("0", "a number of threads, 1 or more"),
    "TPULAYER_WARNINGS": ("loud", "one of show, error, ignore"),
    "TPULAYER_FIRMWARE": ("thumb", "one of native, arm"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("words", [["run_kernel", "--kernel", "none.c", "--name", "k"], ["list_layers"]])
def test_a_wrong_one_is_said_by_every_command(
    name: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, form = WRONG[name]
    monkeypatch.setenv(name, text)
    assert run(words) == 2
    assert capsys.readouterr().err == f"error: {name} {text}: give {form}\n"


def test_what_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WRONG:
        monkeypatch.setenv(name, " ")
    variables.check()
    assert variables.TIME_LIMIT.get() is None
    monkeypatch.setenv("TPULAYER_TIME_LIMIT", " 1.5 ")
    monkeypatch.setenv("TPULAYER_THREADS", "12")
    variables.check()
    assert (variables.TIME_LIMIT.get(), variables.THREADS.get()) == (1.5, 12)
    for text in ("nan", "inf", "-1", "1099511627776"):
        monkeypatch.setenv("TPULAYER_TIME_LIMIT", text)
        with pytest.raises(UsageError, match=f"TPULAYER_TIME_LIMIT {text}: give a number of seconds"):
            variables.check()


@pytest.mark.parametrize("words", [["doctor"], ["init", "new"], ["bmrt_test", "--context_dir", "net"]])
def test_a_current_folder_that_is_gone(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("PWD", str(gone))
    shutil.rmtree(gone)
    assert run(words) == 3
    said = f"the current folder {gone} does not exist any more; cd to one that does"
    assert capsys.readouterr().err == f"error: {said}\n"
    with pytest.raises(FileNotFoundError) as caught:  # as libraries would say it in the middle of a command
        Path.cwd()
    assert system_error(caught.value) == said
