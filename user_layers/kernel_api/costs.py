"""Cycles with fitted figures in them, those of firmware_sim/isa/timing.py, in the words of the table."""

from __future__ import annotations

from firmware_sim.isa.timing import FITTED as F


def _transfer(burst: float, side: str, least: str = "") -> str:
    """Of one side of a copy; least: a term that it takes at least."""
    return f"max({burst:g} * {side}bursts, {F.scattered:g} * {side}scattered{least})"


READ = (
    f"{F.read_latency:g} + {_transfer(F.read_burst, '', f', {F.read_piece:g} * pieces')} + {F.jump:g} * jumps"
)
WRITE = f"{F.write_latency:g} + {_transfer(F.write_burst, '')} + {F.jump:g} * jumps"
READ_AND_WRITE = (
    f"{F.read_latency + F.write_latency:g} + {_transfer(F.read_burst, 'src_')} + "
    f"{_transfer(F.write_burst, 'dst_')} + {F.jump:g} * (src_jumps + dst_jumps)"
)
WRITE_WHOLE = f"{F.write_latency:g} + {F.write_burst:g} * ceil(bytes / 64)"
LOCAL = f"bytes / {F.local_bytes:g}"
COPIES = {"S2L": READ, "L2S": WRITE, "L2L": LOCAL, "S2S": READ_AND_WRITE}
"""By direction."""

_TAPS = "kernel_h * kernel_w"
_STEPS = "n * L * ceil(oh * ow / 16)"
_THREE = f"({F.three_channels:g} + {F.three_channels_stride:g} * stride_w) * {_TAPS} + 4"
CONVOLUTION = {
    "5 input channels or more": (
        f"{_STEPS} * max({_THREE}, {F.convolution:g} * ({_TAPS} * ceil(c / 2) + 3 + 2 * using_bias))"
    ),
    "3 or 4": f"{_STEPS} * ({_THREE})",
    "1 or 2": f"{_STEPS} * ({F.two_channels:g} * {_TAPS} + 4)",
}
"""By the number of input channels."""
BROADCAST = f"{F.two_channels + 4:g} * n * L * P"
_STRIDED = f"(1 + {F.depthwise_stride:g} * (stride_w - 1))"
POOL = f"{_STEPS} * ({_TAPS} + 3) * {_STRIDED}"
DEPTHWISE = f"{_STEPS} * ({_TAPS} + 3 + 2 * using_bias) * {_STRIDED}"


def product(rows: str, slots: str, width: str, inner: str) -> str:
    """Of a matrix product with a bias or without."""
    return f"{rows} * slots({slots}) * ceil({width} / 16) * ({inner} + {F.product:g} + 2 * using_bias)"
