"""Fuzzers of the device and of what is loaded onto it: `python -m tests.fuzz --help`.

Each target makes cases from a random generator and runs them. A case is JSON, so that it can be kept: a case
with a finding is saved, and those that once had one are in corpus/ and run with the tests.
"""
