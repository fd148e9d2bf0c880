"""The compiler: a graph becomes a net that a bmodel stores. One pass per file; see pipeline.py."""

from user_layers.compiler.output import References, write_directory
from user_layers.compiler.pipeline import compile_graph
from user_layers.compiler.result import CompiledNet

__all__ = ["CompiledNet", "References", "compile_graph", "write_directory"]
