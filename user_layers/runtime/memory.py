"""Device memory that belongs to one net."""

from __future__ import annotations

from firmware_sim.checks.objects import BOTH
from firmware_sim.checks.records import READS
from firmware_sim.device.api import DeviceApi
from user_layers.bmodel.model import Coeff


class Memory:
    """Device memory that is given back together."""

    def __init__(self, device: DeviceApi) -> None:
        self.device = device
        self._blocks: list[int] = []
        self._constants: dict[bytes, int] = {}

    def alloc(self, nbytes: int, name: str = "", rights: int = BOTH) -> int:
        """Address of new memory in DDR, of one byte at least. name, rights: see `DeviceApi.malloc`.
        DeviceError when DDR is full."""
        addr = self.device.malloc(max(nbytes, 1), name, rights)
        self._blocks.append(addr)
        return addr

    def store(self, data: bytes, name: str = "", rights: int = BOTH) -> int:
        """Address of new memory in DDR with this content; else as `alloc`."""
        addr = self.alloc(len(data), name, rights)
        self.device.write(addr, data)
        return addr

    def constants(self, coeff: Coeff, net: str) -> int:
        """Address of a net's constants in device memory; stages with the same ones share them."""
        addr = self._constants.get(coeff.data)
        if addr is None:
            addr = self._constants[coeff.data] = self.store(coeff.data, f"the constants of {net}", READS)
        return addr

    def free(self) -> None:
        """Give everything back, the newest first."""
        while self._blocks:
            self.device.free(self._blocks.pop())
