"""The size of a figure in inches and dots, and how much data it can show."""

from typing import NamedTuple

from pecli.engine.arguments import two_of
from pecli.engine.schemes.parameters import ListOf, Real, Whole
from pecli.errors import ParameterError
from pecli.views.pictures.plot_sources import PlotRequest

WHOLE_DPI = Whole(help="dots per inch", low=10, high=2400)
DPI = Real(help="dots per inch", at_least=10, up_to=2400)
"""In Python, dots per inch may have a fraction; TeX has 72.27 points per inch."""
DEFAULT_DPI = 200
GIF_DPI = 100
"""Dots per inch of a figure by default: a .gif of 200 frames would take a minute, and megabytes."""
INCHES = Real(help="inches", above=0.99, up_to=100)
CHANNELS = ListOf(help="channels", each=Whole(help="a channel", low=0, high=2**40))

MAX_PIXELS = 1 << 26
"""Pixels of a figure. Each takes a dozen bytes while it is drawn."""

MIN_LAYOUT_DPI = 100
"""Figures are laid out at this resolution at least, so that is what their pixels are counted at."""

ROWS_PER_DOT = 4
"""Rows that are read per dot of a figure's height; they are averaged."""

SIZE_RULE = "it must be two numbers of inches, such as"


class Inches(NamedTuple):
    """The size of a figure in inches."""

    width: float
    height: float


DEFAULT_SIZE = Inches(8.0, 5.0)
"""Size by which the resolution of the data is chosen if no size is given."""


def parse_size(text: str | None) -> Inches | None:
    """Parse `--size`: «8x5» and «8×5» are 8 inches wide and 5 high. None if it was not given."""
    if text is None:
        return None
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2:
        raise ParameterError("size", repr(text), f"{SIZE_RULE} 8x5")
    return Inches(INCHES.parse("size", parts[0]), INCHES.parse("size", parts[1]))


def check_size(size: object) -> Inches | None:
    """Return the size that an argument gives as (width, height); None stays None."""
    if size is None:
        return None
    rule = f"{SIZE_RULE} (8, 5)"
    width, height = two_of("size", size, rule)
    return Inches(INCHES.check("size[0]", width), INCHES.check("size[1]", height))


def data_request(size: Inches | None, dpi: float, channels: tuple[int, ...] | None) -> PlotRequest:
    """Return the rows and columns of data that a figure of this size can show.

    At 8 × 5 inches and 200 dots per inch, these are 4,000 rows (four per dot) and 1,600 columns.

    Raises:
        ParameterError: The figure would have more than MAX_PIXELS pixels.
    """
    width, height = size or DEFAULT_SIZE
    if width * height * max(dpi, MIN_LAYOUT_DPI) ** 2 > MAX_PIXELS:
        rule = f"the figure would have more than {MAX_PIXELS:,} pixels"
        raise ParameterError("dpi", dpi, rule, "make it smaller")
    max_rows = round(ROWS_PER_DOT * height * dpi)
    max_columns = round(width * dpi)
    return PlotRequest(max_rows, max_columns, channels)
