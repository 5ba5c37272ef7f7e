"""Random schemes of all kinds, as people would ask for them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.engine.schemes import Choice
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import STYLES, Sinusoidal
from pecli.errors import ParameterError

DTYPES = ("float32", "float16", "bfloat16")
BASES = (10000.0, 10000.0, 500000.0, 1e6, 100.0, 150000.0, 5e6, 160000.0, 1000.0, 8e6, 12345.0, 25000.0)
KINDS = ("sinusoidal", "sinusoidal", "rope", "rope", "rope", "rope", "alibi")


def random_scheme(rng: np.random.Generator, recipes: float = 0.0) -> Scheme:
    """A scheme with random parameters that fit together; that share of them by a recipe that is not exact."""
    while True:
        try:
            scheme = _MAKERS[str(rng.choice(KINDS))](rng)
            return _by_recipe(rng, scheme) if rng.random() < recipes else scheme
        except ParameterError:
            continue


def _by_recipe(rng: np.random.Generator, scheme: Scheme) -> Scheme:
    choice = scheme.parameters().get("recipe")
    return replace(scheme, recipe=_one(rng, choice.options)) if isinstance(choice, Choice) else scheme


def _one(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def _length(rng: np.random.Generator) -> int:
    return int(_one(rng, (64, 100, 128, 256, 512, 1000, int(rng.integers(64, 2049)))))


def _offset(rng: np.random.Generator) -> int:
    return int(_one(rng, (0, 0, 0, 1, 2, 100, int(rng.integers(1, 5000)))))


def _sinusoidal(rng: np.random.Generator) -> Scheme:
    dim = int(_one(rng, (16, 32, 64, 128, 256, 2 * int(rng.integers(8, 129)), int(rng.integers(16, 129)))))
    length, dtype = _length(rng), str(_one(rng, DTYPES))
    if rng.random() < 0.3:
        return Sinusoidal(length, dim, style=_one(rng, sorted(STYLES)), dtype=dtype)
    offset = _offset(rng)
    return Sinusoidal(
        length,
        dim,
        base=_one(rng, BASES),
        layout=_one(rng, ("interleaved", "halves")),
        cos_first=bool(rng.random() < 0.5),
        freq_shift=_one(rng, (0.0, 0.0, 1.0, 0.5)),
        offset=offset,
        scale=_one(rng, (1.0, 1.0, 1.0, 0.5, 0.1, 2.0, 0.25)),
        amplitude=_one(rng, (1.0, 1.0, 1.0, 0.1, 2.5, 1 / math.sqrt(dim), math.sqrt(2 / dim))),
        padding_idx=_one(rng, (None, None, None, offset, offset + 1)),
        dtype=dtype,
    )


def _rope(rng: np.random.Generator) -> Scheme:
    dim = int(_one(rng, (16, 32, 64, 96, 128, 128, 2 * int(rng.integers(8, 129)))))
    scaling = str(_one(rng, ("none", "none", "linear", "ntk", "dynamic", "yarn", "yarn", "longrope", "llama3")))
    return Rope(
        _length(rng),
        dim,
        base=_one(rng, BASES),
        offset=_offset(rng),
        layout=_one(rng, ("compact", "halves", "interleaved")),
        scaling=scaling if rng.random() < 0.95 else "proportional",
        dtype=_one(rng, DTYPES),
        **(_SCALINGS[scaling](rng, dim)),
    )


def _yarn(rng: np.random.Generator, dim: int) -> dict[str, Any]:
    found = {"factor": _one(rng, (2.0, 4.0, 8.0, 32.0, 40.0)), "original_max_position_embeddings": _original(rng)}
    if rng.random() < 0.3:
        found["truncate"] = False
    if rng.random() < 0.3:
        found |= {"beta_fast": _one(rng, (16.0, 64.0)), "beta_slow": _one(rng, (1.0, 2.0))}
    extra = rng.random()
    if extra < 0.2:
        found["attention_factor"] = _one(rng, (1.0, 1.1, 0.9))
    elif extra < 0.4:
        found |= {"mscale": _one(rng, (1.0, 0.707)), "mscale_all_dim": _one(rng, (1.0, 0.707))}
    return found


def _longrope(rng: np.random.Generator, dim: int) -> dict[str, Any]:
    factors = np.sort(np.round(1 + 30 * rng.random(dim // 2) ** 2, 2)).tolist()
    short = np.round(1 + rng.random(dim // 2), 2).tolist()
    return {
        "factor": _one(rng, (8.0, 32.0)),
        "original_max_position_embeddings": int(_one(rng, (128, 4096))),
        "short_factor": tuple(short),
        "long_factor": tuple(factors),
    }


def _original(rng: np.random.Generator) -> int:
    return int(_one(rng, (2048, 4096, 8192, 32768)))


_SCALINGS: dict[str, Any] = {
    "none": lambda rng, dim: {},
    "linear": lambda rng, dim: {"factor": _one(rng, (2.0, 4.0, 8.0, 2.5))},
    "ntk": lambda rng, dim: {"factor": _one(rng, (2.0, 4.0, 8.0))},
    "dynamic": lambda rng, dim: {
        "factor": _one(rng, (2.0, 4.0, 10.0)),
        "max_position_embeddings": int(_one(rng, (64, 256, 2048))),
    },
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": lambda rng, dim: {
        "factor": _one(rng, (8.0, 32.0)),
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    },
}


def _alibi(rng: np.random.Generator) -> Scheme:
    return Alibi(
        int(rng.integers(3, 65)),
        int(_one(rng, (16, 64, 100, 128))) if rng.random() < 0.75 else None,
        rule=_one(rng, ("paper", "paper", "naive")),
        max_bias=_one(rng, (8.0, 8.0, 16.0, 4.0, 10.0, 7.5)),
        form=_one(rng, ("symmetric", "causal", "key", "key-last")),
        dtype=_one(rng, DTYPES),
    )


def _learned(rng: np.random.Generator) -> Scheme:
    kinds = ["normal", "uniform", "xavier-uniform", "zeros", "sinusoidal", "trunc-normal"]
    return LearnedInit(
        _length(rng),
        int(_one(rng, (16, 64, 128, int(rng.integers(16, 257))))),
        init=_one(rng, kinds),
        std=_one(rng, (0.02, 0.02, 1.0, 0.01, 0.0125)),
        seed=int(_one(rng, (0, 1, 42, 1234, 3407, int(rng.integers(0, 256))))),
        dtype=_one(rng, DTYPES),
    )


_MAKERS: dict[str, Any] = {"sinusoidal": _sinusoidal, "rope": _rope, "alibi": _alibi, "learned-init": _learned}
