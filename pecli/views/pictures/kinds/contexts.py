"""The context lengths that the wavelengths of a scheme are compared with."""

from functools import singledispatch
from typing import NamedTuple

from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.views.pictures.plot_sources import PlotSource


class NamedLength(NamedTuple):
    """A length with a name."""

    length: float
    label: str
    is_window: bool = False  #: True for a sliding window.
    is_table: bool = False  #: True for the rows of the table, if no model states a length.


def contexts_of(source: PlotSource) -> list[NamedLength]:
    """Return the lengths that a picture of a model marks: 8,192 and 131,072 for Llama 3.1.

    They are the context that the model was trained on, the one that a scaling extends it to, and
    the sliding window, unless it is as long as one of these.
    """
    contexts: dict[float, NamedLength] = {}
    if source.window:
        window = float(source.window)
        contexts[window] = NamedLength(window, "sliding window", is_window=True)
    for context in scheme_contexts(source.scheme, source.context):
        contexts[context.length] = context
    return list(contexts.values())


@singledispatch
def scheme_contexts(scheme: Scheme, model_context: int | None) -> list[NamedLength]:
    """Return the lengths of a scheme; `model_context` is the longest that its model declares."""
    return [_only_context(scheme, model_context)]


@scheme_contexts.register
def _(scheme: Rope, model_context: int | None) -> list[NamedLength]:
    """Return the context that a model was trained on, and the one that a scaling extends it to.

    Llama 3.1 has 8,192 and 131,072. If the model does not declare the longer one, it is the factor
    times the original.
    """
    trained = trained_length(scheme)
    if trained is None:  # A rope without a scaling has neither.
        return [_only_context(scheme, model_context)]
    trained_context = NamedLength(float(trained), "trained on")
    declared = model_context or scheme.max_position_embeddings or 0
    if declared > trained:
        return [trained_context, NamedLength(float(declared), "extended to")]
    if scheme.factor is not None and scheme.factor > 1:
        label = f"{scheme.factor:g} times the original,"
        return [trained_context, NamedLength(float(trained * scheme.factor), label)]
    return [trained_context]


def trained_length(rope: Rope) -> int | None:
    """Return the context that a model was trained on; None if its scaling does not state one."""
    return rope.original_max_position_embeddings or rope.max_position_embeddings


def _only_context(scheme: Scheme, model_context: int | None) -> NamedLength:
    if model_context:
        return NamedLength(float(model_context), "context")
    rows = scheme.first_position + scheme.tensors()[0].rows
    return NamedLength(float(rows), "length", is_table=True)
