"""The heads of ALiBi: their slopes, and the keys that their queries see."""

from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import NamedTuple

from pecli.engine.arrays import Floats, widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.scheme import Scheme
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource
from pecli.views.pictures.titles import names_of

MANY_HEADS = 8  #: Heads that are drawn of a single source.
FEW_HEADS = 3  #: Heads that are drawn of each of several sources.
DEFAULT_KEYS = 1024  #: Keys that a query sees if the scheme does not state a length.


class AlibiHead(NamedTuple):
    """A head that is drawn as a curve."""

    label: str
    slope: float
    keys: int  #: The keys that its last query sees.


def heads_of(sources: Sequence[PlotSource], request: PlotRequest) -> Iterator[AlibiHead]:
    """Yield the requested heads of every source, or a few of them."""
    max_heads = MANY_HEADS if len(sources) == 1 else FEW_HEADS
    for source, name in zip(sources, names_of(sources), strict=True):
        slopes = slopes_of(source)
        prefix = f"{name}, " if name else ""
        keys = _keys(source.scheme)
        for head in request.choose(len(slopes), max_heads, "heads"):
            yield AlibiHead(f"{prefix}head {head}", float(slopes[head]), keys)


def heads_note(sources: Sequence[PlotSource], request: PlotRequest) -> str:
    """Return «8 of 16 heads» if not all heads are drawn, and nothing if they are or were chosen."""
    if request.channels is not None:
        return ""
    drawn = len(list(heads_of(sources, request)))
    total = sum(len(slopes_of(source)) for source in sources)
    if drawn < total:
        return f"{drawn} of {total} heads; --channels chooses others"
    return ""


def slopes_of(source: PlotSource) -> Floats:
    """Return the slope of each head."""
    (slopes,) = [table for table in source.tables if table.name == "slopes"]
    return widened(slopes.array())


@singledispatch
def _keys(scheme: Scheme) -> int:
    return DEFAULT_KEYS


@_keys.register
def _(scheme: Alibi) -> int:
    return scheme.seq_len or DEFAULT_KEYS
