"""An .npy file that numpy has no ValueError for: its header is an expression that does not end."""

OPEN_HEADER = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': (".ljust(117) + b"\n"
