"""Runtimes: how each reads the parameters of a RoPE scaling, and the arithmetic that it does.

Models are defined by Hugging Face transformers. Another runtime may read the same config
differently (a *departure*, with a cause), and computes its tables with roundings of its own.

In formulas, b is the base, d the rotary dim, f the factor, O the original_max_position_embeddings
and M the max_position_embeddings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.named_values import NamedValues
from pecli.engine.numerics.float32_functions import fused
from pecli.engine.scalings import name_of
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn
from pecli.errors import NoScalingError

ORIGINAL_LENGTH = "original_max_position_embeddings"
LLAMA_3_LENGTH = 8192
"""The original length of Llama 3.1, which some runtimes take for any model if they find none."""
_LIMIT_BITS = 120
_SAME_ATTENTION = 1e-9
"""Relative difference up to which two attention factors are the same number, rounded."""

AngleFunction = Callable[[Singles], Singles]
"""Returns the float32 angles of positions (n, 1): a row per position, a column per pair."""

ScalingT = TypeVar("ScalingT", bound=Scaling, covariant=True)


@dataclass(frozen=True)
class Definition(Generic[ScalingT]):
    """The RoPE of a model as its config defines it.

    Attributes:
        scaling: The scaling and its parameters.
        base: The base of the frequencies.
        dim: The rotary dimension, d in the formulas.
        pairs: The number of pairs that rotate.
        head: The channels of a head, of which the rotary ones may be a part.
    """

    scaling: ScalingT
    base: float
    dim: int
    pairs: int
    head: int


@dataclass(frozen=True)
class RuntimeReading(Generic[ScalingT]):
    """A scaling as a runtime reads it.

    Attributes:
        scaling: The scaling that the runtime computes.
        causes: Why that departs from the model's definition; empty if it does not.
        rows: The number of positions that the runtime has values for; None if it has no limit.
        notes: Differences that do not change the result.
        by_position: True if no single scaling describes all positions.
        short_prompts: How prompts that are shorter than the context differ; empty if they do not.
    """

    scaling: ScalingT
    causes: tuple[str, ...] = ()
    rows: int | None = None
    notes: tuple[str, ...] = ()
    by_position: bool = False
    short_prompts: str = ""

    def with_attention_cause(
        self, definition: Definition[Scaling], reason: str
    ) -> RuntimeReading[ScalingT]:
        """Return the reading with one more cause if its attention factor is not the model's.

        Args:
            definition: The RoPE of the model.
            reason: Why the runtime has another factor, such as «it has none».
        """
        attention = self.scaling.attention_value
        defined = definition.scaling.attention_value
        if abs(attention - defined) <= _SAME_ATTENTION * defined:
            return self
        cause = f"attention factor {attention:.6g}, not {defined:.6g}: {reason}"
        return replace(self, causes=(*self.causes, cause))


class StatedLengths(NamedTuple):
    """The original lengths that a config states within its rotary settings and at its top.

    `rope_scaling.original_max_position_embeddings` is within the settings. Transformers reads both
    keys; other runtimes read only one of them.
    """

    in_settings: int | None
    at_top: int | None


class ModelRope(Protocol):
    """The fields of a model's encoding that a runtime reads beside the scaling."""

    @property
    def parameters(self) -> NamedValues: ...
    def stated_by(self, name: str) -> tuple[str, ...]: ...
    @property
    def family(self) -> str: ...
    @property
    def alpha(self) -> float | None: ...
    @property
    def use_fope(self) -> bool: ...
    @property
    def lacks_original_length(self) -> bool: ...
    @property
    def stated_lengths(self) -> StatedLengths | None: ...


class Adaptation(NamedTuple):
    """Parameters that a runtime replaces because of other keys of the config.

    `cause` states why the result departs from the model's definition; it is empty if it does not.
    """

    parameters: NamedValues
    cause: str


UNCHANGED = Adaptation({}, "")


def unchanged(encoding: ModelRope) -> Adaptation:
    """Replace no parameter."""
    return UNCHANGED


def with_llama_3_length(encoding: ModelRope, length_read: int | None, place: str) -> Adaptation:
    """Return the original length of llama3 scaling that a runtime uses in place of the model's.

    Configs have this length at one of two places, and some runtimes look at only one. If there is
    nothing, they assume 8,192, the length of Llama 3.1.

    Args:
        encoding: The encoding of a model, with any scaling.
        length_read: The length at that place; None if there is none.
        place: The place in words, such as «within rope_scaling».
    """
    if encoding.parameters["scaling"] != "llama3":
        return UNCHANGED
    length_of_model = encoding.parameters[ORIGINAL_LENGTH]
    length = length_read or LLAMA_3_LENGTH
    if length == length_of_model:
        return UNCHANGED
    verb = "assumes" if length_read is None else "takes"
    cause = (
        f"{verb} {length:,} for {ORIGINAL_LENGTH}, not {length_of_model:,}: "
        f"it reads the key only {place}"
    )
    return Adaptation({ORIGINAL_LENGTH: length}, cause)


AnyDefinition = Definition[Any]
"""A definition with a scaling of any kind; a reader is only called with the kind it is listed for."""

Read = Callable[[AnyDefinition], RuntimeReading[Scaling]]


