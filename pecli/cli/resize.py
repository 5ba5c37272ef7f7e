"""`pecli resize`: a learned table at another length or on another grid."""

from typing import Any

import numpy as np

from pecli.cli import command, options
from pecli.engine.arrays import dtype_name, widened
from pecli.engine.schemes import Whole
from pecli.engine.table import table_of
from pecli.errors import FileError, ParameterError, listed, quoted
from pecli.files import save_tables
from pecli.files.output import is_stream
from pecli.tensors.inputs import open_file
from pecli.tensors.resize import resize as resized
from pecli.views import screen

_KEEP = "Rows at the beginning to leave alone: class and register tokens. (default: 0)"


@command(
    options.argument("file", "FILE", "A learned table: a file, or FILE:NAME."),
    options.text(
        "--to", "N|HxW", "The new number of rows, kept ones included, or the new grid. (required)"
    ),
    options.text("--grid", "HxW", "The grid that the rows are now."),
    options.text("--keep", "N", _KEEP, default="0", rule=Whole(help="rows", low=0, high=1 << 24)),
    options.text(
        "--method", "[linear|cubic]", "The kernel. (default: cubic for a grid, else linear)"
    ),
    options.flag(
        "--antialias", "Average over more rows when shrinking, as timm does; Hugging Face does not."
    ),
    options.output("Where to write; the suffix picks the format.", ""),
    *options.ANSWER,
)
def resize(
    file: str, to: str | None, output: str | None, json: bool, quiet: bool, **given: Any
) -> None:
    """Resample a learned table to another length, or to another grid, as vision models do it.

    Without -o it only says how the norms of the rows would change.

    Examples:
      pecli resize wpe.npy --to 2048 -o longer.npy
      pecli resize vit.safetensors:pos_embed --grid 14x14 --to 24x24 --keep 1 -o larger.safetensors
      pecli resize pos_embed.npy --grid 14x14 --to 7x7 --antialias -o smaller.npy
    """
    if output is not None:
        options.check_output(output, json=json)
    if to is None:
        raise ParameterError(
            "to", "missing", "it must be a number of rows, or a grid such as 24x24"
        )
    loaded = open_file(file)
    if len(loaded.tensors) != 1:
        names = listed(list(loaded.tensors), 8)
        raise FileError(file, f"has {len(loaded.tensors)} tensors: {names}", "name one: FILE:NAME")
    ((name, table),) = loaded.tensors.items()
    made = resized(table, to, name=f"the tensor {quoted(name)}", **given)
    if output is not None:
        save_tables(output, [table_of(name, made)], None)
    norms = {}
    with np.errstate(invalid="ignore", over="ignore"):  # as infinite as the table may be
        for when, array in (("before", table), ("after", made)):
            norm = np.linalg.norm(widened(array), axis=-1)
            norms[when] = {"mean": float(norm.mean()), "std": float(norm.std())}
    dtype = dtype_name(made.dtype)
    if json:
        shapes = {"shape": table.shape, "resized": made.shape, "dtype": dtype}
        screen.print_json({"name": name, **shapes, "row_norms": norms, "output": output})
    elif not quiet and not (output is not None and is_stream(output)):
        about = f"{name} {screen.shape(table.shape)} → {screen.shape(made.shape)} {dtype}"
        if output is None:
            screen.print_line(about)
        else:
            screen.print_written(output, f"{about}, ")
        shown = (f"{norm['mean']:.4g} ± {norm['std']:.2g} {when}" for when, norm in norms.items())
        screen.print_line(f"norm of a row: {', '.join(shown)}")
