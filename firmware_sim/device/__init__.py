"""The device as its clients see it, and the process that holds chip and firmware."""
