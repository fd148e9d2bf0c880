"""What each instruction of the BM1684 does, one module per family; `table` finds that of a descriptor."""
