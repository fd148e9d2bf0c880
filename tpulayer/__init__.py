"""tpulayer: custom layers for the BM1684 in C; compile, emulate and check them without the chip.

Graphs: `Graph` builds a net of layers, compiles and runs it; `compile_onnx` compiles an ONNX model into a
folder, `compile_file` a file of another framework too; `compile_stages` puts several sets of input shapes
into one net. All give a `CompiledNet`.
Running: `load_bmodel` loads what was compiled and runs it with numpy arrays (`BModelRuntime`); `run_kernel`
builds a free kernel from C files and runs it; `Device` is the emulated chip itself. `traced` takes down every
command that runs, and a `Stepper` walks through them.
Around them: `Workspace` is a folder with layers, `Toolkit` what graphs need of one; `firmware_image` and
`kernel_firmware` give what a device is to boot.
Errors: each is a `TpulayerError`, whose `message` says what is wrong and where, and `hint` what to do.

A name is loaded when it is first used: importing the package loads nothing else.
"""

from user_layers import __version__ as __version__

TYPE_CHECKING = False  # known to type checkers by its name; importing typing would take longer than all else

if TYPE_CHECKING:
    from firmware_sim.checks.error import CheckError
    from firmware_sim.checks.finding import Finding
    from firmware_sim.device.client import Device, FirmwareError
    from firmware_sim.device.trace import traced
    from firmware_sim.errors import (
        BuildError,
        CompileError,
        DeviceCrash,
        DeviceError,
        MissingError,
        ModelError,
        SourceError,
        TpulayerError,
        UsageError,
    )
    from firmware_sim.firmware.image import FirmwareImage
    from firmware_sim.wire import DType, TType
    from user_layers.api import Graph
    from user_layers.formats import compile_file
    from user_layers.graph.graph import (
        BINARY_ADD,
        BINARY_DIV,
        BINARY_MAX,
        BINARY_MIN,
        BINARY_MUL,
        BINARY_SUB,
    )
    from user_layers.kernels.run_kernel import KernelResult, Output, run_kernel
    from user_layers.net.compiled import CompiledNet
    from user_layers.onnx.compile import compile_onnx
    from user_layers.onnx.custom import MappedNode
    from user_layers.product import compile_stages
    from user_layers.profile.model import Profile
    from user_layers.profile.run import profiled
    from user_layers.runtime.bmruntime import BModelRuntime, load_bmodel
    from user_layers.runtime.network import NetworkInfo
    from user_layers.stepper.stepper import Stepper
    from user_layers.toolchain.firmware import firmware_image
    from user_layers.toolchain.kernel import kernel_firmware
    from user_layers.toolkit import Toolkit
    from user_layers.workspace import Workspace

__all__ = [
    "BINARY_ADD",
    "BINARY_DIV",
    "BINARY_MAX",
    "BINARY_MIN",
    "BINARY_MUL",
    "BINARY_SUB",
    "BModelRuntime",
    "BuildError",
    "CheckError",
    "CompileError",
    "CompiledNet",
    "DType",
    "Device",
    "DeviceCrash",
    "DeviceError",
    "Finding",
    "FirmwareError",
    "FirmwareImage",
    "Graph",
    "KernelResult",
    "MappedNode",
    "MissingError",
    "ModelError",
    "NetworkInfo",
    "Output",
    "Profile",
    "SourceError",
    "Stepper",
    "TType",
    "Toolkit",
    "TpulayerError",
    "UsageError",
    "Workspace",
    "compile_file",
    "compile_onnx",
    "compile_stages",
    "firmware_image",
    "kernel_firmware",
    "load_bmodel",
    "profiled",
    "run_kernel",
    "traced",
]

if not TYPE_CHECKING:  # a checker would take any name for one of ours
    _MODULES = {
        "firmware_sim.checks.error": ("CheckError",),
        "firmware_sim.checks.finding": ("Finding",),
        "firmware_sim.device.client": ("Device", "FirmwareError"),
        "firmware_sim.device.trace": ("traced",),
        "firmware_sim.errors": (
            "BuildError",
            "CompileError",
            "DeviceCrash",
            "DeviceError",
            "MissingError",
            "ModelError",
            "SourceError",
            "TpulayerError",
            "UsageError",
        ),
        "firmware_sim.firmware.image": ("FirmwareImage",),
        "firmware_sim.wire": ("DType", "TType"),
        "user_layers.toolchain.firmware": ("firmware_image",),
        "user_layers.toolchain.kernel": ("kernel_firmware",),
        "user_layers.net.compiled": ("CompiledNet",),
        "user_layers.product": ("compile_stages",),
        "user_layers.profile.model": ("Profile",),
        "user_layers.profile.run": ("profiled",),
        "user_layers.api": ("Graph",),
        "user_layers.formats": ("compile_file",),
        "user_layers.graph.graph": (
            "BINARY_ADD",
            "BINARY_DIV",
            "BINARY_MAX",
            "BINARY_MIN",
            "BINARY_MUL",
            "BINARY_SUB",
        ),
        "user_layers.onnx.compile": ("compile_onnx",),
        "user_layers.onnx.custom": ("MappedNode",),
        "user_layers.runtime.bmruntime": ("BModelRuntime", "load_bmodel"),
        "user_layers.runtime.network": ("NetworkInfo",),
        "user_layers.kernels.run_kernel": ("KernelResult", "Output", "run_kernel"),
        "user_layers.stepper.stepper": ("Stepper",),
        "user_layers.toolkit": ("Toolkit",),
        "user_layers.workspace": ("Workspace",),
    }
    _MODULE = {name: module for module, names in _MODULES.items() for name in names}

    def __getattr__(name):
        module = _MODULE.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(module), name)
        return value

    def __dir__():
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
