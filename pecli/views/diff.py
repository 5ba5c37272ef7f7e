"""How two files differ, for people: in words, and as a picture of the errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.checks.compare import problems_of
from pecli.checks.compare.error_map import ErrorMap
from pecli.checks.diff import Difference
from pecli.engine.arrays import Floats
from pecli.views import screen, write_summary

PICTURE_LINES = 16
"""How much of a terminal the errors of a tensor take."""
_PIXELS = 220
"""Of a tensor in a figure, so that the largest error is one that is seen."""


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
        head, *rest = write_summary.parts_of(tensor, ("A", "B"), "equal")
        note = result.readings.get(tensor.name, "")
        write_summary.say_parts([f"{head}, {note}" if note else head, *rest])
    if not (result.passed or result.diagnosis):
        screen.say("  no usual change turns A into B; pecli identify may say what each of them is")


def picture(errors: ErrorMap) -> None:
    """The errors of a tensor in the terminal."""
    from pecli.views.pictures import heatmap

    screen.say()
    shown = _shown(errors.cells)
    heatmap.draw(
        shown,
        title=f"|A − B| of {errors.name}",
        rows=_rows(errors),
        columns=_columns(errors),
        reduce="max",
        row_count=errors.positions,
        column_count=errors.channels,
        limits=_limits(shown),
        height=PICTURE_LINES,
    )


def save_picture(path: str, maps: Sequence[ErrorMap], names: tuple[str, str]) -> None:
    """The errors of some tensors in a file, one below the other, each with colours of its own."""
    from pecli.views.pictures import figure, mpl_render
    from pecli.views.pictures.block_mean import shrink
    from pecli.views.pictures.panels import Heat, Picture

    title = f"A: {screen.printable(names[0])}, B: {screen.printable(names[1])}"
    if not maps:
        title += ": no element to draw, as all are equal, or none can be compared"
    panels = []
    for errors in maps:
        cells = _shown(shrink(errors.cells, _PIXELS, _PIXELS, "max"))
        panels.append(
            Heat(
                errors.name,
                cells,
                rows=_rows(errors),
                columns=_columns(errors),
                row_count=errors.positions,
                column_count=errors.channels,
                limits=_limits(cells),
                meaning="|A − B|",
                sharp=True,
            )
        )
    figure.save(mpl_render.paint(Picture(title, panels), height=1.0 + 3.2 * max(1, len(maps))), path)


def _rows(errors: ErrorMap) -> str:
    return "position" if errors.positions > 1 else ""


def _columns(errors: ErrorMap) -> str:
    return "channel" if errors.positions > 1 else "element"


def _limits(cells: Floats) -> tuple[float, float]:
    """From no error to the largest that is drawn."""
    finite = cells[np.isfinite(cells)]
    return 0.0, float(finite.max()) if finite.any() else 1.0


def _shown(cells: Floats) -> Floats:
    """What is infinite cannot be drawn to scale."""
    return np.where(np.isfinite(cells), cells, np.nan)
