"""The sections of M-RoPE: which pairs turn with the time, the height and the width of a token."""

from functools import singledispatch
from itertools import groupby

from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.views.pictures.panels import Band
from pecli.views.pictures.plot_sources import PlotSource

AXIS_NAMES = ("time", "height", "width")


def section_bands(source: PlotSource) -> list[Band]:
    """Return a band per section, if sections follow each other; otherwise none.

    Qwen2-VL's 16, 24 and 24 pairs are the bands time (0–15), height (16–39) and width (40–63).
    Qwen3-VL's axes take turns, so that no section is a range of pairs.
    """
    runs = _runs(_section_axes(source.scheme))
    if len(runs) > len(AXIS_NAMES):
        return []
    return runs


def section_note(source: PlotSource) -> str:
    """Return the sections in words, such as «M-RoPE: time 0–15, height 16–39, width 40–63»."""
    axes = _section_axes(source.scheme)
    runs = _runs(axes)
    if not runs:
        return ""
    if len(runs) <= len(AXIS_NAMES):
        ranges = [f"{run.label} {run.start:.0f}–{run.stop:.0f}" for run in runs]
        return f"M-RoPE: {', '.join(ranges)}"
    counts = [f"{axes.count(axis)} {name}" for axis, name in enumerate(AXIS_NAMES)]
    return f"M-RoPE, axes take turns: {', '.join(counts)} pairs"


@singledispatch
def _section_axes(scheme: Scheme) -> list[int]:
    """Return the axis of each pair; empty without sections."""
    return []


@_section_axes.register
def _(scheme: Rope) -> list[int]:
    section = scheme.mrope_section or ()
    if len(section) == len(AXIS_NAMES):
        return scheme.pair_axes
    return []


def _runs(axes: list[int]) -> list[Band]:
    """Return the ranges of neighbouring pairs that turn with the same axis."""
    bands = []
    for axis, pairs in groupby(range(len(axes)), lambda pair: axes[pair]):
        numbers = list(pairs)
        bands.append(Band(AXIS_NAMES[axis], float(numbers[0]), float(numbers[-1])))
    return bands
