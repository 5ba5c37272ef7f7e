"""The settings of a rotary encoding that a reader can change in an interactive page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import singledispatch

from pecli.engine.named_values import JsonObject
from pecli.engine.scalings.linear import Linear
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.views.pictures.kinds.contexts import contexts_of
from pecli.views.pictures.plot_sources import PlotSource

METHODS = ("none", "linear", "ntk", "yarn", "llama3")
"""The scalings that `page.js` computes. Others have lists of factors, or depend on the length."""


@dataclass(frozen=True)
class RopeSettings:
    """The positions of the sliders of an encoding when the page is opened.

    The parameters of scalings are those of the encoding, or the usual ones: YaRN's are from its
    paper, and Llama 3's those of Llama 3.1.
    """

    label: str
    dim: int  #: Rotary channels.
    base: float
    method: str
    original_length: int  #: The context that the model was trained on.
    length: int  #: The farthest distance of the scores.
    factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    attention_factor: float | None = None  #: None if YaRN's own formula gives it.

    def as_json(self) -> JsonObject:
        return asdict(self)


def slider_settings(sources: Sequence[PlotSource]) -> list[RopeSettings]:
    """Return the settings of all sources that have sliders."""
    settings: list[RopeSettings] = []
    for source in sources:
        settings += _settings(source.scheme, source)
    return settings


@singledispatch
def _settings(scheme: Scheme, source: PlotSource) -> list[RopeSettings]:
    """Return where the sliders of a scheme start; only RoPE has sliders."""
    return []


@_settings.register
def _settings_of_rope(rope: Rope, source: PlotSource) -> list[RopeSettings]:
    """Return where the sliders of a rotary encoding start in an interactive page.

    When a slider is moved, the page's script (page.js) computes the curves again. An encoding that
    its formulas do not cover has no sliders: the result is empty.

    Args:
        rope: The encoding, which may have a scaling such as YaRN.
        source: The encoding as it is plotted, with the context lengths of its model.
    """
    if not _is_covered_by_script(rope):
        return []
    contexts = contexts_of(source)
    # A sliding window is no length that a model was trained on: Mistral's is shorter.
    context_lengths = [round(context.length) for context in contexts if not context.is_window]
    settings = RopeSettings(
        label=source.label,
        dim=rope.rotary_dim,
        base=rope.base,
        method=rope.scaling,
        # Llama 3.1 was trained on 8,192 positions, and then extended to 131,072.
        original_length=min(context_lengths),
        length=max(2, *context_lengths),  # Two positions at least have a distance.
    )
    return [_with_parameters_of(rope.defined_scaling, rope, settings)]


def _is_covered_by_script(rope: Rope) -> bool:
    """Return True if the formulas of page.js hold for an encoding.

    They need a scaling that the script computes, a base that gives falling frequencies, and more
    than one pair of channels.
    """
    return rope.scaling in METHODS and rope.base > 1 and rope.rotary_dim >= 4


@singledispatch
def _with_parameters_of(scaling: Scaling, rope: Rope, settings: RopeSettings) -> RopeSettings:
    """Return settings to which the parameters of a scaling are added; most scalings have none."""
    return settings


@_with_parameters_of.register(Linear)
@_with_parameters_of.register(Ntk)
def _(scaling: Linear | Ntk, rope: Rope, settings: RopeSettings) -> RopeSettings:
    return replace(settings, factor=scaling.factor)


@_with_parameters_of.register
def _(scaling: Yarn, rope: Rope, settings: RopeSettings) -> RopeSettings:
    """Add YaRN's parameters; the page computes the attention factor if it follows YaRN's formula."""
    fast, slow = scaling.betas()
    follows_formula = scaling.exact_attention is None and not scaling.mscale
    return replace(
        settings,
        factor=float(scaling.divisor()),
        original_length=scaling.original_max_position_embeddings,
        beta_fast=fast,
        beta_slow=slow,
        truncate=scaling.truncate is not False,
        attention_factor=None if follows_formula else rope.attention_factor_value(),
    )


@_with_parameters_of.register
def _(scaling: Llama3, rope: Rope, settings: RopeSettings) -> RopeSettings:
    return replace(
        settings,
        factor=scaling.factor,
        original_length=scaling.original_max_position_embeddings,
        low_freq_factor=scaling.low_freq_factor,
        high_freq_factor=scaling.high_freq_factor,
    )
