"""The kinds of pictures, by name; each is a function that turns subjects into a `Picture`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.errors import ParameterError, nearest, spelled
from pecli.views.pictures.kinds import frequencies, tables
from pecli.views.pictures.panels import Picture, PlotRequest, Subject
from pecli.views.pictures.subjects import title_of

MAX_IDENTIFIED = 1 << 20  #: Elements of tables that are identified for the sake of their axes alone


class Kind(NamedTuple):
    """One kind of picture, and what it shows; schemes say which fit."""

    draw: Callable[[Sequence[Subject], PlotRequest], Picture]
    summary: str
    picks: bool = False  #: Whether it may show some channels, pairs or heads of many


KINDS: dict[str, Kind] = {
    "heatmap": Kind(tables.heatmap, "the values, by position and channel", picks=True),
    "curves": Kind(
        tables.curves, "channels over positions; of ALiBi and T5, biases and buckets by distance", picks=True
    ),
    "wavelengths": Kind(frequencies.wavelengths, "the wavelength of each pair, and what a scaling does to it"),
    "similarity": Kind(tables.similarity, "cosine similarity of all positions with each other"),
    "patch": Kind(tables.patch, "the similarity of one patch of a grid to all others"),
    "decay": Kind(frequencies.decay, "the score of q = k by distance, with its bound; of ALiBi, weights", picks=True),
    "circle": Kind(frequencies.circle, "pairs of channels turning with the position; they move in a .gif", picks=True),
    "slopes": Kind(frequencies.slopes, "ALiBi's slopes, head by head"),
}


def default_kind(subjects: Sequence[Subject]) -> str:
    """The default kind: the tables; buckets by distance, or slopes, where there is nothing else."""
    values = {subject.axes_of(table).value for subject in subjects for table in subject.tables}
    on_grid = any(getattr(subject.scheme, "grid", None) for subject in subjects)
    return "slopes" if values == {"slope"} else "curves" if values == {"bucket"} and not on_grid else "heatmap"


def picture(kind: str, subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """The picture of that kind of these subjects."""
    check(kind, subjects)
    if request.channels is not None and not KINDS[kind].picks:
        advice = f"it belongs to {', '.join(name for name, each in KINDS.items() if each.picks)}"
        raise ParameterError("channels", spelled(request.channels), f"{kind} shows all of them", advice)
    with np.errstate(all="ignore"):  # of infinite values in a file, say, which are drawn as such
        return KINDS[kind].draw(subjects, request)


def titled(
    subjects: Sequence[Subject], request: PlotRequest, kind: str | None = None, title: str | None = None
) -> Picture:
    """The picture of that kind, or of the one that fits, under a title; without one, it says whose picture it is."""
    made = picture(kind or default_kind(subjects), subjects, request)
    return replace(made, title=title_of(subjects, made.title) if title is None else title)


def fitting(kind: str | None, subjects: Sequence[Subject]) -> list[Subject]:
    """The subjects, if the kind fits them; tables without a spec as what `identify` finds in them."""
    found = [subject if subject.scheme or subject.grid else _identified(subject, kind) for subject in subjects]
    check(kind or default_kind(found), found)
    return found


def _identified(subject: Subject, kind: str | None) -> Subject:
    """Tables with the axes of the scheme that made them; where the kind asks for more, the scheme's own tables."""
    from pecli.checks.identify import identify_tensors  # which imports all searches

    drawn_as_it_is = kind is None or kind in subject.picture_kinds
    if drawn_as_it_is and sum(table.size for table in subject.tables) > MAX_IDENTIFIED:
        return subject
    arrays = {table.name: table.array() for table in subject.tables}
    for match in identify_tensors(subject.label, arrays).matches[:1]:
        tables, own = match.scheme.tensors(), subject.tables
        if not drawn_as_it_is:
            return Subject(f"{subject.label} (identified: {match.scheme.name})", tables, match.scheme)
        names = [tables[0].name] if len(own) == len(tables) == 1 else [each.name.rpartition(".")[2] for each in own]
        own = tuple(replace(table, name=name) for table, name in zip(own, names, strict=True))
        shapes = {table.name: table.shape for table in tables if table.name != "inv_freq"}
        if shapes.items() <= {table.name: table.shape for table in own}.items():
            return Subject(subject.label, own, match.scheme)
    return subject


def check(kind: str, subjects: Sequence[Subject] = ()) -> None:
    """Refuse a kind that does not exist, or does not fit."""
    if kind not in KINDS:
        raise ParameterError("kind", repr(kind), f"it must be one of {', '.join(KINDS)}", nearest(kind, KINDS))
    for subject in subjects:
        if kind not in subject.picture_kinds:
            unknown = "a file without a pecli spec, which pecli identify does not know,"
            name = unknown if subject.kind == "file" else subject.kind
            fitting = ", ".join(other for other in KINDS if other in subject.picture_kinds)
            raise ParameterError("kind", kind, f"{name} has no such picture", f"take one of {fitting}")
