"""The names of sources in a picture, and its title."""

from collections.abc import Iterable, Sequence
from itertools import chain

from pecli.engine.grouping import grouped
from pecli.engine.schemes.scheme import Scheme, default_of, stated_parameters
from pecli.errors import ParameterError, counted, number, spelled
from pecli.views.pictures.plot_sources import PlotSource

_ALWAYS_NAMED = ("dim", "heads")  #: Parameters that a title states even if they are defaults.
_ON_AXES = ("seq_len", "max_len", "offset", "slopes")  #: Parameters that the picture shows.
_NAMED_BESIDE_OTHERS = ("base", "heads")  #: Parameters that tell a scheme from the other sources.
MAX_LETTERS = 40  #: Letters for parameters in a title.


def labelled(sources: Sequence[PlotSource], names: Sequence[str] = ()) -> list[PlotSource]:
    """Return the sources with labels that distinguish them.

    Args:
        sources: The sources of one picture.
        names: One label per source. By default, sources of the same label state the parameters
            in which they differ; equal ones are numbered.

    Raises:
        ParameterError: There are not as many names as sources.
    """
    if not names:
        return _numbered(_with_differences(sources))
    if len(names) != len(sources):
        rule = f"there are {counted(len(sources), 'source')}"
        raise ParameterError("label", counted(len(names), "name"), rule, "name each, in order")
    return [source._replace(label=name) for source, name in zip(sources, names, strict=True)]


def _with_differences(sources: Sequence[PlotSource]) -> list[PlotSource]:
    """Return the sources of a picture with labels that state how they differ.

    Two ropes are «rope, base 10000» and «rope, base 500000». A source without a label is named by
    its scheme, and a single source needs no parameters.
    """
    named = [source._replace(label=source.label or source.kind) for source in sources]
    if len(named) == 1:
        return named
    sources_by_label = grouped(named, lambda source: source.label)
    distinguished = []
    for source in named:
        of_same_label = sources_by_label[source.label]
        if len(of_same_label) > 1:
            differences = _differing_parameters(source, of_same_label)
            label = ", ".join([source.label, *differences])
            distinguished.append(source._replace(label=label))
        else:  # A rope beside ALiBi differs by its name; its base states which rope it is.
            distinguished.append(_with_parameters(source))
    return distinguished


def _with_parameters(source: PlotSource) -> PlotSource:
    """Add parameters to a label that is only the name of a scheme: «rope, base 10000».

    Files and models have names of their own, which stay as they are.
    """
    if source.label != source.kind:
        return source
    words = [source.label, *_notable_parameters(source.scheme, _NAMED_BESIDE_OTHERS)]
    return source._replace(label=", ".join(_first_words(words)))


def _differing_parameters(source: PlotSource, of_same_label: Sequence[PlotSource]) -> list[str]:
    """Return the parameters of a source that others under its label do not have, or have differently.

    If it has none of them, it is named by one that it lacks: «rope, no padding_idx».
    """
    parameters = _parameters(source.scheme)
    others = [_parameters(other.scheme) for other in of_same_label]
    words = []
    for name, value in parameters.items():
        if any(other.get(name) != value for other in others):
            words.append(_format_parameter(name, value))
    lacking = [f"no {name}" for name in chain.from_iterable(others) if name not in parameters]
    return words or lacking[:1]


def _numbered(sources: Sequence[PlotSource]) -> list[PlotSource]:
    """Return the sources with a number in labels that several have: «rope (1 of 2)»."""
    labels = [source.label for source in sources]
    numbered = []
    for index, source in enumerate(sources):
        label = source.label
        count = labels.count(label)
        if count > 1:
            labels_before = labels[:index]
            label = f"{label} ({labels_before.count(label) + 1} of {count})"
        numbered.append(source._replace(label=label))
    return numbered


def sentence(words: str) -> str:
    """Return words with a capital letter: «dots: contexts» becomes «Dots: contexts»."""
    return words[:1].upper() + words[1:]


def title_of(sources: Sequence[PlotSource], shows: str) -> str:
    """Return the title of a picture: its source and what it shows.

    Several sources are not in the title, as each is named where it is drawn.
    """
    if len(sources) > 1:
        return sentence(shows)
    (source,) = sources
    words = [source.label]
    if source.label == source.kind:
        words += _notable_parameters(source.scheme, _ALWAYS_NAMED)
    return f"{', '.join(_first_words(words))}: {shows}"


def _first_words(words: Sequence[str]) -> list[str]:
    """Return a name and as many of its parameters as there is room for."""
    kept = list(words)
    while sum(map(len, kept[1:])) > MAX_LETTERS:
        kept.pop()
    return kept


def _notable_parameters(scheme: Scheme, always: Sequence[str]) -> list[str]:
    """Return the parameters for a title or label: some always, others if not the default."""
    words = []
    for name, value in _parameters(scheme).items():
        is_notable = name in always or value != default_of(type(scheme), name)
        if is_notable and name not in _ON_AXES:
            words.append(_format_parameter(name, value))
    return words


def _parameters(scheme: Scheme) -> dict[str, object]:
    """Return the parameters for which a label has room: neither None nor lists."""
    parameters = stated_parameters(scheme).items()
    return {name: value for name, value in parameters if not isinstance(value, tuple)}


def _format_parameter(name: str, value: object) -> str:
    """Return a parameter in words: «base 500000», «8 heads», «unscaled»."""
    if name == "scaling" and value == "none":
        return "unscaled"
    if name == "heads" and isinstance(value, int):
        return counted(value, "head")
    if isinstance(value, float):
        return f"{name} {number(value)}"
    return f"{name} {spelled(value)}"


def names_of(sources: Sequence[PlotSource]) -> list[str]:
    """Return the sources' names inside a picture; a single one is named by the title only."""
    if len(sources) == 1:
        return [""]
    return [source.label for source in sources]


def count_positions(counts: Iterable[int]) -> str:
    """Return «512 positions» for a title, or «positions» if the numbers differ."""
    distinct = set(counts)
    if len(distinct) != 1:
        return "positions"
    return f"{distinct.pop():,} positions"
