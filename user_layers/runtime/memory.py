"""Device memory that belongs to one net."""

from __future__ import annotations

from firmware_sim.device.api import DeviceApi
from user_layers.bmodel.model import Coeff


class Memory:
    """Device memory that is given back together."""

    def __init__(self, device: DeviceApi) -> None:
        self.device = device
        self._blocks: list[int] = []
        self._constants: dict[bytes, int] = {}

    def alloc(self, nbytes: int) -> int:
        """Address of new memory in DDR, of one byte at least. DeviceError when DDR is full."""
        addr = self.device.malloc(max(nbytes, 1))
        self._blocks.append(addr)
        return addr

    def store(self, data: bytes) -> int:
        """Address of new memory in DDR with this content. DeviceError when DDR is full."""
        addr = self.alloc(len(data))
        self.device.write(addr, data)
        return addr

    def constants(self, coeff: Coeff) -> int:
        """Address of constants in device memory; stages with the same ones share them."""
        addr = self._constants.get(coeff.data)
        if addr is None:
            addr = self._constants[coeff.data] = self.store(coeff.data)
        return addr

    def free(self) -> None:
        """Give everything back, the newest first."""
        while self._blocks:
            self.device.free(self._blocks.pop())
