"""A kind of picture: its name, its sentence in the help, and the function that makes it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pecli.errors import ParameterError
from pecli.views.pictures.panels import Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource

MAX_PANELS = 12  #: More panels would be too small to be seen.


@dataclass(frozen=True)
class PictureKind:
    """A kind of picture, as `pecli plot --kind` names it.

    A new kind is one of these, made beside its function and listed in `KINDS`; the schemes that it
    fits name it in `fitting.py`.
    """

    name: str
    summary: str  #: One line for the help: the things that it shows.
    make: Callable[[Sequence[PlotSource], PlotRequest], Picture]
    takes_channels: bool = False  #: True if it can show some channels, pairs or heads only.
    moves: bool = False  #: True if it is drawn in files only, where a .gif moves it.


def check_panels(count: int) -> None:
    """Raise ParameterError if a picture would have too many panels."""
    if count > MAX_PANELS:
        rule = f"it would take more than {MAX_PANELS} panels"
        advice = "draw fewer, or name one tensor as FILE:NAME"
        raise ParameterError("the picture", "too large", rule, advice)
