"""Runtimes by name. Each is one module, which is imported when the runtime is needed."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pecli.engine.runtimes.runtime import RuntimeProfile

EMULATED = {
    "transformers": "pecli.engine.runtimes.transformers",
    "vllm": "pecli.engine.runtimes.vllm",
    "llama.cpp": "pecli.engine.runtimes.llama_cpp",
    "mlx-lm": "pecli.engine.runtimes.mlx_lm",
}
"""Modules of runtimes whose arithmetic was measured, to the last rounding."""

RUNTIMES = {
    **EMULATED,
    "sglang": "pecli.engine.runtimes.sglang",
    "exllamav3": "pecli.engine.runtimes.exllamav3",
    "onnxruntime-genai": "pecli.engine.runtimes.onnxruntime_genai",
    "candle": "pecli.engine.runtimes.candle",
    "mlc": "pecli.engine.runtimes.mlc",
    "tensorrt-llm": "pecli.engine.runtimes.tensorrt_llm",
    "litgpt": "pecli.engine.runtimes.litgpt",
}
"""Modules of all runtimes. Of those that are not emulated, only the reading of a config is known;
their arithmetic is taken to be the float32 of transformers."""


def runtime_named(name: str) -> "RuntimeProfile":
    """Return the runtime with a name, which is a key of `RUNTIMES`."""
    runtime: RuntimeProfile = import_module(RUNTIMES[name]).RUNTIME
    return runtime
