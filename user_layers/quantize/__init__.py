"""Nets in 8-bit integers: ranges of tensors (`table.py`), scales chosen for what the chip can do
(`scales.py`), and the rewriting of a graph (`rewrite.py`; one module of rules per kind of layer)."""
