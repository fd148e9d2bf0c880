"""The link between host and device: good requests to firmware that answers nonsense or writes nonsense to the
controller's registers and message ring, and calls that no message can carry."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from firmware_sim import wire
from firmware_sim.arm import layout
from firmware_sim.chip import DTCM_BASE
from firmware_sim.device.client import Device, StreamGroup
from firmware_sim.errors import TpulayerError
from firmware_sim.wire import DType, Program, ProgramTensor, Step, StepOp, TensorKind, TensorRecord, TType
from tests.fuzz.driver import Case, Target
from tests.fuzz.mutate import damage, number
from tests.fuzz.requests import Devices, open_device
from tests.fuzz.watched import BLOBS

ROOT = Path(__file__).resolve().parents[2]
_FLUSH, _GROUP, _LOG, _ANSWER = 1, 2, 3, 4
_WORDS = (0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


# ---- firmware that answers nonsense ----


def nonsense_firmware(folder: Path) -> Path:
    found = shutil.which("cc")
    compiler = [found] if found else [sys.executable, "-m", "ziglang", "cc"]
    includes = [f"-I{ROOT}/sdk/{name}" for name in ("firmware", "generated")]
    flags = ["-O1", "-shared", "-fPIC", "-fno-sanitize=undefined", *includes]
    out = folder / "firmware.so"
    source = str(Path(__file__).with_name("nonsense_firmware.c"))
    subprocess.run([*compiler, *flags, source, "-o", str(out)], check=True, timeout=300)
    return out


def _answer(rng: random.Random) -> bytes:
    """A reply: of the right form, with parts that are not."""
    records = b"".join(
        TensorRecord((2, 3), dtype=DType.INT32, ttype=TType.NEURON_SHAPE).encode(rng.choice((0, wire.NONE)))
        for _ in range(rng.randrange(3))
    )
    layer = wire.LAYER_INFO.pack(3, 4, 5, b"TPU_X")
    body = rng.choice(
        (
            records + struct.pack("<6i", *range(6)),
            wire.INFO.pack(1, 1, 1, 0) + layer + b"kernel\0\0",
            b"an error [called at 0x7f0011223344] of the firmware",
            rng.randbytes(rng.randrange(300)),
        )
    )
    if rng.randrange(4):
        body = damage(rng, body)
    status = rng.choice((0, 0, 0, 0, 7, -1, -3, -100, -77, number(rng, 31), -number(rng, 31)))
    size = len(body) if rng.randrange(3) else number(rng, 32, len(body))
    return wire.REPLY.pack(status, size) + body


def _calls(rng: random.Random) -> bytes:
    """What the firmware asks of the host on the way."""
    out = b""
    for _ in range(rng.choice((0, 0, 1, 3))):
        what = rng.choice((_FLUSH, _FLUSH, _GROUP, _LOG))
        words: tuple[int, ...]
        if what == _LOG:
            words = (rng.choice((0, 1, 100, 65536)),)
        elif what == _FLUSH:
            words = (number(rng, 32), number(rng, 32), rng.choice((0, 1, 2, 3, 4, 0xFFFF_FFFF)))
        else:
            where = rng.choice((BLOBS, number(rng, 32)))
            words = (where & 0xFFFF_FFFF, rng.choice((0, 1, 1, 3, 4, 0xFFFF_FFFF)), number(rng, 32))
            words = (*words, rng.choice((0, 1, number(rng, 32))), rng.choice((0, 1, number(rng, 32))))
        out += struct.pack("<6I", what, *words, *([0] * (5 - len(words))))
    return out


def _nonsense(rng: random.Random) -> Case:
    answer = _answer(rng)
    announced = len(answer) if rng.randrange(4) else number(rng, 32, len(answer))
    script = _calls(rng) + struct.pack("<6I", _ANSWER, announced, 0, 0, 0, 0) + answer
    return {"nonsense": script.hex(), "asks": rng.choice(sorted(_ASKS))}


_TENSORS = [TensorRecord((2, 3), host_data=(1, 2, 3, 4, 5, 6))]
_ASKS: dict[str, Callable[[Device], object]] = {
    "launch": lambda d: d.launch("x"),
    "query": lambda d: d.query(),
    "shape": lambda d: d.infer_shape(3, b"abc", _TENSORS, 2),
    "program": lambda d: d.run_program(BLOBS, 64, _TENSORS, _TENSORS, BLOBS, 64, BLOBS),
    "record": lambda d: d.record(Program([], [Step(StepOp.GLOBAL)])),
    "record_launch": lambda d: d.record_launch("x"),
    "streams": lambda d: d.run_streams([StreamGroup(BLOBS, BLOBS, 0, 0)]),
}


# ---- calls that no message can carry ----


def _wild_call(rng: random.Random) -> Case:
    return {
        "wild": rng.choice(("streams", "shape", "program", "record", "launch")),
        "numbers": [
            rng.choice((number(rng, 64), number(rng, 32), -number(rng, 31) - 1, number(rng, 80), 1))
            for _ in range(16)
        ],
    }


def _call(device: Device, what: str, n: list[int]) -> None:
    tensor = TensorRecord((n[0], n[1]), addr=n[2], host_data=tuple(n[3:5]) if n[5] % 2 else None)
    if what == "streams":
        device.run_streams([StreamGroup(*n[:4])])
    elif what == "shape":
        device.infer_shape(n[6], b"abcd", [tensor], n[7] % 20)
    elif what == "program":
        device.run_program(n[8], n[9], [tensor], [tensor], n[10], n[11], n[12])
    elif what == "launch":
        device.launch(f"k{n[0]}" * (n[1] % 40), bytes(n[2] % 5000))
    else:
        step = Step(StepOp.COPY, (n[6], 0), (0,), n[7], "name", b"", n[8], n[9], n[10])
        record = ProgramTensor(TensorKind.NEURON, tensor, n[11], n[12], n[13], n[14])
        device.record(Program([record], [step], n[15], 0))


# ---- kernels that write over the controller's registers and its firmware ----


def _registers(rng: random.Random) -> int:
    """An address of the engines, of the link block, or of the message ring."""
    kind = rng.randrange(8)
    if kind == 0:
        return layout.BD_REGS + 4 * rng.randrange(8)
    if kind == 1:
        return layout.GDMA_REGS + 4 * rng.randrange(8)
    if kind in (2, 3):
        return layout.LINK + 4 * rng.randrange(12)
    if kind in (4, 5):
        ring = layout.RING + 4 * rng.randrange(8)
        return ring if rng.randrange(2) else layout.RING + 4 * rng.randrange(layout.RING_DTYPE.itemsize // 4)
    if kind == 6:
        return layout.NEWEST + 4 * rng.randrange(256)
    return rng.choice((layout.LOG, layout.MESSAGES, layout.SITES, layout.BD_ARENA)) + 4 * rng.randrange(64)


def _poke(rng: random.Random) -> Case:
    firmware = rng.randrange(5) == 0
    pokes = []
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        if firmware:
            at = rng.choice((DTCM_BASE + 0x1_8000, DTCM_BASE + 0x1_7000, layout.WINDOW))
            address = at + 4 * rng.randrange(2048)
        else:
            address = _registers(rng)
        value = rng.choice((rng.choice(_WORDS), number(rng, 32), rng.randrange(6), _registers(rng)))
        pokes += [address, value]
    flags = rng.randrange(8)
    return {"poke": pokes, "flags": flags, "firmware": firmware}


class Link(Target):
    """A case has one of "nonsense" (hex), "wild" or "poke"."""

    def __init__(self) -> None:
        self._devices = Devices()
        self._folder = tempfile.TemporaryDirectory()
        self._nonsense = open_device(nonsense_firmware(Path(self._folder.name)))

    def make(self, rng: random.Random) -> Case:
        return rng.choice((_nonsense, _wild_call, _poke, _poke))(rng)

    def run(self, case: Case) -> str:
        if "wild" in case:
            _call(self._devices.of("native"), case["wild"], case["numbers"])
            return "wild call answered"
        if "poke" in case:
            return self._run_poke(case)
        script = bytes.fromhex(case["nonsense"])
        outcome = ""
        try:
            self._nonsense.launch("say", script)
        except TpulayerError as error:
            outcome = f", launch: {type(error).__name__}"
        _ASKS[case["asks"]](self._nonsense)
        return f"nonsense taken{outcome}"

    def _run_poke(self, case: Case) -> str:
        device = self._devices.of("arm")
        pokes = case["poke"]
        args = struct.pack(f"<{2 + len(pokes)}I", case["flags"], len(pokes) // 2, *pokes)
        try:
            device.launch("poke", args)
        finally:
            if case["firmware"]:  # its own memory is overwritten: nobody can tell before it fails
                self._devices.restart()
        return "poke survived"

    def check(self) -> None:
        self._devices.check()

    def close(self) -> None:
        self._devices.close()
        self._nonsense.close()
        self._folder.cleanup()


def make() -> Any:
    return Link()
