"""The kinds of pictures, by name; each is a module that turns subjects into a `Picture`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.schemes.parameters import spelled
from pecli.engine.text import nearest
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.views.pictures.panels import Picture, Subject, Wish

_TABLES = ("sinusoidal", "learned-init", "file")
_TURNING = ("sinusoidal", "rope")


class Kind(NamedTuple):
    """One kind of picture: what it fits, and what it shows."""

    fits: tuple[str, ...]
    summary: str
    terminal: bool = True
    picks: bool = False
    """Whether it may show some channels, pairs or heads of many."""


KINDS: dict[str, Kind] = {
    "heatmap": Kind((*_TABLES, "rope", "alibi"), "the values, by position and channel", picks=True),
    "curves": Kind((*_TABLES, "rope", "alibi"), "channels over positions; of ALiBi, biases over distances", picks=True),
    "wavelengths": Kind(_TURNING, "how long each wave is, and the contexts that it has to span"),
    "similarity": Kind((*_TABLES, "rope"), "dot products of all positions with each other"),
    "decay": Kind((*_TURNING, "alibi"), "how attention falls with distance, whatever the content", picks=True),
    "circle": Kind(_TURNING, "where pairs of channels point, as they turn", terminal=False, picks=True),
    "histogram": Kind(_TABLES, "how the values are distributed"),
    "spectrum": Kind((*_TABLES, "rope"), "singular values: how many directions a table uses"),
    "slopes": Kind(("alibi",), "ALiBi's slopes, head by head"),
}
"""Each kind lives in the module of its name."""


def default_kind(subjects: Sequence[Subject]) -> str:
    """What is drawn when nobody says what: the tables, or the slopes where there is nothing else."""
    alone = all([table.name for table in subject.tables] == ["slopes"] for subject in subjects)
    return "slopes" if alone and {subject.kind for subject in subjects} == {"alibi"} else "heatmap"


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
        if subject.kind not in KINDS[kind].fits:
            name = f"a {subject.kind} without a pecli spec" if subject.kind == "file" else subject.kind
            fitting = ", ".join(other for other, each in KINDS.items() if subject.kind in each.fits)
            raise ParameterError("kind", kind, f"{name} has no such picture", f"take one of {fitting}")
    if terminal and not KINDS[kind].terminal:
        raise ParameterError("kind", kind, "it is not drawn in a terminal", "write it to a file with -o x.png")
