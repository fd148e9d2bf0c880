"""The compiler: a graph becomes a net that a bmodel stores. One pass per file; see pipeline.py."""
