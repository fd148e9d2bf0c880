"""tpulayer: write custom layers for the BM1684 in C; compile, emulate and check them without the chip."""

__version__ = "0.1.0"
