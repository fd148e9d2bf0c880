"""The bmodel file format: `write` and `save` compiled nets, `read` files of this and the vendor's tools."""

from user_layers.bmodel.model import BModel
from user_layers.bmodel.read import read
from user_layers.bmodel.write import as_read, save, write

__all__ = ["BModel", "as_read", "read", "save", "write"]
