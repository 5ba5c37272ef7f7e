"""The field guide of mistakes, samples/mistakes.md, which follows from the catalogue of `verify`.

python -m tests.field_guide        writes it
"""

import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pecli.engine.edits import Edit
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.explain import catalogue
from pecli.explain.hypothesis import Mistake, Stage
from pecli.explain.planting import tensors_made_together, wrong_tensors
from pecli.explain.words import MAX_COMMAND, clause, options
from pecli.golden.mistake_cases import SCHEMES, MistakenTable, mistakes, slug
from tests.checks.waves import Array

GUIDE = Path(__file__).parent.parent / "samples" / "mistakes.md"

HEAD = """# A field guide to mistakes in positional encodings

Every mistake that `pecli verify`, `diff` and `--verify` know by name: what it is, who had it, how it looks, and the command
that finds it. Each is shown in a small table: what was expected, what was found, and where they differ. Rows are positions,
columns are channels; dark is +1, light is −1, and in the difference dark is the largest one.

`python -m tests.field_guide` writes this page; a test keeps it true.
"""

CHAPTERS = {
    Stage.PARAMETERS: "Parameters and scalings",
    Stage.FREQUENCIES: "Frequencies and amplitudes",
    Stage.POSITIONS: "Positions",
    Stage.ARITHMETIC: "Arithmetic",
    Stage.FORM: "Layout, order and signs",
    Stage.DAMAGE: "Damage",
    Stage.STORAGE: "Storage",
}

SHADES = " ░▒▓█"
"""From −1 to +1."""

MAX_ROWS = 8
MAX_COLUMNS = 16
"""Cells of a picture; of larger tables, some rows and the first columns are drawn."""

ROTATED = "pecli verify after.npy --before before.npy --model MODEL"


def guide() -> str:
    """Return the whole page."""
    tables = {type(table.mistake): table for table in mistakes()}
    chapters = [HEAD]
    for stage, title in CHAPTERS.items():
        kinds = [kind for kind in catalogue.every_kind() if kind.stage == stage]
        if kinds:
            chapters.append(f"## {title}\n")
            chapters += [entry(kind, tables.get(kind)) for kind in kinds]
    return "\n".join(chapters)


def entry(kind: type[Mistake], exact: MistakenTable | None) -> str:
    """Return the section about one kind of mistake."""
    title = slug(kind).replace("-", " ").capitalize()
    lines = [f"### {title}\n", f"{kind.summary[0].upper()}{kind.summary[1:]}.\n"]
    if kind.seen_in:
        lines.append(f"Seen in: {'; '.join(kind.seen_in)}.\n")
    table = exact or example(kind)
    if table is not None:
        lines += [picture(table), found_by(table.scheme, table.edits)]
    elif kind in catalogue.ROTATIONS:
        lines.append(f"Found in rotated queries and keys by `{ROTATED}`.\n")
    else:
        lines.append("Found beside others; it has no table of its own.\n")
    return "\n".join(lines)


def example(kind: type[Mistake]) -> MistakenTable | None:
    """Return a table with a mistake that the engine cannot compute exactly; None if it needs data."""
    for scheme in SCHEMES:
        names = [*named_tensors(scheme)]
        for mistake in wrong_tensors(scheme, [kind], names):
            return MistakenTable(slug(kind), *mistake)
    return None


def picture(table: MistakenTable) -> str:
    """Return the first tensor that differs: expected, found and difference, side by side."""
    right: dict[str, Array] = {}
    for tensors in tensors_made_together(table.scheme, [*table.tensors]):
        right |= tensors.rows(np.arange(tensors.computation.rows))
    for name, found in table.tensors.items():
        expected = right[name].reshape(found.shape)
        if not np.array_equal(expected, found):
            break
    panels = {
        f"{name} expected": shaded(expected),
        "found": shaded(found),
        "difference": shaded_difference(expected, found),
    }
    width = max(MAX_COLUMNS, max(map(len, panels)))
    lines = ["  ".join(title.ljust(width) for title in panels).rstrip()]
    for cells in zip(*panels.values(), strict=True):
        lines.append("  ".join(cell.ljust(width) for cell in cells).rstrip())
    return "\n".join(["```text", *lines, "```\n"])


def shaded(array: Array) -> list[str]:
    """Return one line per row; the largest value is black, and the smallest one white."""
    cells = cut(array)
    size = np.abs(cells[np.isfinite(cells)]).max(initial=0.0) or 1.0
    return drawn((cells / size + 1) / 2)


def shaded_difference(expected: Array, found: Array) -> list[str]:
    with np.errstate(invalid="ignore"):
        difference = np.abs(cut(found) - cut(expected))
    difference = np.where(cut(found) == cut(expected), 0.0, difference)  # masks are infinite
    size = difference[np.isfinite(difference)].max(initial=0.0) or 1.0
    return drawn(difference / size)


def cut(array: Array) -> Array:
    """Return the rows and columns that are drawn, of the last matrix; of a vector, its elements."""
    matrix = array.reshape(-1, *array.shape[-2:])[-1] if array.ndim > 1 else array[None]
    rows = np.linspace(0, len(matrix) - 1, min(MAX_ROWS, len(matrix))).round().astype(int)
    return matrix[rows, :MAX_COLUMNS].astype(float)


def drawn(shares: Array) -> list[str]:
    """Return numbers from 0 to 1 as shades; «·» for what is no number, «-» for a mask."""
    lines = []
    for row in shares:
        lines.append("".join(shade(share) for share in row))
    return lines


def shade(share: float) -> str:
    if np.isnan(share):
        return "·"
    if np.isinf(share):
        return "-"
    return SHADES[min(len(SHADES) - 1, max(0, int(share * len(SHADES) - 1e-9)))]


def found_by(scheme: Scheme, edits: tuple[Edit, ...]) -> str:
    """Return the command that finds a mistake, and what it answers."""
    command = shlex.join(["pecli", scheme.name, *options(scheme), "--verify", "dump.safetensors"])
    answer = ", and ".join(clause(edit) for edit in edits)
    if len(command) > MAX_COMMAND:
        command = f"pecli {scheme.name} … --verify dump.safetensors"
    return f"`{command} --atol 1e-6` answers: {answer}.\n"


def sections() -> Iterator[str]:
    """Yield the titles of the page."""
    for line in guide().splitlines():
        if line.startswith("### "):
            yield line.removeprefix("### ")


if __name__ == "__main__":
    GUIDE.write_text(guide(), encoding="utf-8")
