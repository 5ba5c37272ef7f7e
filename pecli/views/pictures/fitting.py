"""The kinds of pictures that fit a scheme, by its class.

A new scheme gets the pictures of any table unless it registers others here or beside its own code:

    @picture_kinds.register
    def _(scheme: Triangle) -> tuple[str, ...]:
        return ("heatmap", "curves")
"""

from functools import singledispatch

from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.relative import Relative
from pecli.engine.schemes.scheme import Scheme

TABLE_KINDS = ("heatmap", "curves", "similarity")  #: They show any table with rows and columns.
WAVE_KINDS = ("wavelengths", "decay", "circle")  #: They need one frequency per pair of channels.
GRID_KINDS = ("heatmap", "similarity", "patch")  #: Rows on a grid are a plane: no curves over them.


@singledispatch
def picture_kinds(scheme: Scheme) -> tuple[str, ...]:
    """Return the names of the kinds of pictures that show a scheme."""
    return _kinds_by_frequencies(scheme)


@picture_kinds.register
def _(scheme: Positioned) -> tuple[str, ...]:
    if scheme.grid is not None:
        return GRID_KINDS
    if scheme.positions is not None:
        return TABLE_KINDS  # Waves are drawn over consecutive positions, which these need not be.
    return _kinds_by_frequencies(scheme)


@picture_kinds.register
def _(scheme: Alibi) -> tuple[str, ...]:
    return ("heatmap", "curves", "decay", "slopes")


@picture_kinds.register
def _(scheme: Relative) -> tuple[str, ...]:
    return ("heatmap", "curves")


def _kinds_by_frequencies(scheme: Scheme) -> tuple[str, ...]:
    if scheme.inverse_frequencies() is None:
        return TABLE_KINDS
    return TABLE_KINDS + WAVE_KINDS


@singledispatch
def is_on_grid(scheme: Scheme) -> bool:
    """Return True if the rows of a scheme are the points of a grid; False without a scheme."""
    return False


@is_on_grid.register
def _(scheme: Positioned) -> bool:
    return scheme.grid is not None


@is_on_grid.register
def _(scheme: Relative) -> bool:
    return scheme.grid is not None
