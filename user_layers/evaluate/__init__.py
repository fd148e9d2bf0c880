"""How good a net in 8-bit integers is: beside the float net, on samples, layer by layer."""
