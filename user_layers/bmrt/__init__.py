"""The vendor's runtime commands, and the process behind libbmrt.so."""
