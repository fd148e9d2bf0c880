"""Whether the tests find mistakes: single-line mutants of the whole toolkit, one after the other.

`python -m tests.mutate` runs them, tests/mutate/rooms holds them, `python -m tests.mutate.propose` picks
places for more of them at random. Those marked `seeded` are what it gave for each room's files with
--seed 11 when the list was made, and with --seed 12 and 13 for files that came later, without a choice
among them.
"""
