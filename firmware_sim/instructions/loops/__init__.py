"""Compiled loops (numba), one module per family, loaded on first use and cached on disk.

They run in threads that flush denormals (firmware_sim.flush) and without fast-math, so each is bit for
bit the reference beside it in firmware_sim.instructions.
"""
