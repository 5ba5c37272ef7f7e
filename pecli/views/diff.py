"""How two files differ, for people: in words, and as a picture of the errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import problems_of
from pecli.checks.compare.error_summary import ErrorMap
from pecli.checks.diff import Difference
from pecli.views import screen, verification

if TYPE_CHECKING:
    from pecli.views.pictures.panels import HeatmapPanel

PICTURE_LINES = 16
"""How much of a terminal the errors of a tensor take."""
MIN_ERROR = 1e-300
"""The smallest error that has a colour of its own, as a power of ten."""
MIN_SHARE = 1e-16
"""Of the largest error, what the colours reach down to."""


def show(result: Difference) -> None:
    """The verdict, one line a finding, one a tensor."""
    exact = all(tensor.worst_index is None for tensor in result.tensors)
    verdict = ("equal" if exact else "within tolerance") if result.passed else "DIFFERENT"
    style = "bold green" if result.passed else "bold red"
    screen.say_styled((verdict, style), (f"  A: {result.a}  B: {result.b}", ""))
    problems = problems_of(result.tensors)
    for line in result.diagnosis:
        if line not in problems:
            screen.say_wrapped(f"  {line}")
    for tensor in result.tensors:
        head, *rest = verification.parts_of(tensor, ("A", "B"), "equal")
        note = result.readings.get(tensor.name, "")
        verification.say_parts([f"{head}, {note}" if note else head, *rest])
    if not (result.passed or result.diagnosis):
        screen.say("  no known transform maps A to B; pecli identify may say what each of them is")


def picture(errors: ErrorMap) -> None:
    """The errors of a tensor in the terminal."""
    from dataclasses import replace

    from pecli.views.pictures import half_blocks

    screen.say()
    panel = replace(_panel(errors), title=f"|A − B| of {errors.name}")
    print("\n".join(half_blocks.lines(panel, screen.terminal(), height=PICTURE_LINES)))


def save_picture(
    path: str,
    maps: Sequence[ErrorMap],
    names: tuple[str, str],
    atol: float = 0.0,
    about: Mapping[str, Any] | None = None,
) -> None:
    """The errors of some tensors in a file, one below the other, each with colours of its own."""
    from pecli.views.pictures import figure, mpl_render
    from pecli.views.pictures.panels import Picture

    title = f"A: {screen.printable(names[0])}, B: {screen.printable(names[1])}"
    nothing = "" if maps else "no element to draw, as all are equal, or none can be compared"
    picture = Picture(title, [_panel(errors, atol) for errors in maps], subtitle=nothing)
    figure.save(mpl_render.render(picture, height=1.0 + 3.2 * len(maps) + (not maps)), path, about=about)


def _panel(errors: ErrorMap, atol: float = 0.0) -> HeatmapPanel:
    """Errors on a logarithmic scale, with the tolerance on it; what is infinite cannot be drawn to scale."""
    from pecli.views.pictures.panels import HeatmapPanel

    cells = np.where(np.isfinite(errors.cells), errors.cells, np.nan)
    found = [*cells[cells > 0].tolist(), *([atol] if atol > 0 else [])]
    low, high = (min(found), max(*found, MIN_ERROR)) if found else (0.1, 1.0)
    return HeatmapPanel(
        errors.name,
        cells,
        rows="position" if errors.positions > 1 else "",
        columns="channel" if errors.positions > 1 else "element",
        row_count=errors.positions,
        column_count=errors.channels,
        limits=(min(max(low, high * MIN_SHARE), high / 10), high),
        meaning="|A − B|, none: blank",
        log=True,
        reduce="max",
        marked=("tolerance", atol) if atol > 0 else None,
    )
