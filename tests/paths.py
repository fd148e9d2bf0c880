"""Where things are, for tests."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
SOURCES = TESTS / "sources"
"""C and C++ that tests build: kernels, programs, folders of layers."""
