"""Random dumps of tables and of rotated queries, right or with planted mistakes.

The tables come from formulas in plain NumPy, so that a mistake in one version of pecli is not
planted in its own input.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import pecli
from versions.draw import Draw
from versions.outcomes import Case

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
TOLERANCES: tuple[dict[str, Any], ...] = (
    {},
    {"atol": 1e-3},
    {"atol": 1e-6},
    {"atol": 0.02, "rtol": 0.01},
    {"max_ulp": 1},
    {"max_ulp": 4},
)


@dataclass(frozen=True)
class Waves:
    """The numbers from which cosines and sines are computed."""

    rows: int
    dim: int
    base: float
    linear_factor: float = 1.0
    offset: int = 0
    exponent_dim: int | None = None
    amplitude: float = 1.0

    def cos_and_sin(self) -> tuple[Array, Array]:
        exponent = np.arange(0, self.dim, 2) / (self.exponent_dim or self.dim)
        frequencies = self.base**-exponent / self.linear_factor
        angles = np.outer(np.arange(self.rows) + self.offset, frequencies)
        return self.amplitude * np.cos(angles), self.amplitude * np.sin(angles)

    def scheme(self) -> pecli.Scheme:
        """Return the scheme of the right table, whatever was planted."""
        scaling = {}
        if self.linear_factor != 1:
            scaling = {"scaling": "linear", "factor": self.linear_factor}
        return pecli.Rope(self.rows, self.dim, self.base, **scaling)

    def config(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "model_type": "llama",
            "hidden_size": 4 * self.dim,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_theta": self.base,
            "max_position_embeddings": 4096,
        }
        if self.linear_factor != 1:
            config["rope_scaling"] = {"rope_type": "linear", "factor": self.linear_factor}
        return config


def draw_waves(draw: Draw) -> Waves:
    return Waves(
        rows=draw.choice([1, 4, 8, 33, 64, 128, 300]),
        dim=draw.choice([8, 16, 32, 64, 128]),
        base=draw.choice([10000.0, 10000.0, 500000.0, 1e6, 12345.0]),
        linear_factor=draw.choice([1.0, 1.0, 4.0, 8.0]),
    )


PARAMETER_MISTAKES: dict[str, Callable[[Waves, Draw], Waves]] = {
    "base": lambda waves, draw: replace(waves, base=draw.choice([10000.0, 1e6, 333.0])),
    "offset": lambda waves, draw: replace(waves, offset=draw.choice([1, 2, 7, -1])),
    "exponent": lambda waves, draw: replace(waves, exponent_dim=2 * waves.dim),
    "amplitude": lambda waves, draw: replace(waves, amplitude=draw.choice([1.5, 0.5, 1.1386])),
    "factor": lambda waves, draw: replace(waves, linear_factor=draw.choice([1.0, 2.0, 16.0])),
}


def _swap_rows(array: Array) -> Array:
    return array[::-1]


def _reverse_columns(array: Array) -> Array:
    return array[..., ::-1]


def _spoil_one(array: Array) -> Array:
    changed = array.copy()
    changed.reshape(-1)[array.size // 2] = 0.25
    return changed


def _put_nan(array: Array) -> Array:
    changed = array.copy()
    changed.reshape(-1)[-1] = np.nan
    return changed


TABLE_MISTAKES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "swapped": lambda cos, sin: (sin, cos),
    "sin negated": lambda cos, sin: (cos, -sin),
    "rows reversed": lambda cos, sin: (_swap_rows(cos), _swap_rows(sin)),
    "columns reversed": lambda cos, sin: (_reverse_columns(cos), _reverse_columns(sin)),
    "one element": lambda cos, sin: (_spoil_one(cos), sin),
    "nan": lambda cos, sin: (cos, _put_nan(sin)),
    "rows missing": lambda cos, sin: (cos[:-1], sin[:-1]),
    "scaled": lambda cos, sin: (1.001 * cos, 1.001 * sin),
    "zeros": lambda cos, sin: (0 * cos, 0 * sin),
}

ARRANGEMENTS: dict[str, Callable[[Array, Array], Arrays]] = {
    "compact": lambda cos, sin: {"cos": cos, "sin": sin},
    "halves": lambda cos, sin: {"cos": np.tile(cos, 2), "sin": np.tile(sin, 2)},
    "interleaved": lambda cos, sin: {"cos": np.repeat(cos, 2, 1), "sin": np.repeat(sin, 2, 1)},
    "cos | sin": lambda cos, sin: {"cos_sin_cache": np.concatenate([cos, sin], -1)},
    "pairs": lambda cos, sin: {"freqs_cis": np.stack([cos, sin], -1)},
    "complex": lambda cos, sin: {"freqs_cis": cos + 1j * sin},
    "stacked": lambda cos, sin: {"cos_sin": np.stack([cos, sin])},
    "batch": lambda cos, sin: {"cos": np.stack([cos] * 2), "sin": np.stack([sin] * 2)},
    "transposed": lambda cos, sin: {"cos": cos.T, "sin": sin.T},
    "only cos": lambda cos, sin: {"cos": cos},
    "without names": lambda cos, sin: {"a": cos, "b": sin},
    "cached": lambda cos, sin: {"x.cos_cached": cos[None, None], "x.sin_cached": sin[None, None]},
}

STORAGES: dict[str, Callable[[Array], Array]] = {
    "float64": lambda array: array,
    "float32": lambda array: _cast(array, np.float32),
    "float16": lambda array: _cast(array, np.float16),
    "bfloat16": lambda array: _cast(array, ml_dtypes.bfloat16),
    "4 decimals": lambda array: array.round(4),
}


def _cast(array: Array, dtype: Any) -> Array:
    if array.dtype.kind == "c":
        return array.astype(np.complex64)
    return array.astype(dtype)


@dataclass(frozen=True)
class Dump:
    """Tensors by name, the numbers of the right table, and what was planted."""

    tensors: Arrays
    right: Waves
    description: str


def draw_dump(draw: Draw) -> Dump:
    """Return a dump with no mistake (a third of the time), one, or two."""
    right = draw_waves(draw)
    waves = right
    planted = []
    if draw.chance(0.4):
        mistake = draw.choice(sorted(PARAMETER_MISTAKES))
        waves = PARAMETER_MISTAKES[mistake](waves, draw)
        planted.append(mistake)
    cos, sin = waves.cos_and_sin()
    if draw.chance(0.4):
        mistake = draw.choice(sorted(TABLE_MISTAKES))
        cos, sin = TABLE_MISTAKES[mistake](cos, sin)
        planted.append(mistake)
    arrangement = draw.choice(sorted(ARRANGEMENTS))
    storage = draw.choice(sorted(STORAGES))
    tensors = ARRANGEMENTS[arrangement](cos, sin)
    stored = {name: STORAGES[storage](array) for name, array in tensors.items()}
    description = f"{waves}, {arrangement}, {storage}, planted: {', '.join(planted) or 'nothing'}"
    return Dump(stored, right, description)


def verify_case(draw: Draw) -> Case:
    """Return a case that verifies a dump against a scheme or a model."""
    dump = draw_dump(draw)
    tolerance = draw.choice(TOLERANCES)
    against_model = draw.chance(0.5)
    reasons = draw.chance(0.8)

    def compute() -> Any:
        spec = dump.right.config() if against_model else dump.right.scheme()
        return pecli.verify(dump.tensors, spec, reasons=reasons, **tolerance)

    target = "its config" if against_model else "its scheme"
    return Case(f"verify {dump.description} against {target}, {tolerance}", compute)


def diff_case(draw: Draw) -> Case:
    """Return a case that compares two dumps of the same table, or of two tables."""
    first = draw_dump(draw)
    second = draw_dump(draw)
    if draw.chance(0.8):
        second = replace(second, tensors=_rearranged(draw, first))
    tolerance = draw.choice(TOLERANCES)
    description = f"diff {first.description} with {second.description}, {tolerance}"
    return Case(description, lambda: pecli.diff(first.tensors, second.tensors, **tolerance))


def _rearranged(draw: Draw, dump: Dump) -> Arrays:
    cos, sin = dump.right.cos_and_sin()
    tensors = ARRANGEMENTS[draw.choice(sorted(ARRANGEMENTS))](cos, sin)
    storage = STORAGES[draw.choice(sorted(STORAGES))]
    return {name: storage(array) for name, array in tensors.items()}


def identify_case(draw: Draw) -> Case:
    """Return a case that identifies a dump, or a table of another scheme."""
    if draw.chance(0.7):
        dump = draw_dump(draw)
        return Case(f"identify {dump.description}", lambda: pecli.identify(dump.tensors))
    name, array = draw_other_table(draw)
    return Case(f"identify {name} of shape {array.shape}", lambda: pecli.identify(array))


def draw_other_table(draw: Draw) -> tuple[str, Array]:
    rows = draw.integer(2, 40)
    kind = draw.choice(["sinusoids", "slopes", "bias", "noise", "constant"])
    if kind == "sinusoids":
        cos, sin = replace(draw_waves(draw), rows=rows).cos_and_sin()
        return kind, np.stack([sin, cos], -1).reshape(rows, -1).astype(np.float32)
    slopes = 2.0 ** -(8 * np.arange(1, 9) / 8)
    if kind == "slopes":
        return kind, slopes
    if kind == "bias":
        distance = np.abs(np.subtract.outer(np.arange(rows), np.arange(rows)))
        return kind, -slopes[:, None, None] * distance
    if kind == "noise":
        return kind, draw.normal(rows, 16)
    return kind, np.ones((rows, 8))


def rotated_case(draw: Draw) -> Case:
    """Return a case that verifies rotated queries, right or with planted mistakes."""
    waves = replace(draw_waves(draw), rows=draw.choice([3, 8, 33]), dim=draw.choice([8, 16, 32]))
    before = draw.normal(*draw.choice([(4,), (2, 4), ()]), waves.rows, waves.dim)
    mistake = draw.choice(["", "", "offset", "base", "layout", "sign", "not rotated", "noise"])
    after = _rotated(before, waves, mistake, draw)
    if draw.chance(0.3):
        before = before.astype(np.float32)
        after = after.astype(np.float32)
    tolerance = draw.choice(TOLERANCES)
    options: dict[str, Any] = draw.some(
        {"offset": (0, 1), "layout": ("halves", "interleaved")}, 0.2
    )

    def compute() -> Any:
        return pecli.verify(after, waves.config(), before=before, **tolerance, **options)

    description = (
        f"verify queries {before.shape} rotated by {waves}, planted: {mistake or 'nothing'}"
    )
    return Case(f"{description}, {tolerance}, {options}", compute)


def _rotated(before: Array, waves: Waves, mistake: str, draw: Draw) -> Array:
    """Rotate pairs (i, i + dim/2), as rotate_half does."""
    if mistake == "not rotated":
        return before.copy()
    if mistake == "offset":
        waves = replace(waves, offset=draw.choice([1, -1, 5]))
    if mistake == "base":
        waves = replace(waves, base=333.0)
    cos, sin = waves.cos_and_sin()
    if mistake == "sign":
        sin = -sin
    if mistake == "layout":
        first, second = before[..., 0::2], before[..., 1::2]
        pairs = np.stack([first * cos - second * sin, second * cos + first * sin], -1)
        return pairs.reshape(before.shape)
    first, second = np.split(before, 2, axis=-1)
    after = np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
    if mistake == "noise":
        after = after + 0.01 * draw.normal(*after.shape)
    return after
