"""The controller of the chip, an ARM926EJ-S, running the firmware images that are loaded onto it."""
