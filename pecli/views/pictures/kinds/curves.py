"""Channels over positions; for ALiBi, biases over distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.block_mean import envelope
from pecli.views.pictures.downsample import check_width
from pecli.views.pictures.kinds.slopes import heads_of
from pecli.views.pictures.kinds.wavelengths import angles, telling
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish, chosen

LONGEST = 1 << 20
"""Positions that are drawn; more would be a band."""
_FINEST = 1 << 14
"""Pieces of a curve, more than any picture has columns."""
_MOST, _LINES = 5, 12
"""Curves that are chosen, and those that have colours of their own."""
_MOST_TURNS = 16.0


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """One chart; with several subjects each curve says whose it is."""
    if all(subject.applied_as == "bias" for subject in subjects):
        return Picture("bias by distance", [_biases(subjects, wish)])
    most = max(1, _MOST // len(subjects))
    curves: list[Curve] = []
    drawn: list[Table] = []
    for subject in subjects:
        for table in _matrices(subject):
            drawn.append(table)
            prefix = f"{subject.label}, " if len(subjects) > 1 else f"{table.name} " if _is_one_of_many(subject) else ""
            word = "pair" if subject.is_compact else "channel"
            picked = chosen(wish, table.width, most, f"{word}s") if wish.channels else _picked(subject, table, most)
            rows = _columns(table, picked)
            shown = min(2, most) if wish.channels is None and _is_restless(rows) else len(picked)
            x = subject.first + np.arange(len(rows), dtype=np.float64)
            curves += [
                Curve(f"{prefix}{word} {k}", *envelope(x, rows[:, j], _FINEST)) for j, k in enumerate(picked[:shown])
            ]
    if not curves:
        raise ParameterError("kind", "curves", "there is no table with rows and columns")
    if wish.channels and len(curves) > _LINES:
        raise ParameterError("channels", f"{len(curves)} lines", f"a picture has room for {_LINES}", "name fewer")
    turned = all(subject.is_compact for subject in subjects)
    title = "chosen pairs over positions" if turned else "chosen channels over positions"
    cut = f"the first {LONGEST:,} positions" if any(table.rows > LONGEST for table in drawn) else ""
    alone = curves[0].label if len(curves) == 1 else ""  # which has no legend
    chart = Chart(", ".join(filter(None, [alone, cut])), curves[:_LINES], y="cosine" if turned else "value")
    return Picture(title, [chart])


def _is_one_of_many(subject: Subject) -> bool:
    return subject.kind == "file" and len(_matrices(subject)) > 1


def _matrices(subject: Subject) -> list[Table]:
    """What has rows and columns; of a rotation the cosines, as the sines look alike."""
    turned = subject.applied_as == "rotation"
    found = [table for table in subject.tables if len(table.shape) == 2 and table.size]
    for table in found:
        check_width(table, "curves")
    return [table for table in found if not (turned and table.name.endswith("sin"))]


def _picked(subject: Subject, table: Table, most: int) -> list[int]:
    """A few channels that are neither bands nor lines: by their frequencies where those are known."""
    if "wavelengths" not in subject.picture_kinds:
        return (
            [(k + 1) * table.width // (most + 1) for k in range(most)] if table.width > most else [*range(table.width)]
        )
    pairs = telling(angles(subject.scheme), table.rows, most, _MOST_TURNS)
    return [subject.axes_of(table).step * pair for pair in pairs]


def _is_restless(rows: Floats) -> bool:
    """Whether curves go up and down at every step, so that more than two of them hide each other."""
    start = rows[:4096]
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.abs(np.diff(start, axis=0))
        finite, known = steps[np.isfinite(steps)], start[np.isfinite(start)]
        return len(rows) > 64 and finite.size > 0 and bool(finite.mean() > known.std())


def _columns(table: Table, picked: Sequence[int]) -> Floats:
    """Some columns of a table, read block by block."""
    found, seen = np.empty((min(table.rows, LONGEST), len(picked))), 0
    for block in table.blocks():
        part = widened(block[: len(found) - seen, list(picked)])
        found[seen : seen + len(part)] = part
        seen += len(part)
        if seen == len(found):
            break
    return found


def _biases(subjects: Sequence[Subject], wish: Wish) -> Chart:
    curves = []
    for head in heads_of(subjects, wish):
        distances = np.linspace(0, head.keys - 1, 200)
        curves.append(Curve(head.label, distances, -head.slope * distances))
    return Chart("", curves, x="distance", y="bias", ordered=len(subjects) == 1)
