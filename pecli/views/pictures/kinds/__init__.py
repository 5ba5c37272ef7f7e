"""The kinds of pictures by name, and a picture of a given kind.

A new kind is a function in a file of this folder, wrapped in a `PictureKind`, and one row of
`KINDS`. The schemes that it fits name it in `pecli/views/pictures/fitting.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pecli.errors import ParameterError, nearest, quoted, spelled
from pecli.views.pictures.fitting import is_on_grid
from pecli.views.pictures.kinds.circle import CIRCLE
from pecli.views.pictures.kinds.curves import CURVES
from pecli.views.pictures.kinds.decay import DECAY
from pecli.views.pictures.kinds.heatmap import HEATMAP
from pecli.views.pictures.kinds.kind import PictureKind
from pecli.views.pictures.kinds.similarity import PATCH, SIMILARITY
from pecli.views.pictures.kinds.slopes import SLOPES
from pecli.views.pictures.kinds.wavelengths import WAVELENGTHS
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource, values_of
from pecli.views.pictures.titles import title_of

KINDS: dict[str, PictureKind] = {
    kind.name: kind
    for kind in (HEATMAP, CURVES, WAVELENGTHS, SIMILARITY, PATCH, DECAY, CIRCLE, SLOPES)
}
"""All kinds, in the order of the help."""


def default_kind(sources: Sequence[PlotSource]) -> str:
    """Return the kind that is drawn by default: heatmap, or slopes or curves if they show all.

    A vector of slopes has no rows and columns. Buckets of relative positions depend on the distance
    only, unless the distance has two axes, on a grid.
    """
    values = values_of(sources)
    if values == {"slope"}:
        return "slopes"
    has_grid = any(is_on_grid(source.scheme) for source in sources)
    if values == {"bucket"} and not has_grid:
        return "curves"
    return "heatmap"


def picture(kind: str, sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a picture of a kind, such as `heatmap`, of the tables of some schemes or files.

    Raises:
        ParameterError: There is no such kind, it does not fit a source, or it shows all channels
            and some of them are requested.
    """
    check(kind, sources)
    if request.channels is not None and not _takes_channels(kind, sources):
        raise _no_channels_error(kind, sources, request.channels)
    with np.errstate(all="ignore"):  # Files may hold infinite values; they are drawn as such.
        return KINDS[kind].make(sources, request)


def _takes_channels(kind: str, sources: Sequence[PlotSource]) -> bool:
    """Return True if `--channels` has an effect on a picture of at least one source."""
    return any(map(KINDS[kind].takes_channels, sources))


def _no_channels_error(
    kind: str, sources: Sequence[PlotSource], channels: Sequence[int]
) -> ParameterError:
    """Return the error for `--channels` with a kind that shows all channels.

    Its advice names the kinds that fit all sources and show some channels only.
    """
    kinds_with_channels = []
    for name in KINDS:
        fits_all = all(name in source.picture_kinds for source in sources)
        if fits_all and _takes_channels(name, sources):
            kinds_with_channels.append(name)
    advice = "leave it out"
    if kinds_with_channels:
        advice = f"it belongs to {', '.join(kinds_with_channels)}"
    return ParameterError("channels", spelled(channels), f"{kind} shows all of them", advice)


def titled(
    sources: Sequence[PlotSource],
    request: PlotRequest,
    kind: str | None = None,
    title: str | None = None,
) -> Picture:
    """Return a picture with its whole title, such as «llama-3.1-8b: wavelength of each rotary pair».

    Args:
        sources: What to draw.
        request: The channels to draw, and the room for them.
        kind: The kind of picture; by default the one that fits the sources.
        title: A title that replaces the default one.
    """
    drawn = picture(kind or default_kind(sources), sources, request)
    if title is None:
        title = title_of(sources, drawn.title)
    return replace(drawn, title=title)


def check(kind: str, sources: Sequence[PlotSource] = ()) -> None:
    """Raise ParameterError for a kind that does not exist, or does not fit a source."""
    if kind not in KINDS:
        rule = f"it must be one of {', '.join(KINDS)}"
        raise ParameterError("kind", quoted(kind), rule, nearest(kind, KINDS))
    for source in sources:
        if kind not in source.picture_kinds:
            raise _does_not_fit(kind, source)


def _does_not_fit(kind: str, source: PlotSource) -> ParameterError:
    """Return the error for a kind of picture that does not fit a source; it names those that do."""
    name = source.kind
    fitting = ", ".join(other for other in KINDS if other in source.picture_kinds)
    advice = f"take one of {fitting}"
    if not source.is_known:
        name = "a file without a pecli spec, which pecli identify does not know,"
        if kind == "patch":
            advice = f"add --grid HxW (and --keep N), or {advice}"
    return ParameterError("kind", kind, f"{name} has no such picture", advice)