@dataclass(frozen=True)
class RuntimeProfile:
    """A runtime at one version.

    Attributes:
        name: The name that users type.
        version: The version that was read or measured.
        source: The code that was read to describe it.
        readings: How it reads each scaling that it implements, by the scaling's name; a text is the
            reason why it does not implement one.
        angle_function: Returns a function from positions to the angles that it computes for a
            definition, whose scaling is its reading.
        limits_to_context: It has no values beyond M, times the factor of linear scaling.
        ignores_prompt: LongRoPE's factors follow the served context, however short a prompt is.
        text_only: It has no M-RoPE.
        adapted: Returns the parameters that it replaces in a model's encoding.
    """

    name: str
    version: str
    source: str
    readings: Mapping[str, Read | str]
    angle_function: Callable[[AnyDefinition], AngleFunction]
    limits_to_context: bool = False
    ignores_prompt: bool = False
    text_only: bool = False
    adapted: Callable[[ModelRope], Adaptation] = unchanged

    def reading(self, definition: Definition[Scaling]) -> RuntimeReading[Scaling]:
        """Return the scaling as this runtime reads it.

        Raises:
            NoScalingError: The runtime does not implement the scaling.
        """
        kind = name_of(definition.scaling)
        not_covered = f"the description of {self.name} {self.version} does not cover it"
        read_or_reason = self.readings.get(kind, not_covered)
        if isinstance(read_or_reason, str):
            rule = f"it has no {kind} scaling: {read_or_reason}"
            raise NoScalingError("runtime", self.name, rule)
        return read_or_reason(definition)


def as_defined(definition: Definition[ScalingT]) -> RuntimeReading[ScalingT]:
    """Return a scaling as transformers reads it, which defines models: unchanged, and no cause."""
    return RuntimeReading(definition.scaling)


def with_rounded_limits(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as runtimes read it that ignore `truncate`, and always round its limits.

    The limits are the pairs between which YaRN blends frequencies, such as 8.1 and 17.3, rounded to
    8 and 18. A config may keep the fractions by `truncate: false`, as that of gpt-oss does; these
    runtimes then depart from the model's definition, and the reading states that as the cause.
    """
    yarn = definition.scaling
    if yarn.truncate is not False:
        return RuntimeReading(yarn)
    rounded = replace(yarn, truncate=True)
    limits = rounded.limits(definition.base, definition.dim, _LIMIT_BITS)
    low, high = limits.in_pairs(_LIMIT_BITS)
    cause = f"rounds YaRN's limits to {low:g} and {high:g}; the config has truncate: false"
    return RuntimeReading(rounded, (cause,))


def with_attention_of_lengths(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as runtimes read it that ignore the attention factor of a config.

    They compute it from the context over the original length, such as 131,072 / 4,096 in Phi-3. If
    it then differs from the config's, the reading has a cause.
    """
    longrope = definition.scaling
    if longrope.max_position_embeddings is None:
        return RuntimeReading(longrope)
    # Without either, the attention factor follows from the two lengths.
    scaling = replace(longrope, factor=None, attention_factor=None)
    reason = "computes it only from max_position_embeddings"
    return RuntimeReading(scaling).with_attention_cause(definition, reason)


def recurrence(
    positions: Singles,
    pairs: int,
    ratio: float,
    divisors: Singles | None = None,
    scale: float = 1.0,
    keep: Singles | None = None,
) -> Singles:
    """Return the angles by which pairs rotate, with the float32 roundings of ggml (llama.cpp).

    From pair to pair, ggml multiplies the angle by one ratio, instead of computing powers of the
    base: position 8 and ratio 1/2 have the angles 8, 4, 2, 1, … A scaling then changes these.

    Args:
        positions: Positions (n, 1).
        pairs: The number of pairs.
        ratio: b^(−2/d), the angle of a pair over that of the pair before it.
        divisors: The numbers by which llama3 and longrope scalings divide the angle of each pair.
        scale: The number by which linear scaling and YaRN multiply angles: 1/4 for a factor of 4.
        keep: Only for YaRN, which mixes scaled and unscaled angles: the share of the unscaled one in
            each pair, from 1 for the fastest pairs to 0 for the slowest. None if all are scaled.

    Returns:
        The angles (n, pairs).
    """
    angles = _angles_by_ratio(positions, pairs, ratio)
    if divisors is not None:
        angles /= divisors
    scaled = np.float32(scale) * angles
    if keep is None:
        return scaled
    kept_part = angles * keep
    scaled_share = np.float32(1) - keep
    return fused(scaled, scaled_share, kept_part)  # scaled · scaled_share + kept_part, rounded once


def _angles_by_ratio(positions: Singles, pairs: int, ratio: float) -> Singles:
    """Return float32 angles (n, pairs): each position p is followed by p·ratio, p·ratio·ratio, …

    >>> _angles_by_ratio(np.array([[8]], np.float32), pairs=4, ratio=0.5).tolist()
    [[8.0, 4.0, 2.0, 1.0]]
    """
    angles = np.full((len(positions), pairs), ratio, np.float32)
    angles[:, :1] = positions
    np.multiply.accumulate(angles, axis=1, out=angles)  # Each column times all columns before it.
    return angles
