"""ExecuTorch: programs whose partitions run on a BM1684, compiled and run."""
