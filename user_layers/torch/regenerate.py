"""`python -m user_layers.torch.regenerate`: writes the list of operators in docs/executorch.md."""

from __future__ import annotations

import textwrap
from pathlib import Path

from user_layers.files import write_if_changed
from user_layers.torch.spellings import TORCH

PAGE = Path(__file__).resolve().parents[2] / "docs" / "executorch.md"
_BEGIN, _END = "<!-- operators -->\n", "<!-- /operators -->\n"


def with_operators(page: str) -> str:
    """The page with the list as the code has it."""
    names = sorted({name.removesuffix(".default").removeprefix("aten.") for name in TORCH})
    text = textwrap.fill(", ".join(f"`{name}`" for name in names) + ".", 118, break_on_hyphens=False)
    head, _, rest = page.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}{text}\n{_END}{tail}"


if __name__ == "__main__":
    write_if_changed(PAGE, with_operators(PAGE.read_text()))
