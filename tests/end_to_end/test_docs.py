"""Every example of the documentation runs, in order, page by page, each page in a workspace of its own.

A translation's blocks are those of its English page (test_translations.py), so only the latter's are run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.support.doc_blocks import RUN, SOURCE, Block, blocks_of
from tests.support.doc_pages import ORIGINALS, PAGES, anchors_of, links_of, sections_of
from tests.support.workspaces import built_demo


@pytest.mark.parametrize("page", ORIGINALS, ids=lambda p: p.name)
def test_blocks_are_runnable_or_say_why_not(page: Path) -> None:
    for block in blocks_of(page):
        known = block.language in RUN or block.language == "text" or block.path is not None
        assert known or block.excerpt, (
            f"{page.name}:{block.line}: a {block.language} block that no test runs; "
            "give it a path in its first line, or an excerpt comment with the reason"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for section in sections_of(page):
        for link in links_of(page, section.prose):
            if "://" in link.target:
                continue
            target = Path(link.target)
            assert target.exists(), f"{page.name} links to {target}, which does not exist"
            if link.anchor:
                assert link.anchor in anchors_of(target), (
                    f"{page.name} links to #{link.anchor}, not a heading of {target.name}"
                )


def _run(block: Block, page: Path, workspace: Path, env: dict[str, str]) -> None:
    command = ["bash", "-euo", "pipefail"] if block.language == "bash" else [sys.executable, "-W", "error"]
    done = subprocess.run(
        [*command, "-c", block.text],
        cwd=workspace,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (
        f"{page.name}:{block.line} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )


FIRST = ("README.md", "graphs.md", "python.md")  # what newcomers read


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.name, marks=() if p.name in FIRST else pytest.mark.slow) for p in ORIGINALS],
)
def test_examples_run(page: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    blocks = [b for b in blocks_of(page) if b.excerpt is None and (b.language in RUN or b.path)]
    if not blocks:
        pytest.skip(f"{page.name} has no example to run")
    env = dict(os.environ, EDITOR="true", NO_COLOR="1", TERM="dumb")
    env["PATH"] = os.pathsep.join((str(ROOT / "tool"), str(Path(sys.executable).parent), env["PATH"]))
    for name in ("BMCOMPILER_PLUGIN_PATH", "BMRUNTIME_FIRMWARE_PATH", "TPULAYER_STATE"):
        env.pop(name, None)
    env["XDG_STATE_HOME"] = str(tmp_path / "state")
    env["TPULAYER"] = str(ROOT)
    workspace = built_demo(tmp_path_factory, tmp_path / "work").root
    for block in blocks:
        if block.language in SOURCE and block.path is not None:
            target = workspace / block.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
        else:
            _run(block, page, workspace, env)
