"""Where the modelled time of a run goes: every command with its line, what it waited for, what it moved.

`trace.py` times what a device traced, `model.py` is what comes of it, `totals.py` its sums; the other
modules write those as text, JSON, a page and a trace for Perfetto, and compare two of them.
"""
