"""Tables of real models by formulas in plain NumPy: nothing of pecli makes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pecli
from tests import oracle

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Tables = tuple[Array, ...]


@dataclass(frozen=True)
class Waves:
    """The numbers that tables of cosines and sines depend on.

    Attributes:
        dim: The rotary dimension.
        base: The base of the frequencies.
        scaling: Its type and parameters, as in Hugging Face's configurations.
        exponent_dim: The dimension in the exponent, if it is another one.
        offset: The position of the first row.
        amplitude_power: How often the attention factor is applied.
    """

    dim: int
    base: float
    scaling: Mapping[str, Any] = field(default_factory=dict)
    exponent_dim: float | None = None
    offset: int = 0
    amplitude_power: int = 1

    @property
    def config(self) -> dict[str, Any]:
        """A configuration of Hugging Face's with these numbers."""
        config = {
            "model_type": "llama",
            "hidden_size": 4 * self.dim,
            "num_attention_heads": 4,
            "head_dim": self.dim,
            "rope_theta": self.base,
            "max_position_embeddings": 8192,
        }
        if self.scaling:
            config["rope_scaling"] = {"rope_type": self.scaling["type"], **self.parameters}
        return config

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the scaling, without its type."""
        return {name: value for name, value in self.scaling.items() if name != "type"}

    def scheme(self, rows: int) -> pecli.Scheme:
        scaling = self.scaling.get("type", "none")
        return pecli.Rope(rows, self.dim, self.base, scaling=scaling, **self.parameters)

    def frequencies(self) -> tuple[Array, float]:
        """Return radians per position, and the attention factor, by the papers' formulas."""
        inverse, amplitude = oracle.frequencies(
            {
                "scaling": self.scaling.get("type", "none"),
                "dim": self.dim,
                "base": self.base,
                "exponent_dim": self.exponent_dim,
                **self.parameters,
            }
        )
        return np.array([float(value) for value in inverse]), float(amplitude)

    def tables(self, rows: int) -> Tables:
        """Return cosines and sines."""
        inverse, attention_factor = self.frequencies()
        angles = np.outer(np.arange(rows) + self.offset, inverse)
        amplitude = attention_factor**self.amplitude_power
        return amplitude * np.cos(angles), amplitude * np.sin(angles)


class Sinusoids(Waves):
    """The table of «Attention Is All You Need»: a sine and a cosine for every frequency."""

    def scheme(self, rows: int) -> pecli.Scheme:
        return pecli.Sinusoidal(rows, self.dim, base=self.base)


@dataclass(frozen=True)
class Biases:
    """The numbers that ALiBi's biases depend on."""

    heads: int
    naive: bool = False
    sign: int = 1

    @property
    def config(self) -> dict[str, Any]:
        return {}

    def scheme(self, rows: int) -> pecli.Scheme:
        return pecli.Alibi(self.heads, rows)

    def tables(self, rows: int) -> Tables:
        exponents = np.array(oracle.get_slopes(self.heads), float)
        if self.naive:
            exponents = 8 * np.arange(1, self.heads + 1) / self.heads
        positions = np.arange(rows)
        distance = np.abs(np.subtract.outer(positions, positions))
        return (-self.sign * 2.0 ** -exponents[:, None, None] * distance,)


Subject = Waves | Biases

LLAMA3 = {
    "type": "llama3",
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def _yarn(factor: float, original: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
        **more,
    }


MODELS = (
    Waves(128, 10000.0),
    Waves(64, 10000.0),
    Waves(128, 1000000.0),
    Waves(128, 500000.0, {**LLAMA3, "factor": 8.0}),
    Waves(64, 500000.0, {**LLAMA3, "factor": 32.0}),
    Waves(128, 1000000.0, _yarn(4.0, 32768)),
    Waves(64, 150000.0, _yarn(32.0, 4096, truncate=False)),
    Waves(64, 10000.0, _yarn(40.0, 4096)),
    Waves(128, 10000.0, {"type": "linear", "factor": 4.0}),
    Waves(96, 10000.0, {"type": "linear", "factor": 2.0}),
)
"""Shapes and settings of public models."""
SUBJECTS: tuple[Subject, ...] = (
    *MODELS,
    Sinusoids(64, 10000.0),
    Sinusoids(128, 10000.0),
    Biases(8),
    Biases(12),
    Biases(6),
)
