"""The runtimes by name, imported when they are asked for: a file each, or one for those that only read configs."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pecli.engine.runtimes.runtime import Runtime

EMULATED = {
    "transformers": "transformers",
    "vllm": "vllm",
    "llama.cpp": "llama_cpp",
    "mlx-lm": "mlx_lm",
}
"""The module of each runtime whose arithmetic is known, down to its rounding."""
_READERS = ("sglang", "exllamav3", "onnxruntime-genai", "candle", "mlc", "tensorrt-llm", "litgpt")
RUNTIMES = {**EMULATED, **dict.fromkeys(_READERS, "config_readers")}


def runtime_named(name: str) -> "Runtime":
    """The runtime of that name."""
    module = import_module(f"pecli.engine.runtimes.{RUNTIMES[name]}")
    found: Runtime = module.READERS[name] if name in _READERS else module.RUNTIME
    return found
