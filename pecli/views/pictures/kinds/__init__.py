"""The kinds of pictures, by name; each is a function that turns subjects into a `Picture`."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import widened
from pecli.errors import ParameterError, nearest, spelled
from pecli.explain.time_limit import time_limit
from pecli.views.pictures.kinds import frequencies, tables
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.subjects import PlotRequest, Subject, title_of

MAX_TABLES = 4  #: That are identified for the sake of their axes alone: cosines, sines, what a grid's also have
MAX_ELEMENTS, MAX_SECONDS = 1 << 19, 1.0  #: Of these tables, and for them
MAX_SHORT = 1 << 12  #: Elements of tables that are searched whatever they look like
BESIDE = (
    "inv_freq",
    "slopes",
)  #: Tensors that a file need not have for the others to be those of a scheme


KINDS: dict[str, tuple[Callable[[Sequence[Subject], PlotRequest], Picture], str]] = {
    "heatmap": (tables.heatmap, "the values, by position and channel"),
    "curves": (
        tables.curves,
        "channels over positions; of ALiBi and T5, biases and buckets by distance",
    ),
    "wavelengths": (
        frequencies.wavelengths,
        "the wavelength of each pair, and what a scaling does to it",
    ),
    "similarity": (tables.similarity, "cosine similarity of all positions with each other"),
    "patch": (tables.patch, "the similarity of one patch of a grid to all others"),
    "decay": (
        frequencies.decay,
        "the score of q = k by distance, with its bound; of ALiBi, weights",
    ),
    "circle": (
        frequencies.circle,
        "pairs of channels turning with the position; they move in a .gif",
    ),
    "slopes": (frequencies.slopes, "ALiBi's slopes, head by head"),
}
"""What draws each kind of picture, and what it shows; schemes say which fit."""
PICKING = (
    "heatmap",
    "curves",
    "decay",
    "circle",
)  #: Those that may show some channels, pairs or heads of many


def default_kind(subjects: Sequence[Subject]) -> str:
    """The default kind: the tables; buckets by distance, or slopes, where there is nothing else."""
    values = {subject.axes_of(table).value for subject in subjects for table in subject.tables}
    on_grid = any(subject.value_of("grid") for subject in subjects)
    return (
        "slopes"
        if values == {"slope"}
        else "curves"
        if values == {"bucket"} and not on_grid
        else "heatmap"
    )


def picture(kind: str, subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """The picture of that kind of these subjects."""
    check(kind, subjects)
    if request.channels is not None and kind not in PICKING:
        advice = f"it belongs to {', '.join(PICKING)}"
        raise ParameterError(
            "channels", spelled(request.channels), f"{kind} shows all of them", advice
        )
    with np.errstate(all="ignore"):  # of infinite values in a file, say, which are drawn as such
        return KINDS[kind][0](subjects, request)


def titled(
    subjects: Sequence[Subject],
    request: PlotRequest,
    kind: str | None = None,
    title: str | None = None,
) -> Picture:
    """The picture of that kind, or of the one that fits, under a title; without one, it says whose picture it is."""
    made = picture(kind or default_kind(subjects), subjects, request)
    return replace(made, title=title_of(subjects, made.title) if title is None else title)


def identified(subject: Subject, kind: str | None) -> Subject:
    """Tables without a spec with the axes of the scheme that made them; if the kind asks for more, its own tables."""
    drawn_as_it_is = kind is None or kind in subject.picture_kinds
    if subject.scheme or subject.grid or (drawn_as_it_is and not _is_worth_a_search(subject)):
        return subject
    from pecli.checks.identify import identify_tensors  # which imports all searches

    arrays = {table.name: table.array() for table in subject.tables}
    with time_limit(MAX_SECONDS if drawn_as_it_is else math.inf):
        matches = identify_tensors(subject.label, arrays).matches
    for match in matches[:1]:
        tables, own = match.scheme.tensors(), subject.tables
        if not drawn_as_it_is:
            return Subject(
                f"{subject.label} (identified: {match.scheme.name})", tables, match.scheme
            )
        main = [table for table in tables if table.name not in BESIDE] or tables
        names = (
            [main[0].name]
            if len(own) == len(main) == 1
            else [each.name.rpartition(".")[2] for each in own]
        )
        own = tuple(replace(table, name=name) for table, name in zip(own, names, strict=True))
        named, wanted = (
            sorted((t.name, t.shape) for t in every if t.name not in BESIDE)
            for every in (own, tables)
        )
        if named == wanted:  # and not those of several layers, say
            others = (table for table in tables if table.name in BESIDE and table.name not in names)
            return Subject(subject.label, (*own, *others), match.scheme)
    return subject


def _is_worth_a_search(subject: Subject) -> bool:
    """Whether the tables are few and small, and waves, lines, or as short as slopes."""
    from pecli.checks.statistics import has_waves

    if (
        len(subject.tables) > MAX_TABLES
        or sum(table.size for table in subject.tables) > MAX_ELEMENTS
    ):
        return False
    long = [table for table in subject.tables if table.size > MAX_SHORT]
    return all(has_waves(widened(table.read(0, min(64, table.rows)))) for table in long)


def check(kind: str, subjects: Sequence[Subject] = ()) -> None:
    """Refuse a kind that does not exist, or does not fit."""
    if kind not in KINDS:
        raise ParameterError(
            "kind", repr(kind), f"it must be one of {', '.join(KINDS)}", nearest(kind, KINDS)
        )
    for subject in subjects:
        if kind not in subject.picture_kinds:
            unknown = "a file without a pecli spec, which pecli identify does not know,"
            name = unknown if subject.kind == "file" else subject.kind
            fitting = ", ".join(other for other in KINDS if other in subject.picture_kinds)
            raise ParameterError(
                "kind", kind, f"{name} has no such picture", f"take one of {fitting}"
            )
