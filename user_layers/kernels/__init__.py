"""Free kernels with numpy arrays, without a graph."""
