"""The instruction table of the BM1684: descriptor fields, encoder, decoder, footprints, cycles."""
