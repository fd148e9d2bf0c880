"""Child processes with a limit of time, and the memory that they share with their parent."""
