"""Banks of local memory that both engines touch at the same time.

The clock charges nothing for them: no source says what they cost, and published times of chips do not tell
them apart. So they are counted, in cycles, and lengthen no command. Nor is it known whether two operands of
one command in the same bank cost anything; `Form.shares_banks` says which commands have them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from user_layers.profile.forms import Form
from user_layers.profile.model import Columns, Times


def conflicts(columns: Columns, forms: Sequence[Form]) -> Times:
    """Of each command the cycles in which the other engine runs one that touches a bank which it touches."""
    found = np.zeros(len(columns))
    masks = np.array([form.all_banks for form in forms], np.int64)[columns.form].tolist() if forms else []
    # each engine's commands follow one another, over batches and requests too
    bd, gdma = ([int(i) for i in np.nonzero(columns.engine == number)[0]] for number in (0, 1))
    start, end = columns.start.tolist(), columns.end.tolist()
    i = j = 0
    while i < len(bd) and j < len(gdma):
        a, b = bd[i], gdma[j]
        together = min(end[a], end[b]) - max(start[a], start[b])
        if together > 0 and masks[a] & masks[b]:
            found[a] += together
            found[b] += together
        if end[a] <= end[b]:
            i += 1
        else:
            j += 1
    return found
