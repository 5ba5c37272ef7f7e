"""The kinds of pictures, by name; each is a function that turns subjects into a `Picture`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pecli.engine import __version__
from pecli.errors import ParameterError, nearest, spelled
from pecli.views.pictures.kinds import frequencies, tables
from pecli.views.pictures.panels import Picture, PlotRequest, Subject
from pecli.views.pictures.subjects import title_of


class Kind(NamedTuple):
    """One kind of picture, and what it shows; schemes say which fit."""

    draw: Callable[[Sequence[Subject], PlotRequest], Picture]
    summary: str
    picks: bool = False  #: Whether it may show some channels, pairs or heads of many


KINDS: dict[str, Kind] = {
    "heatmap": Kind(tables.heatmap, "the values, by position and channel", picks=True),
    "curves": Kind(tables.curves, "channels over positions; of ALiBi, biases over distances", picks=True),
    "wavelengths": Kind(frequencies.wavelengths, "the wavelength of each pair, and what a scaling does to it"),
    "similarity": Kind(tables.similarity, "cosine similarity of all positions with each other"),
    "patch": Kind(tables.patch, "of a table on a grid, the similarity of one patch to all others"),
    "decay": Kind(frequencies.decay, "the score of q = k by distance, with its bound; of ALiBi, weights", picks=True),
    "circle": Kind(frequencies.circle, "pairs of channels turning with the position; they move in a .gif", picks=True),
    "slopes": Kind(frequencies.slopes, "ALiBi's slopes, head by head"),
}


def default_kind(subjects: Sequence[Subject]) -> str:
    """The default kind: the tables, or the slopes where there is nothing else."""
    alone = all([table.name for table in subject.tables] == ["slopes"] for subject in subjects)
    return "slopes" if alone and all("slopes" in subject.picture_kinds for subject in subjects) else "heatmap"


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


def about(command: str, subjects: Sequence[Subject]) -> dict[str, Any]:
    """What a figure embeds: the command that made it, and the specs of what it shows."""
    specs = [{"label": subject.label, **subject.scheme.spec()} for subject in subjects if subject.scheme is not None]
    return {"command": command, "specs": specs, "version": __version__}


def fitting(kind: str, subjects: Sequence[Subject]) -> list[Subject]:
    """The subjects, if the kind fits them; of tables without a spec, the scheme that `identify` finds in them."""
    check(kind)
    found = list(subjects)
    for k, subject in enumerate(subjects):
        if kind not in subject.picture_kinds and subject.scheme is None:
            from pecli.checks.identify import identify_tensors  # which imports all searches

            arrays = {table.name: table.array() for table in subject.tables}
            for match in identify_tensors(subject.label, arrays).matches[:1]:
                label = f"{subject.label} (identified: {match.scheme.name})"
                found[k] = Subject(label, match.scheme.tensors(), match.scheme)
    check(kind, found)
    return found


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
