"""A table of layers -> the header and the two entry files that the build compiles, and their record."""

from user_layers.codegen.generate import generate

__all__ = ["generate"]
