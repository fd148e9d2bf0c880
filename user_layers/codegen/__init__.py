"""A table of layers -> the header and the two entry files that the build compiles."""

from user_layers.codegen.generate import TYPES_BEGIN, TYPES_END, generate

__all__ = ["TYPES_BEGIN", "TYPES_END", "generate"]
