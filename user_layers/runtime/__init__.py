"""bmruntime: loads bmodels and launches them on a device; `bmrt_test` is in its own module."""

from user_layers.runtime.bmruntime import BModelRuntime, load_bmodel
from user_layers.runtime.loaded import Ran
from user_layers.runtime.network import NetworkInfo, StageInfo, TensorInfo

__all__ = ["BModelRuntime", "NetworkInfo", "Ran", "StageInfo", "TensorInfo", "load_bmodel"]
