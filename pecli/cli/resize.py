"""`pecli resize`: a learned table at another length or on another grid."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from pecli.cli import Exit, options
from pecli.engine.arrays import Floats
from pecli.engine.schemes import Choice, Whole
from pecli.errors import FileError, ParameterError, begun

if TYPE_CHECKING:
    from pecli.engine.table import Table
    from pecli.tensors.resize import Resizing


EXAMPLES = (
    "pecli resize wpe.npy --to 2048 -o longer.npy",
    "pecli resize vit.safetensors:pos_embed --grid 14x14 --to 24x24 --keep 1 -o larger.safetensors",
    "pecli resize pos_embed.npy --grid 14x14 --to 7x7 --antialias -o smaller.npy",
)
_SIDE = Whole(help="cells", low=1, high=1 << 24)
_KEPT = Whole(help="rows", low=0, high=1 << 24)
_CROSS = re.compile("[xX×]")
"""What people write between the sides of a grid."""
_METHOD = Choice(help="the kernel", options=("linear", "cubic"))


def resize(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A learned table: a file, or FILE:NAME.")],
    to: Annotated[
        str | None,
        options.text("--to", "N|HxW", "The new number of rows in all, or the new grid. (required)"),
    ] = None,
    grid: Annotated[str | None, options.text("--grid", "HxW", "The grid that the rows are now.")] = None,
    keep: Annotated[
        str,
        options.text("--keep", "N", "Rows at the beginning to leave alone: class and register tokens. (default: 0)"),
    ] = "0",
    method: Annotated[
        str | None,
        options.text("--method", "[linear|cubic]", "The kernel. (default: cubic for a grid, else linear)"),
    ] = None,
    antialias: Annotated[
        bool, typer.Option("--antialias", help="Average over more rows when shrinking, as timm does; HF does not.")
    ] = False,
    output: Annotated[str | None, options.output("Where to write; the suffix picks the format.", panel=None)] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Resample a learned table to another length, or to another grid, as vision models do it.

    Without -o it only says how the norms of the rows would change.
    """
    import numpy as np

    from pecli.files import format_of, save_tables
    from pecli.tensors.inputs import open_file
    from pecli.tensors.resize import norms_of, row_norms
    from pecli.tensors.resize import resize as resample

    if output is not None:
        format_of(output)
        options.check_output(output, json=json, example="w.npy")
    if to is None:
        raise ParameterError("to", "missing", "it must be a number of rows, or a grid such as 24x24")
    kept = _KEPT.parse("keep", keep)
    with open_file(file) as loaded:
        loaded.check()
        table = _only(file, loaded.tables)
        made = resample(table, _resizing(table, to, grid, kept, method, antialias))
        after: list[Floats] = []
        if output is not None:
            save_tables(output, [made], None, on_block=lambda _, block: after.append(row_norms(block)))
        norms = {"before": norms_of(table), "after": np.concatenate(after) if after else norms_of(made)}
    _report(table, made, norms, output, {"json": json, "quiet": quiet})
    return Exit.DONE


def _only(path: str, tables: tuple[Table, ...]) -> Table:
    if len(tables) == 1:
        return tables[0]
    names = begun([table.name for table in tables], 8)
    raise FileError(path, f"has {len(tables)} tensors: {names}", "name one: FILE:NAME")


def _resizing(table: Table, to: str, grid: str | None, keep: int, method: str | None, antialias: bool) -> Resizing:
    from pecli.tensors.resize import Resizing

    flat = grid is None
    if flat and _CROSS.search(to):
        raise ParameterError("grid", "missing", f"the rows become a grid of {to}, so they must be one now")
    rows = table.shape[-2] if len(table.shape) > 1 else 0
    if flat and keep >= max(rows, 1):
        raise ParameterError("keep", keep, f"the table has {rows} rows, and one must be left to resize")
    old = (rows - keep, 1) if grid is None else _grid("grid", grid)
    new = (_SIDE.parse("to", to), 1) if flat else _grid("to", to)
    kernel = ("linear" if flat else "cubic") if method is None else _METHOD.parse("method", method)
    if flat and new[0] <= keep:
        raise ParameterError("to", to, f"of these rows {keep} are kept, and one must be left")
    return Resizing(old, (new[0] - keep, 1) if flat else new, kernel, antialias, keep)


def _grid(name: str, text: str) -> tuple[int, int]:
    sides = _CROSS.split(text.strip())
    if len(sides) != 2 or not all(side.isascii() and side.isdigit() for side in sides):
        raise ParameterError(name, repr(text), "it must be rows x columns, such as 14x14")
    return _SIDE.parse(name, sides[0]), _SIDE.parse(name, sides[1])


def _report(table: Table, made: Table, norms: dict[str, Floats], output: str | None, values: dict[str, bool]) -> None:
    from pecli.files.output import is_stream
    from pecli.views import screen

    if values["json"]:
        figures = {when: dict(zip(("mean", "std"), _statistics(each), strict=True)) for when, each in norms.items()}
        shapes = {"shape": list(table.shape), "resized": list(made.shape)}
        screen.say_json({"name": table.name, **shapes, "dtype": table.dtype, "row_norms": figures, "output": output})
        return
    if values["quiet"] or (output is not None and is_stream(output)):
        return
    about = f"{table.name} {screen.shape(table.shape)} → {screen.shape(made.shape)} {table.dtype}"
    if output is None:
        screen.say(about)
    else:
        screen.say_written(output, f"{about}, ")
    before, after = (_statistics(each) for each in norms.values())
    screen.say(f"norm of a row: {before[0]:.4g} ± {before[1]:.2g} before, {after[0]:.4g} ± {after[1]:.2g} after")


def _statistics(norms: Floats) -> tuple[float, float]:
    """Mean and standard deviation; infinite or not numbers where the table is."""
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        return float(norms.mean()), float(norms.std())
