"""`pecli resize`: a learned table at another length or on another grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pecli.cli import options
from pecli.cli.answers import print_answer
from pecli.cli.commands import command
from pecli.engine.arrays import Array, dtype_name, widened
from pecli.engine.named_values import JsonObject, without_none
from pecli.engine.schemes.parameters import Whole
from pecli.engine.table import table_of
from pecli.errors import FileError, ParameterError, listed, quoted
from pecli.files import save_tables
from pecli.files.output import is_stream
from pecli.tensors.inputs import open_file
from pecli.tensors.resize import resize as resize_table
from pecli.views import screen

MAX_LISTED = 8
"""Tensors that an error names."""

METHOD = (
    "The kernel, or for copies of rows nearest, slice (the first ones) or crop (the middle). "
    "(default: cubic for a grid, else linear)"
)


@dataclass
class _RowNorms:
    """The Euclidean norms of a table's rows."""

    mean: float
    std: float

    @classmethod
    def of(cls, table: Array) -> _RowNorms:
        with np.errstate(invalid="ignore", over="ignore"):  # a table may hold infinities
            norms = np.linalg.norm(widened(table), axis=-1)
            return cls(float(norms.mean()), float(norms.std()))

    def as_json(self) -> dict[str, float]:
        return {"mean": self.mean, "std": self.std}

    def __str__(self) -> str:
        return f"{self.mean:.4g} ± {self.std:.2g}"


@command(
    options.argument("file", "FILE", "A learned table: a file, or FILE:NAME."),
    options.text(
        "--to", "N|HxW", "The new number of rows, kept ones included, or the new grid. (required)"
    ),
    options.text("--grid", "HxW", "The current grid of the rows."),
    options.text(
        "--keep",
        "N",
        "Rows at the beginning that stay as they are: class and register tokens. (default: 0)",
        default="0",
        rule=Whole(help="rows", low=0, high=1 << 24),
    ),
    *options.interpolation(METHOD),
    options.output("Where to write; the suffix selects the format.", None),
    *options.RAW,
    *options.ANSWER,
)
def resize(
    file: str, to: str | None, output: str | None, json: bool, quiet: bool, **settings: Any
) -> None:
    """Resample a learned table to another length, or to another grid, as vision models do it.

    Without -o, only show how the norms of the rows would change. Projects differ: cubic is
    transformers' ViT, CLIP, SigLIP and DINOv2; --antialias timm, open_clip and DINOv2 with
    registers; --scale-offset 0.1 DINO's and DINOv2's own code; --method linear --antialias SigLIP 2;
    --method linear --align-corners Qwen3-VL and the first ViT (SciPy's zoom); crop Stable Diffusion
    3. pecli verify NEW --resized-from OLD names the one that made a table.

    Examples:
      pecli resize wpe.npy --to 2048 -o longer.npy
      pecli resize vit.safetensors:pos_embed --grid 14x14 --to 24x24 --keep 1 -o larger.safetensors
      pecli resize pos_embed.npy --grid 14x14 --to 7x7 --antialias -o smaller.npy
    """
    if output is not None:
        options.check_output(output, json=json)
    if to is None:
        rule = "it must be a number of rows, or a grid such as 24x24"
        raise ParameterError("to", "missing", rule)
    name, table = _only_tensor(file)
    stated_options = without_none(settings)
    resized = resize_table(table, to, name=f"the tensor {quoted(name)}", **stated_options)
    if output is not None:
        save_tables(output, [table_of(name, resized)], None)
    stream_holds_data = output is not None and is_stream(output)  # standard output, say
    print_answer(
        partial(_as_json, name, table, resized, output),
        partial(_show_norms, name, table, resized, output),
        json=json,
        quiet=quiet or stream_holds_data,
    )


def _as_json(name: str, table: Array, resized: Array, output: str | None) -> JsonObject:
    """Return a table before and after for JSON."""
    return {
        "name": name,
        "shape": table.shape,
        "resized": resized.shape,
        "dtype": dtype_name(resized.dtype),
        "row_norms": {
            "before": _RowNorms.of(table).as_json(),
            "after": _RowNorms.of(resized).as_json(),
        },
        "output": output,
    }


def _only_tensor(file: str) -> tuple[str, Array]:
    """Return the name and the data of the only tensor in a file, or of the one that FILE:NAME names."""
    tensors = open_file(file).tensors
    if len(tensors) != 1:
        names = listed(list(tensors), MAX_LISTED)
        raise FileError(file, f"has {len(tensors)} tensors: {names}", "name one: FILE:NAME")
    return next(iter(tensors.items()))


def _show_norms(name: str, table: Array, resized: Array, output: str | None) -> None:
    """Print the shapes of a table before and after, and the norms of its rows."""
    shapes = f"{screen.shape(table.shape)} → {screen.shape(resized.shape)}"
    description = f"{name} {shapes} {dtype_name(resized.dtype)}"
    if output is None:
        screen.print_line(description)
    else:
        screen.print_written(output, f"{description}, ")
    before = _RowNorms.of(table)
    after = _RowNorms.of(resized)
    screen.print_line(f"norm of a row: {before} before, {after} after")
