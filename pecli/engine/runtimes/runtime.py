"""What a runtime is: how it reads the parameters of a RoPE scaling, and the arithmetic that it does with them.

b is the base, d the rotary dim, f the factor, O the original length, M the max_position_embeddings.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import fused
from pecli.engine.scalings import name_of
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.yarn import Yarn
from pecli.errors import NoScalingError

_BITS = 120


class Given(NamedTuple):
    """What a runtime starts from: the scaling as the model defines it, and what its frequencies derive from."""

    scaling: Any
    base: float
    dim: int
    pairs: int
    head: int  #: channels of a head, of which `dim` may be a part

    @property
    def kind(self) -> str:
        return name_of(self.scaling)

    def as_defined(self) -> "Reading":
        """As transformers, which models are defined by, takes it."""
        return Reading(self.scaling)

    def rounded_limits(self) -> "Reading":
        """YaRN's limits rounded to whole frequencies, whatever `truncate` says; with the cause, if another."""
        yarn: Yarn = self.scaling
        if yarn.truncate is not False:
            return Reading(yarn)
        rounded = replace(yarn, truncate=True)
        low, high = (value / (1 << _BITS) for value in rounded.limits(self.base, self.dim, _BITS))
        return Reading(
            rounded,
            (f"rounds YaRN's limits to {low:g} and {high:g}; the config says truncate: false",),
        )

    def extension_attention(self) -> "Reading":
        """LongRoPE's attention factor from M/O, whatever `factor` or `attention_factor` say."""
        scaling: LongRope = self.scaling
        if scaling.max_position_embeddings is None:
            return Reading(scaling)
        why = "computes it from max_position_embeddings alone"
        return Reading(replace(scaling, factor=None, attention_factor=None)).with_attention(
            self, why
        )


Phases = Callable[[Singles], Singles]
"""The angles of a runtime, in float32: a row for each of the positions (n, 1), a column for each pair."""


def recurrence(
    places: Singles, pairs: int, ratio: float, divisors: Singles | None = None, scale: float = 1.0,
    keep: Singles | None = None,
) -> Singles:  # fmt: skip
    """As in ggml: θ starts at the position and shrinks by one ratio. It is divided, as by the factor tensor of llama3
    and longrope, and scaled, but for the share that YaRN keeps."""
    theta = np.full((len(places), pairs), ratio, np.float32)
    theta[:, :1] = places
    np.multiply.accumulate(theta, axis=1, out=theta)
    if divisors is not None:
        theta /= divisors
    scaled = np.float32(scale) * theta
    return scaled if keep is None else fused(scaled, np.float32(1) - keep, theta * keep)


@dataclass(frozen=True)
class Reading:
    """A scaling as a runtime takes it."""

    scaling: Any
    causes: tuple[str, ...] = ()  #: where that departs from the model's definition, and why
    rows: int | None = None  #: positions for which the runtime has values, where they are limited
    notes: tuple[str, ...] = ()  #: what it does otherwise with the same result
    by_position: bool = False  #: whether no single scaling is that of all positions
    short_prompts: str = ""  #: what prompts get otherwise that are shorter than the context

    def with_attention(self, given: Given, why: str) -> "Reading":
        """The same, its attention factor given as a cause where it is another than the model's."""
        own, defined = self.scaling.attention_value, given.scaling.attention_value
        if abs(own - defined) <= 1e-9 * defined:
            return self
        return replace(
            self, causes=(*self.causes, f"attention factor {own:.6g}, not {defined:.6g}: {why}")
        )


Read = Callable[[Given], Reading]
Adapted = tuple[dict[str, Any], str]  #: parameters of a scaling that count instead, and why
UNCHANGED: Adapted = {}, ""


@dataclass(frozen=True)
class Runtime:
    """A runtime at one version: its name, what was read to describe it, and what it does.

    `readings` has a function for each scaling that the runtime knows, or, where it knows that it lacks one, the reason.
    """

    name: str
    version: str
    source: str
    readings: Mapping[str, Read | str]
    phases: Callable[[Given], Phases]
    limits_to_context: bool = False
    """Whether it has no values beyond max_position_embeddings, times the factor of linear scaling."""
    ignores_prompt: bool = (
        False  #: whether LongRoPE's factors follow the served context, however short a prompt is
    )
    text_only: bool = False  #: whether it has no M-RoPE
    adapted: Callable[[Any], Adapted] = lambda encoding: UNCHANGED
    """What it takes otherwise in a model's encoding by what else the config says: parameters, and why."""

    def reading(self, given: Given) -> Reading:
        """The scaling as this runtime takes it; NoScalingError if it does not implement it."""
        found = self.readings.get(given.kind, "")
        if isinstance(found, str):
            rule = found or f"the description of {self.name} {self.version} does not cover it"
            raise NoScalingError("runtime", self.name, f"it has no {given.kind} scaling: {rule}")
        return found(given)
