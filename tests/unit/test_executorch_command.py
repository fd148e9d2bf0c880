"""`tpulayer executorch` where ExecuTorch is not as it should be, and what it is given is not either."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from firmware_sim.errors import MissingError, UsageError
from user_layers.cli.main import run
from user_layers.executorch import command, runtime


def _version(found: str | None) -> object:
    def version(name: str) -> str:
        assert name == "executorch"
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    return version


@pytest.mark.parametrize(
    ("found", "message"), [(None, "is not installed"), ("1.4.2", "executorch 1.4.2 is installed")]
)
def test_no_executorch_or_another_one(
    found: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "version", _version(found))
    out = tmp_path / "out.pte"
    with pytest.raises(MissingError, match=message) as caught:
        command.compile_program(command.CompileOptions("net.py:make", out), print)
    assert "pip install" in caught.value.hint and not out.exists()
    with pytest.raises(MissingError, match=message):
        command.run_program(tmp_path / "net.pte", None, None, print)


def test_a_missing_package_is_exit_code_3_and_a_missing_option_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "version", _version(None))
    assert run(["executorch", "run", "net.pte"]) == 3
    assert "executorch is not installed" in capsys.readouterr().err
    assert run(["executorch", "compile", "net.py:make"]) == 2
    assert "-o OUT.pte" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no_colon.py", "expected FILE.py:FUNCTION"),
        ("missing.py:make", "missing.py"),
        ("net.py:absent", "has no function 'absent'"),
        ("net.py:fails", "ZeroDivisionError"),
        ("net.py:one", "must return a module and a tuple"),
        ("net.py:many", "must return a module and a tuple"),
    ],
)
def test_a_function_that_gives_something_else(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net.py").write_text(
        "def one():\n    return 1\ndef many():\n    return 1, 2\ndef fails():\n    return 1 / 0\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        command.example(text)


def test_a_map_needs_both_sides() -> None:
    assert command.pair("mine::twice=TPU_DOUBLE") == ("mine::twice", "TPU_DOUBLE")
    with pytest.raises(UsageError, match="NAMESPACE::OPERATOR=TPU_LAYER"):
        command.pair("mine::twice")
