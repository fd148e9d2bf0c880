"""Writes the lists of layers in docs/caffe.md: `python -m user_layers.caffe.page`, in a checkout."""

from __future__ import annotations

from user_layers.caffe.spellings import REFUSED, known_types
from user_layers.spelling.page import page_path, rewrite, with_list

PAGE = "caffe.md"
_HOST = """
On the host run ROIPooling, the second top of Pooling (where the maxima are) and Upsample
with a mask; nearly all else has layers on the TPU.
"""


def with_types(page: str) -> str:
    """The page with the lists that are true now, which are the last thing on it: types of layers that can be
    had, and those that are refused."""
    reasons = "".join(f"- {kind}: {REFUSED[kind]}\n" for kind in sorted(REFUSED, key=str.lower))
    more = f"{_HOST}\nThese are refused:\n\n{reasons}"
    return with_list(page, "user_layers.caffe.page", known_types(), more)


if __name__ == "__main__":
    rewrite(PAGE, with_types(page_path(PAGE).read_text()))
