"""The runtimes by name, one file each, imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pecli.engine.runtimes.runtime import Runtime

RUNTIMES = {"transformers": "transformers", "vllm": "vllm", "llama.cpp": "llama_cpp", "mlx-lm": "mlx_lm"}
"""The module of each."""


def runtime_named(name: str) -> Runtime:
    """The runtime of that name."""
    found: Runtime = import_module(f"pecli.engine.runtimes.{RUNTIMES[name]}").RUNTIME
    return found
