"""The start of a child in a debugger: OUTPUT_FD, then what `process_child.child_main` takes.

The debugger's terminal is not for what the child prints: that goes where the first argument says.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Redirect, and be the child. PYTHONPATH has its modules; the current folder is no place for them."""
    sys.path.pop(0)
    output, nothing = int(sys.argv[1]), os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(fd, place)
    os.close(output)
    os.close(nothing)
    from firmware_sim.processes.process_child import child_main

    child_main(sys.argv[2:])


if __name__ == "__main__":
    main()
