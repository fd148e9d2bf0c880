"""Kernels, layers and nets with one mistake each, whose line is known, and as many tricky ones without."""
