"""A kind of picture: its name, its sentence in the help, and the function that makes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pecli.errors import ParameterError
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource

MAX_PANELS = 12  #: More panels would be too small to be seen.


def shows_all(source: PlotSource) -> bool:
    """Return False: a picture of this kind shows every channel, pair and head of a source."""
    return False


def shows_some(source: PlotSource) -> bool:
    """Return True: a picture of this kind shows the channels, pairs or heads that are chosen."""
    return True


@dataclass(frozen=True)
class PictureKind:
    """A kind of picture, as `pecli plot --kind` names it.

    A new kind is one of these, made beside its function and listed in `KINDS`; the schemes that it
    fits name it in `fitting.py`.
    """

    name: str
    summary: str  #: One line for the help: the things that it shows.
    make: Callable[[Sequence[PlotSource], PlotRequest], Picture]
    takes_channels: Callable[[PlotSource], bool] = shows_all
    """Returns True for sources of which it can show some channels, pairs or heads only."""
    moves: bool = False  #: True if it is drawn in files only, where a .gif moves it.


def check_panels(count: int) -> None:
    """Raise ParameterError if a picture would have too many panels."""
    if count > MAX_PANELS:
        rule = f"it would take more than {MAX_PANELS} panels"
        advice = "draw fewer, or name one tensor as FILE:NAME"
        raise ParameterError("the picture", "too large", rule, advice)
