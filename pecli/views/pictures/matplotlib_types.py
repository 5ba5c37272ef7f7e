"""Types of matplotlib and Pillow for annotations: both are imported when the first figure is made."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.artist import Artist as Artist
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import XAxis as XAxis
    from matplotlib.axis import YAxis as YAxis
    from matplotlib.colorbar import Colorbar as Colorbar
    from matplotlib.colors import Colormap as Colormap
    from matplotlib.figure import Figure as Figure
    from matplotlib.gridspec import SubplotSpec as SubplotSpec
    from matplotlib.lines import Line2D as Line2D
    from matplotlib.projections.polar import PolarAxes as PolarAxes
    from PIL.Image import Image

    RasterImage = Image
else:
    Artist = Axes = XAxis = YAxis = Colorbar = Colormap = Figure = object
    SubplotSpec = Line2D = PolarAxes = RasterImage = object
