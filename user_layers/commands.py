"""The table of commands: what `tpulayer --help` lists, what tool/ and completion offer, where the code is.

The code is imported only when a command runs, so that starting and help stay fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One command: a function of the same name in user_layers.cli.<module>.

    values: what completion offers at each place of the command line. layers: it offers names of layers there.
    bare: the script in tool/ that runs it, where the command's own name will not do. one_dash: its options
    are also taken with one dash, as the vendor's tools take them. rest: behind its first word all words are
    another command's.
    """

    name: str
    module: str
    help: str
    values: tuple[tuple[str, ...], ...] = ()
    layers: bool = False
    bare: str = ""
    one_dash: bool = False
    rest: bool = False

    @property
    def tool(self) -> str:
        """The command's bare name after `source envsetup.sh`."""
        return self.bare or self.name

    @property
    def script(self) -> str:
        """The text of the script in tool/ that runs it."""
        return f'#!/usr/bin/env bash\nexec tpulayer {self.name} "$@"\n'

    def function(self) -> Callable[..., int | None]:
        """The code; what it returns is the exit code, None being 0."""
        from importlib import import_module

        function: Callable[..., int | None] = getattr(
            import_module(f"user_layers.cli.{self.module}"), self.name
        )
        return function


GROUPS: tuple[tuple[str, tuple[Command, ...]], ...] = (
    (
        "Layers",
        (
            Command("init", "layers", "make a workspace"),
            Command(
                "add_layer",
                "layers",
                "make the files of a new layer, which already builds and runs",
                values=((), ("0", "1")),
            ),
            Command("del_layer", "layers", "remove the files of a layer", layers=True),
            Command("list_layers", "layers", "list the layers of the workspace"),
        ),
    ),
    (
        "Building",
        (
            Command("build_layers", "building", "build and install everything that is not up to date"),
            Command("rebuild_layers", "building", "the same from clean"),
            Command("clean", "building", "remove generated/, build/ and install/"),
            Command("gen_config", "building", "write what the build needs of the configuration"),
            Command("gen_entry", "building", "scan the layers and write bmtpu.h and the entry files"),
            Command("set_bmkernel_path", "building", "choose a project whose kernels the layers may call"),
            Command("build_bmkernel", "building", "build that project by itself"),
            Command("host_flags", "building", "print the compiler's switches for host programs in C and C++"),
        ),
    ),
    (
        "Running",
        (
            Command(  # the shells have a builtin of this name
                "test", "testing", "run layers beside their numpy references", layers=True, bare="test_layers"
            ),
            Command(
                "verify", "verifying", "try layers on random cases; the smallest that fails", layers=True
            ),
            Command("compile", "models", "compile a model into a bmodel"),
            Command("calibrate", "quantising", "find the ranges of a model's tensors, for 8 bits"),
            Command("evaluate", "quantising", "compare a net in 8 bits with the float net on samples"),
            Command("explain", "models", "say what of a model would run where, and what fills the gaps"),
            Command("bmnetu", "caffe", "compile a net of Caffe's into a bmodel", one_dash=True),
            Command(
                "test_tpu_layer",
                "running",
                "compile and run the demo graph, compare with numpy",
                values=(("0", "1"),),
            ),
            Command("bmrt_test", "running", "run a bmodel and compare with its reference data"),
            Command(
                "check",
                "running",
                "look for races, unwritten memory and the like in a bmodel",
                bare="check_model",
            ),
            Command("tpu_model", "running", "show, take apart and put together bmodels"),
            Command("load_firmware", "running", "load firmware images into an emulated device"),
            Command("run_kernel", "running", "run a free kernel from a C file with numpy arrays"),
            Command("profile", "profiling", "say where the time of a kernel, a net or a layer goes"),
            Command(
                "step",
                "stepping",
                "walk through the commands that something issued, forth and back",
                rest=True,
            ),
            Command("repro", "repros", "show again what --save-repro has kept"),
        ),
    ),
    (
        "Frameworks",
        (
            Command(
                "litert",
                "litert",
                "compile and run .tflite models with LiteRT",
                values=(("compile", "run", "paths"),),
            ),
            Command(
                "mindspore",
                "mindspore",
                "run models with MindSpore Lite and the TPU",
                values=(("setup", "run"),),
            ),
            Command(
                "executorch",
                "executorch",
                "compile PyTorch modules for ExecuTorch, and run them",
                values=(("compile", "run"),),
            ),
        ),
    ),
    (
        "A card",
        (
            Command(
                "pack",
                "card",
                "write a folder with nets, data and programs to run on a card",
                bare="pack_net",
            ),
            Command(  # ImageMagick has a program of this name
                "compare", "card", "explain the result that comes back from a card", bare="compare_result"
            ),
        ),
    ),
    (
        "The chip",
        (
            Command(
                "isa",
                "isa",
                "list the instructions, read descriptors, encode calls",
                values=(("list", "show", "decode", "encode"),),
            ),
            Command("okk", "isa", "look up a function of the kernel API"),
            Command("conformance", "isa", "run a folder of test vectors"),
        ),
    ),
    (
        "This tool",
        (
            Command("doctor", "environment", "say what was found on this machine and what will be used"),
            Command(
                "completion",
                "environment",
                "print the completion script for bash or zsh",
                values=(("bash", "zsh"),),
            ),
        ),
    ),
)

COMMANDS = {command.name: command for _, group in GROUPS for command in group}
TOOLS = {command.tool: command for command in COMMANDS.values()}
"""What tool/ makes available, by bare name."""


def find(name: str) -> Command | None:
    """The command of this name or bare name; the hyphen form works too."""
    plain = name.replace("-", "_")
    return COMMANDS.get(plain) or TOOLS.get(plain)
