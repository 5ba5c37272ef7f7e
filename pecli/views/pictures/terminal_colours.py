"""The colours of a terminal: millions of them, or 256 that are picked by hand."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from pecli.views.pictures import palettes

LEVELS = 256  #: Steps of the colours of a heatmap.
ColourCode = int | palettes.Colour  #: One of 256 colours, or red, green and blue.


class TerminalColours(ABC):
    """The colours that a kind of terminals can show."""

    grey: ColourCode  #: The colour of levels, and of values that are not finite.
    bright: Sequence[ColourCode]  #: Colours of curves that differ from their neighbours.

    def distinct(self, number: int, count: int) -> ColourCode:
        """Return the colour of curve `number`, whatever the order of the curves."""
        return self.bright[number % len(self.bright)]

    @abstractmethod
    def ordered(self, number: int, count: int) -> ColourCode:
        """Return the colour of curve `number` of `count` curves that are steps of one quantity."""

    @abstractmethod
    def scale(self, *, centred: bool) -> list[ColourCode]:
        """Return the colours of all `LEVELS` of a heatmap; a centred one has zero in the middle."""


class _MillionsOfColours(TerminalColours):
    """The palettes of figures, interpolated."""

    grey = palettes.UNKNOWN
    bright = palettes.BRIGHT

    def ordered(self, number: int, count: int) -> ColourCode:
        return palettes.step(number, count, dark=True)

    def scale(self, *, centred: bool) -> list[ColourCode]:
        codes: list[ColourCode] = palettes.steps(palettes.palette(centred=centred)).tolist()
        return codes


class _FewColours(TerminalColours):
    """The palettes that are picked from 256 colours; neighbouring levels share a colour."""

    grey = palettes.UNKNOWN_256
    bright = palettes.BRIGHT_256

    def ordered(self, number: int, count: int) -> ColourCode:
        steps = palettes.SEQUENTIAL_256[2:]  # The first two are too dark.
        return steps[number * (len(steps) - 1) // max(1, count - 1)]

    def scale(self, *, centred: bool) -> list[ColourCode]:
        few = palettes.DIVERGING_256 if centred else palettes.SEQUENTIAL_256
        return [few[level * len(few) // LEVELS] for level in range(LEVELS)]


def colours_of(count: int) -> TerminalColours:
    """Return the colours of a terminal that has `count` of them: 256 or 2**24."""
    return _MillionsOfColours() if count > LEVELS else _FewColours()
