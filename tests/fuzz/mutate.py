"""Numbers and bytes that are likely to be mishandled."""

from __future__ import annotations

import random

_EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 65, 127, 128, 255, 256, 4095, 4096, 65535, 65536)


def number(rng: random.Random, bits: int, near: int = 0) -> int:
    """A number of so many bits: an edge, near `near`, or any."""
    limit = (1 << bits) - 1
    kind = rng.randrange(8)
    if kind <= 1:
        value = rng.choice(_EDGES)
    elif kind == 2:
        value = limit - rng.choice((0, 0, 1, 2, 127))
    elif kind == 3:
        value = (1 << rng.randrange(bits)) - rng.randrange(2)
    elif kind == 4:
        value = near + rng.choice((-128, -4, -2, -1, 1, 2, 4, 128))
    elif kind == 5:
        value = near * rng.choice((2, 3, 16)) if rng.randrange(2) else near // rng.choice((2, 3, 16))
    elif kind == 6:
        value = rng.getrandbits(rng.randint(1, bits))
    else:
        value = rng.getrandbits(bits)
    return value & limit


def damage(rng: random.Random, data: bytes, most: int = 6) -> bytes:
    """Bits, bytes and words changed; now and then cut, doubled or filled up."""
    out = bytearray(data)
    for _ in range(rng.randint(1, most)):
        if not out:
            out += rng.randbytes(rng.randrange(64))
            continue
        at = rng.randrange(len(out))
        kind = rng.randrange(12)
        if kind <= 3:
            out[at] ^= 1 << rng.randrange(8)
        elif kind <= 5:
            out[at] = rng.getrandbits(8)
        elif kind <= 8:
            size = rng.choice((4, 4, 4, 8))
            at = at // 4 * 4
            near = int.from_bytes(out[at : at + size], "little")
            out[at : at + size] = number(rng, 8 * size, near).to_bytes(size, "little")[: len(out) - at]
        elif kind == 9:
            del out[at:]
        elif kind == 10:
            out[at:at] = out[max(0, at - rng.randrange(256)) : at]
        else:
            out[at : at + rng.randrange(64)] = rng.randbytes(rng.randrange(64))
    return bytes(out)
