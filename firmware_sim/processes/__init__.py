"""Child processes with a watchdog, and the memory that they share with their parent."""
