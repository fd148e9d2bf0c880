"""Looking at what a device executed, command by command: the words of `tpulayer step`."""
