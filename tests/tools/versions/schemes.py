"""Random schemes: their parameters, specs, and the bytes of their tables."""

from typing import Any

import pecli
from versions.draw import Draw
from versions.outcomes import Case

DTYPES = ("float64", "float32", "float16", "bfloat16")
BASES = (10000.0, 500000.0, 1e6, 100.0, 150000.0, 12345.678, 1.0, 0.5, 1e9)
FACTORS = (1.0, 2.0, 4.0, 8.0, 2.5, 32.0, 0.5)
LENGTHS = (64, 256, 2048, 4096, 8192, 32768)
RECIPES = (
    "exact",
    "float32",
    "float32-recurrence",
    "bfloat16-inv-freq",
    "bfloat16-positions",
    "float16-phases",
    "bfloat16-autocast",
    "bfloat16-module",
    "float32-bfloat16-table",
    "float16-table",
    "unknown",
)
STYLES = ("paper", "gptj", "tensor2tensor", "whisper", "fairseq", "m2m100", "ddpm", "dit", "flux")
GRID_STYLES = (
    "mae",
    "flux",
    "wan",
    "qwen2-vl",
    "pixtral",
    "dinov3",
    "eva",
    "sam2",
    "cosmos",
    "ltx",
)
RUNTIMES = ("none", "transformers", "vllm", "llama.cpp", "mlx-lm", "candle", "mlc", "unknown")
SCALINGS = ("none", "linear", "ntk", "dynamic", "yarn", "longrope", "llama3", "proportional")
WRONG_VALUES = (0, -1, "text", None, 1.5, [1, 2], True, float("nan"))


def scheme_case(draw: Draw) -> Case:
    """Return a case about one scheme, whose parameters are wrong every tenth time."""
    name, parameters = draw_scheme(draw)
    if draw.chance(0.1) and parameters:
        wrong = draw.choice(sorted(parameters))
        parameters[wrong] = draw.choice(WRONG_VALUES)
    return Case(described(name, parameters), lambda: _compute(name, parameters))


def draw_scheme(draw: Draw) -> tuple[str, dict[str, Any]]:
    """Return the name of a class and keyword arguments for it."""
    name = draw.choice(["Rope", "Rope", "Rope", "Sinusoidal", "Sinusoidal", *OTHERS])
    if name == "Rope":
        return name, rope_parameters(draw)
    if name == "Sinusoidal":
        return name, _sinusoidal_parameters(draw)
    return name, OTHERS[name](draw)


def described(name: str, parameters: dict[str, Any]) -> str:
    arguments = [f"{key}={value!r}" for key, value in parameters.items()]
    return f"pecli.{name}({', '.join(arguments)})"


