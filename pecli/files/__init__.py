"""Files of tables: one reader and writer for each format, atomic output in one place.

The names below are imported when first used: writing one format imports nothing of the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pecli.files.load import LoadedFile, load_file, open_tensors
    from pecli.files.output import Output, open_output
    from pecli.files.save import format_of, save_tables

_HOMES = {
    "LoadedFile": "load",
    "Output": "output",
    "format_of": "save",
    "load_file": "load",
    "open_output": "output",
    "open_tensors": "load",
    "save_tables": "save",
}

__all__ = ["LoadedFile", "Output", "format_of", "load_file", "open_output", "open_tensors", "save_tables"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"pecli.files.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
