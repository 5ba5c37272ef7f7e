"""Random tensors through apply, convert, resize and the layers; random models through the rest."""

from collections.abc import Callable
from typing import Any

import numpy as np

import pecli
from versions.configs import Configurations
from versions.draw import Draw
from versions.dumps import draw_waves
from versions.outcomes import Case
from versions.schemes import described, draw_scheme

DTYPES = ("float64", "float32", "float16")


def tensor_case(draw: Draw) -> Case:
    """Return a case about a function that changes tensors, or about a layer."""
    kind = draw.choice([_apply_case, _apply_case, _convert_case, _resize_case, _layer_case])
    return kind(draw)


def _tensor(draw: Draw, *shape: int) -> np.ndarray[Any, Any]:
    return draw.normal(*shape).astype(draw.choice(DTYPES))


def _apply_case(draw: Draw) -> Case:
    waves = draw_waves(draw)
    lead = draw.choice([(), (2,), (2, 4)])
    tensor = _tensor(draw, *lead, draw.integer(1, 20), waves.dim)
    choices = {
        "offset": (0, 3, 1000),
        "layout": ("halves", "interleaved"),
        "inverse": (True,),
        "trailing": (True,),
        "shift": (5, -5),
        "seq_axis": (0, -2, 1),
        "positions": ([0, 1, 2], [5]),
    }
    options = draw.some(choices, 0.2)
    by_config = draw.chance(0.5)

    def compute() -> Any:
        encoding = waves.config() if by_config else waves.scheme()
        return pecli.apply(tensor, encoding, **options)

    return Case(f"apply {waves} to {tensor.dtype} {tensor.shape}, {options}", compute)


def _convert_case(draw: Draw) -> Case:
    heads = draw.choice([1, 2, 4])
    size = draw.choice([4, 8, 16])
    tensors = {
        "layers.0.self_attn.q_proj.weight": _tensor(draw, heads * size, 8),
        "layers.0.self_attn.k_proj.weight": _tensor(draw, size, 8),
        "layers.0.mlp.weight": _tensor(draw, 3, 3),
    }
    choices = {
        "kv_heads": (1, 2),
        "rotary_dim": (size, size // 2),
        "head_dim": (size,),
        "dtype": ("float16", "bfloat16", "float32"),
        "trailing": (True,),
        "fused": ("blocks", "heads"),
    }
    options = {"heads": heads, "kv_heads": 1, **draw.some(choices, 0.2)}
    source = draw.choice(["halves", "interleaved"])
    target = draw.choice(["interleaved", "halves"])
    description = f"convert {heads} heads of {size}, {source} to {target}, {options}"
    return Case(description, lambda: pecli.convert(tensors, source, target, **options))


def _resize_case(draw: Draw) -> Case:
    grid = (draw.integer(1, 6), draw.integer(1, 6))
    keep = draw.choice([0, 1, 2])
    table = _tensor(draw, grid[0] * grid[1] + keep, draw.integer(1, 6))
    choices = {
        "grid": (grid, (2, 3)),
        "keep": (keep,),
        "method": ("linear", "cubic", "nearest", "bicubic", "bilinear"),
        "antialias": (True,),
    }
    options = draw.some(choices, 0.6)
    size = draw.choice([5, 40, (4, 7), "3x3"])
    return Case(
        f"resize {table.dtype} {table.shape} to {size}, {options}",
        lambda: pecli.resize(table, size, **options),
    )


def _layer_case(draw: Draw) -> Case:
    length = draw.integer(1, 10)
    dim = draw.integer(1, 16)
    lead = draw.choice([(), (2,), (2, 3)])
    tensor = _tensor(draw, *lead, length, dim)
    layers: dict[str, Callable[[], Any]] = {
        "function": lambda: pecli.sinusoidal_pos_embedding(length, dim, str(tensor.dtype)),
        "sinusoidal": lambda: pecli.SinusoidalPosEmbedding(),
        "learned": lambda: pecli.LearnedPosEmbedding(8, dim),
        "rotary": lambda: pecli.RotaryPosEmbedding(interleaved=draw.chance(0.5)),
        "alibi": lambda: pecli.AlibiBias(draw.integer(1, 9)).get_bias(length),
    }
    name = draw.choice(sorted(layers))

    def compute() -> Any:
        layer = layers[name]()
        if isinstance(layer, np.ndarray):
            return layer
        output = layer(tensor)
        return {"output": output, "gradient": layer.backward(output)}

    return Case(f"layer {name} of {tensor.dtype} {tensor.shape}", compute)


class ModelCases:
    """Cases about functions that take a model or a scheme: runtimes, extend, audit."""

    def __init__(self, configurations: Configurations) -> None:
        self.configurations = configurations

    def runtimes_case(self, draw: Draw) -> Case:
        config = self.configurations.draw(draw)
        length = draw.choice([16, 256, 1024, 1_000_000])
        names = [draw.choice(RUNTIMES), draw.choice(RUNTIMES)]
        return Case(
            f"runtimes({config!r}, {length}, names={names})",
            lambda: pecli.runtimes(config, length, names=names),
        )

    def extend_case(self, draw: Draw) -> Case:
        config = self.configurations.draw(draw)
        # Runtimes are measured at the longer context; short ones take milliseconds.
        config["max_position_embeddings"] = draw.choice([64, 64, 256])
        length = draw.choice([100, 256, 512, 1024])
        method = draw.choice([None, None, "linear", "ntk", "dynamic", "yarn", "yarn", "unknown"])
        return Case(
            f"extend({config!r}, {length}, {method!r})",
            lambda: pecli.extend(config, length, method),
        )

    def audit_case(self, draw: Draw) -> Case:
        name, parameters = draw_scheme(draw)
        recipes = draw.choice([None, "float32", ["float32", "bfloat16"]])
        return Case(
            f"audit({described(name, parameters)}, {recipes!r})",
            lambda: pecli.audit(getattr(pecli, name)(**parameters), recipes),
        )


RUNTIMES = ("transformers", "vllm", "llama.cpp", "mlx-lm", "sglang", "exllamav3", "candle", "mlc")
