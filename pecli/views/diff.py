"""How two files differ, for people: in words, and as a picture of the errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.compare import problems_of
from pecli.checks.compare.error_map import ErrorMap
from pecli.checks.diff import Difference
from pecli.views import report, screen

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

PICTURE_LINES = 16
"""How much of a terminal the errors of a tensor take."""


def show(result: Difference) -> None:
    """The verdict, one line a finding, one a tensor."""
    exact = all(tensor.worst_index is None for tensor in result.tensors)
    verdict = ("equal" if exact else "within tolerance") if result.passed else "DIFFERENT"
    style = "bold green" if result.passed else "bold red"
    screen.say_styled((verdict, style), (f"  A: {result.a}  B: {result.b}", ""))
    problems = problems_of(result.tensors)
    for line in result.diagnosis:
        if line not in problems:
            screen.say(f"  {line}")
    for tensor in result.tensors:
        report.say_parts(report.parts_of(tensor, ("A", "B"), "equal"))
    if not (result.passed or result.diagnosis):
        screen.say("  no usual change turns A into B; pecli identify may say what each of them is")


def picture(errors: ErrorMap) -> None:
    """The errors of a tensor in the terminal."""
    from pecli.views.pictures import heatmap

    screen.say()
    heatmap.draw(
        _shown(errors.cells),
        title=f"|A − B| of {errors.name}",
        reduce="max",
        row_count=errors.positions,
        column_count=errors.channels,
        height=PICTURE_LINES,
    )


def save_picture(path: str, maps: Sequence[ErrorMap], names: tuple[str, str]) -> None:
    """The errors of some tensors in a file, one below the other."""
    from pecli.views.pictures import charts, figure

    canvas = figure.new(8.0, 1.0 + 3.2 * max(1, len(maps)))
    axes = canvas.subplots(max(1, len(maps)), squeeze=False)[:, 0]
    if not maps:
        axes[0].set_axis_off()
        axes[0].set_title("no element to draw: all are equal, or none can be compared")
    for axis, errors in zip(axes, maps, strict=False):
        shown = axis.imshow(
            charts.drawable(errors.cells),
            cmap=figure.colours(),
            extent=(-0.5, errors.channels - 0.5, errors.positions - 0.5, -0.5),
            aspect="auto",
        )
        axis.set_title(errors.name)
        axis.set_xlabel("channel" if errors.positions > 1 else "element")
        axis.set_ylabel("position" if errors.positions > 1 else "")
        if errors.positions == 1:
            axis.set_yticks([])
        canvas.colorbar(shown, ax=axis, label="|A − B|, the largest of each cell")
    canvas.suptitle(f"A: {screen.printable(names[0])}   B: {screen.printable(names[1])}")
    figure.save(canvas, path)


def _shown(cells: Floats) -> Floats:
    """What is infinite cannot be drawn to scale."""
    return np.where(np.isfinite(cells), cells, np.nan)