def _compute(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    scheme = getattr(pecli, name)(**parameters)
    spec = scheme.spec()
    again = type(scheme).from_spec(spec)
    return {
        "repr": repr(scheme),
        "spec": spec,
        "equal to its spec": again == scheme,
        "tables": scheme.tables(),
    }


def rope_parameters(draw: Draw) -> dict[str, Any]:
    dim = draw.choice([8, 16, 32, 64, 96, 2 * draw.integer(1, 40)])
    scaling = draw.choice(SCALINGS)
    parameters = {"dim": dim, "scaling": scaling, **_scaling_parameters(draw, scaling, dim)}
    options = {
        "base": BASES,
        "layout": ("compact", "halves", "interleaved"),
        "dtype": DTYPES,
        "recipe": RECIPES,
        "runtime": RUNTIMES,
        "partial_rotary_factor": (0.25, 0.5, 0.75, 1.0),
        "mrope_interleaved": (True, False),
    }
    parameters |= draw.some(options, 0.25)
    if draw.chance(0.1):
        quarter = dim // 8
        parameters["mrope_section"] = (dim // 2 - 2 * quarter, quarter, quarter)
    return parameters | draw_positions(draw, axes=dim)


def _scaling_parameters(draw: Draw, scaling: str, dim: int) -> dict[str, Any]:
    """Return parameters that most often suit the scaling; a missing or foreign one is an error."""
    parameters: dict[str, Any] = {}
    if scaling not in ("none", "proportional"):
        parameters["factor"] = draw.choice(FACTORS)
    if scaling in ("yarn", "longrope", "llama3"):
        parameters["original_max_position_embeddings"] = draw.choice(LENGTHS)
    if scaling == "llama3":
        parameters |= {"low_freq_factor": 1.0, "high_freq_factor": draw.choice([4.0, 2.0, 1.0])}
    if scaling == "longrope":
        parameters["short_factor"] = (1.0 + draw.rng.random(dim // 2).round(2)).tolist()
        parameters["long_factor"] = (2.0 + 30 * draw.rng.random(dim // 2).round(2)).tolist()
    if scaling == "dynamic":
        parameters["max_position_embeddings"] = draw.choice(LENGTHS)
    options = {
        "attention_factor": (1.0, 1.1, 0.5),
        "beta_fast": (32.0, 16.0),
        "beta_slow": (1.0, 2.0),
        "truncate": (True, False),
        "mscale": (1.0, 0.707),
        "mscale_all_dim": (1.0, 0.707, 0.0),
        "length": LENGTHS,
        "max_position_embeddings": LENGTHS,
    }
    probability = 0.3 if scaling in ("yarn", "longrope", "dynamic") else 0.02
    return parameters | draw.some(options, probability)


def draw_positions(draw: Draw, axes: int = 0) -> dict[str, Any]:
    """Return a length with an offset, a list of positions, or a grid."""
    kind = draw.choice(["length", "length", "length", "list", "grid"])
    if kind == "list":
        count = draw.integer(1, 12)
        rows = [draw.rng.integers(0, 5000, count).tolist() for _ in range(draw.integer(1, 3))]
        return {"positions": rows[0] if draw.chance(0.6) else rows}
    if kind == "grid":
        grid = tuple(draw.integer(1, 6) for _ in range(draw.integer(2, 3)))
        options = {
            "style": GRID_STYLES,
            "keep": (0, 1, 2),
            "grid_base": ((14.0, 14.0), (224.0,)),
            "grid_scale": ((0.5, 2.0), (1.0,)),
        }
        if axes:
            options["axes"] = ((axes // 2, axes - axes // 2), (axes,))
        return {"grid": grid, **draw.some(options, 0.3)}
    offset = draw.choice([0, 0, 0, 1, 100, draw.integer(0, 100_000), 2**35])
    return {"seq_len": draw.integer(1, 64), "offset": offset}


def _sinusoidal_parameters(draw: Draw) -> dict[str, Any]:
    options = {
        "base": BASES,
        "layout": ("interleaved", "halves"),
        "cos_first": (True, False),
        "freq_shift": (0.0, 1.0, 0.5),
        "scale": (1.0, 0.5, 1000.0),
        "amplitude": (1.0, 0.1, 2.5),
        "padding_idx": (0, 1, 5),
        "style": (*STYLES, "unknown"),
        "dtype": DTYPES,
        "recipe": RECIPES,
        "relative": (True,),
    }
    return {"dim": draw.integer(1, 70), **draw_positions(draw), **draw.some(options, 0.2)}


def _alibi_parameters(draw: Draw) -> dict[str, Any]:
    options = {
        "seq_len": (1, 2, 7, 16, 33),
        "rule": ("paper", "naive"),
        "max_bias": (8.0, 16.0, 7.5),
        "form": ("symmetric", "causal", "key", "key-last"),
        "slopes": (True, False),
        "dtype": DTYPES,
        "recipe": RECIPES,
    }
    return {"heads": draw.integer(1, 40), **draw.some(options, 0.5)}


def _learned_parameters(draw: Draw) -> dict[str, Any]:
    options = {
        "init": ("normal", "trunc-normal", "uniform", "xavier-uniform", "zeros", "sinusoidal"),
        "std": (0.02, 1.0, 0.5),
        "seed": (0, 1, 12345, 2**40),
        "dtype": DTYPES,
    }
    return {
        "max_len": draw.integer(1, 60),
        "dim": draw.integer(1, 40),
        **draw.some(options, 0.5),
    }


def _relative_parameters(draw: Draw) -> dict[str, Any]:
    style = draw.choice(["t5", "deberta", "swin", "swin"])
    if style == "swin":
        return {"style": style, "grid": (draw.integer(1, 6), draw.integer(1, 6))}
    options = {"buckets": (8, 32, 64), "max_distance": (16, 128, 256), "causal": (True, False)}
    return {"style": style, "seq_len": draw.integer(1, 40), **draw.some(options, 0.6)}


OTHERS = {
    "Alibi": _alibi_parameters,
    "LearnedInit": _learned_parameters,
    "Relative": _relative_parameters,
}
