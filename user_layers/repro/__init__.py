"""Something that went wrong, kept in a folder so that one command shows it again, on any machine.

    repro = Repro(("verify", "scale", "--case", "case.json"), 1, "scale: DIFFERS in 3 of 12 elements")
    saved = save(Path("found"), "scale-local", repro, {"case.json": text, **workspace_files(ws)})
    code = replay(saved, print)

Everything is a command of this toolkit: what is kept is its words, the files that it reads, and how it ended.
"""

from user_layers.repro.folder import Content, Repro, load, save, workspace_files
from user_layers.repro.run_again import replay

__all__ = ["Content", "Repro", "load", "replay", "save", "workspace_files"]
