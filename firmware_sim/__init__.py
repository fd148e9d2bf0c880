"""The BM1684, emulated: instruction table, engines, memories, controller, and the process that holds them."""
