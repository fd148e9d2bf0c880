"""The commands: argument handling and what is printed, nothing else."""
