"""The compiler: a graph becomes a net that a bmodel stores. One pass per file; see pipeline.py."""

from user_layers.compiler.output import References, write_directory
from user_layers.compiler.pipeline import compile_graph
from user_layers.compiler.result import CompiledNet
from user_layers.compiler.stages import combine_stages, compile_stages

__all__ = [
    "CompiledNet",
    "References",
    "combine_stages",
    "compile_graph",
    "compile_stages",
    "write_directory",
]
