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
    """Return the sections in words, such as «M-RoPE: time 0–15, height 16–39, width 40–63».

    If the axes take turns, so that no section is a range of pairs, they are counted: «M-RoPE, axes
    take turns: 24 time, 20 height, 20 width pairs». Without sections, the note is empty.
    """
    axis_of_pair = _section_axes(source.scheme)
    sections = _runs(axis_of_pair)
    if not sections:
        return ""
    axes_take_turns = len(sections) > len(AXIS_NAMES)
    if axes_take_turns:
        counts = [f"{axis_of_pair.count(axis)} {name}" for axis, name in enumerate(AXIS_NAMES)]
        return f"M-RoPE, axes take turns: {', '.join(counts)} pairs"
    ranges = [f"{band.label} {band.start:.0f}–{band.stop:.0f}" for band in sections]
    return f"M-RoPE: {', '.join(ranges)}"


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


def _runs(axis_of_pair: list[int]) -> list[Band]:
    """Return the ranges of neighbouring pairs that turn with the same axis.

    Axes 0 0 1 1 1 2 are time (0–1), height (2–4) and width (5–5).
    """
    bands = []
    pair_numbers = range(len(axis_of_pair))
    for axis, run in groupby(pair_numbers, lambda pair: axis_of_pair[pair]):
        pairs = list(run)
        bands.append(Band(AXIS_NAMES[axis], float(pairs[0]), float(pairs[-1])))
    return bands
