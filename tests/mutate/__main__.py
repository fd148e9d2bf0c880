"""Mutants of the whole toolkit: `python -m tests.mutate [--room NAME] [--only ID] [--jobs N] [--json FILE]`.

Exit code 1: a mutant survived that no `why:` explains, or was killed by a test that fails without it, too.
2: usage. 3: the list does not fit the sources, or tests cannot run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue

from firmware_sim.errors import BuildError
from tests.mutate.mutants import ListError, Mutant, all_mutants, room_names
from tests.mutate.run import Copy, Result, RunError, check
from user_layers.toolchain.cache import locked


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _picked(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Mutant]:
    mutants = all_mutants()
    for name in options.room:
        if name not in room_names():
            parser.error(f"unknown room {name!r}; there are {', '.join(room_names())}")
    for name in options.only:
        if name not in {mutant.id for mutant in mutants}:
            parser.error(f"unknown mutant {name!r}; names are written ROOM/NAME, see tests/mutate/rooms")
    for mutant in mutants:
        mutant.line()
    if options.room or options.only:
        return [m for m in mutants if m.room in options.room or m.id in options.only]
    return mutants


def run(mutants: Sequence[Mutant], folder: Path, jobs: int) -> list[Result]:
    """All of them, with so many copies at the same time. RunError when no result is possible."""
    _say(f"{len(mutants)} mutants in {folder}")
    made = [Copy(folder / str(i)) for i in range(jobs)]
    copies: SimpleQueue[Copy] = SimpleQueue()
    for copy in made:
        copies.put(copy)
    done = 0

    def one(mutant: Mutant) -> Result:
        nonlocal done
        copy = copies.get()
        try:
            result = copy.run(mutant)
        finally:
            copies.put(copy)
        done += 1
        _say(f"[{done}/{len(mutants)}] {mutant.id} {result.word} ({result.seconds:.0f} s) {result.by}")
        return result

    with ThreadPoolExecutor(jobs) as pool:
        try:
            results = list(pool.map(one, mutants))
            _say("the tests that failed, without a mutant")
            check(results, made[0])
            return results
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for copy in made:
                copy.stop()
            raise


def _row(room: str, results: Sequence[Result]) -> str:
    killed = sum(result.killed for result in results)
    seeded = [result for result in results if result.mutant.origin == "seeded"]
    of_seeded = f"{sum(result.killed for result in seeded)}/{len(seeded)}"
    explained = sum(not result.killed and result.accepted for result in results)
    share = 100 * killed / max(1, len(results))
    return f"{room:14} {killed:4}/{len(results):<4} {share:4.0f} %  {of_seeded:>9} {explained:10}"


def table(results: Sequence[Result]) -> str:
    """Per room what was killed, then what was not."""
    lines = [f"{'room':14} {'killed':>9} {'':6}  {'of seeded':>9} {'explained':>10}"]
    for room in dict.fromkeys(result.mutant.room for result in results):
        lines.append(_row(room, [result for result in results if result.mutant.room == room]))
    lines.append(_row("all", results))
    for result in results:
        if not result.killed:
            lines.append(f"{result.word} {result.mutant.id} {result.place}")
            lines += [f"    {text}" for text in (result.by, result.mutant.why) if text]
        elif result.mutant.why:
            lines.append(f"killed {result.mutant.id} {result.place}\n    by {result.by}: its `why:` can go")
    return "\n".join(lines)


def _document(result: Result) -> dict[str, object]:
    mutant = {key: value for key, value in asdict(result.mutant).items() if key != "lines"}
    return {**mutant, "place": result.place, "result": result.word, "by": result.by, "s": result.seconds}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--room", action="append", default=[], help="only the mutants of this room")
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="only this mutant")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time, each in its own copy")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what became of each")
    parser.add_argument("--folder", type=Path, help="make the copies here and keep them for the next run")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the tests end, too
    folder = options.folder.absolute() if options.folder else Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        with locked(folder / "lock", limit=0):
            results = run(_picked(parser, options), folder, max(1, options.jobs))
    except (ListError, RunError, BuildError) as error:
        _say(f"error: {error}")
        return 3
    except KeyboardInterrupt:
        return 130
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    print(table(results))
    if options.json:
        options.json.write_text(json.dumps([_document(result) for result in results], indent=1) + "\n")
    return 0 if all(result.accepted for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
