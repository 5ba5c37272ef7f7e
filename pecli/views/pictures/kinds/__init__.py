"""The kinds of pictures, by name; each is a module that turns subjects into a `Picture`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.text import nearest, spelled
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.views.pictures.panels import Picture, Subject, Wish


class Kind(NamedTuple):
    """One kind of picture, and what it shows; schemes say which kinds show them."""

    summary: str
    terminal: bool = True
    picks: bool = False
    """Whether it may show some channels, pairs or heads of many."""


KINDS: dict[str, Kind] = {
    "heatmap": Kind("the values, by position and channel", picks=True),
    "curves": Kind("channels over positions; of ALiBi, biases over distances", picks=True),
    "wavelengths": Kind("how long each wave is, and the contexts that it has to span"),
    "similarity": Kind("dot products of all positions with each other"),
    "decay": Kind("how attention falls with distance, whatever the content", picks=True),
    "circle": Kind("where pairs of channels point, as they turn", terminal=False, picks=True),
    "histogram": Kind("how the values are distributed"),
    "spectrum": Kind("singular values: how many directions a table uses"),
    "slopes": Kind("ALiBi's slopes, head by head"),
}
"""Each kind lives in the module of its name."""


def default_kind(subjects: Sequence[Subject]) -> str:
    """What is drawn when nobody says what: the tables, or the slopes where there is nothing else."""
    alone = all([table.name for table in subject.tables] == ["slopes"] for subject in subjects)
    return "slopes" if alone and all("slopes" in subject.picture_kinds for subject in subjects) else "heatmap"


def picture(kind: str, subjects: Sequence[Subject], wish: Wish) -> Picture:
    """The picture of that kind of these subjects."""
    check(kind, subjects)
    if wish.channels is not None and not KINDS[kind].picks:
        picking = ", ".join(name for name, each in KINDS.items() if each.picks)
        raise ParameterError(
            "channels", spelled(wish.channels), f"{kind} shows all of them", f"it belongs to {picking}"
        )
    import numpy as np

    with np.errstate(all="ignore"):  # of infinite values in a file, say, which are drawn as such
        made: Picture = import_module(f"pecli.views.pictures.kinds.{kind}").picture(subjects, wish)
    return made


def titled(subjects: Sequence[Subject], wish: Wish, kind: str | None = None, title: str | None = None) -> Picture:
    """The picture of that kind, or of the one that fits, under a title; without one, it says whose picture it is."""
    from pecli.views.pictures.subjects import title_of

    made = picture(kind or default_kind(subjects), subjects, wish)
    return replace(made, title=title_of(subjects, made.title) if title is None else title)


def check(kind: str, subjects: Sequence[Subject] = (), *, terminal: bool = False) -> None:
    """Refuse a kind that does not exist, or does not fit."""
    if kind not in KINDS:
        raise ParameterError("kind", repr(kind), f"it must be one of {', '.join(KINDS)}", nearest(kind, KINDS))
    for subject in subjects:
        if kind not in subject.picture_kinds:
            name = f"a {subject.kind} without a pecli spec" if subject.kind == "file" else subject.kind
            fitting = ", ".join(other for other in KINDS if other in subject.picture_kinds)
            raise ParameterError("kind", kind, f"{name} has no such picture", f"take one of {fitting}")
    if terminal and not KINDS[kind].terminal:
        raise ParameterError("kind", kind, "it is not drawn in a terminal", "write it to a file with -o x.png")
