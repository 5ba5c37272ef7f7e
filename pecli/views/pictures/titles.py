"""The names of subjects in a picture, and its title."""

from collections.abc import Iterable, Sequence
from typing import Any

from pecli.engine.schemes.scheme import Scheme, default_of
from pecli.errors import ParameterError, counted, number, spelled
from pecli.views.pictures.subjects import Subject

_ALWAYS_NAMED = ("dim", "heads")  #: Parameters that a title states even if they are defaults.
_ON_AXES = ("seq_len", "max_len", "offset", "slopes")  #: Parameters that the picture shows.
MAX_LETTERS = 40  #: Letters for parameters in a title.


def labelled(subjects: Sequence[Subject], names: Sequence[str] = ()) -> list[Subject]:
    """Return the subjects with labels that distinguish them.

    Args:
        subjects: The subjects of one picture.
        names: One label per subject. By default, subjects of the same label state the parameters
            in which they differ; equal ones are numbered.

    Raises:
        ParameterError: There are not as many names as subjects.
    """
    if not names:
        return _numbered(_with_differences(subjects))
    if len(names) != len(subjects):
        rule = f"there are {counted(len(subjects), 'subject')}"
        raise ParameterError("label", counted(len(names), "name"), rule, "name each, in order")
    return [subject._replace(label=name) for subject, name in zip(subjects, names, strict=True)]


def _with_differences(subjects: Sequence[Subject]) -> list[Subject]:
    """Add the parameters in which subjects of one label differ: «rope, base 500000»."""
    named = [subject._replace(label=subject.label or subject.kind) for subject in subjects]
    for group in _equal_labels(named):
        parameters = {k: _parameters(named[k].scheme) for k in group}
        for k in group:
            differences = _differences(parameters[k], list(parameters.values()))
            label = ", ".join([named[k].label, *differences])
            named[k] = named[k]._replace(label=label)
    return named


def _differences(parameters: dict[str, object], group: Sequence[dict[str, object]]) -> list[str]:
    """Return the parameters that are not the same in the whole group.

    If a subject has none of them, it is named by one that it lacks: «rope, no padding_idx».
    """
    words = []
    for name, value in parameters.items():
        if any(member.get(name) != value for member in group):
            words.append(_format_parameter(name, value))
    if words:
        return words
    for member in group:
        for name in member:
            if name not in parameters:
                return [f"no {name}"]
    return []


def _numbered(subjects: Sequence[Subject]) -> list[Subject]:
    """Number the subjects of one label: «rope (1 of 2)»."""
    numbered = list(subjects)
    for group in _equal_labels(subjects):
        for place, k in enumerate(group, 1):
            label = f"{subjects[k].label} ({place} of {len(group)})"
            numbered[k] = subjects[k]._replace(label=label)
    return numbered


def _equal_labels(subjects: Sequence[Subject]) -> list[list[int]]:
    """Return the indices of subjects that share a label, group by group."""
    by_label: dict[str, list[int]] = {}
    for k, subject in enumerate(subjects):
        by_label.setdefault(subject.label, []).append(k)
    return [group for group in by_label.values() if len(group) > 1]


def title_of(subjects: Sequence[Subject], shows: str) -> str:
    """Return the title of a picture: its subject and what it shows.

    Several subjects are not in the title, as each is named where it is drawn.
    """
    if len(subjects) > 1:
        return shows[:1].upper() + shows[1:]
    (subject,) = subjects
    words = [subject.label]
    if subject.scheme is not None and subject.label == subject.kind:
        words += _notable_parameters(subject.scheme)
    while len(words) > 2 and sum(map(len, words[1:])) > MAX_LETTERS:
        words.pop()
    return f"{', '.join(words)}: {shows}"


def _notable_parameters(scheme: Scheme) -> list[str]:
    """Return the parameters for a title: some always, others if they are not the default."""
    words = []
    for name, value in _parameters(scheme).items():
        is_notable = name in _ALWAYS_NAMED or value != default_of(type(scheme), name)
        if is_notable and name not in _ON_AXES:
            words.append(_format_parameter(name, value))
    return words


def _parameters(scheme: Scheme | None) -> dict[str, object]:
    """Return the parameters for which a label has room: neither None nor lists."""
    if scheme is None:
        return {}
    parameters = scheme.spec()["parameters"]
    return {name: value for name, value in parameters.items() if _is_short(value)}


def _is_short(value: object) -> bool:
    return value is not None and not isinstance(value, tuple)


def _format_parameter(name: str, value: Any) -> str:
    """Return a parameter in words: «base 500000», «8 heads», «unscaled»."""
    if name == "scaling" and value == "none":
        return "unscaled"
    if name == "heads":
        return counted(value, "head")
    if isinstance(value, float):
        return f"{name} {number(value)}"
    return f"{name} {spelled(value)}"


def names_of(subjects: Sequence[Subject]) -> list[str]:
    """Return the subjects' names inside a picture; a single one is named by the title only."""
    if len(subjects) == 1:
        return [""]
    return [subject.label for subject in subjects]


def count_positions(counts: Iterable[int]) -> str:
    """Return «512 positions» for a title, or «positions» if the numbers differ."""
    distinct = set(counts)
    if len(distinct) != 1:
        return "positions"
    return f"{distinct.pop():,} positions"
