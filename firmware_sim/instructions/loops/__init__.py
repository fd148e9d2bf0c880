"""Compiled loops in C: what the instructions' references in numpy say, faster.

`library` knows where the library of them is, `source` writes the part of it that follows from tables,
`native` calls it. They run in threads that flush denormals (firmware_sim.flush) and without fast-math, so
each is bit for bit the reference beside it in firmware_sim.instructions.
"""
