"""The runtimes by name, one file each."""

from pecli.engine.runtimes.llama_cpp import LLAMA_CPP
from pecli.engine.runtimes.mlx_lm import MLX_LM
from pecli.engine.runtimes.runtime import Runtime
from pecli.engine.runtimes.transformers import TRANSFORMERS
from pecli.engine.runtimes.vllm import VLLM

RUNTIMES: dict[str, Runtime] = {each.name: each for each in (TRANSFORMERS, VLLM, LLAMA_CPP, MLX_LM)}
