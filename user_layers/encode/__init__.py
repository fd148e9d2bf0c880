"""Calling any function of the kernel API by name: what `isa encode` and `conformance` stand on."""
